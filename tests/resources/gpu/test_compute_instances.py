"""Compute instances: created with their slice, re-created inside it, each with its number."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplan.resources.gpu.compute_instances import plan_compute
from gpuplan.resources.gpu.diff import diff
from gpuplan.resources.gpu.observed import ComputeInstance
from gpuplan.resources.gpu.read import read
from gpuplan.types.diagnostic import Problem
from gpuplan.types.resource import DiffContext, Record
from tests.resources.gpu.fakenode import Node
from tests.resources.gpu.support import address, changes, desired_gpus, run

A100 = {"board": "A100-SXM4-80GB"}


def cut(*sizes: str) -> Any:
    return desired_gpus({"g": {"select": {"index": 0}, "mig": {"b": {"profile": "3g.40gb", "compute": sizes}}}})


def bound(node: Node, desired: Any, record: Record) -> dict[str, object]:
    found = diff(desired, read(node.look()), DiffContext("n", "prod", record))
    return {part.name: uuid for part, uuid in found.bindings.items() if part.name != "g"}


def live(node: Node) -> dict[str, int]:
    return {one["uuid"]: one["slices"] for one in node.gpus[0]["instances"][0]["compute_instances"]}


def test_each_compute_instance_is_bound_to_the_device_of_its_size() -> None:
    node = Node([A100])
    record = run(node, cut("1c", "2c"), Record("prod"))
    parts = bound(node, cut("1c", "2c"), record)
    assert [live(node)[str(parts[f"g/b/{number}"])] for number in (0, 1)] == [1, 2]
    assert changes(node, cut("1c", "2c"), record) == ()
    assert record.remembered[address("g/b")]["computes"] == [0, 1]


def test_another_order_in_the_plan_file_changes_nothing_on_the_node() -> None:
    node = Node([A100])
    record = run(node, cut("1c", "2c"), Record("prod"))
    node.done.clear()
    assert changes(node, cut("2c", "1c"), record) == ()
    assert node.done == []


def test_only_what_differs_is_re_created_and_the_slice_stays() -> None:
    node = Node([A100])
    record = run(node, cut("1c", "2c"), Record("prod"))
    (before,) = [uuid for uuid, size in live(node).items() if size == 1]
    node.done.clear()
    record = run(node, cut("1c", "1c", "1c"), record)
    assert [name for name, _ in node.done] == ["mig.destroy_compute", "mig.create_compute"]
    assert bound(node, cut("1c", "1c", "1c"), record)["g/b/0"] == before
    assert changes(node, cut("1c", "1c", "1c"), record) == ()
    record = run(node, cut(), record)
    assert list(live(node).values()) == [3]
    assert changes(node, cut(), record) == ()


def test_an_interrupted_apply_is_finished_by_the_next() -> None:
    node = Node([A100])
    record = run(node, cut("1c", "2c"), Record("prod"))

    def vanish(operation: str) -> None:
        if operation == "mig.create_compute":
            raise Problem(())

    node.before = vanish
    with pytest.raises(Problem):
        run(node, cut("1c", "1c", "1c"), record)
    node.before = lambda operation: None
    record = run(node, cut("1c", "1c", "1c"), record)
    assert list(live(node).values()) == [1, 1, 1]
    assert changes(node, cut("1c", "1c", "1c"), record) == ()


def test_a_new_process_keeps_its_compute_instance() -> None:
    node = Node([A100])
    record = run(node, cut("1c", "2c"), Record("prod"))
    (large,) = [one["id"] for one in node.gpus[0]["instances"][0]["compute_instances"] if one["slices"] == 2]

    def arrive(operation: str) -> None:
        node.gpus[0]["processes"] = [{"pid": 7, "instance": 1, "compute": large}]

    node.before = arrive
    with pytest.raises(Problem, match=r"In use by another client"):
        run(node, cut("1c", "1c", "1c"), record)
    assert sorted(live(node).values()) == [1, 2]


def test_an_adopted_slice_stays_unmanaged() -> None:
    """An adopted slice stays unmanaged; the compute instances made inside it keep their numbers."""
    node = Node([{**A100, "instances": [{"profile": "3g.40gb", "start": 0, "bare": True}]}])
    record = run(node, cut("1c", "2c"), Record("prod"))
    assert record.remembered[address("g/b")]["adopted"] is True
    assert changes(node, cut("1c", "2c"), record) == ()
    run(node, (), record)
    assert len(node.gpus[0]["instances"]) == 1


SIZES = st.lists(st.sampled_from([1, 2, 3]), max_size=4)


@given(SIZES, SIZES, st.lists(st.integers(0, 4), max_size=4), st.sets(st.integers(0, 4)))
def test_as_many_stay_as_can(wanted: list[int], there: list[int], known: list[int], held: set[int]) -> None:
    computes = [ComputeInstance(number, size, f"MIG-{number}") for number, size in enumerate(there)]
    found = plan_compute(wanted, computes, known, held)
    kept = [one for one in found.matches if one is not None]
    assert sorted((*kept, *found.destroy), key=lambda one: one.id) == computes
    assert all(one is None or one.slices == size for one, size in zip(found.matches, wanted, strict=True))
    for size in set(wanted):
        assert sum(one.slices == size for one in kept) == min(wanted.count(size), there.count(size))
        busy = [one for one in computes if one.slices == size and one.id in held]
        if not known and len(busy) <= wanted.count(size):
            assert set(busy) <= set(kept)
