"""`python -m wggml.inspect.probe_device [INDEX]`: what the adapters are, or all about one, as JSON.

A process of its own, so that a driver that crashes or hangs takes only this one down.
"""

from __future__ import annotations

import json
import sys
from time import perf_counter
from typing import Any


def list_adapters() -> dict[str, Any]:
    """Names of all wgpu adapters, and why there is none."""
    from wggml.hal.registry import Registry

    registry = Registry()
    found = registry.devices(["wgpu"])
    adapters = [{"name": d.name, "description": d.description, "type": d.type.value} for d in found]
    return {"adapters": adapters, "problems": registry.problems}


def describe_adapter(index: int) -> dict[str, Any]:
    """Everything about one adapter. Opens it, counts its subgroup lanes and runs the self-test;
    what fails is told in `error`, and the rest stays."""
    from wggml.backends.wgpu.device import find_devices

    began = perf_counter()
    device: Any = find_devices()[index]
    gpu = device.adapter.gpu
    out: dict[str, Any] = {
        "name": device.name,
        "description": device.description,
        "type": device.type.value,
        **device.props(),
        "wgpu_features": sorted(map(str, gpu.features)),
        "limits": {k: int(v) for k, v in sorted(gpu.limits.items())},
    }
    try:
        out.update(device.probe())
        backend = device.init_backend()
        out.update(device.probe())
        backend.close()
        out["notes"] = list(device.notes)
    except Exception as e:  # whatever a driver does is to be told, not to end the report
        out["error"] = f"{type(e).__name__}: {e}"
    out["seconds"] = round(perf_counter() - began, 2)
    return out


def main(args: list[str]) -> None:
    """Prints one line of JSON."""
    print(json.dumps(describe_adapter(int(args[0])) if args else list_adapters(), default=str))


if __name__ == "__main__":
    main(sys.argv[1:])
