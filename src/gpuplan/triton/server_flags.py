"""The command line of `tritonserver` as a whole: values of the wrong form, and flags that do not go together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpuplan.triton.releases import Flag, TritonRelease, flag_error, flags, rejects

STAR = "22.05"
"""The first release that loads everything at ``--load-model=*`` (triton-inference-server/core, pull request 62)."""
STRICT_LOAD = "24.06"
"""The first release that refuses --load-model outside explicit mode (server, pull request 7259)."""

_FORMS: Mapping[str, str] = {
    "<name>:<count>[:<device>]": r"[^:]+:\d+(:\d+)?",
    "<integer>:<integer>": r"\d+:\d+",
    "<integer>-<integer>": r"\d+-\d+",
    "<device_id>:<fraction>": r"\d+:(0(\.\d+)?|1(\.0+)?|\.\d+)",
    "<string>=<string>": r"[^=]+=.*",
    "<string>,<string>=<string>": r"[^,=]+,[^=]+=.*",
    "<string>:<string>=<string>": r"[^:=]+:[^=]+=.*",
}
"""The shapes of values (src/command_line_parser.cc)."""
_LOOSE = {
    "trace-config": r"([^,=]+,)?[^,=]+=.*",
    "backend-config": r"([^,=]+,)?[^,=]+=.*",
    "host-policy": r"[^,]+,[^=]+=.*",
}
"""Flags whose values take another shape as well."""


@dataclass(frozen=True)
class FlagValueError:
    """What is wrong with one flag; not fatal = the server starts, and does not do what the flag says."""

    flag: str
    why: str
    fix: str
    fatal: bool


def faults(stated: Mapping[str, Sequence[str]], release: TritonRelease | None) -> Iterator[FlagValueError]:
    """Everything that is wrong with a command line: flags without dashes → the values given for each."""
    for name, values in stated.items():
        if objection := flag_error(name, release):
            yield FlagValueError(name, objection.why, f"Use {objection.fix}." if objection.fix else "", objection.fatal)
        if name not in flags():
            continue
        flag = flags()[name]
        for value in values:
            if wrong := rejects(flag, value) or misshapen(flag, value):
                yield FlagValueError(name, f"it {wrong}, not {value!r}", "", fatal=True)
        if len(values) > 1 and not flag.repeatable:
            yield FlagValueError(
                name, f"it is given {len(values)} times, and the last one counts", "Keep one.", fatal=False
            )
    yield from conflicts(stated, release)


def misshapen(flag: Flag, value: str) -> str:
    """Why a value has not the shape that its flag takes, or an empty text."""
    if flag.values and value.lower() not in {each.lower() for each in flag.values}:
        return f"takes one of {', '.join(flag.values)}"
    pattern = _LOOSE.get(flag.name) or _FORMS.get(flag.form)
    if pattern is not None and not re.fullmatch(pattern, value):
        return f"takes {flag.form}"
    return _misshapen_cache(value) if flag.name == "cache-config" else ""


def _misshapen_cache(value: str) -> str:
    name, _, setting = value.partition(",")
    key, _, size = setting.partition("=")
    if name == "local" and key.strip() == "size" and not (size.isdecimal() and int(size)):
        return "takes a size in bytes above 0"
    return ""


def conflicts(stated: Mapping[str, Sequence[str]], release: TritonRelease | None) -> Iterator[FlagValueError]:
    """Flags that refuse each other, or without which another one has no effect."""
    yield from _caches(stated)
    yield from _modes(stated, release)
    if "strict-model-config" in stated and "disable-auto-complete-config" in stated:
        why = "--disable-auto-complete-config says the same, and the later one of the two counts"
        yield FlagValueError("strict-model-config", why, "Remove it.", fatal=False)
    for name in stated:
        needs = flags()[name].needs if name in flags() else ""
        wanted, _, value = needs.partition("=")
        if wanted and not (stated.get(wanted) if not value else value in stated.get(wanted, ())):
            yield FlagValueError(
                name, f"without --{needs} it has no effect", f"Add --{needs}, or remove it.", fatal=False
            )
    if _is_off(stated, "allow-metrics"):
        for name in ("metrics-config", "metrics-interval-ms", "metrics-address", "metrics-port", "allow-gpu-metrics"):
            if name in stated:
                yield FlagValueError(name, "--allow-metrics is off, so it has no effect", "Remove one.", fatal=False)


def _caches(stated: Mapping[str, Sequence[str]]) -> Iterator[FlagValueError]:
    if "cache-config" in stated and "response-cache-byte-size" in stated:
        why = "--cache-config is given as well, and the server does not start with both"
        yield FlagValueError("response-cache-byte-size", why, "Keep --cache-config.", fatal=True)


def _modes(stated: Mapping[str, Sequence[str]], release: TritonRelease | None) -> Iterator[FlagValueError]:
    loads, mode = stated.get("load-model", ()), (stated.get("model-control-mode") or ["none"])[-1]
    explicit = "Add --model-control-mode=explicit."
    if "poll" in stated.get("model-control-mode", ()):
        why = "poll mode reads directories while they change, and the load API is refused"
        yield FlagValueError("model-control-mode", why, "Use explicit.", fatal=False)
    if loads and mode != "explicit":
        old = release is not None and release.name < STRICT_LOAD
        why = "it is for explicit mode alone" + (", and this release loads everything instead" if old else "")
        yield FlagValueError("load-model", why, explicit, fatal=not old)
    if "*" in loads and release is not None and release.name < STAR:
        why = f"* means all models from {STAR} on, and the image is {release.name}: nothing is loaded"
        yield FlagValueError("load-model", why, "Name each model.", fatal=True)
    if "*" in loads and len(loads) > 1:
        names = ", ".join(name for name in loads if name != "*")
        yield FlagValueError(
            "load-model", f"* must be the only one, and {names} is given as well", "Keep one.", fatal=True
        )


def _is_off(stated: Mapping[str, Sequence[str]], name: str) -> bool:
    return (stated.get(name) or ["true"])[-1].lower() in ("false", "off", "0")
