"""Content: bytes that a node should have, known by their SHA-256, and where they are to be had."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import BinaryIO, TypeAlias


@dataclass(frozen=True)
class Content:
    """Content that is to be brought to a node; it is opened more than once where it must be sent again."""

    sha256: str
    size: int
    open: Callable[[], AbstractContextManager[BinaryIO]]


Arrived: TypeAlias = Callable[[int], None]
"""Hears of so many further bytes that are on the node, from any thread; below zero where some had to be dropped."""
