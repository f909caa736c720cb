"""The whole table of GPU settings: stated → planned → applied → in sync → changed by hand → found → described."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from gpuplan.agent.gpus.probe import SETTERS
from gpuplan.planfile.schema import GpuSection
from gpuplan.resources.gpu.describe import describe
from gpuplan.resources.gpu.read import read
from gpuplan.resources.gpu.settings import SETTINGS, GpuSetting
from gpuplan.types.resource import Record
from tests.resources.gpu.fakenode import Node
from tests.resources.gpu.support import changes, desired_gpus, run


@dataclass(frozen=True)
class Example:
    """How one setting is written, shown and changed in a test."""

    stated: Any
    """In the plan file, not the GPU's usual value."""
    shown: Any
    """As a changed field shows it."""
    usual_shown: Any
    by_hand: dict[str, Any]
    """State of the node after another user has put back the usual value."""
    described: bool = True
    """Discovery writes it."""


POWER = [400_000, 400_000, 100_000, 400_000]
EXAMPLES = {
    "persistence_mode": Example(True, True, False, {"persistence_mode": False}),
    "power_limit_mw": Example("350W", "350 W", "400 W", {"power": POWER}),
    "compute_mode": Example("exclusive_process", "exclusive_process", "default", {"compute_mode": "default"}),
    "ecc": Example(False, False, True, {"ecc": [True, True]}, described=False),
}


def usual_node() -> Node:
    """One GPU with every setting at its usual value."""
    usual: dict[str, Any] = {"persistence_mode": False, "power": POWER, "compute_mode": "default", "ecc": [True, True]}
    return Node([{"board": "A100-SXM4-80GB", "current": False, **usual}])


def test_every_setting_has_an_example() -> None:
    assert set(EXAMPLES) == {setting.name for setting in SETTINGS}


def test_the_plan_file_and_the_agent_have_exactly_these_settings() -> None:
    assert {setting.key for setting in SETTINGS} == set(GpuSection.model_fields) - {
        "nodes",
        "select",
        "mig",
        "stop_services",
    }
    assert {setting.name for setting in SETTINGS} == set(SETTERS)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_a_setting_is_planned_applied_kept_and_described(setting: GpuSetting) -> None:
    example, node = EXAMPLES[setting.name], usual_node()
    desired = desired_gpus({"a100-0": {"select": {"index": 0}, setting.key: example.stated}})
    field = (setting.key, example.usual_shown, example.shown)
    (change,) = changes(node, desired, Record("prod"))
    assert [(changed.path, changed.before, changed.after) for changed in change.fields] == [field]

    record = run(node, desired, Record("prod"))
    assert changes(node, desired, record) == ()
    section = dict(describe(read(node.look()).gpus[0]).section)
    assert section.get(setting.key) == (example.stated if example.described else None)

    node.gpus[0].update(example.by_hand)
    (change,) = changes(node, desired, record)
    assert [(changed.path, changed.before, changed.after) for changed in change.fields] == [field]

    run(node, desired, record)
    run(node, (), record)
    assert {name: node.gpus[0][name] for name in example.by_hand} == example.by_hand, "the original value is restored"


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_a_gpu_without_the_setting_is_reported(setting: GpuSetting) -> None:
    node = Node([{"board": "A100-SXM4-80GB", "current": False}])
    stated = {"select": {"index": 0}, setting.key: EXAMPLES[setting.name].stated}
    with pytest.raises(AssertionError, match="The GPU does not support this setting"):
        changes(node, desired_gpus({"a100-0": stated}), Record("prod"))
