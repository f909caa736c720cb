"""What a run that was cut off left, on the simulation and on a real engine, and what the next one makes of it."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.resources.container.apply import lifecycle, start_first
from gpuplan.resources.container.kind import CONTAINER
from gpuplan.resources.container.spec import ContainerSpec, Readiness
from gpuplan.types.diagnostic import Diagnostic, Problem
from gpuplan.types.resource import Desired
from tests.resources.container.bench import Bench

STAYS = ("sleep", "500")
NEVER = Readiness(0.5, exec=("false",))


def spec(bench: Bench, generation: str, **stated: Any) -> ContainerSpec:
    own = {"image": bench.image, "command": STAYS, "stop_timeout": 1, "drain": 0.0}
    return ContainerSpec(**{**own, "labels": {"generation": generation}, **stated})


def wish(bench: Bench, generation: str, **stated: Any) -> Desired:
    return bench.want("web", spec(bench, generation, **stated))


def running(bench: Bench) -> dict[str, str]:
    """Name → generation of each container that runs."""
    return {each["Names"][0].strip("/"): each["Labels"].get("generation", "") for each in bench.engine.containers()}


def test_the_one_before_stays_until_the_new_one_has_proven_itself(bench: Bench) -> None:
    """Killed while it waited: the new one runs, and nobody knows yet whether it serves."""
    bench.make_by_hand("web.gpuplan-old", "web", spec(bench, "1"), start=False)
    bench.make_by_hand("web", "web", spec(bench, "2"))
    with pytest.raises(Problem) as raised:
        bench.apply(wish(bench, "2", ready=NEVER))
    assert [each.summary for each in raised.value.diagnostics] == [
        "Container is not ready",
        "Kept the failed container",
        "Rolled back: the previous container was started again",
    ]
    assert running(bench) == {"web": "1"}


def test_all_that_runs_is_stopped_before_what_it_rests_on_goes(bench: Bench) -> None:
    """Two hold the GPU; as long as either runs, no slice can be made anew."""
    bench.make_by_hand("web", "web", spec(bench, "1"))
    bench.make_by_hand("web.gpuplan-new", "web", spec(bench, "2"))
    (change,) = bench.compare(wish(bench, "3")).changes
    stop = change.steps[0]
    assert stop.title == "stop container web"
    CONTAINER.apply(stop, bench.apply_context)
    assert running(bench) == {}


def test_one_that_took_over_is_not_given_up_because_the_old_one_is_down(bench: Bench, monkeypatch: Any) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("unforeseen")

    bench.make_by_hand("web.gpuplan-old", "web", spec(bench, "1"), start=False)
    bench.make_by_hand("web.gpuplan-new", "web", spec(bench, "2"))
    monkeypatch.setattr(start_first, "create", fails)
    with pytest.raises(RuntimeError, match="unforeseen"):
        bench.apply(wish(bench, "3", start_first=True))
    assert running(bench) == {"web": "2"}


def test_one_that_the_engine_brought_back_gives_its_port_up(bench: Bench) -> None:
    """A restart of the engine starts what its policy names, also what a replacement had stopped."""
    ports = {"80/tcp": ("18080",)}
    bench.make_by_hand("web", "web", spec(bench, "2", ports=ports), start=False)
    bench.make_by_hand("web.gpuplan-old", "web", spec(bench, "1", ports=ports))
    newer = wish(bench, "2", ports=ports)
    bench.apply(newer)
    assert running(bench) == {"web": "2"}
    assert bench.compare(newer).changes == ()


def test_the_one_before_comes_back_whatever_the_engine_says_of_the_new_one(bench: Bench, monkeypatch: Any) -> None:
    def refuses(*_: object) -> None:
        raise Problem(Diagnostic("The Docker engine refused", "cannot update it"))

    bench.apply(wish(bench, "1"))
    monkeypatch.setattr(lifecycle, "post_update", refuses)
    with pytest.raises(Problem):
        bench.apply(wish(bench, "2", ready=NEVER))
    assert running(bench) == {"web": "1"}
