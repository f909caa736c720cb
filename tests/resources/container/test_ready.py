"""When a container counts as ready, and how early it is told that it will not be: on a real engine."""

from __future__ import annotations

import time
from typing import Any

import pytest

from gpuplan.resources.container.fields.process import Healthcheck
from gpuplan.resources.container.spec import ContainerSpec, Readiness
from gpuplan.types.diagnostic import Problem
from tests.resources.container.bench import Bench

pytestmark = pytest.mark.lab
SERVES = ("httpd", "-f", "-p", "8080", "-h", "/etc")


def spec(bench: Bench, **stated: Any) -> ContainerSpec:
    return ContainerSpec(**{"image": bench.image, "command": SERVES, "stop_timeout": 1, **stated})


def refused(bench: Bench, **stated: Any) -> tuple[str, float]:
    """What is told of a container that is not ready, and after how many seconds."""
    began = time.monotonic()
    with pytest.raises(Problem) as raised:
        bench.apply(bench.want("web", spec(bench, **stated)))
    told = raised.value.diagnostics[0]
    return f"{told.summary}: {told.detail}", time.monotonic() - began


def check(*test: str) -> Healthcheck:
    return Healthcheck(test=("CMD", *test), interval=0.2, timeout=5.0, retries=1)


@pytest.mark.parametrize("stated", [True, False])
def test_healthy(real: Bench, stated: bool) -> None:
    """Its own health check tells, also where the plan file does not say that it should."""
    web = real.want("web", spec(real, healthcheck=check("true"), ready=Readiness(20.0, healthcheck=stated)))
    real.apply(web)
    assert real.engine.inspect_container("web")["State"]["Health"]["Status"] == "healthy"


def test_unhealthy_is_told_with_what_it_said(real: Bench) -> None:
    unwell = check("sh", "-c", "echo no cache; exit 1")
    told, _ = refused(real, healthcheck=unwell, ready=Readiness(4.0, healthcheck=True, stated=True))
    assert "its health check reports unhealthy (no cache)" in told


def test_a_check_that_has_found_nothing_yet_is_waited_for_longer_than_the_rest(real: Bench) -> None:
    slow = Healthcheck(test=("CMD", "true"), interval=3.0)
    real.apply(real.want("web", spec(real, healthcheck=slow, ready=Readiness(1.0))))
    assert real.engine.inspect_container("web")["State"]["Health"]["Status"] == "healthy"


def test_no_health_check_at_all_is_told_at_once(real: Bench) -> None:
    told, seconds = refused(real, ready=Readiness(60.0, healthcheck=True))
    assert "has no health check" in told
    assert seconds < 30


def test_one_that_does_not_boot_is_told_long_before_it_had_to_be_ready(real: Bench) -> None:
    told, seconds = refused(real, command=("sleep", "500"), ready=Readiness(300.0, http="8080/hostname", boot=1.0))
    assert told.startswith("Container did not come up: web was not up within 1 s (ready.boot): port 8080 does not")
    assert seconds < 60


def test_one_that_booted_has_the_time_to_get_ready(real: Bench) -> None:
    told, _ = refused(real, ready=Readiness(3.0, http="8080/not-there", boot=1.0))
    assert told.startswith("Container is not ready: web was not ready within 3 s: /not-there answers 404.")


def test_a_restart_loop_is_told_long_before_it_had_to_be_ready(real: Bench) -> None:
    told, seconds = refused(
        real, command=("sh", "-c", "echo broken; exit 4"), restart="always", ready=Readiness(300.0, tcp=8080)
    )
    assert "web ended" in told
    assert "exit code 0" not in told
    assert "and was restarted 3 times" in told
    assert "broken" in told
    assert seconds < 60


def test_a_probe_that_hangs_does_not_outlast_the_deadline(real: Bench) -> None:
    told, seconds = refused(real, ready=Readiness(2.0, exec=("sleep", "100")))
    assert "the readiness command does not end" in told
    assert seconds < 60
