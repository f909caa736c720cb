"""Reads a config.pbtxt as text: where each field stands, and all that is wrong with it at once.

Protobuf's own parser stops at the first fault and keeps no places. It stays the judge of what is valid
(`modelconfig.parse`); this reader says the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from gpuplan.triton import model_config
from gpuplan.triton.model_config import field_hint, value_hint

# The words of a config.pbtxt, each with its place (protobuf's text format).

_TOKEN = re.compile(
    r"""(?P<blank>[\s]+|\#[^\n]*)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fF]?)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<sign>[{}<>\[\]:,;-])
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Token:
    """One word; line and column count from 1. The end of the text is a token of the kind `end` without text."""

    kind: str
    text: str
    line: int
    column: int


class UnexpectedToken(Exception):
    """A word that cannot stand where it stands."""

    def __init__(self, wanted: str, found: Token) -> None:
        self.found = found
        super().__init__(f"Expected {wanted}, found {found.text!r}" if found.text else f"Expected {wanted}")


class Tokens:
    """The words of a text, read one by one."""

    def __init__(self, text: str) -> None:
        self._rest = _tokens(text)
        self.next = next(self._rest)

    def take(self) -> Token:
        """The next word, which is then behind."""
        taken = self.next
        self.next = next(self._rest, taken)
        return taken

    def at(self, *texts: str) -> bool:
        """True where the next word is one of these signs or words; quoted text never is."""
        return self.next.kind != "string" and self.next.text in texts

    def pass_over(self, *texts: str) -> bool:
        """Take the next word where it is one of these."""
        if self.at(*texts):
            self.take()
            return True
        return False

    def expect(self, text: str) -> Token:
        """Take that word.

        Raises:
            Unexpected: another one stands there.
        """
        if not self.at(text):
            raise UnexpectedToken(f'"{text}"', self.next)
        return self.take()


def without_comments(text: str) -> str:
    """The text with blanks in place of its comments; every place stays what it was."""
    return _TOKEN.sub(lambda match: " " * len(match[0]) if match[0].startswith("#") else match[0], text)


def _tokens(text: str) -> Iterator[Token]:
    line, start = 1, 0
    for match in _TOKEN.finditer(text):
        if match.lastgroup != "blank":
            yield Token(str(match.lastgroup), match[0], line, match.start() - start + 1)
        if newlines := match[0].count("\n"):
            line += newlines
            start = match.start() + match[0].rfind("\n") + 1
    yield Token("end", "", line, len(text) - start + 1)


Path = tuple[str | int, ...]
"""Names of fields, numbers of list items, keys of maps: ``("instance_group", 0, "gpus", 1)``."""
Place = tuple[int, int]
"""Line and column, from 1."""
DEEPEST = 64
_BOUNDS = {"int32": (-(2**31), 2**31), "int64": (-(2**63), 2**63), "uint32": (0, 2**32), "uint64": (0, 2**64)}
_CLOSING = {"{": "}", "<": ">"}


@dataclass(frozen=True)
class ConfigTextError:
    """One thing that is wrong: ``syntax``, ``field``, ``enum``, ``value``, ``duplicate`` or ``choice``."""

    kind: str
    text: str
    place: Place


@dataclass
class ConfigText:
    """What one reading found."""

    places: dict[Path, Place] = field(default_factory=dict)
    faults: list[ConfigTextError] = field(default_factory=list)

    def place(self, path: Path) -> Place | None:
        """Where a field stands, or the nearest thing around it that is stated; None where nothing of it is."""
        return next((self.places[path[:end]] for end in range(len(path), 0, -1) if path[:end] in self.places), None)


def read(text: str) -> ConfigText:
    """Everything that can be said of the text; after a syntax fault nothing more is read."""
    reader = _Reader(text)
    try:
        reader.fields("ModelConfig", (), "")
    except UnexpectedToken as fault:
        reader.fault("syntax", str(fault), fault.found)
    return reader.reading


class _Reader:
    def __init__(self, text: str) -> None:
        self._tokens = Tokens(text)
        self._counts: dict[Path, int] = {}
        self.reading = ConfigText()

    def fault(self, kind: str, text: str, at: Token) -> None:
        """Note a fault."""
        self.reading.faults.append(ConfigTextError(kind, text, (at.line, at.column)))

    def fields(self, message: str, path: Path, closing: str) -> None:
        """The fields of one message up to its closing sign, or to the end of the text."""
        if len(path) > DEEPEST:
            raise UnexpectedToken("less nesting", self._tokens.next)
        known = model_config.schema_fields(message)
        chosen: dict[str, str] = {}
        while not (self._tokens.at(closing) if closing else self._tokens.next.kind == "end"):
            name = self._tokens.take()
            if name.kind != "word":
                raise UnexpectedToken(f'"{closing}"' if closing and name.kind == "end" else "the name of a field", name)
            stated = known.get(name.text)
            if stated is None:
                self.fault("field", f"{message} has no field {name.text}{field_hint(message, name.text)}", name)
                self._skip_value()
            else:
                self._once(message, name, stated, path, chosen)
                self._value(stated, (*path, name.text), name)
            self._tokens.pass_over(",", ";")

    def _once(self, message: str, name: Token, stated: model_config.Field, path: Path, chosen: dict[str, str]) -> None:
        """A field that is no list stands once, and of a choice only one member."""
        here = (*path, name.text)
        if here in self.reading.places and not stated.get("repeated") and "map" not in stated:
            first = self.reading.places[here][0]
            self.fault("duplicate", f"{name.text} of {message} is stated twice, first in line {first}", name)
        if choice := stated.get("oneof"):
            other = chosen.setdefault(choice, name.text)
            if other != name.text:
                self.fault("choice", f"{other} and {name.text} exclude each other", name)
        self.reading.places.setdefault(here, (name.line, name.column))

    def _value(self, stated: model_config.Field, path: Path, name: Token) -> None:
        if "map" in stated:
            self._each(lambda at: self._entry(stated["map"], path, at), name, is_message=True)
            return
        kind = stated["type"]
        of_messages = model_config.is_message(kind)

        def one(at: Token) -> None:
            here = path
            if stated.get("repeated"):
                number = self._counts[path] = self._counts.get(path, -1) + 1
                here = (*path, number)
                self.reading.places[here] = (at.line, at.column)
            if of_messages:
                self._message(kind, here)
            else:
                self._scalar(kind, name.text)

        self._each(one, name, is_message=of_messages, many=bool(stated.get("repeated")))

    def _each(self, one: Callable[[Token], None], name: Token, *, is_message: bool, many: bool = True) -> None:
        """The value after a field's name: one, or a list in brackets where the field is one."""
        if not self._tokens.pass_over(":") and not is_message:
            raise UnexpectedToken('":"', self._tokens.next)
        if not self._tokens.at("["):
            one(name if is_message else self._tokens.next)
            return
        if not many:
            raise UnexpectedToken("one value", self._tokens.next)
        self._tokens.take()
        while not self._tokens.pass_over("]"):
            one(self._tokens.next)
            if not self._tokens.at("]"):
                self._tokens.expect(",")
                if self._tokens.at("]"):
                    raise UnexpectedToken("a value", self._tokens.next)

    def _message(self, kind: str, path: Path) -> None:
        opening = self._tokens.take()
        if opening.text not in _CLOSING or opening.kind == "string":
            raise UnexpectedToken('"{"', opening)
        self.fields(kind, path, _CLOSING[opening.text])
        self._tokens.expect(_CLOSING[opening.text])

    def _entry(self, kinds: tuple[str, str], path: Path, at: Token) -> None:
        """One entry of a map: ``{ key: … value: … }``; its path ends with its key."""
        opening = self._tokens.take()
        if opening.text not in _CLOSING:
            raise UnexpectedToken('"{"', opening)
        inner = _Reader("")
        inner._tokens = self._tokens
        key = ""
        closing = _CLOSING[opening.text]
        while not self._tokens.at(closing):
            name = self._tokens.take()
            if name.text == "key":
                self._tokens.expect(":")
                key = inner._scalar(kinds[0], "key")
            elif name.text == "value":
                shape = model_config.Field(type=kinds[1])
                inner._value(shape, (), name)
            elif name.kind == "word":
                inner.fault("field", f"an entry of {path[-1]} has no field {name.text} (it has key and value)", name)
                self._skip_value()
            else:
                raise UnexpectedToken("key or value", name)
            self._tokens.pass_over(",", ";")
        self._tokens.expect(closing)
        self.reading.faults.extend(inner.reading.faults)
        self.reading.places[(*path, key)] = (at.line, at.column)
        self.reading.places.update({(*path, key, *below): place for below, place in inner.reading.places.items()})

    def _scalar(self, kind: str, name: str) -> str:
        """One value that is no message; what it says, without quotes."""
        first = self._tokens.take()
        if first.kind == "string":
            said = first.text[1:-1]
            while self._tokens.next.kind == "string":
                said += self._tokens.take().text[1:-1]
            self._fits(kind, name, first, "string", said)
            return said
        sign = "-" if first.text == "-" else ""
        token = self._tokens.take() if sign else first
        if token.kind not in ("number", "word"):
            raise UnexpectedToken(f"a value of {name}", token)
        self._fits(kind, name, first, token.kind, sign + token.text)
        return sign + token.text

    def _fits(self, kind: str, name: str, at: Token, found: str, said: str) -> None:
        wrong = _misfit(kind, found, said)
        if model_config.values(kind) and found == "word" and said not in model_config.values(kind):
            self.fault("enum", f"{kind} has no value {said}{value_hint(kind, said)}", at)
        elif wrong:
            shown = f'"{said}"' if found == "string" else said
            self.fault("value", f"{name} wants {wrong}, not {shown}", at)

    def _skip_value(self) -> None:
        """Whatever stands after the name of a field that is not known."""
        self._tokens.pass_over(":")
        if not self._tokens.at("{", "<", "["):
            self._tokens.pass_over("-")
            while self._tokens.take().kind == "string" and self._tokens.next.kind == "string":
                pass
            return
        depth = 0
        while True:
            token = self._tokens.take()
            if token.kind == "end":
                raise UnexpectedToken("a closing bracket", token)
            depth += (token.text in ("{", "<", "[")) - (token.text in ("}", ">", "]"))
            if depth == 0:
                return


def _misfit(kind: str, found: str, said: str) -> str:
    """What a field of this kind wants, where a word of the kind `found` is not it; else an empty text."""
    if kind == "string":
        return "" if found == "string" else "text in quotes"
    if kind == "bool":
        return "" if said in ("true", "false", "True", "False", "t", "f", "0", "1") else "true or false"
    if kind in _BOUNDS:
        return _misfit_whole(kind, found, said)
    if kind in ("float", "double"):
        number = found == "number" or said.lstrip("-").lower() in ("inf", "infinity", "nan")
        return "" if number else "a number"
    return "a name" if found == "string" else ""


def _misfit_whole(kind: str, found: str, said: str) -> str:
    low, high = _BOUNDS[kind]
    try:
        value = int(said, 0) if found == "number" else None
    except ValueError:
        value = int(said, 8) if said.lstrip("-").isdigit() and set(said) <= set("-01234567") else None
    if value is None:
        return "a whole number"
    return "" if low <= value < high else f"a number that fits {kind}"


Places = Mapping[Path, Place]
