"""Checks of the response cache: whether the server has one, and whether the model may use it."""

from __future__ import annotations

from gpuplan.triton.lint.check import Check, Effect, Family, Findings
from gpuplan.triton.lint.repository import Repository, Subject, objects
from gpuplan.types.diagnostic import Severity

OFF = Check("response-cache-off", "The server has no response cache", Effect.IGNORED, Severity.WARNING)
DECOUPLED = Check("response-cache-decoupled", "The response cache does not take a decoupled model", Effect.REFUSED)
SEQUENCES = Check("response-cache-sequence", "The response cache does not take sequences", Effect.REFUSED)


def _cache(subject: Subject, repository: Repository) -> Findings:
    if objects(subject.config, "response_cache").get("enable") is not True:
        return
    server, where = repository.server, subject.where("response_cache")
    if objects(subject.config, "model_transaction_policy").get("decoupled") is True:
        detail = f"{subject.name} is decoupled, and has its responses cached."
        yield DECOUPLED.at(where, detail, "Take response_cache out, or decoupled.")
    if "sequence_batching" in subject.config:
        detail = f"{subject.name} serves sequences, and has its responses cached."
        yield SEQUENCES.at(where, detail, "Take response_cache out.")
    if server.flags is not None and not (server.flag("cache-config") or server.flag("response-cache-byte-size")):
        yield OFF.at(
            where,
            f"{subject.name} has its responses cached, and {server.name} runs without a cache: nothing is ever found.",
            "Give the server a cache (cache: 64MiB under triton:), or take response_cache out.",
        )


FAMILY = Family((OFF, DECOUPLED, SEQUENCES), (_cache,))
