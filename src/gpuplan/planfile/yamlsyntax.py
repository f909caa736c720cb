"""YAML 1.2's core schema on PyYAML: what a plain scalar means, how much a file may hold, what a syntax error says."""

from __future__ import annotations

import re
from collections.abc import Callable

import yaml
from yaml.nodes import Node

from gpuplan.secrets.redact import INVALID_YAML

MAX_DEPTH = 64
MAX_NODES = 200_000
_TAG = "tag:yaml.org,2002:"
NULL, BOOL, INT, FLOAT, STR = (f"{_TAG}{name}" for name in ("null", "bool", "int", "float", "str"))
MERGE, MAP, SEQ = f"{_TAG}merge", f"{_TAG}map", f"{_TAG}seq"
CORE = frozenset((NULL, BOOL, INT, FLOAT, STR))
INVALID, TOO_MUCH = INVALID_YAML, "File too large"
Scalar = str | int | float | bool | None

_RESOLVERS = (  # https://yaml.org/spec/1.2.2/#1032-tag-resolution, and the merge key that everyone uses
    (NULL, r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    (BOOL, r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    (INT, r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    (FLOAT, r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", list("-+.0123456789")),
    (FLOAT, r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", list("-+.")),
    (MERGE, r"<<", ["<"]),
)


class TooMuch(Exception):
    """The file goes deeper, or holds more, than any plan file or inventory needs."""

    def __init__(self, sentence: str, mark: yaml.Mark) -> None:
        self.sentence = sentence
        self.mark = mark
        super().__init__(sentence)


class Loader(yaml.SafeLoader):
    """Composes nodes only; depth and number are checked while it reads, before anything is built."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  PyYAML's class attribute

    def __init__(self, text: str) -> None:
        self._depth = 0
        self._nodes = 0
        super().__init__(text)

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        """One node with all below it; PyYAML passes the key or the position as `index`."""
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise TooMuch(f"It holds more than {MAX_NODES} values.", self.get_mark())
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise TooMuch(f"It is nested more than {MAX_DEPTH} levels deep.", self.get_mark())
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


for _tag, _pattern, _first in _RESOLVERS:
    Loader.add_implicit_resolver(_tag, re.compile(rf"^(?:{_pattern})$"), _first)


def resolve(text: str) -> Scalar:
    """What the plain scalar `text` means by the core schema; a number too long to be one stays text."""
    for tag, pattern, _ in _RESOLVERS:
        if tag != MERGE and re.fullmatch(pattern, text):
            return construct(tag, text)
    return text


def construct(tag: str, text: str) -> Scalar:
    """The value of a scalar of one of the core schema's tags.

    Raises:
        KeyError: it is another tag.
        ValueError: the text does not fit the tag, as in ``!!int x``.
    """
    if tag in (STR, MERGE):
        return text
    build = _CONSTRUCTORS[tag]
    fitting = (tag, INT) if tag == FLOAT else (tag,)
    if not any(re.fullmatch(pattern, text) for name, pattern, _ in _RESOLVERS if name in fitting):
        raise ValueError(f"{text!r} does not match its tag")
    return build(text)


def _integer(text: str) -> int | str:
    digits = text.lstrip("-+")
    if len(digits) > 400:
        return text
    if digits.startswith(("0o", "0x")):
        return int(digits, 0)
    return int(text)


def _real(text: str) -> float:
    return float(
        text.replace(".inf", "inf").replace(".Inf", "inf").replace(".INF", "inf").lower().replace(".nan", "nan")
    )


_CONSTRUCTORS: dict[str, Callable[[str], Scalar]] = {
    NULL: lambda _: None,
    BOOL: lambda text: text.lower() == "true",
    INT: _integer,
    FLOAT: _real,
}

_SENTENCES: tuple[tuple[str, str, str], ...] = (
    (r"found character '\\t'", "YAML does not allow tabs for indentation.", "Indent with spaces."),
    (r"found character '(.+)' that cannot", "A value cannot begin with {0}.", "Put the value in quotes."),
    (
        r"mapping values are not allowed",
        "Unexpected ': '. The indentation is wrong, or the value contains ': '.",
        "Align the key with the keys around it, or quote the value.",
    ),
    (r"expected ',' or '(.)'", "The bracket opened at {at} is not closed with {0}.", ""),
    (r"could not find expected ':'", "A key has no ':' after it.", "Write KEY: VALUE."),
    (r"unexpected end of stream", "The quote opened at {at} is not closed.", "Close the quote."),
    (
        r"expected <block end>",
        "The indentation does not match the section that begins at {at}.",
        "Align it with the lines around it.",
    ),
    (
        r"found undefined alias '(.*)'",
        "The alias *{0} has no anchor before it.",
        "Define it with &{0}.",
    ),
    (r"found duplicate anchor '(.*)'", "The anchor &{0} is defined twice.", "Give one of them another name."),
    (
        r"expected a single document|but found another document",
        "A second YAML document begins here; only one is allowed.",
        "Remove the line '---', or split the file.",
    ),
)


def sentence(error: yaml.MarkedYAMLError) -> tuple[str, str]:
    """(what is wrong, what to do) of PyYAML's error, in the operator's words."""
    mark = error.context_mark
    problem = "; ".join(part for part in (error.context, error.problem) if part)
    at = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "the beginning"
    for pattern, detail, fix in _SENTENCES:
        if match := re.search(pattern, problem):
            return detail.format(*match.groups(), at=at), fix.format(*match.groups())
    return f"The parser stops here: {problem}.", ""
