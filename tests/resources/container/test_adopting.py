"""Containers that somebody else made: left alone as they are wanted, replaced where that is asked for, never lost."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.resources.container.spec import ContainerSpec
from gpuplan.types.change import Action
from gpuplan.types.resource import Desired
from tests.conftest import CutOffs
from tests.resources.container.bench import PLAN, Bench
from tests.resources.container.test_cutoff import CutOffError, cut_off

COMMAND = ("sleep", "500")


def wish(bench: Bench, generation: str = "1", **stated: Any) -> Desired:
    own = {"stop_timeout": 1, "drain": 0.0, "networks": {"svc": ("front",)}, "labels": {"generation": generation}}
    return bench.want("web", ContainerSpec(**{"image": bench.image, "command": COMMAND, **own, **stated}))


def by_hand(bench: Bench, **host: Any) -> str:
    """The container that is wanted, of somebody who knows nothing of gpuplan."""
    bench.networks("svc")
    body = {
        "Image": bench.image,
        "Cmd": list(COMMAND),
        "Labels": {"generation": "1"},
        "StopTimeout": 1,
        "HostConfig": {"NetworkMode": "svc", **host},
        "NetworkingConfig": {"EndpointsConfig": {"svc": {"Aliases": ["front"]}}},
    }
    container = str(bench.engine.create_container_from_config(body, "web")["Id"])
    bench.engine.start(container)
    return container


def standing(bench: Bench) -> list[tuple[str, str, str]]:
    """Name, state and generation of each container."""
    return [(each["Names"][0].strip("/"), each["State"], each["Labels"]["generation"]) for each in listed(bench)]


def listed(bench: Bench) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = bench.engine.containers(all=True)
    return found


def is_ours(bench: Bench) -> bool:
    return [each["Labels"].get("gpuplan.plan") for each in listed(bench)] == [PLAN]


def test_left_alone_as_it_is_wanted(bench: Bench) -> None:
    container = by_hand(bench)
    found = bench.compare(wish(bench))
    assert (found.changes, found.diagnostics, found.unknown) == ((), (), ())
    assert [(each.address.name, each.as_wanted, each.sees) for each in found.unmanaged] == [("web", True, ())]
    assert bench.apply(wish(bench)) == []
    assert bench.compare().changes == ()
    assert [each["Id"] for each in listed(bench)] == [container]


def test_named_where_it_is_not_as_wanted(bench: Bench) -> None:
    by_hand(bench, CapAdd=["SYS_NICE"])
    found = bench.compare(wish(bench, generation="2"))
    assert [(each.action, each.steps) for each in found.changes] == [(Action.REPLACE, ())]
    assert [each.summary for each in found.diagnostics] == ["Container name already in use"]
    assert "labels.generation, cap_add" in found.diagnostics[0].detail
    assert "adopt: true" in found.diagnostics[0].fix
    assert found.unmanaged == ()
    bench.apply(wish(bench, generation="2"))
    assert standing(bench) == [("web", "running", "1")]


@pytest.mark.parametrize("start_first", [False, True])
def test_replaced_where_that_is_asked_for(bench: Bench, start_first: bool) -> None:
    by_hand(bench)
    wanted = wish(bench, adopt=True, start_first=start_first)
    bench.apply(wanted)
    assert is_ours(bench)
    assert standing(bench) == [("web", "running", "1")]
    assert bench.compare(wanted).changes == ()
    assert bench.compare(wish(bench)).changes == ()
    assert bench.remembered == {}


@pytest.mark.parametrize("start_first", [False, True])
def test_back_where_the_new_one_fails(bench: Bench, start_first: bool) -> None:
    container = by_hand(bench)
    with pytest.raises(Exception, match="exit code"):
        bench.apply(wish(bench, adopt=True, start_first=start_first, command=("sh", "-c", "exit 3")))
    assert {each["Id"] for each in listed(bench) if each["State"] == "running"} == {container}
    assert bench.compare(wish(bench)).changes == ()
    assert bench.remembered == {}
    bench.apply(wish(bench, adopt=True, start_first=start_first))
    assert is_ours(bench)


def test_one_that_goes_when_it_stops_is_not_taken_over(bench: Bench) -> None:
    by_hand(bench, AutoRemove=True)
    found = bench.compare(wish(bench, adopt=True))
    assert [each.summary for each in found.diagnostics] == ["Cannot adopt the container"]
    assert [each.steps for each in found.changes] == [()]


def test_another_plan_file_keeps_its_own(simulated: Bench) -> None:
    simulated.networks("svc")
    labels = {"generation": "1", "gpuplan.plan": "other", "gpuplan.name": "web"}
    body = {"Image": simulated.image, "Cmd": list(COMMAND), "Labels": labels, "HostConfig": {}}
    simulated.engine.create_container_from_config(body, "web")
    found = simulated.compare(wish(simulated, adopt=True))
    assert "managed by the plan file other" in found.diagnostics[0].detail


@pytest.mark.faults
@pytest.mark.parametrize("then", ["again", "without"])
@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("start_first", [False, True])
def test_cut_off_at_every_act(simulated: Bench, start_first: bool, done: bool, then: str, cut_offs: CutOffs) -> None:
    """The next run asks for it again, or takes back what it asked for."""
    wanted = wish(simulated, start_first=start_first, adopt=then == "again")
    for calls in cut_offs(0):
        simulated.clear()
        simulated.remembered = {}
        by_hand(simulated)
        try:
            with cut_off(simulated, calls, done=done):
                simulated.apply(wish(simulated, start_first=start_first, adopt=True))
            break
        except CutOffError:
            assert not start_first or simulated.engine.containers(), f"nobody serves after {calls} acts"
        simulated.apply(wanted)
        assert standing(simulated) == [("web", "running", "1")], f"after {calls} acts"
        assert simulated.compare(wanted).changes == ()
        there = {each["Id"] for each in listed(simulated)}
        assert is_ours(simulated) or there.isdisjoint(each["replaces"] for each in simulated.remembered.values())
        assert then == "without" or is_ours(simulated)
    assert calls >= 5


@pytest.mark.faults
@pytest.mark.parametrize("start_first", [False, True])
def test_one_that_fails_after_a_run_that_was_cut_off(simulated: Bench, start_first: bool, cut_offs: CutOffs) -> None:
    broken = wish(simulated, adopt=True, start_first=start_first, command=("sh", "-c", "exit 3"))
    for calls in cut_offs(0):
        simulated.clear()
        simulated.remembered = {}
        by_hand(simulated)
        try:
            with cut_off(simulated, calls, done=True):
                simulated.apply(wish(simulated, adopt=True, start_first=start_first))
            break
        except CutOffError:
            pass
        with pytest.raises(Exception, match="exit code"):
            simulated.apply(broken)
        assert simulated.names()["web"] == "running", f"after {calls} acts"
        assert len(simulated.engine.containers()) == 1
    assert calls >= 5
