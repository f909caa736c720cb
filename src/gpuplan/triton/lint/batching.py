"""Checks of batching: sizes, priorities and what happens to requests in the queue."""

from __future__ import annotations

from collections.abc import Iterator

from gpuplan.triton.lint.check import Check, Effect, Family, Findings
from gpuplan.triton.lint.repository import Repository, Subject, number, objects, plain
from gpuplan.types.diagnostic import Severity
from gpuplan.types.value import JsonObject

SIZE = Check("batch-size", "A batch size is not valid", Effect.REFUSED)
PREFERRED = Check("preferred-batch-size", "A preferred batch size is not valid", Effect.REFUSED)
LEVELS = Check("priority-levels", "Priority levels do not fit", Effect.REFUSED)
UNUSED = Check("priority-unused", "Priorities without levels", Effect.IGNORED, Severity.WARNING)
ORDER = Check("preserve-ordering", "Order cannot be kept", Effect.REFUSED)
OFF = Check("batching-off", "Batching without a batch size", Effect.IGNORED, Severity.WARNING)
FIELD = "dynamic_batching"


def _size(subject: Subject, _: Repository) -> Findings:
    size = number(subject.config.get("max_batch_size"))
    if size < 0:
        where = subject.where("max_batch_size")
        detail = f"max_batch_size of {subject.name} is {size}."
        yield SIZE.at(where, detail, "Write 0 for a model that does not batch, or the largest batch that it takes.")


def _preferred(subject: Subject, _: Repository) -> Findings:
    largest = number(subject.config.get("max_batch_size"))
    sequences = objects(subject.config, "sequence_batching")
    stated = (
        ((FIELD,), objects(subject.config, FIELD)),
        (("sequence_batching", "oldest"), objects(sequences, "oldest")),
    )
    for path, batching in stated:
        for index, size in enumerate(plain(batching, "preferred_batch_size")):
            if 0 < number(size) <= largest:
                continue
            yield PREFERRED.at(
                subject.where(*path, "preferred_batch_size", index),
                f"{subject.name} prefers batches of {size}, and its batches have 1 to {largest} requests."
                if largest > 0
                else f"{subject.name} prefers batches of {size}, and has no max_batch_size.",
                "Keep preferred sizes between 1 and max_batch_size.",
            )


def _off(subject: Subject, _: Repository) -> Findings:
    if FIELD in subject.config and not number(subject.config.get("max_batch_size")):
        yield OFF.at(
            subject.where(FIELD),
            f"{subject.name} has dynamic_batching and no max_batch_size; each request is a batch of its own.",
            "State max_batch_size, or take dynamic_batching out.",
        )


def _priorities(subject: Subject, _: Repository) -> Findings:
    batching = objects(subject.config, FIELD)
    levels = number(batching.get("priority_levels"))
    default = number(batching.get("default_priority_level"))
    policies = objects(batching, "priority_queue_policy")
    if not levels:
        for name in ("default_priority_level", "priority_queue_policy"):
            if batching.get(name):
                detail = f"{subject.name} states {name} and no priority_levels: all requests are alike."
                yield UNUSED.at(subject.where(FIELD, name), detail, "State priority_levels.")
        return
    if not 1 <= default <= levels:
        yield LEVELS.at(
            subject.where(FIELD, "default_priority_level"),
            f"default_priority_level is {default}, and with priority_levels {levels} must be in range [1, {levels}].",
            "State the level of requests that name none; 1 is the highest.",
        )
    for key in policies:
        if not 1 <= int(key) <= levels:
            yield LEVELS.at(
                subject.where(FIELD, "priority_queue_policy", key),
                f"priority_queue_policy has the level {key}, and must be in range [1, {levels}].",
                "Correct the key, or raise priority_levels.",
            )


def _ordering(subject: Subject, _: Repository) -> Findings:
    batching = objects(subject.config, FIELD)
    if not batching.get("preserve_ordering"):
        return
    where = subject.where(FIELD, "preserve_ordering")
    if number(batching.get("priority_levels")) > 1:
        detail = f"{subject.name} keeps the order of requests, and has more than one priority level."
        yield ORDER.at(where, detail, "Take one of the two out.")
    for path, policy in _policies(batching):
        if policy.get("timeout_action") == "DELAY" and number(policy.get("default_timeout_microseconds")):
            detail = f"{subject.name} keeps the order of requests, and delays those that time out."
            yield ORDER.at(subject.where(FIELD, *path), detail, "Let timeout_action be REJECT, or give up the order.")


def _policies(batching: JsonObject) -> Iterator[tuple[tuple[str, ...], JsonObject]]:
    yield ("default_queue_policy",), objects(batching, "default_queue_policy")
    by_level = objects(batching, "priority_queue_policy")
    for key in by_level:
        yield ("priority_queue_policy", key), objects(by_level, key)


FAMILY = Family((SIZE, PREFERRED, LEVELS, UNUSED, ORDER, OFF), (_size, _preferred, _off, _priorities, _ordering))
