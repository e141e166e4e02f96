"""`wggml devices`: every adapter and the CPU, what each can do and what it lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from wggml.cli.flags import profile_flag
from wggml.cli.text import nbytes_text
from wggml.errors import DeviceError

if TYPE_CHECKING:
    from wggml.hal.interface import Device

SHOWN_ITEMS = 8
"""Names of a list that are written out for a person."""


@click.command(short_help="List every adapter and the CPU.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable, with all limits.")
@profile_flag
def devices(as_json: bool) -> None:
    """List every device: the index and name that --device takes, features, limits, what is missing.

    One GPU that several APIs offer (Vulkan, DX12, OpenGL) is listed once.
    """
    from wggml.cli.environment import prepare_environment
    from wggml.hal.registry import default_registry

    prepare_environment()
    registry = default_registry()
    found = registry.devices()
    default = registry.best()
    rows = [device_row(i, device, is_default=device is default) for i, device in enumerate(found)]
    if as_json:
        import json

        click.echo(json.dumps(rows, indent=2, default=str))
        return
    for row in rows:
        click.echo(device_text(row))
    for problem in registry.problems:
        click.echo(f"not available: {problem}", err=True)


def device_row(index: int, device: Device, *, is_default: bool) -> dict[str, Any]:
    """All that is known of a device as plain data: the interface's fields, then its props.

    The device is opened to see whether it does open, and to measure what drivers misreport.
    """
    free, total = device.memory()
    try:
        measured = device.probe()
    except DeviceError as error:
        measured = {"error": str(error)}
    return {
        "index": index,
        "name": device.name,
        "description": device.description,
        "type": device.type.value,
        "default": is_default,
        "memory_free": free,
        "memory_total": total,
        **device.props(),
        **measured,
    }


def device_text(row: dict[str, Any]) -> str:
    """A device as a few lines for a person."""
    mark = "  (default)" if row["default"] else ""
    lines = [f"{row['index']}: {row['name']}  {row['description']}{mark}"]
    lines += [f"   {label:11} {text}" for label, text in device_facts(row) if text]
    return "\n".join(lines)


def device_facts(row: dict[str, Any]) -> list[tuple[str, str]]:
    """(label, text) of what a person asks about a device first; empty text where not known."""
    limits = [
        f"{what} {nbytes_text(row[key])}"
        for key, what in (("max_buffer", "buffer"), ("max_binding", "binding"))
        if row.get(key)
    ]
    kind = [row["type"], *(str(row[key]) for key in ("api", "driver") if row.get(key))]
    return [
        ("type", ", ".join(kind)),
        ("also as", ", ".join(map(str, row.get("also") or []))),
        ("features", ", ".join(feature_texts(row))),
        ("limits", ", ".join(limits)),
        ("missing", list_text(row.get("missing") or [])),
        ("self-test", str(row.get("selftest") or "")),
        ("error", str(row.get("error") or "")),
    ]


def list_text(items: list[Any]) -> str:
    """The first few of a list and how many there are in all."""
    shown = ", ".join(map(str, items[:SHOWN_ITEMS]))
    return shown if len(items) <= SHOWN_ITEMS else f"{shown}, ... ({len(items)} in all: --json)"


def feature_texts(row: dict[str, Any]) -> list[str]:
    """The features a device has, in words; subgroups with their number of lanes where known."""
    lanes = row.get("subgroup_size")
    texts = {"subgroups": f"subgroups of {lanes}"} if lanes else {}
    return [texts.get(name, name) for name in row.get("features") or []]
