"""Redacting: the last line of defence against a secret in what a step says, after those that never say one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from gpuplan.model.diagnostic import Diagnostic
from gpuplan.model.value import PRIVATE, Secret

SHORTEST = 4
"""Characters from which on a secret is looked for; of a shorter one every other word would be a part."""

Redactor = Callable[[str], str]


def redactor(secrets: Iterable[Secret]) -> Redactor:
    """Puts “(sensitive)” in place of every secret's text; of texts within one another the longest counts."""
    texts = sorted({secret.reveal() for secret in secrets if len(secret.reveal()) >= SHORTEST}, key=len, reverse=True)

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
