"""Loads one model, unless it is served as its spec says, and unloads one."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from gpuplan.planfile.sources.repositories import laid_over
from gpuplan.resources.kind import ApplyContext
from gpuplan.resources.model.apply.failure import (
    ServerLog,
    hides_cause,
    load_timed_out,
    not_loaded,
    not_unloaded,
    still_loading,
)
from gpuplan.resources.model.apply.server import look, poll
from gpuplan.resources.model.read import READY, ModelServer
from gpuplan.resources.model.spec import ModelSpec
from gpuplan.resources.model.steps import LoadModel, UnloadModel
from gpuplan.triton.client import TritonClient
from gpuplan.triton.model_config import ConfigSyntaxError
from gpuplan.types.change import Step
from gpuplan.types.diagnostic import ConnectionLost, Diagnostic, Problem

PROGRESS_INTERVAL = 5.0
"""Seconds between two lines of progress."""
LOG_DELAY = 3.0
"""Seconds until the engine has what a server wrote to its log before it answered."""
UNLOAD_TIMEOUT = 120.0
"""Seconds for requests in flight, until whose end a model is not unloaded."""
LOADING_TIMEOUT = 30.0
"""Seconds that an unload waits for a load in progress: until it ends, a server does not unload the model."""


@dataclass
class ModelLoad:
    """The load of one model."""

    step: Step
    context: ApplyContext
    payload: LoadModel
    triton: TritonClient
    log: ServerLog
    in_progress: bool = field(default=False, init=False)
    """The load timed out and still goes on in the server."""
    _reported: float = field(default_factory=time.monotonic)

    @property
    def spec(self) -> ModelSpec:
        """The model."""
        return self.payload.spec

    def run(self) -> None:
        """Load the model unless it is served already; raises Problem with the server's reason if that fails."""
        deadline = time.monotonic() + self.spec.load_timeout
        if self._is_served(self._settle(deadline)) and not self.payload.force:
            self.context.say(f"{self.spec.model} is already loaded")
            return
        if self.payload.unload_first:
            unload_model(self.step, self.context, self.triton, UnloadModel(self.spec.container, self.spec.model))
        server, error = self._load(deadline)
        if not self._is_served(server):
            log = self._errors(server, error)
            raise Problem(not_loaded(self.step, self.spec, server, error, log, self.payload.unloaded))
        self.context.say(f"{self.spec.model} is READY")

    def look(self) -> ModelServer:
        """The server now."""
        return look(self.triton, self.spec.model)

    def _load(self, deadline: float) -> tuple[ModelServer, str]:
        """The server after the load, and its error, or nothing."""
        try:
            error = self._request(deadline)
        except TimeoutError:
            raise self._timed_out(self.look()) from None
        return (self.look() if error else self._settle(deadline)), error

    def _request(self, deadline: float) -> str:
        """The load requests. A load call replaces the whole config or nothing of it, so a model with overrides is first
        loaded as it is; the overrides are then laid over the config that the server reports.

        Raises:
            TimeoutError: no answer before the deadline.
            Problem: the overrides do not fit the config.
        """
        spec, triton = self.spec, self.triton
        if not (spec.overrides and self.look().ready(spec.model)):
            error = triton.load(spec.model, _left(deadline), self._progress)
            if error or not spec.overrides:
                return error
        try:
            config = laid_over(triton.config(spec.model), spec.overrides, spec.content)
        except ConfigSyntaxError as error:
            raise Problem(
                Diagnostic(
                    "Cannot override the model's config",
                    f"{spec.container} reports a config of {spec.model} that gpuplan cannot parse: {error}.",
                    "The server may be newer than this gpuplan. Remove config, overrides and versions of the model.",
                    address=str(self.step.address),
                )
            ) from None
        return triton.load(spec.model, _left(deadline), self._progress, config)

    def _settle(self, deadline: float) -> ModelServer:
        """The server once the model is neither loading nor unloading, so that no second request meets the first."""
        model = self.spec.model
        server = poll(
            self.look,
            lambda server: not server.changing(model),
            deadline - time.monotonic(),
            pause=self.triton.pause,
            progress=self._report,
        )
        if server.changing(model):
            raise self._timed_out(server)
        return server

    def _timed_out(self, server: ModelServer) -> Problem:
        self.in_progress = True
        return Problem(load_timed_out(self.step, self.spec, self._errors(server)))

    def _errors(self, server: ModelServer, error: str = "") -> tuple[str, ...]:
        """The server's log, waiting for it if the error hides its cause."""
        model = self.spec.model
        others = [name for name in server.index if name != model]
        wait = LOG_DELAY if hides_cause(error) else 0.0
        return poll(lambda: self.log.errors(model, others), bool, wait, pause=self.triton.pause)

    def _progress(self) -> None:
        """A server of few threads may answer nothing while it loads: that says nothing about the load."""
        if time.monotonic() - self._reported < PROGRESS_INTERVAL:
            return
        try:
            self._report(self.look())
        except ConnectionLost:
            raise
        except Problem:
            self._reported = time.monotonic()
            self.context.say("still loading; the server answers no other requests meanwhile")

    def _report(self, server: ModelServer) -> None:
        if time.monotonic() - self._reported >= PROGRESS_INTERVAL:
            self._reported = time.monotonic()
            state = server.state(self.spec.model)
            self.context.say("still loading" if state in (READY, None) else f"the model is {state}")

    def _is_served(self, server: ModelServer) -> bool:
        return self.spec.is_served(server.ready(self.spec.model), server.contents.get(self.spec.model))


def unload_model(step: Step, context: ApplyContext, triton: TritonClient, payload: UnloadModel) -> None:
    """Unload a model and wait until it is gone from the index; raises Problem if it stays."""
    model = payload.model

    def look_at_model() -> ModelServer:
        return look(triton, model)

    server = poll(look_at_model, lambda server: not server.loading(model), LOADING_TIMEOUT, pause=triton.pause)
    if server.loading(model):
        raise Problem(still_loading(step, payload.container, model))
    if not server.loaded(model):
        context.say(f"{model} is not loaded")
        return
    error = triton.unload(model, dependents=payload.with_parts)
    timeout = 0.0 if error else UNLOAD_TIMEOUT
    server = poll(look_at_model, lambda server: not server.loaded(model), timeout, pause=triton.pause)
    if server.loaded(model):
        raise Problem(not_unloaded(step, model, server, error))
    context.say(f"{model} is unloaded")


def _left(deadline: float) -> float:
    return max(1.0, deadline - time.monotonic())
