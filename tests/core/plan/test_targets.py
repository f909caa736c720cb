"""A target takes along what it waits for and what it forces, and nothing else."""

from dataclasses import replace

from gpuplan.core.plan.targets import select_targets
from gpuplan.types.address import Address
from gpuplan.types.change import Action, Change, NodeChanges, Step, Unmanaged, Verb

GPU = Address("n", "gpu", "a100-0")
ONE, OTHER = Address("n", "container", "one"), Address("n", "container", "other")


def node() -> NodeChanges:
    return NodeChanges(
        "n",
        changes=(
            Change(GPU, Action.UPDATE, steps=(Step("create", GPU, Verb.CREATE, "", makes=(GPU.part("a"),)),)),
            Change(
                ONE, Action.CREATE, steps=(Step("create", ONE, Verb.CREATE, "", makes=(ONE,), uses=(GPU.part("a"),)),)
            ),
            Change(OTHER, Action.CREATE, steps=(Step("create", OTHER, Verb.CREATE, "", makes=(OTHER,)),)),
        ),
        unmanaged=(Unmanaged(Address("n", "gpu", "a100-1/x"), "is in the way", OTHER, "unmanaged-slice"),),
    )


def test_without_targets_everything_stays() -> None:
    assert select_targets(node(), ()) == node()


def test_a_container_takes_its_slice_along() -> None:
    kept = select_targets(node(), ["n/container/one"])
    assert [change.address for change in kept.changes] == [GPU, ONE]
    assert kept.order == ("n/gpu/a100-0:create", "n/container/one:create")


def test_a_guard_for_something_else_does_not_refuse_it() -> None:
    assert select_targets(node(), ["n/container/one"]).unmanaged[0].guard == ""
    assert select_targets(node(), ["*/container/other"]).unmanaged[0].guard == "unmanaged-slice"


def test_a_guard_counts_for_what_a_target_takes_along() -> None:
    """The slice in the way is of the GPU that the container takes along, and is named by a part of it."""
    stranger = Unmanaged(GPU.part("7g.80gb at 0"), "not ours", GPU.part("a"), "unmanaged-slice")
    guarded = replace(node(), unmanaged=(stranger,))
    assert select_targets(guarded, ["n/container/one"]).unmanaged == (stranger,)
    assert select_targets(guarded, ["n/gpu/a100-0"]).unmanaged == (stranger,)
    assert select_targets(guarded, ["n/container/other"]).unmanaged[0].guard == ""


def test_what_follows_from_a_target_comes_along() -> None:
    forced = Change(OTHER, Action.REPLACE, cause=GPU)
    start = NodeChanges("n", changes=(node().changes[0], forced))
    assert [change.address for change in select_targets(start, ["*/gpu/*"]).changes] == [GPU, OTHER]
