"""How long a container may take to get ready: what is stated, or as long as its health check may need to say."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.resources.container.apply.engine import EngineContext
from gpuplan.resources.container.apply.readiness import ReadinessWait, readiness_timeout
from gpuplan.resources.container.spec import ContainerSpec, Readiness
from gpuplan.types.address import Address
from tests.resources.container.test_spec import one

SLOW = {"Test": ["CMD", "x"], "Interval": 120 * 10**9, "Timeout": 10 * 10**9, "StartPeriod": 30 * 10**9, "Retries": 2}


def limit(status: str, check: dict[str, Any], ready: Readiness | None = None, *, triton: bool = False) -> float:
    spec = ContainerSpec(image="app:1", ready=ready or Readiness(), triton=triton)
    context: Any = None
    raw: Any = {"State": {"Status": "running", "Health": {"Status": status}}, "Config": {"Healthcheck": check}}
    engine = EngineContext(address=Address("n", "container", "web"), apply=context)
    return readiness_timeout(ReadinessWait("id", engine, spec, 0.0), raw)


def test_a_check_that_has_found_nothing_yet_has_its_own_time() -> None:
    assert limit("starting", SLOW) == 30 + 2 * (120 + 10)
    assert limit("starting", SLOW, Readiness(healthcheck=True)) == 290


def test_what_a_check_leaves_open_is_the_engines() -> None:
    assert limit("starting", {"Test": ["CMD", "x"], "Interval": 0, "Retries": 0}) == 3 * (30 + 30)


def test_a_quick_check_takes_nothing_away() -> None:
    assert limit("starting", {"Interval": 10**9, "Timeout": 10**9, "Retries": 1}) == 60


@pytest.mark.parametrize("status", ["unhealthy", "none", ""])
def test_one_that_has_spoken_or_is_not_there_has_no_more(status: str) -> None:
    assert limit(status, SLOW) == 60


@pytest.mark.parametrize("ready", [Readiness(90.0, stated=True), Readiness(90.0, tcp=80), Readiness(90.0, exec=("x",))])
def test_what_is_stated_and_what_does_not_ask_the_check_stand(ready: Readiness) -> None:
    assert limit("starting", SLOW, ready) == 90


def test_a_model_server_is_judged_by_its_models() -> None:
    assert limit("starting", SLOW, triton=True) == 60


def test_whether_the_plan_file_states_it_is_known() -> None:
    assert one(ready={"timeout": "60s"}).ready.stated
    assert not one(ready={"interval": 1}).ready.stated
