"""The command line of `tritonserver`, as its parser reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gpuplan.triton.releases import Release, flags, object_to, rejects

_TRUE = ("true", "on", "1")


class BadOption(Exception):
    """The server does not start: what it prints before it exits with 1."""


@dataclass(frozen=True)
class Options:
    """What the command line says; later values win, repeatable ones add up."""

    values: dict[str, list[str]] = field(default_factory=dict)

    def text(self, name: str, default: str = "") -> str:
        """The last value of a flag."""
        return self.values.get(name, [default])[-1]

    def flag(self, name: str, default: bool) -> bool:
        """A flag that is on or off; one without a value is on."""
        return self.text(name, "true" if default else "false").lower() in _TRUE

    @property
    def repositories(self) -> list[str]:
        """Directories of models, inside the container."""
        return self.values.get("model-repository", []) + self.values.get("model-store", [])

    @property
    def load(self) -> list[str]:
        """Models to load at the start."""
        return self.values.get("load-model", [])


def parse_options(words: Sequence[str], release: Release | None) -> Options:
    """Read the command line.

    Raises:
        BadOption: in the server's own words.
    """
    values: dict[str, list[str]] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            raise BadOption(f"Unrecognized option. Use '--help'. Got {word}")
        name, equals, value = word[2:].partition("=")
        objection = object_to(name, release)
        if objection and objection.fatal:
            raise BadOption(f"tritonserver: unrecognized option '{word}'")
        takes = flags()[name].takes
        if not equals and takes != "none":
            if not rest:
                raise BadOption(f"tritonserver: option '{word}' requires an argument")
            value = rest.pop(0)
        if value and rejects(flags()[name], value):
            raise BadOption(f"Invalid option value. Got {value}")
        values.setdefault(name, []).append(value or "true")
    options = Options(values)
    mode = options.text("model-control-mode", "none")
    if mode not in ("none", "poll", "explicit"):
        raise BadOption(f"invalid argument for --model-control-mode: {mode}")
    if options.load and mode != "explicit":
        raise BadOption("Error: Use of '--load-model' requires setting '--model-control-mode=explicit' as well.")
    if not options.repositories:
        raise BadOption("Error: --model-repository must be specified")
    return options
