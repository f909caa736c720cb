"""Loads a model of a repository that is not ours: as it lies there, or with what the plan file lays over its config.

A load call takes a whole config or none, so the model is loaded as it is first, and its config as the server reports it
then is what the overlay is laid on. Only an unload makes a server forget such a config.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from gpuplan.planfile.sources.remote import laid_over
from gpuplan.resources.model.server import TritonServer
from gpuplan.resources.model.wanted import Wanted
from gpuplan.triton.model_config import ConfigSyntaxError
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic, Problem


def load(triton: TritonServer, wanted: Wanted, seconds: float, meanwhile: Callable[[], None], address: Address) -> str:
    """Ask for the load, or for both of them; the server's refusal, or nothing.

    Raises:
        TimeoutError: no answer within `seconds`.
        Problem: the overlay does not fit the config that the server reports.
    """
    deadline = time.monotonic() + seconds
    if not (wanted.overlay and triton.look(wanted.model).ready(wanted.model)):
        refusal = triton.load(wanted.model, seconds, meanwhile)
        if refusal or not wanted.overlay:
            return refusal
    try:
        config = laid_over(triton.config(wanted.model), wanted.overlay, wanted.content)
    except ConfigSyntaxError as fault:
        raise Problem(_not_understood(wanted, str(fault), address)) from None
    return triton.load(wanted.model, max(1.0, deadline - time.monotonic()), meanwhile, config)


def _not_understood(wanted: Wanted, why: str, address: Address) -> Diagnostic:
    return Diagnostic(
        "A model's config is not understood",
        f"{wanted.container} reports a config of {wanted.model} that cannot be laid over: {why}.",
        "The server may be newer than this gpuplan; take config:, overrides: and versions: of the model out.",
        address=str(address),
    )
