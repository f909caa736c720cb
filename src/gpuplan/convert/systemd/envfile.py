"""Environment files of systemd: one variable changed, and every other line left as it is."""

from __future__ import annotations

import re
from collections.abc import Mapping

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z", re.ASCII)
_PLAIN = re.compile(r"[A-Za-z0-9_.,:@%/+=-]*\Z", re.ASCII)


def with_variables(text: str, changes: Mapping[str, str]) -> str:
    """The file's text with these values, by the rules of systemd.exec(5), EnvironmentFile=.

    A variable that is there keeps its line, where it is stated twice the last one, since that one holds; a new one
    comes at the end. Comments, blank lines, other variables and whatever cannot be read stay untouched.

    Raises:
        ValueError: something is no name of a variable, or a value holds what no such file can.
    """
    for name, value in changes.items():
        if not _NAME.match(name):
            raise ValueError(f"{name!r} is not the name of an environment variable")
        if not value.isprintable():
            raise ValueError(f"the value of {name} holds a character that an environment file cannot")
    rows = _rows(text)
    for name, value in changes.items():
        row = f"{name}={_quoted(value)}\n"
        places = [number for number, each in enumerate(rows) if _named(each) == name]
        if places:
            rows[places[-1]] = row
            continue
        if rows and not rows[-1].endswith("\n"):
            rows[-1] += "\n"
        rows.append(row)
    return "".join(rows)


def _rows(text: str) -> list[str]:
    """Lines with those that a backslash at the end joins to them; comments are never joined."""
    rows: list[str] = []
    goes_on = False
    for line in text.splitlines(keepends=True):
        if goes_on:
            rows[-1] += line
        else:
            rows.append(line)
        comment = rows[-1].lstrip().startswith(("#", ";"))
        goes_on = not comment and line.rstrip("\r\n").endswith("\\")
    return rows


def _named(row: str) -> str:
    if row.lstrip().startswith(("#", ";")):
        return ""
    return row.partition("=")[0].strip() if "=" in row else ""


def _quoted(value: str) -> str:
    if _PLAIN.match(value):
        return value
    escaped = re.sub(r'(["\\$`])', r"\\\1", value)
    return f'"{escaped}"'
