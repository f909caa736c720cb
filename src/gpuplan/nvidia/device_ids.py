"""PCI device ids of boards with MIG, as mig-parted's device filters write them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

_VENDOR = "10DE"
"""NVIDIA's."""
_FORM_FACTOR = re.compile(r"-(SXM\d|PCIE)(?=-|$)")


def boards_of(filtered: str) -> tuple[str, ...]:
    """Catalog names of the boards that a filter such as ``0x20B210DE`` means; empty if the catalog has none.

    A subsystem id behind a colon narrows the filter to one vendor's boards, not to a product.
    """
    number = filtered.partition(":")[0].upper().removeprefix("0X").zfill(8)
    return _boards().get(number[:4], ()) if number[4:] == _VENDOR else ()


def filters_for(board: str) -> tuple[str, ...]:
    """Every filter that may mean a board of this catalog name."""
    return tuple(f"0x{device}{_VENDOR}" for device, boards in _boards().items() if board in boards)


def family(board: str) -> str:
    """The name of a group of nodes with such boards: ``a100-80gb`` of A100-SXM4-80GB."""
    return _FORM_FACTOR.sub("", board).lower()


@cache
def _boards() -> Mapping[str, tuple[str, ...]]:
    stated = json.loads(files("gpuplan.nvidia").joinpath("device_ids.json").read_text(encoding="utf-8"))["boards"]
    return {device: tuple(boards) for device, boards in stated.items()}
