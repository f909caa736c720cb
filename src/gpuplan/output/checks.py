"""What a check of a model repository comes to: a line for people, a document for scripts."""

from __future__ import annotations

from collections.abc import Sequence

from gpuplan.output.page import Page, paragraph
from gpuplan.output.words import count
from gpuplan.types.diagnostic import Diagnostic, Severity
from gpuplan.types.value import JsonObject

FORMAT = 1
"""Raised when a reader of the old form would misread the new one."""


def summary(models: int, findings: Sequence[Diagnostic], silenced: int) -> Page:
    """One line: how many models, and how many findings of each kind."""
    errors = sum(each.severity is Severity.ERROR for each in findings)
    parts = [count(errors, "error"), count(len(findings) - errors, "warning")] if findings else ["nothing found"]
    held = silenced_words(silenced)
    yield paragraph(f"{count(models, 'model')}: {', '.join(parts)}{f'; {held}' if held else ''}.")


def silenced_words(silenced: int) -> str:
    """How many findings were held back; an empty text for none."""
    return f"{count(silenced, 'finding')} silenced" if silenced else ""


def checked(models: Sequence[str], silenced: int) -> JsonObject:
    """The frame of the document; the findings are its diagnostics."""
    return {"kind": "gpuplan check", "format": FORMAT, "models": list(models), "silenced": silenced}
