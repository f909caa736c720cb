"""systemd units that restore a node at boot: its slices before Docker starts, containers and models after it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

MARK = "# Written by gpuplan boot-unit."
"""First line of every unit that may be overwritten."""
ENVIRONMENT = "/etc/default/gpuplan"
_WORD = re.compile(r"[A-Za-z0-9_.+@:/-]+\Z", re.ASCII)


@dataclass(frozen=True)
class BootUnit:
    """One unit. It only orders itself, and requires nothing: what it waits for may be absent, and who waits goes on."""

    name: str
    description: str
    after: Sequence[str]
    arguments: Sequence[str]
    timeout: str
    """Bounds the boot where a GPU or the engine hangs."""
    before: Sequence[str] = field(default=())

    def text(self, program: Sequence[str]) -> str:
        """The unit file; `program` is the command line of gpuplan on this node.

        It fails visibly: no dash in front of the command, and what it did stays known after it has ended.

        Raises:
            ValueError: the program is no absolute path, or a word of it would have to be quoted.
        """
        if not program or not program[0].startswith("/") or not all(_WORD.match(word) for word in program):
            raise ValueError("the program of a unit must be an absolute path of letters, digits and ./_+@:- only")
        before = [f"Before={' '.join(self.before)}"] if self.before else []
        return "\n".join(
            [
                MARK,
                "[Unit]",
                f"Description={self.description}",
                f"After={' '.join(self.after)}",
                *before,
                "",
                "[Service]",
                "Type=oneshot",
                "RemainAfterExit=yes",
                f"EnvironmentFile=-{ENVIRONMENT}",
                f"ExecStart={' '.join([*program, *self.arguments])}",
                f"TimeoutStartSec={self.timeout}",
                "",
                "[Install]",
                "WantedBy=multi-user.target",
                "",
            ]
        )


UNITS: Mapping[str, BootUnit] = {
    "gpus": BootUnit(
        "gpuplan-gpus.service",
        "Restore the MIG slices that gpuplan made",
        after=("systemd-modules-load.service", "nvidia-persistenced.service", "nvidia-fabricmanager.service"),
        before=("docker.service",),
        arguments=("apply", "--local", "--only", "gpu", "--auto-approve"),
        timeout="5min",
    ),
    "containers": BootUnit(
        "gpuplan-containers.service",
        "Restore the containers and models that gpuplan made",
        after=("gpuplan-gpus.service", "docker.service"),
        arguments=("apply", "--local", "--auto-approve"),
        timeout="30min",
    ),
}
"""The units by what they restore."""


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z", re.ASCII)
_PLAIN = re.compile(r"[A-Za-z0-9_.,:@%/+=-]*\Z", re.ASCII)


def with_variables(text: str, changes: Mapping[str, str]) -> str:
    """The file's text with these values, by the rules of systemd.exec(5), EnvironmentFile=.

    A variable that is there keeps its line, where it is stated twice the last one, since that one holds; a new one
    comes at the end. Comments, blank lines, other variables and whatever cannot be read stay untouched.

    Raises:
        ValueError: something is no name of a variable, or a value holds what no such file can.
    """
    for name, value in changes.items():
        if not _NAME.match(name):
            raise ValueError(f"{name!r} is not the name of an environment variable")
        if not value.isprintable():
            raise ValueError(f"the value of {name} holds a character that an environment file cannot")
    rows = _rows(text)
    for name, value in changes.items():
        row = f"{name}={_quoted(value)}\n"
        places = [number for number, each in enumerate(rows) if _named(each) == name]
        if places:
            rows[places[-1]] = row
            continue
        if rows and not rows[-1].endswith("\n"):
            rows[-1] += "\n"
        rows.append(row)
    return "".join(rows)


def _rows(text: str) -> list[str]:
    """Lines with those that a backslash at the end joins to them; comments are never joined."""
    rows: list[str] = []
    goes_on = False
    for line in text.splitlines(keepends=True):
        if goes_on:
            rows[-1] += line
        else:
            rows.append(line)
        comment = rows[-1].lstrip().startswith(("#", ";"))
        goes_on = not comment and line.rstrip("\r\n").endswith("\\")
    return rows


def _named(row: str) -> str:
    if row.lstrip().startswith(("#", ";")):
        return ""
    return row.partition("=")[0].strip() if "=" in row else ""


def _quoted(value: str) -> str:
    if _PLAIN.match(value):
        return value
    escaped = re.sub(r'(["\\$`])', r"\\\1", value)
    return f'"{escaped}"'
