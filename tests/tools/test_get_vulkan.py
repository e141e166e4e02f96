"""Finding and unpacking the software Vulkan drivers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import get_vulkan
import pytest
from get_vulkan import DRIVER, MANIFEST, SetupError


@pytest.fixture
def icd_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder where system drivers are looked for."""
    folder = tmp_path / "icd.d"
    folder.mkdir()
    monkeypatch.setattr(get_vulkan, "ICD_FOLDERS", (str(folder),))
    return folder


def put_swiftshader(dest: Path) -> None:
    dest.mkdir(exist_ok=True)
    (dest / DRIVER).write_bytes(b"elf")
    (dest / MANIFEST).write_text("{}")


def test_lavapipe_comes_first_and_swiftshader_second(icd_folder: Path, tmp_path: Path) -> None:
    dest = tmp_path / "vulkan"
    assert get_vulkan.icd_files(dest) == []
    put_swiftshader(dest)
    assert get_vulkan.icd_files(dest) == [dest / MANIFEST]
    (icd_folder / "lvp_icd.json").write_text("{}")
    (icd_folder / "radeon_icd.json").write_text("{}")
    assert get_vulkan.icd_files(dest) == [icd_folder / "lvp_icd.json", dest / MANIFEST]


def test_this_machines_architecture_wins(
    icd_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    for name in ("lvp_icd.i686.json", "lvp_icd.x86_64.json"):
        (icd_folder / name).write_text("{}")
    assert get_vulkan.icd_files(tmp_path) == [icd_folder / "lvp_icd.x86_64.json"]


def test_half_a_driver_does_not_count(icd_folder: Path, tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text("{}")
    assert get_vulkan.icd_files(tmp_path) == []


def test_the_environment_names_both_drivers_and_keeps_what_is_set(
    icd_folder: Path, tmp_path: Path
) -> None:
    (icd_folder / "lvp_icd.json").write_text("{}")
    put_swiftshader(tmp_path)
    env = get_vulkan.software_env({"A": "1"}, tmp_path)
    assert env["A"] == "1"
    assert env["VK_ICD_FILENAMES"].split(os.pathsep) == [
        str(icd_folder / "lvp_icd.json"),
        str(tmp_path / MANIFEST),
    ]
    mine = get_vulkan.software_env({"VK_ICD_FILENAMES": "mine"}, tmp_path)
    assert mine["VK_ICD_FILENAMES"] == "mine"
    assert "VK_ICD_FILENAMES" not in get_vulkan.software_env({"VK_DRIVER_FILES": "x"}, tmp_path)


def test_without_drivers_the_environment_is_left_to_the_system(
    icd_folder: Path, tmp_path: Path
) -> None:
    assert "VK_ICD_FILENAMES" not in get_vulkan.software_env({}, tmp_path)


def test_only_the_two_files_are_wanted() -> None:
    names = [f"./usr/lib/chromium/{DRIVER}", f"./usr/lib/chromium/{DRIVER}.TOC", f"./{MANIFEST}"]
    assert get_vulkan.wanted_members(names) == {DRIVER: names[0], MANIFEST: names[2]}


def test_what_is_there_is_not_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_swiftshader(tmp_path)
    monkeypatch.setattr(get_vulkan, "_run", lambda *_, **__: pytest.fail("ran a command"))
    assert get_vulkan.get_swiftshader(tmp_path) == tmp_path / MANIFEST


def test_without_apt_the_message_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(get_vulkan, "has_apt", lambda: False)
    with pytest.raises(SetupError, match=f"needs Debian.*{DRIVER}"):
        get_vulkan.get_swiftshader(tmp_path / "new")
    assert get_vulkan.main(["--dest", str(tmp_path / "new")]) == 2


def test_a_failed_download_names_every_package_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: list[str], **_: object) -> None:
        raise SetupError(f"{command[-1]} cannot be reached")

    monkeypatch.setattr(get_vulkan, "has_apt", lambda: True)
    monkeypatch.setattr(get_vulkan, "is_root", lambda: False)
    monkeypatch.setattr(get_vulkan, "_run", run)
    with pytest.raises(SetupError) as caught:
        get_vulkan.get_swiftshader(tmp_path)
    for package in get_vulkan.PACKAGES:
        assert f"{package}: {package} cannot be reached" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_mesa_without_root_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(get_vulkan, "has_apt", lambda: True)
    monkeypatch.setattr(get_vulkan, "is_root", lambda: False)
    with pytest.raises(SetupError, match=r"sudo apt-get install .*mesa-vulkan-drivers"):
        get_vulkan.install_mesa()


@pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="no dpkg-deb here")
@pytest.mark.parametrize("complete", [True, False])
def test_the_driver_is_taken_out_of_a_package(tmp_path: Path, complete: bool) -> None:
    tree = tmp_path / "tree" / "usr" / "lib" / "chromium"
    tree.mkdir(parents=True)
    (tree / DRIVER).write_bytes(b"elf")
    (tree / "other").write_bytes(b"no")
    if complete:
        (tree / MANIFEST).write_text("{}")
    control = tmp_path / "tree" / "DEBIAN"
    control.mkdir(mode=0o755)
    (control / "control").write_text(
        "Package: chromium-common\nVersion: 1\nArchitecture: all\n"
        "Maintainer: nobody <nobody@example.org>\nDescription: a test\n"
    )
    deb = tmp_path / "chromium-common_1_all.deb"
    subprocess.run(
        ["dpkg-deb", "--build", str(tmp_path / "tree"), str(deb)], check=True, capture_output=True
    )
    out = tmp_path / "out"
    out.mkdir()
    assert get_vulkan._extract(deb, out) is complete
    assert (out / DRIVER).read_bytes() == b"elf"
    assert not (out / "other").exists()


def test_the_script_runs_by_itself_and_prints_help() -> None:
    script = Path(get_vulkan.__file__)
    done = subprocess.run(
        [sys.executable, str(script), "--help"], capture_output=True, text=True, check=True
    )
    assert "--dest" in done.stdout
