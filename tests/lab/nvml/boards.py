"""Writes the C table of boards from gpuplan's catalog, so that a board is described in one place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CATALOG = Path(__file__).resolve().parents[3] / "src/gpuplan/nvidia/mig.json"

ARCHITECTURES = {"turing": 6, "ampere": 7, "ada": 8, "hopper": 9, "blackwell": 10}
"""nvml.h, NVML_DEVICE_ARCH_*."""

EXTRAS = {
    "A100-SXM4-80GB": (0x20B2, 400_000, 100_000),
    "A30": (0x20B7, 165_000, 100_000),
    "H100-SXM5-80GB": (0x2330, 700_000, 200_000),
}
"""PCI device id, highest (and default) and lowest power limit in milliwatts; a board that is not here says neither."""

WITHOUT_MIG: list[dict[str, Any]] = [
    {
        "catalog_name": "L4",
        "product_name": "NVIDIA L4",
        "architecture": "ada",
        "compute_capability": "8.9",
        "memory_mib": 23034,
        "max_instances": 0,
        "geometry": None,
    }
]

NUMBERS = (
    "slices", "memory_mib", "instances", "multiprocessors", "copy_engines", "decoders", "encoders", "jpeg", "ofa",
)  # fmt: skip


def c_table() -> str:
    """The text of a C file that defines BOARDS and BOARD_COUNT."""
    facts = json.loads(CATALOG.read_text(encoding="utf-8"))
    used = [*facts["boards"], *WITHOUT_MIG]
    geometries = {name: geometry["profiles"] for name, geometry in facts["geometries"].items()}
    lines = ['#include "boards.h"', "", "#include <stddef.h>", ""]
    for name, profiles in geometries.items():
        lines += [f"static const struct profile {_identifier(name)}[] = {{", *map(_profile, profiles), "};", ""]
    lines.append("const struct board BOARDS[] = {")
    lines += [_board(board, geometries, facts["architectures"]) for board in used]
    lines += ["};", f"const unsigned int BOARD_COUNT = {len(used)};", ""]
    return "\n".join(lines)


def _identifier(geometry: str) -> str:
    return "PROFILES_" + "".join(c if c.isalnum() else "_" for c in geometry)


def _profile(profile: dict[str, Any]) -> str:
    numbers = ", ".join(str(profile[name]) for name in NUMBERS)
    places = ", ".join(f"{{{start}, {size}}}" for start, size in profile["placements"])
    head = f'{profile["enum"]}, {profile["id"]}, "{profile["name"]}", {numbers}'
    return f"    {{{head}, {len(profile['placements'])}, {{{places}}}}},"


def _board(board: dict[str, Any], geometries: dict[str, Any], architectures: dict[str, Any]) -> str:
    name, geometry = board["catalog_name"], board["geometry"]
    traits = architectures.get(board["architecture"], {"mode_survives_reboot": False, "needs_reset_for_mode": False})
    pci, power, lowest = EXTRAS.get(name, (0, 0, 0))
    major, minor = board["compute_capability"].split(".")
    survives = f"{int(traits['mode_survives_reboot'])}, {int(traits['needs_reset_for_mode'])}"
    head = f'"{name}", "{board["product_name"]}", {board["memory_mib"]}, {major}, {minor}'
    middle = (
        f"{ARCHITECTURES[board['architecture']]}, {board['max_instances']}, {survives}, {pci:#x}, {power}, {lowest}"
    )
    profiles = f"{len(geometries[geometry])}, {_identifier(geometry)}" if geometry else "0, NULL"
    return f"    {{{head}, {middle}, {profiles}}},"
