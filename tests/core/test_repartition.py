"""Cutting a GPU anew under running containers: who is spared, and that no run ends half-way for ever."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from gpuplan.simulator.hardware import open_store
from gpuplan.transport.connect import connect
from gpuplan.transport.session import Question
from gpuplan.types.change import Action
from gpuplan.types.diagnostic import Exit
from gpuplan.types.outcome import NodeOutcome, Status
from tests.conftest import CutOffs

from .conftest import World

HEAD = """
version: 1
name: story
gpus:
  a100-0:
    nodes: all
    select: { index: 0 }
    mig: { MIG }
containers:
"""
HOLDER = '  NAME: { nodes: all, image: "busybox:latest", command: [sleep, "9999"], gpus: ["a100-0/SLICE"] }\n'


def plan(mig: str, **holders: str) -> str:
    """A plan file: how the GPU is cut, and containers by name with the slice of each."""
    containers = [HOLDER.replace("NAME", name).replace("SLICE", part) for name, part in holders.items()]
    return HEAD.replace("{ MIG }", mig) + "".join(containers)


GROWN = plan("{ big: 4g.40gb, s: { profile: 1g.10gb, count: 2 } }", serving="big", first="s[0]", second="s[1]")
STORIES = {
    "a busy 4g and an idle 2g become 4g, 1g and 1g": (plan("{ big: 4g.40gb, mid: 2g.20gb }", serving="big"), GROWN),
    "two halves become 4g, 2g and 1g": (
        plan("{ left: 3g.40gb, right: 3g.40gb }", serving="left"),
        plan("{ big: 4g.40gb, mid: 2g.20gb, small: 1g.10gb }", serving="big"),
    ),
    "a slice is cut into compute instances": (
        plan("{ big: 4g.40gb, mid: 3g.40gb }", serving="mid"),
        plan("{ big: 4g.40gb, mid: { profile: 3g.40gb, compute: [1c, 2c] } }", serving="mid/1", other="mid/0"),
    ),
}


@contextmanager
def node(world: World) -> Iterator[Callable[[str], object]]:
    """The first node: probe → value."""
    session = connect(world.inventory.hosts[0])
    try:
        yield lambda probe: session.ask(Question("story", (probe,))).probe(probe).value
    finally:
        session.close()


def slices(world: World) -> list[tuple[str, int, list[int]]]:
    with node(world) as ask:
        (gpu,) = ask("gpu")["gpus"]  # type: ignore[index]
        return [
            (one["profile"], one["start"], [c["slices"] for c in one["compute_instances"]]) for one in gpu["instances"]
        ]


def container(world: World, name: str) -> dict[str, object]:
    session = connect(world.inventory.hosts[0])
    try:
        return dict(session.docker().inspect_container(name))
    finally:
        session.close()


def begun(make_world: Callable[[], World], story: str) -> World:
    """A world in which the first half of a story was applied, and the second is wanted."""
    world = make_world()
    world.write(STORIES[story][0])
    assert world.apply()[0].exit_code == Exit.DONE
    world.write(STORIES[story][1])
    return world


@pytest.mark.faults
@pytest.mark.parametrize("story", STORIES)
def test_a_run_that_is_cut_off_at_any_change_is_finished_by_the_next(
    make_world: Callable[[], World], story: str, cut_offs: CutOffs
) -> None:
    whole = begun(make_world, story)
    assert whole.apply()[0].exit_code == Exit.DONE
    for cut in cut_offs(1):
        world = begun(make_world, story)
        world.nodes({"n1": {"faults": f"[{{ drop_after: {cut} }}]"}})
        (outcome,) = world.apply()
        if outcome.exit_code == Exit.DONE:
            break
        world.nodes({"n1": {}})
        (again,) = world.apply()
        assert again.exit_code == Exit.DONE, f"cut off after {cut} changes: {again}"
        assert world.plan().empty, f"cut off after {cut} changes"
        assert slices(world) == slices(whole), f"cut off after {cut} changes"
    assert cut > 8


@pytest.mark.parametrize("cut", range(2, 22, 3))
def test_a_destroy_after_a_run_that_was_cut_off_leaves_nothing(make_world: Callable[[], World], cut: int) -> None:
    """Not even the slice that was made last, whose step never came to its end."""
    world = begun(make_world, "a busy 4g and an idle 2g become 4g, 1g and 1g")
    world.nodes({"n1": {"faults": f"[{{ drop_after: {cut} }}]"}})
    world.apply()
    world.nodes({"n1": {}})
    assert world.apply(world.plan(destroy=True))[0].exit_code == Exit.DONE
    assert slices(world) == []


def test_a_busy_slice_and_its_container_are_not_touched(make_world: Callable[[], World]) -> None:
    world = begun(make_world, "a busy 4g and an idle 2g become 4g, 1g and 1g")
    before = container(world, "serving")
    (outcome,) = world.apply()
    assert outcome.exit_code == Exit.DONE
    assert [step.step.partition("/")[2] for step in outcome.steps if "serving" in step.step or "big" in step.step] == []
    after = container(world, "serving")
    assert (after["Id"], after["State"]) == (before["Id"], before["State"])
    assert slices(world) == [("4g.40gb", 0, [4]), ("1g.10gb", 4, [1]), ("1g.10gb", 5, [1])]


def test_what_cannot_fit_is_refused_before_anything_is_touched(make_world: Callable[[], World]) -> None:
    world = begun(make_world, "a busy 4g and an idle 2g become 4g, 1g and 1g")
    before = slices(world)
    world.edit("count: 2", "count: 5")
    (planned,) = world.plan().nodes
    assert [change for change in planned.changes if change.address.kind == "gpu"] == []
    assert "memory slices 9/8 and compute slices 9/7" in planned.diagnostics[0].detail
    (outcome,) = world.apply()
    assert outcome.exit_code == Exit.ERROR
    assert outcome.steps == ()
    assert slices(world) == before


def refused(world: World, function: str, code: int) -> NodeOutcome:
    world.nodes({"n1": {"faults": f"[{{ nvml: {function}, code: {code} }}]"}})
    (outcome,) = world.apply()
    assert outcome.exit_code == Exit.ERROR
    world.nodes({"n1": {}})
    return outcome


def test_a_driver_that_refuses_to_create_is_told_and_the_next_run_goes_on(make_world: Callable[[], World]) -> None:
    world = begun(make_world, "two halves become 4g, 2g and 1g")
    outcome = refused(world, "nvmlDeviceCreateGpuInstanceWithPlacement", 23)
    (failed,) = [step for step in outcome.steps if step.status is Status.FAILED]
    assert "insufficient_resources" in failed.diagnostics[0].detail
    assert world.apply()[0].exit_code == Exit.DONE
    assert world.plan().empty


def test_without_their_compute_instances_the_former_slices_come_back_and_are_ours(
    make_world: Callable[[], World],
) -> None:
    """What cannot be made is taken back; of the former slices those come back that the driver makes again."""
    world = begun(make_world, "two halves become 4g, 2g and 1g")
    world.nodes({"n1": {"faults": "[{ without_effect: mig.create }]"}})
    (outcome,) = world.apply()
    (failed,) = [step for step in outcome.steps if step.status is Status.FAILED]
    assert "there is no 4g.40gb at 0" in failed.diagnostics[0].detail
    assert "could not put back 3g.40gb at 0: the node reported success, but it does not exist" in failed.transcript
    world.nodes({"n1": {}})
    assert world.apply(world.plan(destroy=True))[0].exit_code == Exit.DONE
    assert slices(world) == []


ALL = """
version: 1
name: story
gpus:
  a30: { nodes: all, select: all, mig: { left: 2g.12gb, right: 2g.12gb } }
containers:
  one: { nodes: all, image: "busybox:latest", command: [sleep, "9999"], gpus: ["a30[1]/left"] }
"""


def test_every_gpu_of_a_node_is_cut_used_remembered_and_left(make_world: Callable[[], World]) -> None:
    world = make_world()
    world.write(ALL)
    world.nodes({"n1": {}}, gpus="[{ model: A30, count: 2 }]")
    assert world.apply()[0].exit_code == Exit.DONE
    assert world.plan().empty
    with node(world) as ask:
        second = ask("gpu")["gpus"][1]  # type: ignore[index]
        left = next(one for one in second["instances"] if one["start"] == 0)
        remembered = ask("record")["remembered"]  # type: ignore[index]
    (request,) = container(world, "one")["HostConfig"]["DeviceRequests"]  # type: ignore[index]
    assert request["DeviceIDs"] == [left["compute_instances"][0]["uuid"]]
    assert set(remembered) >= {"n1/gpu/a30[0]", "n1/gpu/a30[1]/left"}
    world.edit("left: 2g.12gb", "left: 2g.12gb+me")
    gpu, one = world.plan().nodes[0].changes
    assert str(one.cause) == str(gpu.address) == "n1/gpu/a30"
    assert world.apply()[0].exit_code == Exit.DONE
    assert world.plan().empty
    assert world.apply(world.plan(destroy=True))[0].exit_code == Exit.DONE
    with node(world) as ask:
        gpus = ask("gpu")["gpus"]  # type: ignore[index]
    assert [(gpu["mig"]["current"], gpu["instances"]) for gpu in gpus] == [(False, []), (False, [])]


def test_one_gpu_that_fails_holds_up_no_other(make_world: Callable[[], World]) -> None:
    """The driver refuses the first GPU its change of mode; the second is cut all the same."""
    world = make_world()
    world.write(ALL.partition("containers:")[0])
    world.nodes(
        {"n1": {"faults": "[{ nvml: nvmlDeviceSetMigMode, code: 19, gpu: 0 }]"}}, gpus="[{ model: A30, count: 2 }]"
    )
    change_set = world.plan()
    (outcome,) = world.apply(change_set)
    done = {step.step.rpartition(":")[2]: step.status for step in outcome.steps}
    assert done["[0].mode"] is Status.FAILED
    assert done["[0].create-left"] is Status.SKIPPED
    assert {done["[1].mode"], done["[1].create-left"], done["[1].create-right"]} == {Status.DONE}


BY_PCI = plan("{ big: 4g.40gb, mid: 2g.20gb }", serving="big").replace("{ index: 0 }", '{ pci: "0000:07:00.0" }')


def test_a_card_that_was_replaced_is_cut_anew_and_its_containers_follow(make_world: Callable[[], World]) -> None:
    world = make_world()
    world.write(BY_PCI)
    assert world.apply()[0].exit_code == Exit.DONE
    with open_store(world.inventory.hosts[0]).write() as state:
        (gpu,) = state.gpus
        was, gpu.uuid, gpu.mig, gpu.pending = gpu.uuid, "GPU-5ca1ab1e-0000-4000-8000-000000000000", False, False
        gpu.instances.clear()
    replaced, serving = world.plan().nodes[0].changes
    assert (replaced.action, str(replaced.address)) == (Action.REPLACE, "n1/gpu/a100-0")
    assert replaced.fields[0].before == was
    assert f"the GPU was replaced: a100-0 was {was}" in replaced.reasons[0]
    assert (str(serving.address), serving.cause) == ("n1/container/serving", replaced.address)
    (drift,) = world.drift().nodes[0].drift
    assert (drift.change.address, [str(one) for one in drift.dependants]) == (
        replaced.address,
        ["n1/container/serving"],
    )
    assert world.apply()[0].exit_code == Exit.DONE
    assert world.plan().empty


def test_another_order_of_the_gpus_is_no_change(make_world: Callable[[], World]) -> None:
    world = make_world()
    world.write(plan("{ big: 4g.40gb }", serving="big"))
    world.nodes({"n1": {}}, gpus="[{ model: A100-SXM4-80GB, count: 2 }]")
    assert world.apply()[0].exit_code == Exit.DONE
    with open_store(world.inventory.hosts[0]).write() as state:
        state.gpus.reverse()
    assert world.plan().empty
    assert world.drift().nodes[0].drift == ()
