"""Redacting: the last line of defence against a secret in what a step says, after those that never say one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from urllib.parse import quote, quote_plus

from gpuplan.types.diagnostic import Diagnostic
from gpuplan.types.value import PRIVATE, Secret

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
            said = said.replace(text, PRIVATE)
        return said

    return redact


def redacted(diagnostic: Diagnostic, redact: Redactor) -> Diagnostic:
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
