"""What can be stated and was made by hand is found as it is: nothing of it is left out, and twice it is the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml
from hypothesis import HealthCheck, given, note, settings

from gpuplan.discover.discover import discover_plan_file
from gpuplan.discover.entries import Discovery
from gpuplan.output.plan_file import render_plan_file
from gpuplan.resources.container.create_body import Owner, create_body
from gpuplan.resources.container.spec import ContainerSpec
from gpuplan.resources.kinds import KINDS
from gpuplan.transport.session import Question
from gpuplan.types.inventory import Connection, Host
from tests.resources.container.bench import Bench
from tests.resources.container.strategies import NETWORKS, spec_of, stated

PROBES = tuple(dict.fromkeys(probe for room in KINDS for probe in room.probes))


def by_hand(bench: Bench, spec: ContainerSpec) -> None:
    """A container of that spec which bears no mark of gpuplan."""
    env = {name: value if isinstance(value, str) else "s3cret-v4lue" for name, value in spec.env.items()}
    body = create_body(spec, Owner("", "", ""), [bench.gpus[part] for part in spec.gpus], env, "")
    body = {**body, "Labels": dict(spec.labels)}
    container = str(bench.engine.create_container_from_config(body, "law")["Id"])
    for network in list(spec.networks)[1:]:
        bench.engine.connect_container_to_network(container, network, aliases=list(spec.networks[network]) or None)
    bench.engine.start(container)


def look(bench: Bench) -> Discovery:
    snapshot = bench.session.ask(Question("found", PROBES))
    return discover_plan_file("found", [(Host("n", Connection.SIMULATED), snapshot)])


def section(found: Discovery) -> Mapping[str, Any]:
    assert found.left_out == ()
    (only,) = found.of("containers")
    return only.body


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stated=stated())
def test_whatever_can_be_stated_is_found_as_it_is(simulated: Bench, stated: dict[str, Any]) -> None:
    note(f"section: {stated}")
    simulated.clear()
    simulated.networks(*NETWORKS)
    by_hand(simulated, spec_of(stated, simulated.image))
    found = look(simulated)
    first = section(found)
    document = found.document({each.nodes: "n" for each in found.sections})
    assert yaml.safe_load(render_plan_file(document, {}, ())) == document
    simulated.clear()
    gpus = {f"a100-{number}": f"g{number}" for number in (0, 1)}
    by_hand(simulated, spec_of({**first, "gpus": [gpus[each] for each in first.get("gpus", [])]}, simulated.image))
    assert section(look(simulated)) == first
