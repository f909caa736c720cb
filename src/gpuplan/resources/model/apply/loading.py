"""One load, from what the server has to what it should have: one request, and then only the index is believed."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from gpuplan.resources.kind import ApplyContext
from gpuplan.resources.model import override
from gpuplan.resources.model.apply.unloading import take_out
from gpuplan.resources.model.failure import failed, hides_cause, hung
from gpuplan.resources.model.log import Log
from gpuplan.resources.model.read import READY, Server
from gpuplan.resources.model.server import TritonServer
from gpuplan.resources.model.wanted import Wanted
from gpuplan.types.change import Step
from gpuplan.types.diagnostic import ConnectionLost, Problem

TELL = 5.0
"""Seconds between two words of progress."""
LAG = 3.0
"""Seconds until the engine has what a server wrote to its log before it answered."""


@dataclass
class Loading:
    """A load of one model."""

    step: Step
    context: ApplyContext
    wanted: Wanted
    triton: TritonServer
    log: Log
    again: bool = False
    """Load it even where it seems to be loaded as wanted."""
    anew: bool = False
    """Unload it first."""
    under_way: bool = field(default=False, init=False)
    """A load goes on in the server, and nobody knows how it will end."""
    _told: float = field(default_factory=time.monotonic)

    def run(self) -> None:
        """Load the model unless it is loaded as wanted; raises Problem with the reason where it does not come up."""
        deadline = time.monotonic() + self.wanted.load_timeout
        found = self._settled(deadline)
        if self._so(found) and not self.again:
            self.context.say(f"{self.wanted.model} is loaded already")
            return
        if self.anew:
            take_out(self.step, self.context, self.triton, self.wanted.model)
        found, refusal = self._ask(deadline)
        if not self._so(found):
            raise Problem(failed(self.step, self.wanted, found, refusal, self._complaints(found, refusal)))
        self.context.say(f"{self.wanted.model} is READY")

    def _ask(self, deadline: float) -> tuple[Server, str]:
        left = max(1.0, deadline - time.monotonic())
        try:
            refusal = override.load(self.triton, self.wanted, left, self._progress, self.step.address)
        except TimeoutError:
            raise self._hung(self.triton.look(self.wanted.model)) from None
        return (self.triton.look(self.wanted.model) if refusal else self._settled(deadline)), refusal

    def _settled(self, deadline: float) -> Server:
        """The server once nothing of the model moves: a load or unload that goes on is not met with a second one."""
        while (found := self.triton.look(self.wanted.model)).moving(self.wanted.model):
            if time.monotonic() >= deadline:
                raise self._hung(found)
            self._say(found)
            self.triton.pause()
        return found

    def _hung(self, found: Server) -> Problem:
        self.under_way = True
        return Problem(hung(self.step, self.wanted, self._complaints(found)))

    def _complaints(self, found: Server, refusal: str = "") -> tuple[str, ...]:
        others = [name for name in found.index if name != self.wanted.model]
        until = time.monotonic() + LAG
        said = self.log.errors(self.wanted.model, others)
        while not said and hides_cause(refusal) and time.monotonic() < until:
            self.triton.pause()
            said = self.log.errors(self.wanted.model, others)
        return said

    def _progress(self) -> None:
        """A server of few threads may answer nobody while it loads: that is no news, and no end of the load."""
        if time.monotonic() - self._told < TELL:
            return
        try:
            self._say(self.triton.look(self.wanted.model))
        except ConnectionLost:
            raise
        except Problem:
            self._told = time.monotonic()
            self.context.say("the server does not answer while it loads")

    def _say(self, found: Server) -> None:
        if time.monotonic() - self._told >= TELL:
            self._told = time.monotonic()
            state = found.state(self.wanted.model)
            self.context.say("the load goes on" if state == READY else f"the server says {state or 'nothing yet'}")

    def _so(self, found: Server) -> bool:
        model = self.wanted.model
        return self.wanted.met(found.ready(model), found.contents.get(model))
