"""Checks of the response cache: whether the server has one, and whether the model may use it."""

from __future__ import annotations

import re

from gpuplan.triton.lint.check import (
    Check,
    CheckGroup,
    Effect,
    Findings,
    LintedModel,
    LintedRepository,
    TargetServer,
    listed,
    objects,
    plain,
)
from gpuplan.triton.lint.instances import instances
from gpuplan.triton.releases import python_region, release_of
from gpuplan.triton.server_flags import faults
from gpuplan.types.diagnostic import Severity

OFF = Check("response-cache-off", "The server has no response cache", Effect.IGNORED, Severity.WARNING)
DECOUPLED = Check("response-cache-decoupled", "A decoupled model cannot use the response cache", Effect.REFUSED)
SEQUENCES = Check("response-cache-sequence", "A sequence model cannot use the response cache", Effect.REFUSED)


def _cache(model: LintedModel, repository: LintedRepository) -> Findings:
    if objects(model.config, "response_cache").get("enable") is not True:
        return
    server, where = repository.server, model.where("response_cache")
    if objects(model.config, "model_transaction_policy").get("decoupled") is True:
        detail = f"{model.name} is decoupled and enables the response cache."
        yield DECOUPLED.at(where, detail, "Remove response_cache or decoupled.")
    if "sequence_batching" in model.config:
        detail = f"{model.name} serves sequences and enables the response cache."
        yield SEQUENCES.at(where, detail, "Remove response_cache.")
    if server.flags is not None and not (server.flag("cache-config") or server.flag("response-cache-byte-size")):
        yield OFF.at(
            where,
            f"{model.name} has its responses cached, and {server.name} runs without a cache, so it has no effect.",
            "Give the server a cache (cache: 64MiB under triton:), or remove response_cache.",
        )


# Checks of a model's metrics: the names of its tags, and what it wants measured.

TAG = Check("metric-tag", "A metric tag would crash the server", Effect.KILLS)
CONTROL = Check("metric-control", "Incomplete metric_control", Effect.REFUSED)
_NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9_]*)?", re.ASCII)
"""Triton puts a `_` before the name and passes it to prometheus-cpp, which takes letters, digits and `_`, and no two
`_` at the beginning; of anything else it throws, uncaught, also with --allow-metrics=false (2.51.0)."""


def _tags(model: LintedModel, _: LintedRepository) -> Findings:
    for name in objects(model.config, "metric_tags"):
        if not _NAME.fullmatch(name):
            yield TAG.at(
                model.where("metric_tags", name),
                f"{model.name} has the metric tag {name!r}: loading it would end the whole server with all its models.",
                "Use letters, digits and _, the first one a letter or digit.",
            )


def _controls(model: LintedModel, _: LintedRepository) -> Findings:
    for index, control in enumerate(listed(objects(model.config, "model_metrics"), "metric_control")):
        where = model.where("model_metrics", "metric_control", index)
        if not objects(control, "metric_identifier").get("family"):
            yield CONTROL.at(where, f"A metric_control of {model.name} names no family.", "State metric_identifier.")
        if not plain(objects(control, "histogram_options"), "buckets"):
            detail = f"A metric_control of {model.name} states no buckets."
            yield CONTROL.at(where, detail, "State histogram_options with buckets.")


# Checks of the server's own flags, where no plan file states them.

FLAG = Check("server-flag", "This Triton release does not accept a flag", Effect.STOPS)
DEPRECATED = Check("server-flag-advice", "A Triton flag has no effect", Effect.IGNORED, Severity.WARNING)


def _flags(repository: LintedRepository) -> Findings:
    server = repository.server
    release = release_of(f"tritonserver:{server.release}") if server.release else None
    for fault in () if server.flags_are_checked else faults(server.flags or {}, release):
        check = FLAG if fault.fatal else DEPRECATED
        yield check.at(server.where("triton", "flags", fault.flag), f"--{fault.flag}: {fault.why}.", fault.fix)


# Check of shared memory: whether the container has as much as its Python models take.

SHARED = Check("shared-memory", "Too little shared memory for the Python models", Effect.REFUSED)
_MIB = 1 << 20


def _shared(repository: LintedRepository) -> Findings:
    server = repository.server
    region = _region(server)
    counts = {
        name: instances(model, server) * max(1, len(model.wanted))
        for name, model in repository.models.items()
        if model.backend == "python"
    }
    total = sum(counts.values())
    if server.shm_size is None or not region or total * region <= server.shm_size:
        return
    models = ", ".join(f"{name} {count}" for name, count in counts.items())
    yield SHARED.at(
        server.where("shm_size"),
        f"{server.name} has {_shown(server.shm_size)} of shared memory, and its {total} instances of Python models "
        f"({models}) take {_shown(region)} each to begin with{_of(server)}: {_shown(total * region)}.",
        f"State shm_size: {max(1, -(-2 * total * region // _MIB))}MiB, which leaves room for what they exchange.",
    )


def _region(server: TargetServer) -> int:
    """Bytes that one instance takes at its start; 0 if unknown."""
    for value in reversed(server.flag("backend-config")):
        name, _, size = value.partition("=")
        if name.replace(" ", "") == "python,shm-default-byte-size" and size.isdecimal():
            return int(size)
    return python_region(server.release)


def _of(server: TargetServer) -> str:
    return f" in release {server.release}" if server.release else ""


def _shown(size: int) -> str:
    return f"{size // _MIB} MiB" if size % _MIB == 0 and size else f"{size} bytes"


CHECKS = CheckGroup(
    checks=(
        OFF,
        DECOUPLED,
        SEQUENCES,
        TAG,
        CONTROL,
        FLAG,
        DEPRECATED,
        SHARED,
    ),
    model_checks=(
        _cache,
        _tags,
        _controls,
    ),
    server_checks=(
        _flags,
        _shared,
    ),
)
