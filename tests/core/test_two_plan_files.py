"""Two plan files on one GPU: neither takes what the other made, and the end of one leaves the other serving."""

from gpuplan.resources.gpu import GPU
from gpuplan.transport.connect import connect
from gpuplan.transport.session import Question
from gpuplan.types.diagnostic import Exit
from tests.core.conftest import World

PLAN = """
version: 1
name: NAME
gpus:
  a100-0:
    nodes: all
    select: { index: 0 }
    mig: { SLICE: 3g.40gb }
"""
SERVING = """
containers:
  serving: { nodes: all, image: "busybox:latest", command: [sleep, "9999"], gpus: ["a100-0/right"] }
"""
FIRST = PLAN.replace("NAME", "first").replace("SLICE", "left")
SECOND = PLAN.replace("NAME", "second").replace("SLICE", "right") + SERVING


def gpu(world: World) -> tuple[bool, list[tuple[str, int]]]:
    """MIG mode, and what stands where."""
    session = connect(world.inventory.hosts[0])
    try:
        (found,) = GPU.read(session.ask(Question("first", GPU.probes))).gpus
    finally:
        session.close()
    assert isinstance(found.instances, tuple)
    return found.mig_enabled, sorted((each.profile, each.start) for each in found.instances)


def serves(world: World) -> bool:
    """The container of the second plan file runs."""
    session = connect(world.inventory.hosts[0])
    try:
        return bool(session.docker().inspect_container("serving")["State"]["Running"])
    finally:
        session.close()


def test_each_cuts_its_own_and_the_end_of_one_leaves_the_other_serving(world: World) -> None:
    for text in (FIRST, SECOND):
        world.write(text)
        assert world.apply()[0].exit_code == Exit.DONE
        assert world.plan().empty
    assert gpu(world) == (True, [("3g.40gb", 0), ("3g.40gb", 4)])
    world.write(FIRST)
    assert world.plan().empty
    assert world.apply(world.plan(destroy=True))[0].exit_code == Exit.DONE
    assert gpu(world) == (True, [("3g.40gb", 0)])
    assert serves(world)
    world.write(SECOND)
    assert world.plan().empty


def test_a_slice_of_another_plan_file_goes_only_by_leave_of_its_guard(world: World) -> None:
    world.write(FIRST)
    world.apply()
    world.write(SECOND.replace("3g.40gb", "7g.80gb"))
    (node,) = world.plan().nodes
    assert [each.guard for each in node.unmanaged if each.guard] == ["unmanaged-slice"]
    assert "was made by the plan file first" in node.unmanaged[0].what
    (outcome,) = world.apply()
    assert outcome.exit_code == Exit.REFUSED
    assert gpu(world) == (True, [("3g.40gb", 4)])
