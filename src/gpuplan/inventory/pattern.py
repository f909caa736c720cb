"""Host patterns of an inventory: ``gpu-a[01:16].example.com:2222`` as sixteen names and a port."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Sequence
from itertools import islice

_PORT = re.compile(r"^(?P<host>(?:[^:\[\]]|\[[^\]]*\])*):(?P<port>\d+)$")
_BRACKETED = re.compile(r"^\[(?P<host>.+)\]:(?P<port>\d+)$")
_RANGE = re.compile(r"\[([^\]]*)\]")
_NAME = re.compile(r"^[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?$")


class PatternError(ValueError):
    """Says what is wrong with a pattern, as the end of a sentence, and what to do."""

    def __init__(self, reason: str, fix: str = "") -> None:
        self.fix = fix
        super().__init__(reason)


def expand(pattern: str, most: int) -> tuple[Sequence[str], str]:
    """(host names, port or ""). Ranges count or go through letters, a third number is the step, as in Ansible.

    Raises:
        PatternError: it is not a pattern, gives a name that cannot be a folder's, or more names than `most`.
    """
    match = _BRACKETED.match(pattern) or _PORT.match(pattern)
    host, port = (match["host"], match["port"]) if match else (pattern, "")
    if port and not 1 <= int(port[:6]) <= 65535:
        raise PatternError(f"names port {port[:6]}, which does not exist")
    names = tuple(islice(_names(host), most + 1))
    if len(names) > most:
        raise PatternError(f"gives more than {most} hosts")
    for name in names:
        if not _NAME.match(name) or ".." in name:
            fix = "Use letters, digits, '_', '-' and '.'; an address with colons belongs into ansible_host."
            raise PatternError(
                "is not a name that a node can have"
                if name == pattern
                else f"gives {name!r}, which is not a name that a node can have",
                fix,
            )
    return names, port


def _names(host: str) -> Iterator[str]:
    match = _RANGE.search(host)
    if match is None:
        yield host
        return
    for middle in _sequence(match[1]):
        for rest in _names(host[match.end() :]):
            yield f"{host[: match.start()]}{middle}{rest}"


def _sequence(text: str) -> Iterator[str]:
    begin, _, rest = text.partition(":")
    end, _, step = rest.partition(":")
    if not end or not re.fullmatch(r"\d{0,6}", step) or step == "0":
        raise PatternError("has a range that is not one", "Write [BEGIN:END] or [BEGIN:END:STEP].")
    stride = int(step or 1)
    letters = string.ascii_letters
    if begin and begin in letters and end in letters and len(begin) == len(end) == 1:
        first, last = letters.index(begin), letters.index(end)
        if first > last:
            raise PatternError("has a range that ends before it begins")
        yield from letters[first : last + 1 : stride]
        return
    yield from _numbers(begin or "0", end, stride)


def _numbers(begin: str, end: str, stride: int) -> Iterator[str]:
    if not re.fullmatch(r"\d{1,9}", begin, re.ASCII) or not re.fullmatch(r"\d{1,9}", end, re.ASCII):
        raise PatternError("has a range that is neither of numbers nor of letters")
    padded = len(begin) if len(begin) > 1 and begin.startswith("0") else 0
    if padded and len(end) != padded:
        raise PatternError("has a range whose ends are not of one length", "Write [01:16], or [1:16].")
    if int(begin) > int(end):
        raise PatternError("has a range that ends before it begins")
    for number in range(int(begin), int(end) + 1, stride):
        yield str(number).zfill(padded)
