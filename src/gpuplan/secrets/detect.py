"""Which part of a file's line must not be shown, because it looks like a secret; rather too much than too little.

Files may hold what they should not: a password in an inventory, a token in plain text. A line is hidden from the first
value of that kind to its end, and so is each further line over which such a value goes on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from gpuplan.types.value import SENSITIVE, Json, JsonObject

_WORD = re.compile(r"[\w.-]+")
_SECRET = re.compile(
    r"""passw | passphrase | passcode | pwd | secret | credential | bearer | api[_.-]?key | access[_.-]?key
    | private[_.-]?key | [a-z0-9][_.-]keys?(?![a-z_]) | (?:pass | tokens? | auth | authorization | salt)(?-i:(?![a-z]))
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""What the name of a secret holds, as a key, a variable or an option: NGC_API_KEY, ansible_become_pass, --token; but
not tokenizer."""
_PLACE = re.compile(r"[_.-](?:file|path|dir)$", re.IGNORECASE)
"""A name that ends so says where a secret lies, and may be shown."""
_TELLING = re.compile(
    r"nvapi-|\bhf_\w{8}|\bgh[pousr]_\w|github_pat_|glpat-|\bxox[abprs]-|\bAKIA\w{8}|\beyJ[\w-]{8}|\bsk-\w{8}"
    r"|(?<=://)[^/\s@]{1,400}@|-----BEGIN|\$ANSIBLE_VAULT"
)
"""Values that are known by their form: tokens of registries and clouds, keys, and who logs in to an address."""
_BETWEEN = re.compile(r"""["']?\s*[:=,]?\s*(?:[|>][0-9+-]*\s*$)?""")
"""What may stand between a name and its value."""
_REFERENCE = re.compile(r"""(["']?)\$\{[A-Za-z_][\w.:/~-]*\}\1(?=[\s,}\]]|$)""")
"""A value that only says where the secret is, and may be shown."""
_INSIDE = re.compile(r"\$\{[\w.:/~-]*\}")
"""A reference; the names in it are no secrets."""
_SECTION = re.compile(r"(?:pass\w*|secrets?|credentials?|tokens?|keys?|auth|pwd)$", re.IGNORECASE)
"""Names beneath which a whole section is hidden; a container called token-server is none of them."""
_KEY = re.compile(r"""\s*(?:- )?["']?[\w./-]+["']?\s*:(?:\s|$)""")
_TAG = re.compile(r"[!&]\S*\s+")
_OPENERS, _CLOSERS, _ARMOUR = re.compile(r"[\[{]"), re.compile(r"[\]}]"), re.compile("-----END")
_NEXT = re.compile(r"""\s[\w.-]+\s*=|,\s*["']?[\w.-]+["']?\s*:\s""")
_MARKS = "*&!%@`|>:,="
"""What YAML takes for a sign of its own at either end of a word."""
_BREAKS = re.compile(r"""[\s\\"'\[\]{},]+""")


def secret_start(line: str) -> int | None:
    """Where in the line the first secret begins; None where it holds none."""
    places = [place for _, place in _secrets(line)]
    if telling := _TELLING.search(line):
        places.append(telling.start())
    return min((place for place in places if place < len(line)), default=None)


def secret_starts(lines: Sequence[str]) -> Iterator[int | None]:
    """The same for each line of a file, with what goes on from the lines above it."""
    before = _Nothing()
    for line in lines:
        if before.goes_on(line):
            yield len(line) - len(line.lstrip())
        else:
            yield secret_start(line)
            before = _begun(line)


def hide_from(line: str, start: int | None) -> str:
    """The line as it may be quoted, hidden from `start` on."""
    return line if start is None else f"{line[:start]}{SENSITIVE}"


def secret_words(line: str, whole: bool = False) -> tuple[str, ...]:
    """The words of a line's secrets, none of which may be repeated elsewhere; `whole` = all of the line is hidden.

    A secret ends where the next variable or key of the same line begins.
    """
    values = [line] if whole else [_NEXT.split(line[place:], maxsplit=1)[0] for _, place in _secrets(line)]
    if not whole and (telling := _TELLING.search(line)):
        values.append(line[telling.start() :])
    words = [word for value in values for word in (value.strip(), *_BREAKS.split(value))]
    return tuple(dict.fromkeys(part for word in words for part in (word, word.strip(_MARKS)) if part))


def _secrets(line: str) -> Iterator[tuple[re.Match[str], int]]:
    """The name of each secret in the line that is not just a reference, and where its value begins."""
    if not _SECRET.search(line):
        return
    plain = _INSIDE.sub(lambda reference: " " * len(reference[0]), line)
    for name in _WORD.finditer(plain):
        if not _SECRET.search(name[0]) or _PLACE.search(name[0]):
            continue
        between = _BETWEEN.match(line, name.end())
        place = between.end() if between else name.end()
        if not _REFERENCE.match(line, place):
            yield name, place


class _Nothing:
    """No secret goes on into the next line."""

    def goes_on(self, line: str) -> bool:  # noqa: ARG002  (the signature is that of all that may go on)
        return False


class _Deeper(_Nothing):
    """A section, a block of text or a folded text: all that is indented more than its key."""

    def __init__(self, indent: int, begun: bool, is_text: bool = False) -> None:
        self._indent = indent
        self._begun = begun
        """False: whatever the next line is, it is the value."""
        self._is_text = is_text
        """Only a text is hidden: a key in the next line would make it a section."""
        self._over = False

    def goes_on(self, line: str) -> bool:
        if not line.strip() or self._over:
            return not self._over
        first, self._begun = not self._begun, True
        self._over = bool(self._is_text and first and _KEY.match(line)) or not (first or _indent(line) > self._indent)
        return not self._over


class _Until(_Nothing):
    """A quote, a bracket or a key in armour: all lines up to the one where it ends."""

    def __init__(self, end: re.Pattern[str], begin: re.Pattern[str] | None = None, missing: int = 1) -> None:
        self._end, self._begin, self._missing = end, begin, missing

    def goes_on(self, line: str) -> bool:
        if self._missing <= 0:
            return False
        self._missing += len(self._begin.findall(line)) if self._begin else 0
        self._missing -= len(self._end.findall(line))
        return True


def _begun(line: str) -> _Nothing:
    """What goes on after this line."""
    if line.lstrip().startswith(("#", ";")):
        return _Nothing()
    if "-----BEGIN" in line and not _ARMOUR.search(line):
        return _Until(_ARMOUR)
    found = tuple(_secrets(line))
    if not found:
        return _Nothing()
    name, place = found[-1]
    value = _TAG.sub("", line[place:], count=1) if line[place : place + 1] in "!&" else line[place:]
    if value[:1] in ("'", '"') and value.count(value[0]) % 2:
        return _Until(re.compile(value[0]))
    if (missing := len(_OPENERS.findall(value)) - len(_CLOSERS.findall(value))) > 0:
        return _Until(_CLOSERS, _OPENERS, missing)
    return _Deeper(_indent(line), bool(value), is_text=not _SECTION.search(name[0]))


def _indent(line: str) -> int:
    """The column of its first key."""
    return len(line) - len(line.lstrip().removeprefix("- ").lstrip())


# Private: what looks like a secret, and is not written into a file; rather too much than too little.

_NAME = re.compile(
    r"pass(w|phrase|code|$|_)|pwd|secret|token(?![a-z])|(access|api|auth|refresh)_?tokens|credential|bearer|auth(?!or)"
    r"|salt|private|(^|_)keys?($|_)|api_?key|dsn$|_url$",
    re.IGNORECASE,
)
"""Names of variables and options."""
_ADDRESS = re.compile(r"://[^/\s@]*:[^/\s@]+@")
"""An address with a password in it."""


def looks_secret(name: str, value: str) -> bool:
    """True for a variable whose value looks like a secret."""
    return _NAME.search(name.replace("-", "_")) is not None or _ADDRESS.search(value) is not None


def exposed_secret(section: JsonObject) -> str:
    """What of a section outside its variables looks like a secret; empty where nothing does."""
    return next(iter(_exposed(section)), "")


def _exposed(section: JsonObject) -> Iterator[str]:
    for key in ("command", "entrypoint"):
        for word in _words(section.get(key)):
            flag = word.partition("=")[0] if word.startswith("-") else ""
            if looks_secret(flag.lstrip("-"), word):
                yield f"its {key} ({flag})" if flag else f"its {key}"
    logging = section.get("logging")
    options = logging.get("options") if isinstance(logging, Mapping) else None
    for what, names in (("label", section.get("labels")), ("log option", options)):
        for name, value in names.items() if isinstance(names, Mapping) else ():
            if looks_secret(name, str(value)):
                yield f"its {what} {name}"


def _words(value: Json) -> Sequence[str]:
    return [str(each) for each in value] if isinstance(value, Sequence) and not isinstance(value, str) else []
