"""One unload, which is over when the index says so: it goes on as long as requests are in flight."""

from __future__ import annotations

import time

from gpuplan.resources.kind import ApplyContext
from gpuplan.resources.model.failure import goes_on, stays
from gpuplan.resources.model.read import Server
from gpuplan.resources.model.server import TritonServer
from gpuplan.types.change import Step
from gpuplan.types.diagnostic import Problem

UNLOADING = 120.0
"""Seconds that requests in flight may keep a model from being unloaded."""
LOADING = 30.0
"""Seconds that a load that goes on is waited for; until it ends, a server answers no unload of the model."""


def take_out(step: Step, context: ApplyContext, triton: TritonServer, model: str) -> None:
    """Unload a model and wait until it is gone; raises Problem where it stays."""
    if not _loaded(step, triton, model).loaded(model):
        context.say(f"{model} is not loaded")
        return
    refusal = triton.unload(model, dependents=step.arguments.get("dependents") is True)
    deadline = time.monotonic() + UNLOADING
    while (found := triton.look(model)).loaded(model):
        if refusal or time.monotonic() >= deadline:
            raise Problem(stays(step, model, found, refusal))
        triton.pause()
    context.say(f"{model} is unloaded")


def _loaded(step: Step, triton: TritonServer, model: str) -> Server:
    """The server once no load of the model goes on; raises Problem where one does not end."""
    deadline = time.monotonic() + LOADING
    while (found := triton.look(model)).loading(model):
        if time.monotonic() >= deadline:
            raise Problem(goes_on(step, model))
        triton.pause()
    return found
