"""The reference names every key there is, and its example is a plan file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpuplan.inventory import connection
from gpuplan.planfile.json_schema import schema
from tests.plan_files import InventoryOf, PlanOf

DOCS = Path(__file__).parents[2] / "docs"
PLAN, INVENTORY = (DOCS / "plan-file.md").read_text(), (DOCS / "inventory.md").read_text()


def examples(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def keys() -> set[str]:
    told = schema()
    sections = [told, *told["$defs"].values()]  # type: ignore[union-attr,misc]
    return {key for section in sections for key in section.get("properties", {})}  # type: ignore[union-attr]


def test_every_key_is_in_the_reference() -> None:
    assert keys() - set(re.findall(r"`([a-z_]+)`", PLAN)) == {"soft", "hard"}
    assert "soft: N, hard: N" in PLAN


def test_the_example_loads(plan_of: PlanOf, tmp_path: Path) -> None:
    (tmp_path / "models" / "tokenizer").mkdir(parents=True)
    (example,) = examples(PLAN, "yaml")
    plan = plan_of(example.replace("version: 1\nname: prod-inference\n", ""))
    assert set(plan.containers) == {"triton-cls", "per-slice"}


@pytest.mark.parametrize(("language", "name"), [("yaml", "inventory.yaml"), ("ini", "hosts")])
def test_both_inventories_say_the_same(inventory_of: InventoryOf, language: str, name: str) -> None:
    (example,) = examples(INVENTORY, language)
    inventory = inventory_of(example, name)
    last = inventory.hosts[-1]
    assert len(inventory.hosts) == 17
    assert (last.name, last.address, last.port, last.become) == ("gpu-h1", "10.0.0.7", 2222, False)
    assert (inventory.hosts[0].user, inventory.hosts[0].become, set(last.groups)) == ("ops", True, {"gpu", "h100"})


def test_every_refused_variable_is_in_the_reference() -> None:
    assert set(re.findall(r"`(ansible_[a-z_]+)`", INVENTORY)) >= set(connection.REFUSED)
