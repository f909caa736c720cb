"""A run that is cut off at any act on the engine: somebody serves where that is promised; the next run ends right."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from gpuplan.resources.container.spec import ContainerSpec
from gpuplan.types.resource import Desired
from tests.conftest import CutOffs
from tests.resources.container.bench import Bench


class CutOffError(BaseException):
    """Passes through everything, as a SIGKILL does: nothing is tidied up on its way."""


@contextmanager
def cut_off(bench: Bench, calls: int, *, done: bool) -> Iterator[None]:
    """After so many acts on the engine the next one is the last: never sent, or `done` and not heard of."""
    send, count = bench.engine.send, itertools.count()

    def cut(request: Any, **options: Any) -> Any:
        if request.method == "GET" or next(count) != calls:
            return send(request, **options)
        if done:
            send(request, **options)
        raise CutOffError

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bench.engine, "send", cut)
        yield


def wish(bench: Bench, generation: str, *, start_first: bool, command: tuple[str, ...] = ("sleep", "500")) -> Desired:
    labels, networks = {"generation": generation}, {"svc": ("front",)}
    own = {"stop_timeout": 1, "drain": 0.0, "networks": networks, "labels": labels}
    return bench.want("web", ContainerSpec(image=bench.image, command=command, start_first=start_first, **own))


def running(bench: Bench) -> list[str]:
    return [each["Labels"]["generation"] for each in bench.engine.containers()]


@pytest.mark.faults
@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("start_first", [False, True])
@pytest.mark.parametrize("then", ["again", "back", "on"])
def test_cut_off_at_every_act(simulated: Bench, start_first: bool, done: bool, then: str, cut_offs: CutOffs) -> None:
    """The next run wants the same, what was there before, or something newer."""
    simulated.networks("svc")
    generation = {"again": "2", "back": "1", "on": "3"}[then]
    wanted = wish(simulated, generation, start_first=start_first)
    for calls in cut_offs(0):
        simulated.clear()
        simulated.apply(wish(simulated, "1", start_first=start_first))
        try:
            with cut_off(simulated, calls, done=done):
                simulated.apply(wish(simulated, "2", start_first=start_first))
            break
        except CutOffError:
            if start_first:
                assert running(simulated), f"nobody serves after {calls} acts"
        simulated.apply(wanted)
        assert simulated.names() == {"web": "running"}, f"after {calls} acts"
        assert running(simulated) == [generation]
        assert [change.fields for change in simulated.compare(wanted).changes] == []
    assert calls >= 5


@pytest.mark.faults
@pytest.mark.parametrize("start_first", [False, True])
def test_a_replacement_that_fails_after_one_that_was_cut_off(
    simulated: Bench, start_first: bool, cut_offs: CutOffs
) -> None:
    """Whatever was cut off, something that served is there again after a run that failed."""
    simulated.networks("svc")
    for calls in cut_offs(0):
        simulated.clear()
        simulated.apply(wish(simulated, "1", start_first=start_first))
        try:
            with cut_off(simulated, calls, done=True):
                simulated.apply(wish(simulated, "2", start_first=start_first))
            break
        except CutOffError:
            pass
        with pytest.raises(Exception, match="exit code"):
            simulated.apply(wish(simulated, "3", start_first=start_first, command=("sh", "-c", "exit 3")))
        assert simulated.names()["web"] == "running", f"after {calls} acts"
        assert running(simulated) in (["1"], ["2"])
    assert calls >= 5
