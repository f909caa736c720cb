"""Makes text from nodes and files safe to show: no control character reaches a terminal."""

from __future__ import annotations


def visible(text: str) -> str:
    r"""The text in one row, with everything that is not printable written out: ``\x1b``, ``\n``, ``\u202e``.

    A container name or a log line can hold terminal escapes and marks that turn the direction of writing; shown as they
    are, they could hide or forge what an operator reads before saying yes.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def rows(text: str) -> tuple[str, ...]:
    """The rows of a longer text, each of them visible; empty rows at the end are dropped."""
    return tuple(visible(row.rstrip().expandtabs(4)) for row in text.rstrip().splitlines())
