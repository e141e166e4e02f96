"""The registry: which backend families exist and which devices they find.

Nothing is loaded at import. A family is a function that returns its devices; it is called when
devices are first asked for, so that a CPU-only run never opens a GPU API.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module

from wggml.errors import DeviceError
from wggml.hal.interface import Device, DeviceType

DeviceFinder = Callable[[], Sequence[Device]]

# name -> module:function; the CPU comes last by contract.
BUILTIN: dict[str, str] = {
    "wgpu": "wggml.backends.wgpu.device:find_devices",
    "cpu": "wggml.backends.cpu.device:find_devices",
}

# Best first: discrete before integrated before software; NumPy is always last.
_RANK = [
    DeviceType.GPU, DeviceType.IGPU, DeviceType.ACCEL, DeviceType.SOFTWARE, DeviceType.CPU,
]  # fmt: skip


class Registry:
    """A set of backend families and, once asked, their devices in order of preference."""

    def __init__(self, families: dict[str, str | DeviceFinder] | None = None) -> None:
        self.families: dict[str, str | DeviceFinder] = dict(
            BUILTIN if families is None else families
        )
        self._found: dict[str, list[Device]] = {}
        self.problems: list[str] = []  # why a family gave no device, one line each

    def register(self, name: str, find: str | DeviceFinder) -> None:
        """Add a backend family (`"module:function"` or a function that returns devices)."""
        self.families[name] = find
        self._found.pop(name, None)

    def _family(self, name: str) -> list[Device]:
        if name not in self._found:
            find = self.families[name]
            try:
                if isinstance(find, str):
                    module, func = find.split(":")
                    find = getattr(import_module(module), func)
                self._found[name] = list(find())
            except (ImportError, DeviceError) as e:
                self.problems.append(f"{name}: {e}")
                self._found[name] = []
        return self._found[name]

    def devices(self, families: Sequence[str] | None = None) -> list[Device]:
        """All devices (or those of `families`), best first, the CPU last."""
        found = [d for name in (families or self.families) for d in self._family(name)]
        return sorted(found, key=lambda d: _RANK.index(d.type))

    def cpu(self) -> Device:
        """The CPU device; finds no other family."""
        return self._family("cpu")[0]

    def find(self, wanted: str) -> Device:
        """The device with this index, name, or part of its name or description.

        `cpu` never opens a GPU API. Raises `DeviceError` that lists what there is.
        """
        key = wanted.strip().lower()
        if key in ("cpu", "numpy"):
            return self.cpu()
        devices = self.devices()
        if key.isdigit() and int(key) < len(devices):
            return devices[int(key)]
        exact = [d for d in devices if d.name.lower() == key]
        part = [d for d in devices if key and key in f"{d.name} {d.description}".lower()]
        if exact or part:
            return (exact or part)[0]
        listing = "; ".join(f"{i}: {d.name} ({d.description})" for i, d in enumerate(devices))
        why = "".join(f" ({p})" for p in self.problems)
        raise DeviceError(
            f"no device {wanted!r}; there is: {listing}{why}. Give an index or part of a name, "
            "or run `wggml devices`"
        )

    def best(self) -> Device:
        """The default device: a real GPU if there is one, else the CPU (software adapters are
        slower than NumPy, so they are only used when named)."""
        for d in self.devices():
            if d.type in (DeviceType.GPU, DeviceType.IGPU, DeviceType.ACCEL):
                return d
        return self.cpu()


_default: Registry | None = None


def default_registry() -> Registry:
    """The process-wide registry, made on first use."""
    global _default
    if _default is None:
        _default = Registry()
    return _default
