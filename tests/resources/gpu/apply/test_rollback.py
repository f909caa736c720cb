"""Rollback of a failed creation: destroyed slices are put back if they can, and what is created is recorded before."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.core.plan.order import order_steps
from gpuplan.resources.gpu.apply.apply import apply_step
from gpuplan.types.change import Step
from gpuplan.types.diagnostic import ConnectionLost, Diagnostic, Problem, Refused
from gpuplan.types.resource import Record
from tests.resources.gpu.fakenode import Node
from tests.resources.gpu.support import address, changes, desired_gpus, remember, run

A100 = {"board": "A100-SXM4-80GB"}
HALVES = {
    "g": {"select": {"index": 0}, "mig": {"left": "3g.40gb", "right": {"profile": "3g.40gb", "compute": ["1c", "2c"]}}}
}
PIECES = {"g": {"select": {"index": 0}, "mig": {"l": "4g.40gb", "m": "2g.20gb", "s": "1g.10gb"}}}


class Refusing:
    """Refuses one act on the node, the n-th of its kind, and every later one with the same profile."""

    def __init__(self, node: Node, creation: int) -> None:
        self._node, self._left = node, creation
        node.before = self

    def __call__(self, operation: str) -> None:
        if operation == "mig.create":
            self._left -= 1
            if self._left == 0:
                raise Refused("n", operation, "unexpected", "Unknown Error")


def planned(node: Node, gpus: Any, record: Record) -> list[Step]:
    found = changes(node, desired_gpus(gpus), record)
    by_id = {step.id: step for change in found for step in change.steps}
    return [by_id[each] for each in order_steps(found)]


def until_it_fails(node: Node, gpus: Any, record: Record) -> Record:
    """Do step after step, in the flow's order."""
    for step in planned(node, gpus, record):
        record = remember(record, apply_step(step, node))
    return record


def stand(node: Node) -> list[tuple[str, int, list[int]]]:
    return [
        (one["profile"], one["start"], [inside["slices"] for inside in one["compute_instances"]])
        for one in sorted(node.gpus[0]["instances"], key=lambda one: one["start"])
    ]


def test_destroyed_slices_are_put_back_with_their_compute_instances_and_are_ours() -> None:
    node = Node([A100])
    record = run(node, desired_gpus(HALVES), Record("prod"))
    before = stand(node)
    Refusing(node, 1)
    node.noted.clear()
    with pytest.raises(Problem, match="Unknown Error"):
        until_it_fails(node, PIECES, record)
    assert stand(node) == before == [("3g.40gb", 0, [3]), ("3g.40gb", 4, [1, 2])]
    assert [text for text in node.said if "put back" in text] == [
        "put back 3g.40gb at 0: it is MIG-new-3-3",
        "put back 3g.40gb at 4: it is MIG-new-4-1 and MIG-new-4-2",
    ]
    destroyed = [(address("g/left"), None), (address("g/right"), None)]
    record = remember(record, [*destroyed, *node.noted])
    assert set(record.remembered) == {address("g"), address("g/left"), address("g/right")}
    record = run(node, desired_gpus(PIECES), record)
    assert [profile for profile, _, _ in stand(node)] == ["4g.40gb", "2g.20gb", "1g.10gb"]
    run(node, (), record)
    assert stand(node) == []


def test_a_destroyed_slice_without_a_free_placement_is_not_put_back() -> None:
    """The first new slice exists already; only the half that it leaves free is put back."""
    node = Node([A100])
    record = run(node, desired_gpus(HALVES), Record("prod"))
    Refusing(node, 2)
    with pytest.raises(Problem):
        until_it_fails(node, PIECES, record)
    assert [(profile, start) for profile, start, _ in stand(node)] == [("4g.40gb", 0), ("3g.40gb", 4)]
    assert "cannot put back 3g.40gb at 0: its place is taken by 4g.40gb at 0" in node.said


def test_a_failed_rollback_does_not_hide_the_failure() -> None:
    node = Node([A100])
    record = run(node, desired_gpus(HALVES), Record("prod"))

    def refuse(operation: str) -> None:
        if operation == "mig.create":
            raise Refused("n", operation, "gpu_is_lost", "GPU is lost")

    node.before = refuse
    with pytest.raises(Problem, match="create slice l"):
        until_it_fails(node, PIECES, record)
    assert any(text.startswith("stopped putting slices back: The node refused") for text in node.said)


def test_a_slice_is_recorded_before_it_is_created() -> None:
    node = Node([{**A100, "current": False}])
    noted_at: list[tuple[str, int]] = []
    node.before = lambda operation: noted_at.append((operation, len(node.noted)))
    for step in planned(node, PIECES, Record("prod")):
        apply_step(step, node)
    assert [operation for operation, _ in noted_at] == ["mig.set_mode", "mig.create", "mig.create", "mig.create"]
    assert node.noted[0] == (address("g"), {"uuid": "GPU-0", "found": {"mig": False}})
    first = next(number for operation, number in noted_at if operation == "mig.create")
    assert node.noted[first - 1][1] == {"gpu": "GPU-0", "profile": "4g.40gb", "start": 0, "size": 4}


def test_a_slice_of_an_interrupted_apply_is_ours() -> None:
    node = Node([{**A100, "current": False}])
    record = Record("prod")
    step, *rest = planned(node, PIECES, record)
    record = remember(record, apply_step(step, node))
    node.noted.clear()
    apply_step(rest[0], node)
    record = remember(record, node.noted)
    run(node, (), record)
    assert stand(node) == []
    assert node.gpus[0]["current"] is False


def test_nothing_more_is_tried_after_the_connection_is_lost() -> None:
    node = Node([A100])
    record = run(node, desired_gpus(HALVES), Record("prod"))
    node.done.clear()

    def cut(operation: str) -> None:
        if operation == "mig.create":
            raise ConnectionLost(Diagnostic("The connection to the node was lost"))

    node.before = cut
    with pytest.raises(ConnectionLost):
        until_it_fails(node, PIECES, record)
    assert [name for name, _ in node.done] == ["mig.destroy", "mig.destroy"]
