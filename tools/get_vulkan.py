#!/usr/bin/env python3
"""Brings a second software Vulkan driver, so that one machine without a GPU shows two adapters.

    python tools/get_vulkan.py [--dest DIR] [--mesa]

SwiftShader travels inside Debian's `chromium-common` package. The package is fetched with apt and
only the driver and its manifest are taken out of it, into `.vulkan/` beside `.venv/`; nothing is
installed. `--mesa` also installs Mesa's drivers (lavapipe) where they are missing, as root.
The last line on stdout is the value for VK_ICD_FILENAMES. Standard library only.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_DEST = ROOT / ".vulkan"

PACKAGES = ("chromium-common", "chromium")
"""Debian packages that carry SwiftShader, the smaller and newer way of packing first."""

DRIVER = "libvk_swiftshader.so"
MANIFEST = "vk_swiftshader_icd.json"

MESA_PACKAGES = ("mesa-vulkan-drivers", "libvulkan1", "libegl1", "libgl1-mesa-dri")
"""lavapipe (Vulkan), the Vulkan loader, and llvmpipe through EGL (OpenGL)."""

DISPLAY_PACKAGES = (
    "xvfb", "xauth", "xdotool", "libgl1", "libxrandr2", "libxcursor1", "libxi6", "libxinerama1",
)  # fmt: skip
"""An X server without a screen, keys and mouse for it, and what windows load at run time."""

ICD_FOLDERS = ("/usr/share/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/etc/vulkan/icd.d")


class SetupError(Exception):
    """Something that this machine lacks; the message says what to do."""


def icd_files(dest: Path = DEFAULT_DEST) -> list[Path]:
    """Manifests of the software Vulkan drivers on this machine: lavapipe's, then SwiftShader's."""
    swiftshader = dest / MANIFEST
    return _lavapipe_manifests()[:1] + ([swiftshader] if _is_complete(dest) else [])


def has_lavapipe() -> bool:
    """Whether Mesa's software Vulkan driver is installed."""
    return bool(_lavapipe_manifests())


def icd_value(files: list[Path]) -> str:
    """The value of VK_ICD_FILENAMES for these manifests."""
    return os.pathsep.join(str(file) for file in files)


def software_env(base: Mapping[str, str], dest: Path = DEFAULT_DEST) -> dict[str, str]:
    """`base` with what makes every software adapter of this machine visible, and only those.

    A VK_ICD_FILENAMES or VK_DRIVER_FILES that is set already stays as it is.
    """
    env = dict(base)
    files = icd_files(dest)
    if files and not env.get("VK_ICD_FILENAMES") and not env.get("VK_DRIVER_FILES"):
        env["VK_ICD_FILENAMES"] = icd_value(files)
    env.setdefault("LIBGL_ALWAYS_SOFTWARE", "1")
    if sys.platform.startswith("linux"):
        env.setdefault("XDG_RUNTIME_DIR", str(runtime_dir()))
    return env


def get_swiftshader(dest: Path = DEFAULT_DEST) -> Path:
    """SwiftShader's manifest inside `dest`, fetched where it is not there yet.

    Raises SetupError where apt is missing, offers no package with the driver, or cannot fetch it.
    """
    if not _is_complete(dest):
        _need_apt()
        dest.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="fetch-", dir=dest) as folder:
            _fetch_into(dest, Path(folder))
    return dest / MANIFEST


def install_mesa() -> None:
    """Installs Mesa's software drivers with apt. Raises SetupError where that cannot be done."""
    _install(MESA_PACKAGES)


def install_display() -> None:
    """Installs what the tests of the window need: an X server without a screen, and a hand for its
    mouse. Raises SetupError where that cannot be done."""
    _install(DISPLAY_PACKAGES)


def has_display() -> bool:
    """Whether the tests of the window can run."""
    return bool(shutil.which("Xvfb") and shutil.which("xdotool"))


def _install(packages: tuple[str, ...]) -> None:
    _need_apt()
    command = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *packages]
    if not is_root():
        raise SetupError(f"not root; run: sudo {' '.join(command)}")
    say(f"installing {', '.join(packages)}")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    _run(["apt-get", "update", "-q"], env=env, check=False)
    _run(command, env=env)


def has_apt() -> bool:
    """Whether this is Debian, Ubuntu or kin: apt-get and dpkg-deb are there."""
    return bool(shutil.which("apt-get") and shutil.which("dpkg-deb"))


def is_root() -> bool:
    """Whether this process may install packages."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def say(text: str) -> None:
    """One line on stderr."""
    print(text, file=sys.stderr, flush=True)


def wanted_members(names: list[str]) -> dict[str, str]:
    """File name -> member name, for the driver and its manifest among a package's members."""
    return {Path(name).name: name for name in names if Path(name).name in (DRIVER, MANIFEST)}


def _lavapipe_manifests() -> list[Path]:
    """This machine's own architecture first; a multiarch system may hold several."""
    files = [file for folder in ICD_FOLDERS for file in sorted(Path(folder).glob("lvp_icd*.json"))]
    machine = platform.machine().lower()
    return sorted(files, key=lambda file: machine not in file.name)


def _is_complete(dest: Path) -> bool:
    return (dest / DRIVER).is_file() and (dest / MANIFEST).is_file()


def runtime_dir() -> Path:
    """A private folder for EGL and the window system, made where none is set."""
    path = Path(tempfile.gettempdir()) / f"wggml-runtime-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def _need_apt() -> None:
    if not has_apt():
        raise SetupError(
            "apt-get and dpkg-deb are not here: this needs Debian or a system like it. Elsewhere, "
            f"install your system's lavapipe, and take {DRIVER} and {MANIFEST} out of any Chromium "
            f"into {DEFAULT_DEST}"
        )


def _fetch_into(dest: Path, scratch: Path) -> None:
    failures: list[str] = []
    for package in PACKAGES:
        try:
            deb = _download(package, scratch)
        except SetupError as error:
            failures.append(f"{package}: {error}")
            continue
        if _extract(deb, scratch):
            for name in (DRIVER, MANIFEST):
                os.replace(scratch / name, dest / name)
            return
        failures.append(f"{package}: has no {DRIVER} inside")
    raise SetupError(
        "SwiftShader could not be fetched:\n  " + "\n  ".join(failures) + "\n"
        "Debian's packages carry it; Ubuntu's chromium is only a pointer to a snap. "
        "Check the network and `apt-get update`"
    )


def _download(package: str, folder: Path) -> Path:
    say(f"fetching {package} with apt-get download")
    command = ["apt-get", "download", "-q", package]
    try:
        _run(command, cwd=folder)
    except SetupError:
        if not is_root():
            raise
        _run(["apt-get", "update", "-q"], check=False)
        _run(command, cwd=folder)
    debs = sorted(folder.glob(f"{package}_*.deb"))
    if not debs:
        raise SetupError("apt-get download left no .deb file")
    return debs[-1]


def _extract(deb: Path, folder: Path) -> bool:
    """Takes the two files out of a package and unpacks no more. False where one is missing."""
    found: set[str] = set()
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(deb)], stdout=subprocess.PIPE) as dpkg:
        with tarfile.open(fileobj=dpkg.stdout, mode="r|") as archive:
            for member in archive:
                name = Path(member.name).name
                data = archive.extractfile(member) if wanted_members([member.name]) else None
                if data is not None:
                    with (folder / name).open("wb") as file:
                        shutil.copyfileobj(data, file)
                    found.add(name)
                if len(found) == 2:
                    break
        dpkg.kill()
    return found == {DRIVER, MANIFEST}


def _run(
    command: list[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    check: bool = True,
) -> None:
    try:
        done = subprocess.run(
            command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=900
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"{' '.join(command)}: {error}") from error
    if check and done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.startswith(("E:", "Err"))]
        detail = "; ".join(lines[-3:]) or done.stderr.strip()[-300:]
        raise SetupError(f"{' '.join(command)} ended with {done.returncode}: {detail}")


def main(argv: list[str] | None = None) -> int:
    """Command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--dest", type=Path, default=DEFAULT_DEST, help="default: %(default)s")
    parser.add_argument("--mesa", action="store_true", help="also install Mesa's drivers (root)")
    options = parser.parse_args(argv)
    try:
        if options.mesa:
            install_mesa()
        dest = options.dest.resolve()
        get_swiftshader(dest)
    except SetupError as error:
        say(f"error: {error}")
        return 2
    except KeyboardInterrupt:
        return 130
    files = icd_files(dest)
    if len(files) < 2:
        say(f"lavapipe is not installed; as root: apt-get install {' '.join(MESA_PACKAGES)}")
    print(icd_value(files))
    return 0


if __name__ == "__main__":
    sys.exit(main())
