"""Plan files and inventories in a temporary folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from gpuplan.inventory import load_inventory
from gpuplan.planfile.load import load_plan
from gpuplan.planfile.schema import PlanFile
from gpuplan.types.inventory import Inventory

PlanOf = Callable[..., PlanFile]
InventoryOf = Callable[..., Inventory]


@pytest.fixture
def plan_of(tmp_path: Path) -> PlanOf:
    """Load a plan file from its text; version and name are put before it."""

    def load(text: str, variables: Mapping[str, str] | None = None, **rest: object) -> PlanFile:
        file = tmp_path / "plan.yaml"
        file.write_text(f"version: 1\nname: test\n{text}", "utf-8")
        environ = rest.pop("environ", {})
        return load_plan(str(file), variables=variables or {}, environ=environ, **rest)  # type: ignore[arg-type]

    return load


@pytest.fixture
def inventory_of(tmp_path: Path) -> InventoryOf:
    """Load an inventory from its text."""

    def load(text: str, name: str = "inventory.yaml") -> Inventory:
        file = tmp_path / name
        file.write_text(text, "utf-8")
        return load_inventory(str(file))

    return load
