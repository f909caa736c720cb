"""Every entry of the table of container fields, on the simulator and on a real engine.

Stated, applied, and planned again: nothing differs. Changed by hand: exactly that field differs. Discovered: the plan
file that `discover` writes states the same value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuplan.resources.container.apply import readiness
from gpuplan.resources.container.describe import describe
from gpuplan.resources.container.fields.conversion import IN_PLACE
from gpuplan.resources.container.fields.field import Unstated
from gpuplan.resources.container.fields.table import FIELDS
from gpuplan.resources.container.kind import CONTAINER
from gpuplan.resources.container.read import read
from gpuplan.resources.container.spec import ContainerSpec
from gpuplan.transport.connect import connect
from gpuplan.transport.session import Question
from gpuplan.types.change import Action, Change
from gpuplan.types.diagnostic import Problem, Severity
from gpuplan.types.inventory import Connection, Host
from tests.resources.container.bench import PLAN, Bench
from tests.resources.container.byhand import body_of, recreate
from tests.resources.container.fields.samples import SAMPLES, Sample
from tests.resources.container.strategies import NETWORKS, spec_of

DOCS = Path(__file__).parents[4] / "docs" / "plan-file.md"
REAL = pytest.param("real", marks=pytest.mark.lab)
NAME = "law"


@pytest.fixture(params=["simulated", REAL])
def node(request: pytest.FixtureRequest, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A node whose engine is new enough for the field."""
    sample = SAMPLES[name]
    if request.param == "real":
        if sample.unsupported:
            pytest.skip(sample.unsupported)
        yield request.getfixturevalue("real")
        return
    monkeypatch.setenv("GPUPLAN_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr(readiness, "STEADY", 0.0)
    hardware = {"gpus": [{"model": "A100-SXM4-80GB"}], "images": ["busybox:1.36"]}
    hardware |= {"engine": sample.engine} if sample.engine else {}
    session = connect(Host("n", Connection.SIMULATED, simulated=hardware))
    yield Bench(session, tmp_path, "busybox:1.36")
    session.close()


def changed(bench: Bench, spec: ContainerSpec) -> tuple[Change, ...]:
    return tuple(bench.compare(bench.want(NAME, spec)).changes)


def differing(bench: Bench, spec: ContainerSpec) -> list[str]:
    """The paths of all fields that differ, but for the state of a container that was re-created by hand."""
    return [field.path for change in changed(bench, spec) for field in change.fields if field.path != "state"]


def change_by_hand(bench: Bench, name: str, sample: Sample, spec: ContainerSpec) -> None:
    """Re-create the container with another value of the field, as an operator would."""
    document, _, key = FIELDS[name].engine.partition(".")
    if name in ("network", "networks"):
        body = body_of(bench.engine.inspect_container(NAME), spec)
        networks = sample.raw if name == "networks" else {sample.raw: {}}
        body["HostConfig"]["NetworkMode"] = next(iter(networks))
        body["NetworkingConfig"] = {"EndpointsConfig": networks}
        bench.engine.remove_container(NAME, force=True)
        bench.engine.create_container_from_config(body, NAME)
        return

    def act(body: dict[str, Any]) -> None:
        place = body["HostConfig"] if document == "HostConfig" else body
        place[key] = {**body["Labels"], **sample.raw} if name == "labels" else sample.raw

    recreate(bench, NAME, spec, act)


def discovered(bench: Bench, name: str) -> Any:
    """What `discover` writes of a field."""
    observed = read(bench.session.ask(Question(PLAN, CONTAINER.probes)))
    (live,) = observed.containers
    return describe(live, observed, {}, lambda *_: False).section.get(name)


def test_every_field_has_a_sample() -> None:
    assert set(SAMPLES) == set(FIELDS)


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_is_applied_compared_and_discovered(node: Bench, name: str) -> None:
    sample = SAMPLES[name]
    stated = {name: sample.stated, **sample.beside}
    node.clear()
    node.networks(*NETWORKS)
    spec = spec_of(stated, node.image)
    assert node.apply(node.want(NAME, spec)) == [f"create container {NAME}"]
    assert changed(node, spec) == ()
    again = spec_of({**stated, name: discovered(node, name)}, node.image)
    assert getattr(again, name) == getattr(spec, name)
    change_by_hand(node, name, sample, spec)
    assert differing(node, spec) == [f"{name}.{sample.path}" if sample.path else name]


@pytest.mark.lab
@pytest.mark.parametrize("name", [name for name, sample in SAMPLES.items() if sample.unsupported])
def test_what_an_engine_cannot_keep_is_refused(name: str, real: Bench) -> None:
    """It would differ after every apply: an error says so before or while the container is created."""
    desired = real.want(NAME, spec_of({name: SAMPLES[name].stated, **SAMPLES[name].beside}, real.image))
    if not any(problem.severity is Severity.ERROR for problem in real.compare(desired).diagnostics):
        with pytest.raises(Problem):
            real.apply(desired)
    assert "running" not in real.names().values()


def test_a_field_that_is_newer_than_the_engine_is_refused(simulated: Bench) -> None:
    """Docker 20.10 speaks API 1.41, and would drop annotations silently."""
    desired = simulated.want(NAME, spec_of({"annotations": {"a": "b"}}, simulated.image))
    (problem,) = simulated.compare(desired).diagnostics
    assert (problem.summary, problem.severity) == ("Docker engine is too old for a field", Severity.ERROR)
    assert "annotations of law needs Docker API 1.43" in problem.detail


@pytest.mark.parametrize("name", sorted(IN_PLACE))
def test_a_field_is_updated_in_place(node: Bench, name: str) -> None:
    """A value that the engine can set on a container that exists is set there, and nothing is re-created."""
    sample = SAMPLES[name]
    node.clear()
    spec = spec_of({name: sample.stated, **sample.beside}, node.image)
    node.apply(node.want(NAME, spec))
    identity = node.engine.inspect_container(NAME)["Id"]
    other = spec_of({**sample.beside, name: discovered_other(name)}, node.image)
    (change,) = changed(node, other)
    assert change.action is Action.UPDATE
    node.apply(node.want(NAME, other))
    assert changed(node, other) == ()
    assert node.engine.inspect_container(NAME)["Id"] == identity


def discovered_other(name: str) -> Any:
    """Another value than the sample's that the plan file may state."""
    return {
        "restart": "always", "memory": "128MiB", "memory_swap": -1, "memory_reservation": "16MiB", "cpus": 0.5,
        "cpuset": "0", "cpu_shares": 256, "pids_limit": 100, "blkio_weight": 400,
    }[name]  # fmt: skip


@pytest.mark.parametrize("name", sorted(IN_PLACE - {"restart"}))
def test_a_limit_that_is_removed_takes_a_new_container(name: str, simulated: Bench) -> None:
    """The engine's update call reads an empty value as "leave it as it is"."""
    sample = SAMPLES[name]
    spec = spec_of({name: sample.stated, **sample.beside}, simulated.image)
    simulated.apply(simulated.want(NAME, spec))
    (change,) = changed(simulated, spec_of(sample.beside, simulated.image))
    assert (change.action, [field.path for field in change.fields]) == (Action.REPLACE, [name])


def field_list() -> str:
    """The list of fields as docs/plan-file.md has it."""
    unstated = {Unstated.ENGINE: "left alone", Unstated.IMAGE: "the image's", Unstated.NOTHING: "none allowed"}
    lines = ["| key | means | if not stated | compared |", "|---|---|---|---|"]
    for name, field in FIELDS.items():
        notes = [
            *(["changed in place"] if field.in_place else []),
            *([f"engine API {field.api}"] if field.api else []),
        ]
        means = field.description + (f" ({'; '.join(notes)})" if notes else "")
        lines.append(f"| `{name}` | {means} | {unstated[field.unstated]} | {field.compared} |")
    return "\n".join(lines) + "\n"


def test_the_reference_lists_every_field(request: pytest.FixtureRequest) -> None:
    text = DOCS.read_text()
    begin, end = "<!-- fields: written by pytest --update-golden -->\n", "<!-- end of fields -->\n"
    assert begin in text
    before, _, rest = text.partition(begin)
    current, _, after = rest.partition(end)
    if request.config.getoption("--update-golden"):
        DOCS.write_text(f"{before}{begin}\n{field_list()}\n{end}{after}")
    else:
        assert current.strip("\n") == field_list().strip("\n"), "run pytest --update-golden and read the difference"


def test_every_field_says_where_the_engine_keeps_it() -> None:
    for name, field in FIELDS.items():
        assert re.fullmatch(r"(Config|HostConfig)\.[A-Za-z]+|NetworkingConfig", field.engine), name
        assert field.description, name
