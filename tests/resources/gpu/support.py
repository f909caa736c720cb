"""Shared by the tests of GPUs: case files, comparing, and applying all steps to a fake node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from gpuplan.core.plan.order import in_order
from gpuplan.nvidia.boards import Board
from gpuplan.planfile.schema import PlanFile
from gpuplan.resources.gpu.apply.apply import apply_step
from gpuplan.resources.gpu.desired import spec
from gpuplan.resources.gpu.diff import diff
from gpuplan.resources.gpu.placement.geometry import GpuGeometry, ProfileShape
from gpuplan.resources.gpu.read import read
from gpuplan.types.address import Address
from gpuplan.types.change import Change, Comparison
from gpuplan.types.inventory import Host
from gpuplan.types.record import Record, Recorded
from gpuplan.types.resource import Desired, DiffContext
from gpuplan.types.value import JsonObject, KnownAfterApply
from tests.resources.gpu.fakenode import Node, checked

CASES = sorted((Path(__file__).parent / "cases").glob("*.yaml"))
KEYS = {
    "about",
    "desired",
    "gpus",
    "containers",
    "probe_error",
    "docker_error",
    "others",
    "others_error",
    "record",
    "host",
    "stopped_services",
    "expect",
}
EXPECT_KEYS = {"changes", "bindings", "unmanaged", "unknown", "diagnostics"}
CHANGE_KEYS = {"action", "fields", "steps", "reasons", "interrupts", "disturbs"}


@dataclass
class Case:
    """One file."""

    about: str
    node: Node
    desired: tuple[Desired, ...]
    record: Record
    expect: Mapping[str, Any]

    def compare(self) -> Comparison:
        """Compare now."""
        return diff(self.desired, read(self.node.look()), DiffContext("n", "prod", self.record))


def address(name: str) -> Address:
    return Address("n", "gpu", name)


def desired_gpus(gpus: Mapping[str, Any]) -> tuple[Desired, ...]:
    """Desired resources of a `gpus:` section whose GPUs are all on the node."""
    plan = PlanFile(version=1, name="prod", gpus={name: {"nodes": "all", **gpu} for name, gpu in gpus.items()})
    desired, diagnostics = spec(plan, Host("n"))
    assert [each.summary for each in diagnostics if each.severity.value == "error"] == []
    return tuple(desired)


def recorded_resources(desired: tuple[Desired, ...]) -> Mapping[Address, Recorded]:
    """The resources of a record after these were applied."""
    return {resource.address: Recorded(resource.digest, resource.spec) for resource in desired}


def changes(node: Node, desired: tuple[Desired, ...], record: Record) -> tuple[Change, ...]:
    found = diff(desired, read(node.look()), DiffContext("n", "prod", record))
    assert not found.diagnostics, [diagnostic.summary for diagnostic in found.diagnostics]
    assert not found.unknown
    return found.changes


def remember(record: Record, facts: Any) -> Record:
    remembered: dict[Address, JsonObject] = dict(record.remembered)
    for part, fact in facts:
        if fact is None:
            remembered.pop(part, None)
        else:
            remembered[part] = fact
    return replace(record, remembered=remembered)


def run(node: Node, desired: tuple[Desired, ...], record: Record) -> Record:
    """All steps in the flow's order, and the record that it would keep."""
    planned = changes(node, desired, record)
    by_id = {step.id: step for change in planned for step in change.steps}
    for each in in_order(planned):
        record = remember(record, apply_step(by_id[each], node))
    return replace(record, resources=recorded_resources(desired))


def load(path: Path) -> Case:
    """Read a case; an unknown key is an error."""
    stated = checked(yaml.safe_load(path.read_text(encoding="utf-8")), KEYS)
    node = Node(stated.get("gpus", []), stated.get("containers", []))
    node.probe_error = stated.get("probe_error")
    node.others = stated.get("others", {})
    node.others_error = stated.get("others_error")
    node.docker_error = stated.get("docker_error")
    node.host = stated.get("host", {})
    node.stopped = stated.get("stopped_services", [])
    recorded = checked(stated.get("record", {}), {"resources", "remembered"})
    record = Record(
        "prod",
        run="r1" if recorded else "",
        resources={
            each.address: Recorded(each.digest, each.spec) for each in desired_gpus(recorded.get("resources", {}))
        },
        remembered={address(name): fact for name, fact in recorded.get("remembered", {}).items()},
    )
    expect = checked(stated["expect"], EXPECT_KEYS)
    for change in expect.get("changes", {}).values():
        checked(change, CHANGE_KEYS)
    return Case(stated["about"], node, desired_gpus(stated.get("desired", {})), record, expect)


def as_expected(comparison: Comparison) -> Mapping[str, Any]:
    """A comparison in the form of `expect`."""
    return {
        "changes": {change.address.name: _change(change) for change in comparison.changes},
        "bindings": {
            each.name: "later" if isinstance(bound, KnownAfterApply) else bound
            for each, bound in comparison.bindings.items()
        },
        "unmanaged": [
            {
                "address": each.address.name,
                "what": each.what,
                **({"guard": each.guard, "in_the_way_of": str(each.in_the_way_of)} if each.guard else {}),
            }
            for each in comparison.unmanaged
        ],
        "unknown": [f"{each.address.name}: {each.diagnostic.detail}" for each in comparison.unknown],
        "diagnostics": [f"{each.summary}: {each.detail} {each.fix}" for each in comparison.diagnostics],
    }


def _change(change: Change) -> Mapping[str, Any]:
    return {
        "action": change.action.value,
        "fields": {field.path: [field.before, field.after] for field in change.fields},
        "steps": [step.title for step in change.steps],
        "reasons": list(change.reasons),
        "interrupts": list(change.interrupts),
        "disturbs": [each.name for each in change.disturbs],
    }


def board_geometry(board: Board) -> GpuGeometry:
    """What a board of the catalog offers."""
    return GpuGeometry(
        tuple(
            ProfileShape(
                each.name,
                each.slices,
                each.instances,
                each.placements,
                (each.decoders, each.encoders, each.jpeg, each.ofa),
            )
            for each in board.profiles
        )
    )
