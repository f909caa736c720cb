"""What the agent's answers look like; one that does not is told as such before anybody relies on it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from gpuplan.types.snapshot import Probe, ProbeError, Snapshot
from gpuplan.types.value import Json, JsonObject

Check = Callable[[object], bool]


class Misunderstood(ValueError):
    """The agent said something that is none of the answers of docs/agent.md."""


def parsed(line: bytes) -> JsonObject:
    """One line as a JSON object; raises Misunderstood."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Misunderstood(f"it is not JSON ({type(error).__name__})") from error
    return _object(found, "it")


def refusal(answer: JsonObject) -> tuple[str, str] | None:
    """Code and text of an answer that is an error; None where it is another. Raises Misunderstood."""
    return _error(answer["error"]) if "error" in answer else None


def accepted(operation: str, answer: JsonObject) -> JsonObject:
    """The `ok` of an answer, with every field that this operation's answers have; raises Misunderstood."""
    found = _object(answer.get("ok"), "ok")
    for name, check in FIELDS.get(operation, {}).items():
        if not check(found.get(name)):
            raise Misunderstood(f"its {name} is missing or of another type")
    return found


def snapshot(node: str, answer: JsonObject) -> Snapshot:
    """The snapshot that an accepted `ask` holds; raises Misunderstood."""
    probes = {name: _probe(name, probe) for name, probe in _object(answer["probes"], "probes").items()}
    return Snapshot(node, probes, str(answer["asked_at"]), _seconds(answer["seconds"], "seconds"))


def _probe(name: str, answer: object) -> Probe:
    found = _object(answer, f"the probe {name}")
    seconds = _seconds(found.get("seconds"), f"the probe {name}")
    if "error" in found:
        return Probe(error=ProbeError(*_error(found["error"])), seconds=seconds)
    if "value" not in found:
        raise Misunderstood(f"the probe {name} has neither a value nor an error")
    return Probe(value=found["value"], seconds=seconds)


def _error(found: object) -> tuple[str, str]:
    error = _object(found, "error")
    code, text = error.get("code"), error.get("text")
    if not isinstance(code, str) or not isinstance(text, str):
        raise Misunderstood("an error has no code or no text")
    return code, text


def _object(found: object, what: str) -> Mapping[str, Json]:
    if not isinstance(found, dict):
        raise Misunderstood(f"{what} is not an object")
    return found


def _seconds(found: object, what: str) -> float:
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise Misunderstood(f"{what} has no number of seconds")
    return float(found)


def _is_text(found: object) -> bool:
    return isinstance(found, str)


def _is_flag(found: object) -> bool:
    return isinstance(found, bool)


def _is_number(found: object) -> bool:
    return isinstance(found, int | float) and not isinstance(found, bool)


def _is_texts(found: object) -> bool:
    return isinstance(found, list) and all(isinstance(each, str) for each in found)


def _is_object(found: object) -> bool:
    return isinstance(found, dict)


def _is_object_or_null(found: object) -> bool:
    return found is None or isinstance(found, dict)


FIELDS: Mapping[str, Mapping[str, Check]] = {
    "ask": {"probes": _is_object, "asked_at": _is_text, "seconds": _is_number},
    "lock.take": {"taken": _is_flag, "holder": _is_object_or_null},
    "mig.set_mode": {"status": _is_number, "current": _is_flag, "pending": _is_flag},
    "mig.create": {"instance": _is_number, "mig_uuid": _is_text},
    "mig.create_compute": {"mig_uuid": _is_text},
    "blob.missing": {"missing": _is_texts, "arrived": _is_object},
    "blob.begin": {"have": _is_number, "whole": _is_flag},
    "blob.collect": {"removed": _is_number, "bytes": _is_number},
    "repository.prepare": {"path": _is_text},
    "repository.restore": {"content": _is_text},
    "repository.load_at_start": {"load_models": _is_texts},
}
"""The fields of each operation's answer (docs/agent.md); the others answer with an empty object."""
