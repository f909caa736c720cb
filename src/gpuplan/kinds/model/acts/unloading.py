"""One unload, which is over when the index says so: it goes on as long as requests are in flight."""

from __future__ import annotations

import time

from gpuplan.kinds.model.failure import stays
from gpuplan.kinds.model.server import TritonServer
from gpuplan.kinds.room import Hands
from gpuplan.model.change import Step
from gpuplan.model.diagnostic import Problem

UNLOADING = 120.0
"""Seconds that requests in flight may keep a model from being unloaded."""


def take_out(step: Step, hands: Hands, triton: TritonServer, model: str) -> None:
    """Unload a model and wait until it is gone; raises Problem where it stays."""
    if not triton.look(model).loaded(model):
        hands.say(f"{model} is not loaded")
        return
    refusal = triton.unload(model, dependents=step.arguments.get("dependents") is True)
    deadline = time.monotonic() + UNLOADING
    while (found := triton.look(model)).loaded(model):
        if refusal or time.monotonic() >= deadline:
            raise Problem(stays(step, model, found, refusal))
        triton.pause()
    hands.say(f"{model} is unloaded")
