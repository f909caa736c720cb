"""The words of a config.pbtxt, each with its place (protobuf's text format)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

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


class Unexpected(Exception):
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
            raise Unexpected(f'"{text}"', self.next)
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
