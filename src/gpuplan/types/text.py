"""Text: the one way in which several things are listed in a sentence."""

from __future__ import annotations

from collections.abc import Iterable


def join_words(words: Iterable[str]) -> str:
    """“a, b and c”; “none” without words."""
    *first, last = [*words] or ["none"]
    return f"{', '.join(first)} and {last}" if first else last
