"""A slice step fails after the container on that slice was stopped: the next apply brings service back."""

from collections.abc import Mapping

from gpuplan.transport.connect import connect
from gpuplan.types.diagnostic import Exit
from gpuplan.types.outcome import Status
from tests.core.conftest import World

BUSY = {"n1": {"faults": "[{ nvml: nvmlComputeInstanceDestroy, code: 19 }]"}}


def state_of(world: World, name: str) -> Mapping[str, object]:
    """What the engine says of a container."""
    session = connect(world.inventory.hosts[0])
    try:
        found: Mapping[str, object] = session.docker().inspect_container(name)["State"]
        return found
    finally:
        session.close()


def stopped_for_nothing(world: World) -> None:
    """A slice is to be made larger; its container is stopped for that, and then the slice cannot go."""
    world.apply()
    world.edit("left: 3g.40gb", "left: 4g.40gb")
    world.nodes(BUSY)
    (outcome,) = world.apply()
    assert outcome.exit_code == Exit.ERROR
    failed = [step.step for step in outcome.steps if step.status is Status.FAILED]
    assert failed
    assert all("/gpu/" in step for step in failed)
    assert state_of(world, "triton")["Status"] == "exited"
    world.nodes({"n1": {}})


def test_the_next_apply_goes_on(world: World) -> None:
    stopped_for_nothing(world)
    assert world.apply()[0].exit_code == Exit.DONE
    assert state_of(world, "triton")["Status"] == "running"
    assert world.plan().empty


def test_the_plan_file_as_it_was_starts_it_again(world: World) -> None:
    stopped_for_nothing(world)
    world.edit("left: 4g.40gb", "left: 3g.40gb")
    (node,) = world.plan().nodes
    assert next(step.title for change in node.changes for step in change.steps) == "start container triton"
    assert world.apply()[0].exit_code == Exit.DONE
    assert state_of(world, "triton")["Status"] == "running"
    assert world.plan().empty
