"""Apply steps on slices: what is done on the node, what counts as done, and what is reported if something is in use."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuplan.resources.gpu.apply.apply import apply_step
from gpuplan.resources.gpu.read import read
from gpuplan.types.change import Step
from gpuplan.types.diagnostic import Problem
from gpuplan.types.record import Record
from tests.resources.gpu.fakenode import Node
from tests.resources.gpu.support import address, changes, desired_gpus, remember, run

A100 = {"board": "A100-SXM4-80GB"}
TWO = {"a100-0": {"select": {"index": 0}, "mig": {"large": "4g.40gb", "small": "3g.40gb"}}}


def steps(node: Node, gpus: Any, record: Record | None = None) -> tuple[Step, ...]:
    (change,) = changes(node, desired_gpus(gpus), record or Record("prod"))
    return change.steps


def test_slices_are_created_and_destroyed() -> None:
    node = Node([{**A100, "current": False}])
    record = run(node, desired_gpus(TWO), Record("prod"))
    assert [(one["profile"], one["start"]) for one in node.gpus[0]["instances"]] == [("4g.40gb", 0), ("3g.40gb", 4)]
    assert record.remembered == {
        address("a100-0"): {"uuid": "GPU-0", "found": {"mig": False}},
        address("a100-0/large"): {"gpu": "GPU-0", "profile": "4g.40gb", "start": 0, "size": 4, "computes": [0]},
        address("a100-0/small"): {"gpu": "GPU-0", "profile": "3g.40gb", "start": 4, "size": 4, "computes": [0]},
    }
    assert changes(node, desired_gpus(TWO), record) == ()
    emptied = run(node, (), record)
    assert node.gpus[0]["instances"] == []
    assert node.gpus[0]["current"] is False
    assert emptied.remembered == {}
    assert changes(node, (), emptied) == ()


def test_the_second_look_names_the_slice() -> None:
    node = Node([{**A100, "current": False}])
    run(node, desired_gpus(TWO), Record("prod"))
    observed = read(node.look())
    (gpu,) = observed.gpus
    small = gpu.instance_at("3g.40gb", 4)
    assert small is not None
    assert small.devices == ("MIG-new-2",)
    assert gpu.instance_at("3g.40gb", 0) is None
    assert observed.gpu("GPU-9") is None


def test_all_gpus_of_a_node_get_slices_and_their_original_state_back() -> None:
    node = Node([{"board": "A30", "current": False}, {"board": "A30"}])
    everything = desired_gpus({"a30": {"select": "all", "mig": {"left": "2g.12gb", "right": "2g.12gb"}}})
    record = run(node, everything, Record("prod"))
    assert [len(gpu["instances"]) for gpu in node.gpus] == [2, 2]
    assert changes(node, everything, record) == ()
    for gpu in node.gpus:
        gpu["index"] = 1 - gpu["index"]
    assert changes(node, everything, record) == ()
    emptied = run(node, (), record)
    assert [(gpu["uuid"], gpu["current"]) for gpu in node.gpus] == [("GPU-0", False), ("GPU-1", True)]
    assert emptied.remembered == {}


def test_an_obsolete_slice_is_removed_from_the_record() -> None:
    """An unmanaged slice at the place of an obsolete one is not ours."""
    node = Node([A100])
    record = run(node, desired_gpus(TWO), Record("prod"))
    node.gpus[0]["instances"].pop()
    one = desired_gpus({"a100-0": {"select": {"index": 0}, "mig": {"large": "4g.40gb"}}})
    record = run(node, one, record)
    node.agent("mig.create", uuid="GPU-0", profile_id=9, start=4, size=4)
    assert changes(node, one, record) == ()


def test_a_mode_that_was_on_stays_on() -> None:
    node = Node([A100])
    record = run(node, desired_gpus(TWO), Record("prod"))
    run(node, (), record)
    assert node.gpus[0]["current"] is True
    assert node.gpus[0]["instances"] == []


@pytest.mark.parametrize("broken_at", range(3))
def test_a_second_apply_continues_after_the_first_was_killed(broken_at: int) -> None:
    """Killed after the operation and before the record was written: the slice exists and is not recorded."""
    node = Node([{**A100, "current": False}])
    record = Record("prod")
    for number, step in enumerate(steps(node, TWO)):
        facts = apply_step(step, node)
        if number == broken_at:
            break
        record = remember(record, facts)
    record = run(node, desired_gpus(TWO), record)
    assert sorted(one["profile"] for one in node.gpus[0]["instances"]) == ["3g.40gb", "4g.40gb"]
    assert changes(node, desired_gpus(TWO), record) == ()


def test_each_step_is_idempotent() -> None:
    node = Node([{**A100, "current": False}])
    for step in steps(node, TWO):
        assert apply_step(step, node) == apply_step(step, node)
    assert [name for name, _ in node.done] == ["mig.set_mode", "mig.create", "mig.create"]


@pytest.mark.parametrize("operation", ["mig.set_mode", "mig.create"])
def test_success_without_effect_is_a_failure(operation: str) -> None:
    node = Node([{**A100, "current": False}])
    node.deaf.add(operation)
    with pytest.raises(Problem, match="did not converge"):
        run(node, desired_gpus(TWO), Record("prod"))


def test_destroying_without_effect_is_a_failure() -> None:
    node = Node([{**A100, "current": False}])
    record = run(node, desired_gpus(TWO), Record("prod"))
    node.deaf.add("mig.destroy")
    with pytest.raises(Problem, match=r"the slice 4g.40gb at 0 still exists"):
        run(node, (), record)


def test_a_pending_mode_names_what_holds_the_gpu() -> None:
    node = Node([{**A100, "current": False}])
    mode = steps(node, TWO)[0]

    def hold(operation: str) -> None:
        node.deaf.add("mig.set_mode")
        node.gpus[0]["pending"] = True

    node.before = hold
    with pytest.raises(Problem, match=r"needs a reset.*is off and will be on") as caught:
        apply_step(mode, node)
    assert "nvidia-smi --gpu-reset -i GPU-0" in caught.value.diagnostics[0].fix


def test_a_new_process_is_named_and_not_killed() -> None:
    node = Node([{**A100, "current": False}])
    record = run(node, desired_gpus(TWO), Record("prod"))
    destroy = next(step for step in steps(node, {}, record) if "destroy" in step.name)
    node.gpus[0]["processes"] = [{"pid": 5, "name": "python", "instance": 1, "container": "aaaa"}]
    node.containers = [{"id": "aaaa", "name": "notebook"}]
    with pytest.raises(Problem, match=r"container notebook uses the slice 4g.40gb at 0"):
        apply_step(destroy, node)
    assert "mig.destroy" not in [name for name, _ in node.done]


def test_a_refusal_of_the_node_names_the_holders() -> None:
    node = Node([{**A100, "current": False}])
    mode = steps(node, TWO)[0]

    def arrive(operation: str) -> None:
        node.gpus[0]["processes"] = [{"pid": 900, "name": "nv-hostengine"}]

    node.before = arrive
    with pytest.raises(Problem, match=r"In use by another client \(in_use\).*nv-hostengine \(pid 900\)"):
        apply_step(mode, node)


def test_another_user_took_the_placement_meanwhile() -> None:
    node = Node([A100])
    large = steps(node, TWO)[0]
    node.agent("mig.create", uuid="GPU-0", profile_id=14, start=2, size=2)
    with pytest.raises(Problem, match=r"insufficient_resources") as caught:
        apply_step(large, node)
    assert "plan again" in caught.value.diagnostics[0].fix


def test_a_re_created_instance_is_not_destroyed() -> None:
    node = Node([A100])
    record = run(node, desired_gpus(TWO), Record("prod"))
    destroy = next(step for step in steps(node, {}, record) if "large" in step.name)
    node.gpus[0]["instances"][0]["id"] = 7
    with pytest.raises(Problem, match="The slice was re-created"):
        apply_step(destroy, node)
    assert len(node.gpus[0]["instances"]) == 2


def test_the_placements_of_the_node_take_precedence_over_the_catalog() -> None:
    """A placement from the catalog that the node does not have is solved again, and all slices fit."""
    node = Node([{**A100, "current": False}])
    planned = steps(node, TWO)
    board = node.gpus[0]["board"]
    turned = tuple(
        replace(each, placements=((4, 4),)) if each.name == "4g.40gb"
        else replace(each, placements=((0, 4),)) if each.name == "3g.40gb"
        else each
        for each in board.profiles
    )  # fmt: skip
    node.gpus[0]["board"] = replace(board, profiles=turned)
    for step in planned:
        apply_step(step, node)
    assert {one["profile"]: one["start"] for one in node.gpus[0]["instances"]} == {"4g.40gb": 4, "3g.40gb": 0}


def test_unknown_placements_are_solved_on_the_node() -> None:
    node = Node([{**A100, "name": "NVIDIA X100", "current": False}])
    unknown = {"x": {"select": {"index": 0}, "mig": {"a": "3g.40gb", "b": "2g.20gb", "c": "1g.10gb", "d": "1g.10gb"}}}
    record = run(node, desired_gpus(unknown), Record("prod"))
    assert len(node.gpus[0]["instances"]) == 4
    assert changes(node, desired_gpus(unknown), record) == ()


def test_a_missing_compute_instance_is_created_and_the_gpu_instance_kept() -> None:
    node = Node([{**A100, "instances": [{"profile": "3g.40gb", "start": 0, "bare": True}]}])
    desired = desired_gpus({"a100-0": {"select": {"index": 0}, "mig": {"a": "3g.40gb"}}})
    record = run(node, desired, Record("prod"))
    assert [name for name, _ in node.done] == ["mig.create_compute"]
    assert changes(node, desired, record) == ()


def test_a_renamed_slice_is_recorded_under_its_new_name_only() -> None:
    node = Node([A100])
    record = run(node, desired_gpus(TWO), Record("prod"))
    renamed = desired_gpus({"a100-0": {"select": {"index": 0}, "mig": {"large": "4g.40gb", "tiny": "3g.40gb"}}})
    node.done.clear()
    record = run(node, renamed, record)
    assert node.done == []
    assert {part.name: fact.get("start") for part, fact in record.remembered.items()} == {
        "a100-0": None,
        "a100-0/large": 0,
        "a100-0/tiny": 4,
    }
    assert changes(node, renamed, record) == ()


@pytest.mark.parametrize("error", [{"code": "gpu_is_lost", "text": "GPU is lost"}])
def test_an_unreadable_gpu_is_not_changed(error: dict[str, str]) -> None:
    node = Node([A100])
    create = steps(node, TWO)[0]
    node.gpus[0] = {"index": 0, "error": error}
    with pytest.raises(Problem, match="GPU is lost"):
        apply_step(create, node)
    assert node.done == []


def test_a_new_idle_container_stops_the_step() -> None:
    node = Node([A100])
    record = run(node, desired_gpus(TWO), Record("prod"))
    step = next(each for each in changes(node, (), record)[0].steps if each.payload["type"] == "DestroySlice")
    device = node.gpus[0]["instances"][0]["compute_instances"][0]["uuid"]
    node.containers.append({"id": "eeee", "name": "notebook", "devices": [device]})
    node.done.clear()
    with pytest.raises(Problem, match=r"container notebook uses the slice 4g\.40gb at 0"):
        apply_step(step, node)
    assert node.done == []


def test_nothing_is_destroyed_if_docker_stops_answering() -> None:
    node = Node([A100])
    record = run(node, desired_gpus(TWO), Record("prod"))
    step = next(each for each in changes(node, (), record)[0].steps if each.payload["type"] == "DestroySlice")
    node.docker_error = {"code": "timeout", "text": "no answer within 5 s"}
    node.done.clear()
    with pytest.raises(Problem, match="Cannot read the containers of n"):
        apply_step(step, node)
    assert node.done == []
