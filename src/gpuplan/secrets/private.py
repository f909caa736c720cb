"""Private: what looks like a secret, and is not written into a file; rather too much than too little."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from gpuplan.types.value import Json, JsonObject

_NAME = re.compile(
    r"pass(w|phrase|code|$|_)|pwd|secret|token(?![a-z])|(access|api|auth|refresh)_?tokens|credential|bearer|auth(?!or)"
    r"|salt|private|(^|_)keys?($|_)|api_?key|dsn$|_url$",
    re.IGNORECASE,
)
"""Names of variables and options."""
_ADDRESS = re.compile(r"://[^/\s@]*:[^/\s@]+@")
"""An address with a password in it."""


def is_private(name: str, value: str) -> bool:
    """True for a variable whose value looks like a secret."""
    return _NAME.search(name.replace("-", "_")) is not None or _ADDRESS.search(value) is not None


def exposed(section: JsonObject) -> str:
    """What of a section outside its variables looks like a secret; empty where nothing does."""
    return next(iter(_exposed(section)), "")


def _exposed(section: JsonObject) -> Iterator[str]:
    for key in ("command", "entrypoint"):
        for word in _words(section.get(key)):
            flag = word.partition("=")[0] if word.startswith("-") else ""
            if is_private(flag.lstrip("-"), word):
                yield f"its {key} ({flag})" if flag else f"its {key}"
    logging = section.get("logging")
    options = logging.get("options") if isinstance(logging, Mapping) else None
    for what, names in (("label", section.get("labels")), ("log option", options)):
        for name, value in names.items() if isinstance(names, Mapping) else ():
            if is_private(name, str(value)):
                yield f"its {what} {name}"


def _words(value: Json) -> Sequence[str]:
    return [str(each) for each in value] if isinstance(value, Sequence) and not isinstance(value, str) else []
