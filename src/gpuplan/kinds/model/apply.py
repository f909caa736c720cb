"""Loads and unloads models, and believes the repository index alone: never an answer of success."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from gpuplan.kinds.ground.docker import Live
from gpuplan.kinds.model.failure import failed, had_no_effect, hung, no_server, stays
from gpuplan.kinds.model.log import Log
from gpuplan.kinds.model.read import READY, Observed, Server, read
from gpuplan.kinds.model.server import TritonServer
from gpuplan.kinds.model.wanted import Wanted, wanted_from
from gpuplan.kinds.room import Hands, Memory
from gpuplan.model.change import Step, Verb
from gpuplan.model.diagnostic import Problem
from gpuplan.model.snapshot import ProbeError

UNLOADING = 120.0
"""Seconds that requests in flight may keep a model from being unloaded."""
TELL = 5.0
"""Seconds between two words of progress."""


def apply(step: Step, hands: Hands) -> Memory:
    """Load or unload one model.

    Raises:
        Problem: the server refuses, does not answer, or its index does not show what was asked for.
        Refused: the agent could not keep the list of models that the server loads when it starts.
    """
    if step.verb is Verb.DELETE:
        _unload(step, hands, str(step.arguments["container"]), str(step.arguments["model"]))
    else:
        _load(step, hands, wanted_from(step.arguments))
    return ()


def _load(step: Step, hands: Hands, wanted: Wanted) -> None:
    container, server = _find(step, hands, wanted.container)
    if container is None or server is None:
        raise Problem(no_server(step, wanted.container, "its container does not run"))
    with _reach(hands, server, wanted.container) as triton:
        Loading(step, hands, wanted, triton, Log(hands.docker(), container.id)).run()
    _list_at_start(step, hands, wanted.container, wanted.model, wanted=True)


@dataclass
class Loading:
    """One load, from what the server has to what it should have."""

    step: Step
    hands: Hands
    wanted: Wanted
    triton: TritonServer
    log: Log
    _told: float = field(default_factory=time.monotonic)

    def run(self) -> None:
        """Load the model unless it is loaded as wanted; raises Problem with the reason where it does not come up."""
        deadline = time.monotonic() + self.wanted.load_timeout
        found = self._settled(deadline)
        if self._so(found) and self.step.arguments.get("again") is not True:
            self.hands.say(f"{self.wanted.model} is loaded already")
            return
        found, refusal = self._ask(deadline)
        if not self._so(found):
            raise Problem(failed(self.step, self.wanted, found, refusal, self.log.errors()))
        self.hands.say(f"{self.wanted.model} is READY")

    def _ask(self, deadline: float) -> tuple[Server, str]:
        left = max(1.0, deadline - time.monotonic())
        try:
            refusal = self.triton.load(self.wanted.model, left, self._progress)
        except TimeoutError:
            raise Problem(hung(self.step, self.wanted, self.log.errors())) from None
        return (self.triton.look(self.wanted.model) if refusal else self._settled(deadline)), refusal

    def _settled(self, deadline: float) -> Server:
        """The server once nothing of the model moves: a load or unload that goes on is not met with a second one."""
        while (found := self.triton.look(self.wanted.model)).moving(self.wanted.model):
            if time.monotonic() >= deadline:
                raise Problem(hung(self.step, self.wanted, self.log.errors()))
            self._say(found)
            self.triton.pause()
        return found

    def _progress(self) -> None:
        if time.monotonic() - self._told >= TELL:
            self._say(self.triton.look(self.wanted.model))

    def _say(self, found: Server) -> None:
        if time.monotonic() - self._told >= TELL:
            self._told = time.monotonic()
            state = found.state(self.wanted.model)
            self.hands.say("the load goes on" if state == READY else f"the server says {state or 'nothing yet'}")

    def _so(self, found: Server) -> bool:
        model = self.wanted.model
        return found.ready(model) == self.wanted.versions and found.contents.get(model) == self.wanted.content


def _unload(step: Step, hands: Hands, container: str, model: str) -> None:
    _list_at_start(step, hands, container, model, wanted=False)
    _, server = _find(step, hands, container)
    if server is None:
        hands.say(f"{container} does not run, so it has nothing loaded")
        return
    with _reach(hands, server, container) as triton:
        _take_out(step, hands, triton, model)


def _take_out(step: Step, hands: Hands, triton: TritonServer, model: str) -> None:
    """Unload a model and wait until it is gone: an unload goes on as long as requests are in flight."""
    if not triton.look(model).loaded(model):
        hands.say(f"{model} is not loaded")
        return
    refusal = triton.unload(model)
    deadline = time.monotonic() + UNLOADING
    while (found := triton.look(model)).loaded(model):
        if refusal or time.monotonic() >= deadline:
            raise Problem(stays(step, model, found, refusal))
        triton.pause()
    hands.say(f"{model} is unloaded")


def _find(step: Step, hands: Hands, name: str) -> tuple[Live | None, Server | None]:
    """The container and its server; two Nones where the container does not run."""
    observed = read(hands.look("docker", "triton"))
    container = _running(step, observed, hands.plan, name)
    if container is None:
        return None, None
    if isinstance(observed.servers, ProbeError):
        raise Problem(no_server(step, name, observed.servers.text))
    server = observed.servers.get(container.id)
    if not isinstance(server, Server):
        raise Problem(no_server(step, name, server.text if server else "the node did not find it"))
    return container, server


def _running(step: Step, observed: Observed, plan: str, name: str) -> Live | None:
    if isinstance(observed.containers, ProbeError):
        raise Problem(no_server(step, name, observed.containers.text))
    container = observed.container(plan, name)
    return container if container is not None and container.busy else None


@contextmanager
def _reach(hands: Hands, server: Server, container: str) -> Iterator[TritonServer]:
    host, _, port = server.address.rpartition(":")
    with hands.forward(int(port), host.strip("[]")) as address, TritonServer(address, container) as triton:
        yield triton


def _list_at_start(step: Step, hands: Hands, container: str, model: str, *, wanted: bool) -> None:
    """Keep the list of models that the server loads when it starts, and look whether it is kept."""
    hands.agent("repository.load_at_start", plan=hands.plan, container=container, model=model, wanted=wanted)
    listed = read(hands.look("repository")).at_start
    if isinstance(listed, ProbeError) or (model in listed.get(container, ())) is not wanted:
        raise Problem(had_no_effect(step, container))
