"""Own command: a model server that its container's own command starts, and what stands against managing its models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuplan.planfile.schema import Triton
from gpuplan.resources.container.replacing import SettingIssue
from gpuplan.resources.container.shape import TRITON_PORT

_WITHOUT_EFFECT = ("flags", "cache", "auto_complete")


def own_command_issues(triton: Triton, words: Sequence[str] | None) -> Iterator[SettingIssue]:
    """What is wrong with such a section; `words` are the command, None where the image has it."""
    for key in sorted(triton.model_fields_set.intersection(_WITHOUT_EFFECT)):
        detail = f"{key} is stated, and with repository: own the container's own command starts the server."
        yield SettingIssue(f"triton.{key}", "A setting without effect", detail, "Put it into command:.")
    if words is not None and not is_managed(words):
        detail = (
            "gpuplan loads models where a server runs with --model-control-mode=explicit and answers HTTP on port "
            f"{TRITON_PORT}, and the command does not say so."
        )
        fix = "Correct it, or drop triton:."
        yield SettingIssue("command", "The models of this server cannot be managed", detail, fix)


def is_managed(words: Sequence[str]) -> bool:
    """True for the command of a server that loads what it is told to, and is asked where gpuplan asks."""
    said = [part for word in words for part in word.split()]
    modes, ports = _values("model-control-mode", said), _values("http-port", said)
    return modes[-1:] == ["explicit"] and ports[-1:] in ([], [str(TRITON_PORT)])


def _values(flag: str, words: Sequence[str]) -> list[str]:
    """What an option is given, as one word or as two."""
    following = dict(enumerate((*words[1:], "")))
    return [
        word.partition("=")[2] if "=" in word else following[number]
        for number, word in enumerate(words)
        if word.partition("=")[0] == f"--{flag}"
    ]
