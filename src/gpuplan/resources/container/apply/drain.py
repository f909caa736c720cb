"""Drain: lets requests end before the container that answers them is stopped."""

from __future__ import annotations

import time

from gpuplan.resources.container.apply.faults import explain_engine_errors
from gpuplan.resources.container.apply.serving import requests
from gpuplan.resources.kind import ApplyContext
from gpuplan.resources.snapshot.docker import Live
from gpuplan.resources.snapshot.labels import TRITON
from gpuplan.resources.snapshot.raw import mapping
from gpuplan.types.address import Address

QUIET = 1.0
"""Seconds without an answered request and without one that waits, after which none is taken to be in flight."""
_LOOK = 0.25


def drain(container: Live, seconds: float, address: Address, context: ApplyContext) -> None:
    """Wait until a model server has no request in flight, at most `seconds`; nothing for any other container.

    Triton cannot be told to take no more requests before it is told to stop, and then it finishes those that it has,
    within its --exit-timeout-secs. So this waits for a quiet moment, which there is once its clients have gone.
    """
    if not seconds or container.status != "running" or TRITON not in container.labels:
        return
    with explain_engine_errors(str(address), f"looking at {container.name}"):
        raw = mapping(context.docker().inspect_container(container.id))
    began = time.monotonic()
    before, since = None, began
    while time.monotonic() - began < seconds:
        if (found := requests(context, raw)) is None:
            return
        if found[1] or found[0] != before:
            before, since = found[0], time.monotonic()
        elif time.monotonic() - since >= QUIET:
            context.say(f"{container.name} has no request in flight")
            return
        time.sleep(_LOOK)
    context.say(f"{container.name} still gets requests after {seconds:g} s; it finishes those that it has, and stops")


def drain_previous(container: Live, seconds: float, address: Address, context: ApplyContext) -> None:
    """Let the clients of a container that was handed over end what they began with it."""
    if TRITON in container.labels:
        drain(container, seconds, address, context)
    elif seconds:
        context.say(f"{container.name} has {seconds:g} s to end what it began")
        time.sleep(seconds)
