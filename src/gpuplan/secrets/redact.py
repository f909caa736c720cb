"""Redacting: the last line of defence against a secret in what a step says, after those that never say one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from urllib.parse import quote, quote_plus

from gpuplan.types.diagnostic import Diagnostic, Location
from gpuplan.types.value import SENSITIVE, Secret

INVALID_YAML = "Invalid YAML"
"""Summary of syntax errors, which quote characters of the line that they are about."""
SHORTEST = 4
"""Characters from which on a secret is looked for; of a shorter one every other word would be a part."""
LINE = 12
"""Characters from which on one line of a secret of several is looked for by itself."""

Redactor = Callable[[str], str]


def redactor(secrets: Iterable[Secret]) -> Redactor:
    """Puts “(sensitive)” in place of every secret's text, in each way in which an engine or a system may write it.

    Of texts within one another the longest counts.
    """
    found = {form for secret in secrets for form in _forms(secret.reveal()) if len(form) >= SHORTEST}
    texts = sorted(found, key=len, reverse=True)

    def redact(said: str) -> str:
        for text in texts:
            said = said.replace(text, SENSITIVE)
        return said

    return redact


def redact_diagnostic(diagnostic: Diagnostic, redact: Redactor) -> Diagnostic:
    """The diagnostic without secrets."""
    return replace(
        diagnostic,
        summary=redact(diagnostic.summary),
        detail=redact(diagnostic.detail),
        fix=redact(diagnostic.fix),
    )


def _forms(text: str) -> Iterator[str]:
    """The text as it is, without blanks around it, with blanks run together, and as JSON, Python and a URL write it."""
    yield text
    yield text.strip()
    yield " ".join(text.split())
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]
    yield repr(text)[1:-1]
    yield quote(text, safe="")
    yield quote_plus(text)
    yield from (line for each in text.splitlines() if len(line := each.strip()) >= LINE)


# Lines of the operator's files for diagnostics, without what looks like a secret, in the line or in what is said.

LARGEST = 4 << 20
"""Bytes of a file from which a line is quoted."""
SHORTEST_quoting, ENOUGH = 3, 12
"""Characters of a word by which a secret is recognised anywhere, and of a longer one; a shorter one only in quotes."""
NOT_QUOTED = "What is wrong stands in a line with a value that looks like a secret, so nothing of it is quoted."

FURTHER = 100
"""Lines over which a secret goes on whose words are looked for, a key in armour among them."""

Line = tuple[str, int | None]
"""A line's text, and from where on it is hidden."""


def source_line(where: Location) -> str | None:
    """The line that a location names, where its file can be read, as it may be shown."""
    from gpuplan.secrets.detect import hide_from

    lines = _lines(where)
    return hide_from(*lines[0]) if lines else None


def redact_quoted_secrets(problem: Diagnostic) -> Diagnostic:
    """The same problem without the secret parts of the lines that it is about."""
    if problem.where is None or not (lines := _lines(problem.where)):
        return problem
    (text, start), *_ = lines
    words = tuple(_words(lines))
    if start is not None and "\\" in text[start:]:
        words += ("'", '"', "“")  # what is quoted may be the secret in another writing
    in_fix = _repeats(problem.fix, words) or _stopped_inside(problem, start)
    if in_fix or _repeats(problem.detail, words):
        return replace(problem, detail=NOT_QUOTED, fix="" if in_fix else problem.fix)
    return problem


def _words(lines: Sequence[Line]) -> Iterator[str]:
    """The words of all secrets of the first line, and of the lines over which it goes on."""
    from gpuplan.secrets.detect import secret_words

    (text, start), *rest = lines
    yield from secret_words(text, start is not None and not text[:start].strip())
    for further, _ in takewhile(lambda line: line[1] is not None and not line[0][: line[1]].strip(), rest):
        yield from secret_words(further, whole=True)


def _repeats(problem: str, words: Sequence[str]) -> bool:
    return any(
        word[:ENOUGH] in problem
        if len(word) >= SHORTEST_quoting or not word.isalnum()
        else f"'{word}'" in problem or f"“{word}”" in problem
        for word in words
    )


def _stopped_inside(problem: Diagnostic, start: int | None) -> bool:
    """The parser stopped in the middle of a secret, and may name single characters of it."""
    return (
        start is not None and problem.summary == INVALID_YAML and bool(problem.where and problem.where.column > start)
    )


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
    from gpuplan.secrets.detect import secret_starts

    lines = [line.rstrip("\r") for line in path.read_text(encoding="utf-8", errors="replace").split("\n")]
    return tuple(zip(lines, secret_starts(lines), strict=True))
