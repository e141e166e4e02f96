"""What a bug report has to say about a machine: versions, adapters, caches, switches.

Adapters are looked at in processes of their own (`probe_device`): one that crashes, hangs or does
not open is reported, and the rest of the report stands.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

TIMEOUT = 180.0  # seconds for one adapter: a first self-test compiles fifty shaders
PACKAGES = ("wggml", "wgpu", "numpy", "jinja2", "gguf", "regex", "threadpoolctl")
EXTRAS = {"demo": ("glfw", "rendercanvas", "imgui-bundle")}
"""Extra -> the packages it brings."""
SWITCHES = ("WGGML_", "WGPU_", "VK_", "LIBGL_", "MESA_", "LP_")
OTHER_SWITCHES = (
    "XDG_RUNTIME_DIR", "DISPLAY", "WAYLAND_DISPLAY", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
)  # fmt: skip


def examine() -> dict[str, Any]:
    """The whole report as plain data. Never raises because of a device."""
    return {
        "versions": versions(),
        "system": system(),
        "blas": blas(),
        "devices": devices(),
        "cache": cache(),
        "switches": switches(),
    }


# ---- software ------------------------------------------------------------------------------------


def versions() -> dict[str, str]:
    """Python, the packages wggml uses, wgpu-native, and which extras are installed."""
    out = {"python": platform.python_version()}
    out |= {name: _version(name) for name in PACKAGES}
    out["wgpu-native"] = _wgpu_native()
    for extra, names in EXTRAS.items():
        found = {n: _version(n) for n in names}
        lacking = [n for n, v in found.items() if v == "missing"]
        have = ", ".join(f"{n} {v}" for n, v in found.items() if v != "missing")
        hint = f"without {', '.join(lacking)}: pip install 'wggml[{extra}]'" if lacking else ""
        out[f"extra {extra}"] = "; ".join(x for x in (have, hint) if x)
    return out


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"


def _wgpu_native() -> str:
    """The version of the C library behind wgpu-py, without opening a device."""
    try:
        from wgpu.backends.wgpu_native import lib

        n = int(lib.wgpuGetVersion())
    except Exception as e:  # a package that is broken is what a doctor is called for
        return f"does not load: {type(e).__name__}: {e}".splitlines()[0]
    return ".".join(str(n >> shift & 0xFF) for shift in (24, 16, 8, 0))


def system() -> dict[str, Any]:
    """Operating system, processor, memory."""
    return {
        "os": _os_name(),
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory": _memory(),
    }


def _os_name() -> str:
    try:
        name = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except (OSError, AttributeError):
        name = ""
    return ", ".join(x for x in (name, f"{platform.system()} {platform.release()}") if x)


def _processor() -> str:
    from wggml.hal.registry import default_registry

    return default_registry().cpu().description


def _memory() -> int:
    """Bytes of main memory; 0 where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0


def blas() -> list[str]:
    """The BLAS libraries NumPy uses: name, version, threads, kernels."""
    import numpy as np
    from threadpoolctl import threadpool_info

    np.dot(np.ones(1), np.ones(1))  # loads it
    return [
        f"{p.get('internal_api')} {p.get('version')}, {p.get('num_threads')} thread(s), "
        f"{p.get('architecture', 'unknown')}"
        for p in threadpool_info()
        if p.get("user_api") == "blas"
    ]


# ---- devices -------------------------------------------------------------------------------------


def devices() -> dict[str, Any]:
    """`adapters`, each as `probe_device` tells or with an `error`, and `problems`."""
    found = run_probe([])
    if "error" in found:
        return {"adapters": [], "problems": [f"looking for adapters: {found['error']}"]}
    adapters = []
    for i, known in enumerate(found["adapters"]):
        adapters.append({"index": i, **known, **run_probe([str(i)])})
    return {"adapters": adapters, "problems": found["problems"]}


def run_probe(
    args: Sequence[str],
    *,
    command: Sequence[str] = (sys.executable, "-m", "wggml.inspect.probe_device"),
    timeout: float = TIMEOUT,
) -> dict[str, Any]:
    """What the probe printed, or `{"error": ...}` where it crashed, hung or printed nothing."""
    try:
        done = subprocess.run([*command, *args], capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return {"error": f"no answer within {timeout:.0f} s"}
    except OSError as e:
        return {"error": str(e)}
    last = (done.stdout.strip().splitlines() or [""])[-1]
    try:
        out = json.loads(last)
        if isinstance(out, dict):
            return out
    except ValueError:
        pass
    said = (done.stderr.strip().splitlines() or ["nothing was printed"])[-1]
    how = f"signal {-done.returncode}" if done.returncode < 0 else f"code {done.returncode}"
    return {"error": f"the process that looked at it ended with {how}: {said}"}


# ---- files and switches --------------------------------------------------------------------------


def cache() -> dict[str, Any]:
    """The cache folder and the bytes in each of its parts; models are files of its own."""
    from wggml.hub.resolve import cache_dir

    folder = cache_dir()
    parts: dict[str, int] = {}
    try:
        for entry in sorted(folder.iterdir()):
            if entry.is_dir():
                parts[f"{entry.name}/"] = sum(_size(p) for p in entry.rglob("*"))
            else:
                parts[entry.name] = _size(entry)
    except OSError as e:
        if folder.exists():
            return {"folder": _short(str(folder)), "error": e.strerror, "parts": parts}
    return {"folder": _short(str(folder)), "parts": parts}


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:
        return 0


def switches() -> dict[str, str]:
    """The environment variables that change what wggml, wgpu and drivers do."""
    return {
        k: _short(v)
        for k, v in sorted(os.environ.items())
        if k.startswith(SWITCHES) or k in OTHER_SWITCHES
    }


def _short(text: str) -> str:
    """Without the name of the home folder, which is nobody's business."""
    home = str(Path.home())
    return text.replace(home, "~") if len(home) > 1 else text
