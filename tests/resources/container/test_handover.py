"""`update: start-first` on the simulation and on a real engine: the new one takes over while the old one serves."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.resources.container.apply import start_first
from gpuplan.resources.container.apply.engine import EngineContext
from gpuplan.resources.container.read import PREVIOUS_SUFFIX
from gpuplan.resources.container.spec import ContainerSpec, Readiness
from gpuplan.resources.snapshot.containers import EngineContainer
from gpuplan.types.change import Action
from gpuplan.types.diagnostic import Problem
from gpuplan.types.resource import Desired
from tests.resources.container.bench import Bench

STAYS = ("sleep", "500")
STEP = ["replace container web while it serves"]


def wish(bench: Bench, generation: str, **stated: Any) -> Desired:
    """A container that differs from the one of another generation."""
    own = {"image": bench.image, "command": STAYS, "stop_timeout": 1, "drain": 0.0, "start_first": True}
    return bench.want("web", ContainerSpec(**{**own, "labels": {"generation": generation}, **stated}))


def generations(bench: Bench) -> dict[str, str]:
    """Name → generation of each container that runs."""
    return {each["Names"][0].strip("/"): each["Labels"].get("generation", "") for each in bench.engine.containers()}


def by_hand(bench: Bench, name: str, generation: str, *, start: bool = True) -> str:
    spec = ContainerSpec(image=bench.image, command=STAYS, stop_timeout=1, labels={"generation": generation})
    return bench.make_by_hand(name, "web", spec, start=start)


def test_the_new_one_takes_over(bench: Bench) -> None:
    bench.apply(wish(bench, "1"))
    before = bench.engine.inspect_container("web")["Id"]
    newer = wish(bench, "2")
    (change,) = bench.compare(newer).changes
    assert (change.action, change.interrupts) == (Action.REPLACE, ())
    assert bench.apply(newer) == STEP
    assert generations(bench) == {"web": "2"}
    assert bench.engine.inspect_container("web")["Id"] != before
    assert list(bench.names()) == ["web"]
    assert bench.compare(newer).changes == ()


def test_its_name_leads_to_one_of_the_two_all_the_time(bench: Bench) -> None:
    bench.networks("svc", "back")
    networks = {"svc": ("front",), "back": ()}
    for generation in ("1", "2", "3"):
        web = wish(bench, generation, networks=networks)
        bench.apply(web)
        assert generations(bench) == {"web": generation}
        assert bench.compare(web).changes == ()
    found = bench.engine.inspect_container("web")["NetworkSettings"]["Networks"]
    assert {"web", "front"} <= set(found["svc"]["Aliases"])
    assert "web" in found["back"]["Aliases"]


def test_one_that_does_not_come_up_leaves_the_old_one_alone(bench: Bench) -> None:
    old = wish(bench, "1")
    bench.apply(old)
    before = bench.engine.inspect_container("web")
    with pytest.raises(Problem) as raised:
        bench.apply(wish(bench, "2", command=("sh", "-c", "exit 3"), ready=Readiness(5.0, exec=("true",))))
    assert [each.summary for each in raised.value.diagnostics] == [
        "Container does not stay up",
        "Kept the failed container",
        "Rolled back: the previous container is still running",
    ]
    assert bench.names() == {"web": "running", "web.gpuplan-failed": "exited"}
    after = bench.engine.inspect_container("web")
    assert (after["Id"], after["State"]["StartedAt"]) == (before["Id"], before["State"]["StartedAt"])
    assert bench.compare(old).changes == ()


@pytest.mark.parametrize("where", ["create", "start_created", "wait_ready", "add_names", "rename"])
def test_whatever_fails_leaves_the_old_one_alone(bench: Bench, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = EngineContext.rename

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("unforeseen")

    def refuse_previous_name(engine: EngineContext, container: EngineContainer, name: str) -> None:
        if name.endswith(PREVIOUS_SUFFIX):
            fails()
        rename(engine, container, name)

    old = wish(bench, "1")
    bench.apply(old)
    started = bench.engine.inspect_container("web")["State"]["StartedAt"]
    with monkeypatch.context() as patched:
        if where == "rename":
            patched.setattr(EngineContext, "rename", refuse_previous_name)
        else:
            patched.setattr(start_first, where, fails)
        with pytest.raises(RuntimeError, match="unforeseen"):
            bench.apply(wish(bench, "2"))
    assert generations(bench) == {"web": "1"}
    assert bench.engine.inspect_container("web")["State"]["StartedAt"] == started
    assert bench.compare(old).changes == ()
    assert "Rolled back: the previous container is still running" in "\n".join(bench.said)


def test_one_that_is_down_is_replaced_as_ever(bench: Bench) -> None:
    bench.apply(wish(bench, "1"))
    bench.engine.stop("web", timeout=0)
    assert bench.apply(wish(bench, "2")) == ["replace container web"]
    assert generations(bench) == {"web": "2"}


def test_a_run_that_was_killed_before_the_new_one_took_over(bench: Bench) -> None:
    bench.apply(wish(bench, "1"))
    by_hand(bench, "web.gpuplan-new", "2")
    newer = wish(bench, "2")
    assert bench.apply(newer) == STEP
    assert generations(bench) == {"web": "2"}
    assert bench.compare(newer).changes == ()


def test_a_run_that_was_killed_is_given_up(bench: Bench) -> None:
    old = wish(bench, "1")
    bench.apply(old)
    by_hand(bench, "web.gpuplan-new", "2")
    assert bench.apply(old) == ["remove web.gpuplan-new"]
    assert bench.names() == {"web": "running"}


def test_a_run_that_was_killed_while_it_handed_over_is_finished(bench: Bench) -> None:
    by_hand(bench, "web.gpuplan-old", "1")
    new = by_hand(bench, "web.gpuplan-new", "2")
    web = wish(bench, "2")
    assert bench.apply(web) == ["update container web", "remove web.gpuplan-old"]
    assert bench.engine.inspect_container("web")["Id"] == new
    assert bench.names() == {"web": "running"}
    assert bench.compare(web).changes == ()


def test_one_that_was_about_to_take_over_counts_before_another_takes_its_place(bench: Bench) -> None:
    by_hand(bench, "web.gpuplan-old", "1")
    new = by_hand(bench, "web.gpuplan-new", "2")
    with pytest.raises(Problem):
        bench.apply(wish(bench, "3", command=("sh", "-c", "exit 3")))
    assert generations(bench) == {"web": "2"}
    assert bench.engine.inspect_container("web")["Id"] == new


def test_a_run_that_was_killed_after_the_new_one_took_over(bench: Bench) -> None:
    by_hand(bench, "web.gpuplan-old", "1")
    by_hand(bench, "web", "2")
    web = wish(bench, "2")
    assert bench.apply(web) == ["remove web.gpuplan-old"]
    assert generations(bench) == {"web": "2"}
