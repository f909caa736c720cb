"""The command line of tritonserver: the plan file's flags checked against the image's release, and gpuplan's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpuplan.planfile.schema import TritonSection
from gpuplan.planfile.sources.repositories import canonical, is_remote, on_node
from gpuplan.resources.container.fields.mounts import REPOSITORY
from gpuplan.resources.container.replacement import SettingIssue
from gpuplan.resources.container.spec import THEIRS, TRITON_PORT
from gpuplan.triton.releases import TritonRelease, cache_flag, flag_error, flags, rejects
from gpuplan.triton.server_flags import conflicts, misshapen

RESERVED_FLAGS: Mapping[str, str] = {
    "help": "it only prints the usage",
    "model-repository": "triton.repository states where the models are",
    "model-store": "triton.repository states where the models are",
    "model-control-mode": "model servers always run in explicit mode",
    "repository-poll-secs": "model servers always run in explicit mode",
    "load-model": "the server loads the models of the plan file when it starts",
    "exit-on-error": "a broken model must not prevent the server from starting",
    "allow-http": "gpuplan loads models over HTTP",
    "http-port": "publish another host port with ports:",
    "grpc-port": "publish another host port with ports:",
    "metrics-port": "publish another host port with ports:",
    "http-address": "publish on one host address with ports:",
    "http-restricted-api": "gpuplan needs the model repository API",
}
"""Flags that gpuplan sets or relies on, and why the plan file may not."""
COMPLETION = ("disable-auto-complete-config", "strict-model-config")
"""The flags that turn auto-completion off, of later and of earlier releases."""
READINESS = "strict-readiness"
"""Off unless the plan file states it: otherwise one model that fails to load makes the whole server not ready until
that model loads or the server restarts. At a start nothing is answered before the models are loaded in any case."""
CACHE = ("cache-config", "response-cache-byte-size")
START_SCRIPT = 'exec tritonserver "$@" $(cat /gpuplan/load-models)'
"""Reads the models to load from the repository at each start, so that the set changes without a new container."""

Value = str | int | float | bool
StatedFlags = Mapping[str, Value | tuple[Value, ...]]
"""Flags as the plan file states them; a repeatable one may have several values."""


@dataclass(frozen=True)
class FlagIssue:
    """A problem with one flag of the plan file."""

    flag: str
    why: str
    fix: str
    fatal: bool


def command_line(
    stated: StatedFlags,
    cache: int | None,
    release: TritonRelease | None,
    repository: str = "local",
    completion: bool | None = None,
) -> tuple[str, ...]:
    """The container's command for a model server; flags in the order in which the plan file states them.

    `completion` says whether the server fills in what configs leave out; None leaves it to the flags and the release.
    """
    rendered = [
        f"--model-repository={repository_path(repository)}",
        "--model-control-mode=explicit",
        "--exit-on-error=false",
    ]
    if not any(_bare(name) == READINESS for name in stated):
        rendered.append(f"--{READINESS}=false")
    if completion is not None:
        rendered.extend(completion_flag(completion, release))
    if cache is not None:
        rendered.append(cache_flag(cache, release))
    for name, value in stated.items():
        for item in _values(value):
            rendered.extend(_rendered(_bare(name), item))
    return ("sh", "-c", START_SCRIPT, "tritonserver", *rendered)


def completion_flag(on: bool, release: TritonRelease | None) -> tuple[str, ...]:
    """The flag that turns auto-completion on or off for a server of the release; none if that is its default.

    Up to 22.06 configs had to be complete unless --strict-model-config=false (server, release notes of 22.07).
    """
    late, early = COMPLETION
    if flag_error(late, release) is None:
        return () if on else (f"--{late}",)
    return (f"--{early}=false",) if on else ()


def decides_completion(stated: StatedFlags) -> str:
    """The flag of the plan file that turns auto-completion on or off; empty if there is none."""
    return next((name for name in stated if _bare(name) in COMPLETION), "")


def repository_path(repository: str) -> str:
    """Where the server finds its models: an address, or a directory inside the container."""
    if not is_remote(repository):
        return f"{REPOSITORY}/models"
    return THEIRS if on_node(repository) else canonical(repository)


def repository_mounts(repository: str) -> Mapping[str, str]:
    """The mount of a node's own repository: path in the container → source and options."""
    return {THEIRS: f"{canonical(repository)}:ro"} if on_node(repository) else {}


def check_flags(stated: StatedFlags, cache: int | None, release: TritonRelease | None) -> Iterator[FlagIssue]:
    """The problems with the flags of one model server."""
    for name, value in stated.items():
        flag = _bare(name)
        if flag in RESERVED_FLAGS:
            yield FlagIssue(name, f"gpuplan sets it: {RESERVED_FLAGS[flag]}", "Remove the flag.", fatal=True)
        elif cache is not None and flag in CACHE:
            yield FlagIssue(name, "the response cache is already sized by cache:", "Keep one of the two.", fatal=True)
        elif error := flag_error(flag, release):
            fix = f"Use {error.fix}." if error.fix else "Remove the flag, or use another image."
            yield FlagIssue(name, error.why, fix, error.fatal)
        else:
            yield from _value_issues(name, _values(value))
    yield from _conflicts(stated, cache, release)


def _value_issues(name: str, values: tuple[Value, ...]) -> Iterator[FlagIssue]:
    flag = flags()[_bare(name)]
    if len(values) != 1 and not flag.repeatable:
        yield FlagIssue(name, f"it takes one value, not {len(values)}", "State one value.", fatal=True)
    for value in values:
        if wrong := rejects(flag, value) or misshapen(flag, _text(value)):
            yield FlagIssue(name, f"it {wrong}, not {value!r}", "", fatal=True)


def _conflicts(stated: StatedFlags, cache: int | None, release: TritonRelease | None) -> Iterator[FlagIssue]:
    """Flags that exclude one another; those that gpuplan sets itself are already reported."""
    own = {_bare(name): name for name in stated if _bare(name) not in RESERVED_FLAGS}
    given = {flag: tuple(_text(value) for value in _values(stated[name])) for flag, name in own.items()}
    if cache is not None and not given.keys() & set(CACHE):
        given["cache-config"] = (f"local,size={cache}",)
    for conflict in conflicts(given, release):
        yield FlagIssue(own[conflict.flag], conflict.why, conflict.fix, conflict.fatal)


def _values(value: Value | tuple[Value, ...]) -> tuple[Value, ...]:
    return value if isinstance(value, tuple) else (value,)


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _bare(name: str) -> str:
    return name.removeprefix("--")


def _rendered(flag: str, value: Value) -> Iterator[str]:
    known = flags().get(flag)
    text = _text(value)
    if known is None or known.takes != "none":
        yield f"--{flag}={text}"
    elif text.lower() in ("true", "on", "1"):
        yield f"--{flag}"


_WITHOUT_EFFECT = ("flags", "cache", "auto_complete")


def own_command_issues(triton: TritonSection, words: Sequence[str] | None) -> Iterator[SettingIssue]:
    """Problems of a model server that its own command starts; `words` are the command, None if the image states it."""
    for key in sorted(triton.model_fields_set.intersection(_WITHOUT_EFFECT)):
        detail = f"{key} has no effect: with repository: own the container's own command starts the server."
        yield SettingIssue(f"triton.{key}", "Setting without effect", detail, "State it in command: instead.")
    if words is not None and not is_managed(words):
        detail = (
            "gpuplan can load models only if the server runs with --model-control-mode=explicit and answers HTTP on "
            f"port {TRITON_PORT}. The command states something else."
        )
        fix = "Correct command:, or remove triton:."
        yield SettingIssue("command", "Cannot manage the models of this server", detail, fix)


def is_managed(words: Sequence[str]) -> bool:
    """True for the command of a server whose models gpuplan can load: explicit mode, HTTP on Triton's usual port."""
    options = [part for word in words for part in word.split()]
    modes, ports = _option_values("model-control-mode", options), _option_values("http-port", options)
    return modes[-1:] == ["explicit"] and ports[-1:] in ([], [str(TRITON_PORT)])


def _option_values(flag: str, words: Sequence[str]) -> list[str]:
    """The values of an option, given as --flag=value or --flag value."""
    following = dict(enumerate((*words[1:], "")))
    return [
        word.partition("=")[2] if "=" in word else following[number]
        for number, word in enumerate(words)
        if word.partition("=")[0] == f"--{flag}"
    ]
