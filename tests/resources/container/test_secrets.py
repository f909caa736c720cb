"""No secret is in anything that a comparison says: not shown, not printed, not saved."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuplan.resources.container.kind import CONTAINER
from gpuplan.resources.container.read import read
from gpuplan.types.address import Address
from gpuplan.types.record import Record, Recorded
from gpuplan.types.resource import DiffContext
from gpuplan.types.value import KnownAfterApply, Secret
from tests.resources.container.case import BOUND, PAUSE, wishes
from tests.resources.container.node import snapshot

REFERENCE = "${env:TOKEN}"
TOKENS = st.from_regex(r"tok-[a-z0-9]{12}", fullmatch=True)


@pytest.mark.parametrize("status", ["running", "exited"])
@settings(max_examples=20)
@given(mine=TOKENS, theirs=TOKENS)
def test_neither_value_is_told(status: str, mine: str, theirs: str) -> None:
    desired, _ = wishes({"web": {"env": {"TOKEN": REFERENCE}}})
    container = {"name": "web", "plan": "prod", "env": {"TOKEN": theirs, "MORE": theirs}, "state": {"Status": status}}
    look = snapshot([container], [PAUSE])
    context = DiffContext(
        "n",
        "prod",
        Record("prod", run="r", resources={each.address: Recorded(each.digest, each.spec) for each in desired}),
        bindings={Address("n", "gpu", name): uuid for name, uuid in BOUND.items()},
        secrets={REFERENCE: Secret(REFERENCE, mine)},
    )
    for wanted in (desired, ()):
        comparison = CONTAINER.compare(wanted, look, context)
        steps = [dict(step.payload) for change in comparison.changes for step in change.steps]
        told = repr(comparison) + str(comparison) + json.dumps(steps)
        assert comparison.changes
        assert mine not in told
        assert theirs not in told
    assert theirs not in repr(read(look))


@settings(max_examples=20)
@given(mine=TOKENS)
def test_a_rotated_secret_does_not_move_what_a_saved_change_set_rests_on(mine: str) -> None:
    desired, _ = wishes({"web": {"env": {"TOKEN": REFERENCE}}})
    seen = {
        CONTAINER.compare(
            desired,
            snapshot([{"name": "web", "plan": "prod", "env": {"TOKEN": token}}], [PAUSE]),
            DiffContext("n", "prod", Record("prod")),
        ).rests_on[desired[0].address]
        for token in (mine, "another")
    }
    assert len(seen) == 1


def test_a_secret_that_is_not_at_hand_is_not_compared() -> None:
    desired, _ = wishes({"web": {"env": {"TOKEN": REFERENCE}}})
    env = {"NVIDIA_VISIBLE_DEVICES": "void", "TOKEN": "whatever"}
    look = snapshot([{"name": "web", "plan": "prod", "env": env}], [PAUSE])
    context = DiffContext("n", "prod", Record("prod"), bindings={Address("n", "gpu", "x"): KnownAfterApply("x")})
    assert CONTAINER.compare(desired, look, context).changes == ()


@pytest.mark.parametrize("wanted", [{}, {"web": {"env": {}}}, {"web": {"env": {"TOKEN": "plain"}}}])
def test_no_value_of_an_environment_is_in_the_digest_of_what_was_seen(wanted: dict[str, object]) -> None:
    desired, _ = wishes(wanted)
    seen = {
        CONTAINER.compare(
            desired,
            snapshot([{"name": "web", "plan": "prod", "env": {"TOKEN": token}}], [PAUSE]),
            DiffContext("n", "prod", Record("prod")),
        ).rests_on[Address("n", "container", "web")]
        for token in ("one", "another")
    }
    assert len(seen) == 1
