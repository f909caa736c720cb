"""The three rules of order, and the order of a whole re-partitioning."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplan.core.plan.order import order_steps, predecessors
from gpuplan.types.address import Address
from gpuplan.types.change import Action, Change, Step, Verb
from gpuplan.types.diagnostic import Problem

GPU = Address("n", "gpu", "a100-0")
SLICE = GPU.part("cls-a")
FILES = Address("n", "repository", "triton")
TRITON = Address("n", "container", "triton")


def model(name: str) -> Address:
    return Address("n", "model", f"triton/{name}")


def change(address: Address, *steps: Step) -> Change:
    return Change(address, Action.UPDATE, steps=steps)


def step(name: str, address: Address, **sets: tuple[Address, ...]) -> Step:
    return Step(name, address, Verb.UPDATE, name, **sets)  # type: ignore[arg-type]


def test_a_slice_that_is_made_anew_takes_everything_along_in_the_right_order() -> None:
    changes = [
        change(
            model("ensemble"), step("load", model("ensemble"), makes=(model("ensemble"),), uses=(model("part"), TRITON))
        ),
        change(model("part"), step("load", model("part"), makes=(model("part"),), uses=(TRITON, FILES.part("part")))),
        change(model("old"), step("unload", model("old"), releases=(TRITON,), frees=(model("old"),))),
        change(
            TRITON,
            step("stop", TRITON, releases=(SLICE, FILES), frees=(TRITON,)),
            step("replace", TRITON, makes=(TRITON,), uses=(SLICE, FILES)),
        ),
        change(FILES, step("switch", FILES, makes=(FILES.part("part"),))),
        change(GPU, step("destroy", GPU, frees=(SLICE,)), step("create", GPU, makes=(SLICE,))),
    ]
    order = [name.split("/", 1)[1] for name in order_steps(changes)]
    assert order == [
        "model/triton/old:unload",
        "container/triton:stop",
        "repository/triton:switch",
        "gpu/a100-0:destroy",
        "gpu/a100-0:create",
        "container/triton:replace",
        "model/triton/part:load",
        "model/triton/ensemble:load",
    ]


def test_a_circle_is_told_and_not_walked() -> None:
    a, b = Address("n", "x", "a"), Address("n", "x", "b")
    changes = [
        change(a, step("one", a, makes=(a,), uses=(b,))),
        change(b, step("two", b, makes=(b,), uses=(a,))),
    ]
    with pytest.raises(Problem, match="cycle"):
        order_steps(changes)


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.sets(st.integers(0, 9), max_size=3)), max_size=8, unique_by=lambda each: each[0]
    )
)
def test_every_order_respects_what_waits_for_what(resources: list[tuple[int, set[int]]]) -> None:
    def address(number: int) -> Address:
        return Address("n", "x", f"r{number}")

    changes = [
        change(address(n), step("make", address(n), makes=(address(n),), uses=tuple(address(m) for m in uses if m < n)))
        for n, uses in resources
    ]
    order = order_steps(changes)
    before = predecessors([one for each in changes for one in each.steps])
    assert sorted(order) == sorted(before)
    assert all(order.index(earlier) < order.index(name) for name, awaited in before.items() for earlier in awaited)
