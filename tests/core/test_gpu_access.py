"""Containers that lose their GPUs, and engines that give them by CDI or not at all: planned, applied, checked again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpuplan.simulator.hardware import open_store
from gpuplan.simulator.tools import REFRESHED, daemon_reload
from gpuplan.transport.connect import connect
from gpuplan.types.change import ChangeSet
from gpuplan.types.outcome import Status
from gpuplan.types.value import JsonObject

from .conftest import World

PLAN = """
version: 1
name: story
gpus:
  a100-0:
    nodes: all
    select: { index: 0 }
    mig: { MIG }
containers:
  web: { nodes: all, image: "busybox:latest", command: [sleep, "9999"], gpus: ["a100-0/left"] }
  plain: { nodes: all, image: "busybox:latest", command: [sleep, "9999"] }
"""
TWO, LEFT = PLAN.replace("MIG", "left: 3g.40gb, right: 3g.40gb"), PLAN.replace("MIG", "left: 2g.20gb, right: 3g.40gb")


@pytest.fixture
def cut(make_world: Callable[[], World]) -> Callable[[str], World]:
    """A world whose node has a toolkit of that kind and is as the plan file says."""

    def make(toolkit: str) -> World:
        world = make_world()
        world.write(TWO)
        world.nodes({"n1": {"toolkit": toolkit}})
        return world

    return make


def done(world: World) -> None:
    for outcome in world.apply(allow=("gpu-reset", "busy-slice")):
        assert [(step.title, step.status) for step in outcome.steps] == [
            (step.title, Status.DONE) for step in outcome.steps
        ]


def titles(change_set: ChangeSet) -> list[str]:
    (node,) = change_set.nodes
    steps = {step.id: step.title for change in node.changes for step in change.steps}
    return [steps[name] for name in node.order]


def inspected(world: World, name: str) -> JsonObject:
    (host,) = world.inventory.hosts
    session = connect(host)
    found = dict(session.docker().inspect_container(name))
    session.close()
    return found


def test_lost_access_is_drift_of_its_own_and_heals(cut: Callable[[str], World]) -> None:
    world = cut("hook")
    done(world)
    (host,) = world.inventory.hosts
    daemon_reload(open_store(host))
    (node,) = world.drift().nodes
    (found,) = node.drift
    assert str(found.change.address) == "n1/container/web"
    assert [(each.path, each.before) for each in found.change.fields] == [("gpu_access", "lost")]
    done(world)
    (node,) = world.drift().nodes
    assert (node.drift, node.unknown) == ((), ())


def test_an_engine_that_gives_none_is_told_before_anything_is_made(cut: Callable[[str], World]) -> None:
    world = cut("none")
    (node,) = world.plan().nodes
    (told,) = [each for each in node.diagnostics if "GPUs" in each.summary]
    assert told.summary == "The engine cannot give GPUs to containers"
    assert "nvidia-container-toolkit" in told.fix


def test_specifications_follow_the_slices_before_the_containers(cut: Callable[[str], World]) -> None:
    world = cut("cdi")
    ran = titles(world.plan())
    regenerated = ran.index(f"write CDI specification {REFRESHED}")
    slices = [place for place, title in enumerate(ran) if title.startswith("create slice")]
    assert len(slices) == 2
    assert max(slices) < regenerated < ran.index("create container web")
    done(world)
    (request,) = inspected(world, "web")["HostConfig"]["DeviceRequests"]
    assert request["Driver"] == "cdi"
    (name,) = request["DeviceIDs"]
    assert name.startswith("nvidia.com/gpu=MIG-")
    assert titles(world.plan()) == []
    world.write(LEFT)
    done(world)
    assert titles(world.plan()) == []
    assert inspected(world, "web")["HostConfig"]["DeviceRequests"][0]["DeviceIDs"] != [name]


def test_a_specification_that_grew_stale_by_itself_is_planned_and_is_no_drift(cut: Callable[[str], World]) -> None:
    world = cut("cdi")
    done(world)
    (host,) = world.inventory.hosts
    with open_store(host).write() as state:
        state.cdi = {REFRESHED: ["0", "all"]}
    (node,) = world.drift().nodes
    assert node.drift == ()
    assert titles(world.plan()) == [f"write CDI specification {REFRESHED}"]
    done(world)
    assert titles(world.plan()) == []


def test_a_toolkit_that_names_devices_by_place_alone(cut: Callable[[str], World]) -> None:
    """The container's label knows which slice it was made with, so that one made anew at its place is seen."""
    world = cut("cdi")
    done(world)
    (host,) = world.inventory.hosts
    with open_store(host).write() as state:
        container = next(each for each in state.containers.values() if each.name == "web")
        requests = container.host_config["DeviceRequests"]
        assert isinstance(requests, list)
        requests[0]["DeviceIDs"] = ["nvidia.com/gpu=0:0"]
    assert titles(world.plan()) == []
    with open_store(host).write() as state:
        labels = state.containers[container.id].config["Labels"]
        assert isinstance(labels, dict)
        labels["gpuplan.devices"] = "MIG-of-before"
    assert titles(world.plan()) == ["stop container web", "replace container web"]
