"""Lines of the operator's files for diagnostics, without what looks like a secret, in the line or in what is said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import takewhile
from pathlib import Path

from gpuplan.types.diagnostic import Diagnostic, Location

LARGEST = 4 << 20
"""Bytes of a file from which a line is quoted."""
SHORTEST, ENOUGH = 3, 12
"""Characters of a word by which a secret is recognised anywhere, and of a longer one; a shorter one only in quotes."""
NOT_QUOTED = "What is wrong stands in a line with a value that looks like a secret, so nothing of it is quoted."

FURTHER = 100
"""Lines over which a secret goes on whose words are looked for, a key in armour among them."""

Line = tuple[str, int | None]
"""A line's text, and from where on it is hidden."""


def source_line(where: Location) -> str | None:
    """The line that a location names, where its file can be read, as it may be shown."""
    from gpuplan.secrets.sensitive import shown

    lines = _lines(where)
    return shown(*lines[0]) if lines else None


def without_secrets(told: Diagnostic) -> Diagnostic:
    """The same problem, told without repeating what must not be shown of the lines that it is about."""
    if told.where is None or not (lines := _lines(told.where)):
        return told
    (text, start), *_ = lines
    words = tuple(_words(lines))
    if start is not None and "\\" in text[start:]:
        words += ("'", '"', "“")  # what is quoted may be the secret in another writing
    in_fix = _repeats(told.fix, words) or _stopped_inside(told, start)
    if in_fix or _repeats(told.detail, words):
        return replace(told, detail=NOT_QUOTED, fix="" if in_fix else told.fix)
    return told


def _words(lines: Sequence[Line]) -> Iterator[str]:
    """The words of all secrets of the first line, and of the lines over which it goes on."""
    from gpuplan.secrets.sensitive import secret_words

    (text, start), *rest = lines
    yield from secret_words(text, start is not None and not text[:start].strip())
    for further, _ in takewhile(lambda line: line[1] is not None and not line[0][: line[1]].strip(), rest):
        yield from secret_words(further, whole=True)


def _repeats(told: str, words: Sequence[str]) -> bool:
    return any(
        word[:ENOUGH] in told
        if len(word) >= SHORTEST or not word.isalnum()
        else f"'{word}'" in told or f"“{word}”" in told
        for word in words
    )


def _stopped_inside(told: Diagnostic, start: int | None) -> bool:
    """The parser stopped in the middle of a secret, and may name single characters of it."""
    return start is not None and "not valid YAML" in told.summary and bool(told.where and told.where.column > start)


def _lines(where: Location) -> tuple[Line, ...]:
    """The line that a location names, and those after it; none where there is no such line to be read."""
    try:
        path = Path(where.file).absolute()
        state = path.stat()
        if not where.line or not path.is_file() or state.st_size > LARGEST:
            return ()
        return _read(path, state.st_mtime_ns, state.st_size)[where.line - 1 : where.line + FURTHER]
    except (OSError, ValueError):
        return ()


@lru_cache(maxsize=4)
def _read(path: Path, changed: int, size: int) -> tuple[Line, ...]:  # noqa: ARG001  (another file gives other lines)
    """A file's lines; one run reads few files, and each of them often."""
    from gpuplan.secrets.sensitive import hidden

    lines = [line.rstrip("\r") for line in path.read_text(encoding="utf-8", errors="replace").split("\n")]
    return tuple(zip(lines, hidden(lines), strict=True))
