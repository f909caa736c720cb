"""`Include` of an ssh_config, which paramiko does not read: the files are put in place of the line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

DEEPEST = 16
"""As ssh_config(5) has it."""
WORD = re.compile(r"\s*(\w+)(?:\s*=\s*|\s+)(.*?)\s*$")


def expand(path: Path, beside: Path, depth: int = 0) -> list[str]:
    """The lines of a file with those of the files that it includes; relative names lie in `beside`.

    Raises:
        ValueError: includes go too deep, or one that holds Host or Match stands inside a Host block, where only the
            combination of both would decide.
    """
    if depth > DEEPEST:
        raise ValueError(f"{path} is included more than {DEEPEST} deep")
    lines: list[str] = []
    block = "Host *"
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        key, value = _words(line)
        if key in ("host", "match"):
            block = line.strip()
        if key != "include":
            lines.append(line)
            continue
        for included in _files(value, beside):
            inside = expand(included, beside, depth + 1)
            if block != "Host *" and any(_words(each)[0] in ("host", "match") for each in inside):
                raise ValueError(f"{path}: Include of {included}, which has Host blocks, inside {block!r}")
            lines += [*inside, block]
    return lines


def _words(line: str) -> tuple[str, str]:
    found = WORD.match(line)
    return (found.group(1).lower(), found.group(2)) if found else ("", "")


def _files(value: str, beside: Path) -> Iterator[Path]:
    """The files that an Include names, which may be patterns."""
    for word in shlex.split(value):
        pattern = beside / Path(word).expanduser()
        yield from sorted(Path(pattern.anchor).glob(str(pattern.relative_to(pattern.anchor))))
