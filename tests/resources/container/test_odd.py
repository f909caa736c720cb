"""What an engine or a record may say oddly: nothing raises, and one resource's oddity is told of that one alone."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuplan.resources.container.conflicts import held_ports
from gpuplan.resources.container.fields.conversion import observed_fields
from gpuplan.resources.container.kind import CONTAINER
from gpuplan.resources.container.read import read
from gpuplan.resources.model import MODEL as MODELS
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Severity
from gpuplan.types.resource import Desired, DiffContext, Record, Recorded
from gpuplan.types.snapshot import Probe, Snapshot
from gpuplan.types.value import Json
from tests.conftest import examples
from tests.resources.container.case import BOUND, PAUSE, wishes
from tests.resources.container.node import snapshot

WEB = Address("n", "container", "web")
WANTED, _ = wishes({"web": {"gpus": ["a100-0/cls-a"], "ports": ["8000:80"], "env": {"A": "1"}}, "api": {}})
HOST = {
    "Binds": ["/srv:/data:ro", "vol:/x"],
    "Mounts": [{"Type": "bind", "Source": "/a", "Target": "/b", "ReadOnly": True}],
    "PortBindings": {"80/tcp": [{"HostIp": "", "HostPort": "8000"}]},
    "DeviceRequests": [{"Driver": "", "Count": 0, "DeviceIDs": ["MIG-a1"], "Capabilities": [["gpu"]], "Options": {}}],
    "Devices": [{"PathOnHost": "/dev/x"}],
    "Ulimits": [{"Name": "nofile", "Soft": 1, "Hard": 2}],
    "ExtraHosts": ["a:10.0.0.1"],
    "RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": 2},
}
PLAIN = snapshot(
    [
        {"name": "web", "plan": "prod", "host": HOST, "env": {"A": "2"}},
        {"name": "web.gpuplan-old", "role": "web", "plan": "prod", "host": HOST},
        {"name": "theirs", "plan": "", "host": HOST},
    ],
    [PAUSE],
)
TEXTS = st.one_of(st.sampled_from(["", "/", ":", "a:b:c:d", "80", "80/tcp/x", "all", "0:0"]), st.text(max_size=8))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=4,
)


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where every value of a document stands."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield (*path, key)
        yield from paths(each, (*path, key))


def laid_over(probe: Json, changes: Mapping[tuple[Any, ...], Any]) -> Json:
    """The document with other values at some paths, as far as these are still there."""
    document: Any = copy.deepcopy(probe)
    for path, value in changes.items():
        place = document
        for key in path[:-1]:
            fits = (isinstance(place, dict) and key in place) or (isinstance(place, list) and key in range(len(place)))
            place = place[key] if fits else None
        if isinstance(place, dict) or (isinstance(place, list) and path[-1] in range(len(place))):
            place[path[-1]] = value
    changed: Json = document
    return changed


DOCKER, GPU = PLAIN.probe("docker").value, PLAIN.probe("gpu").value


@pytest.mark.faults
@settings(max_examples=examples(400), deadline=None)
@given(
    docker=st.dictionaries(st.sampled_from(list(paths(DOCKER))), VALUES, min_size=1, max_size=3),
    gpu=st.dictionaries(st.sampled_from(list(paths(GPU))), VALUES, max_size=1),
)
def test_no_shape_of_what_a_node_says_raises(docker: Mapping[Any, Any], gpu: Mapping[Any, Any]) -> None:
    probes = {"docker": Probe(laid_over(DOCKER, docker)), "gpu": Probe(laid_over(GPU, gpu))}
    look = Snapshot("n", probes)
    observed = read(look)
    for live in observed.containers:
        observed_fields(live, observed.networks)
        list(held_ports(live))
    bindings = {Address("n", "gpu", name): uuid for name, uuid in BOUND.items()}
    context = DiffContext("n", "prod", Record("prod"), bindings=bindings)
    for wanted in (WANTED, ()):
        comparison = CONTAINER.compare(wanted, look, context)
        said = {each.address for each in (*comparison.changes, *comparison.unknown)}
        assert observed.error is None or not comparison.changes
        assert said >= ({each.address for each in wanted} if observed.error else set())
    MODELS.compare((), look, context)


@pytest.mark.parametrize("odd", [{"image": 5}, {"env": {"A": {}}}, {"image": "a", "ports": ["x"]}, {}])
def test_a_recorded_spec_of_another_form_is_unknown_to_a_drift_check(odd: dict[str, Any]) -> None:
    recorded = [Desired(WEB, odd), next(each for each in WANTED if each.address.name == "api")]
    record = Record("prod", run="r", resources={each.address: Recorded(each.digest, each.spec) for each in recorded})
    comparison = CONTAINER.compare(recorded, PLAIN, DiffContext("n", "prod", record))
    assert [each.address for each in comparison.unknown] == [WEB]
    assert [change.address.name for change in comparison.changes] == ["api"]


def test_a_recorded_spec_of_another_form_does_not_keep_the_plan_file_from_being_compared() -> None:
    record = Record("prod", run="r", resources={WEB: Recorded("d", {"image": 5, "env": {"A": "s3cret"}})})
    bindings = {Address("n", "gpu", name): uuid for name, uuid in BOUND.items()}
    comparison = CONTAINER.compare(WANTED, PLAIN, DiffContext("n", "prod", record, bindings=bindings))
    assert comparison.unknown == ()
    assert {change.address.name for change in comparison.changes} == {"web", "api"}
    warnings = [each for each in comparison.diagnostics if each.severity is Severity.WARNING]
    (warning,) = [each for each in warnings if each.summary == "The record of a container cannot be read"]
    assert "(image)" in warning.detail
