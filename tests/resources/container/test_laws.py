"""Laws, held on the simulation and on a real engine.

What was made as stated does not differ; of what was changed by hand exactly that one field does; and what is written in
other words is the same.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, event, given, note, settings
from hypothesis import strategies as st

from gpuplan.resources.container.changes import to_json as step_json
from gpuplan.resources.container.spec import ContainerSpec
from gpuplan.types.value import canonical
from tests.conftest import examples
from tests.resources.container.bench import KEY, SECRETS, Bench
from tests.resources.container.byhand import STRAY, Hand, body_of, changes, recreate, rewritings
from tests.resources.container.strategies import NETWORKS, spec_of, stated

SIMULATED, REAL = "busybox:1.36", "lab/pause:1"
few = settings(
    max_examples=int(os.environ.get("GPUPLAN_LAW_EXAMPLES", "5")),
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.filter_too_much],
)
more = settings(few, max_examples=examples(max(40, few.max_examples)))


def differing(bench: Bench, spec: ContainerSpec) -> list[str]:
    """The fields in which the container differs; its state is not told where it could not be started."""
    found = bench.compare(bench.want("law", spec)).changes
    assert [change.address.name for change in found] in ([], ["law"])
    return sorted(field.path for change in found for field in change.fields if field.path != "state")


def make(bench: Bench, section: dict[str, Any]) -> ContainerSpec:
    """A container by the room's own door, on a node that has nothing else."""
    note(f"section: {section}")
    bench.clear()
    bench.networks(*NETWORKS, STRAY)
    spec = spec_of(section, bench.image)
    desired = bench.want("law", spec)
    comparison = bench.compare(desired)
    bench.apply(desired)
    told = repr(comparison) + "".join(bench.said) + canonical(step_json(spec))
    assert SECRETS[KEY].reveal() not in told
    return spec


def does_one_thing(bench: Bench, spec: ContainerSpec, hand: Hand) -> None:
    """Created anew with one thing changed → exactly that is found; the container is left as it was."""
    note(f"by hand: {hand.name}")
    event(hand.name.partition(" ")[0])
    before = body_of(bench.engine.inspect_container("law"), spec)
    recreate(bench, "law", spec, hand.act)
    assert differing(bench, spec) == ([hand.field] if hand.field else [])
    recreate(bench, "law", spec, lambda body: (body.clear(), body.update(before)))


def finds_what_moved(bench: Bench, spec: ContainerSpec) -> None:
    """What is done to a container that stays."""
    bench.engine.connect_container_to_network("law", STRAY)
    assert differing(bench, spec) == [f"networks.{STRAY}"]
    bench.engine.disconnect_container_from_network("law", STRAY)
    for network in list(spec.networks)[1:]:
        bench.engine.disconnect_container_from_network("law", network)
        assert differing(bench, spec) == [f"networks.{network}"]
        bench.engine.connect_container_to_network("law", network, aliases=list(spec.networks[network]) or None)
    bench.engine.rename("law", "outlaw")
    assert differing(bench, spec) == ["name"]
    bench.engine.rename("outlaw", "law")
    assert differing(bench, spec) == []


def holds(bench: Bench, section: dict[str, Any]) -> ContainerSpec:
    spec = make(bench, section)
    assert differing(bench, spec) == []
    assert bench.compare(bench.want("law", spec)).changes == ()
    return spec


def finds(bench: Bench, section: dict[str, Any], data: st.DataObject, most: int) -> None:
    spec = holds(bench, section)
    if spec.network != "none":
        finds_what_moved(bench, spec)
    body = body_of(bench.engine.inspect_container("law"), spec)
    order = data.draw(st.randoms(use_true_random=False))
    for context in (list(changes(spec, body)), list(rewritings(spec, body, bench))):
        for hand in order.sample(context, min(most, len(context))):
            does_one_thing(bench, spec, hand)


@pytest.mark.faults
@more
@given(section=stated())
def test_made_as_stated_in_the_simulation(simulated: Bench, section: dict[str, Any]) -> None:
    holds(simulated, section)


@pytest.mark.faults
@more
@given(section=stated(), data=st.data())
def test_one_change_is_one_in_the_simulation(simulated: Bench, section: dict[str, Any], data: st.DataObject) -> None:
    finds(simulated, section, data, 4)


@pytest.mark.lab
@few
@given(section=stated(), data=st.data())
def test_one_change_is_one_on_an_engine(real: Bench, section: dict[str, Any], data: st.DataObject) -> None:
    finds(real, section, data, 2)
