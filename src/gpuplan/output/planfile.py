"""The text of a plan file that was discovered: YAML as a person writes it, with what it does not say in comments."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import yaml

WIDTH = 110
Data = Mapping[str, object]
_HEADS = {"gpus": "as they are cut", "containers": "as they run", "models": "as they are loaded"}
_BELOW = frozenset({"env", "labels", "gpus", "containers", "models", "mig"})
"""Mappings that have each key on a line of its own, however short they are."""
_KINDS: Mapping[str, type] = {"bool": bool, "int": int, "float": float}


def planfile(document: Data, notes: Mapping[tuple[str, str], Sequence[str]], head: Iterable[str]) -> str:
    """The file; `notes` are by part and key, `head` is written above everything."""
    lines = [*_comments(head, "")]
    for key, value in document.items():
        lines += _part(key, value, notes) if isinstance(value, Mapping) else [_yaml({key: value})]
    return "\n".join(lines).rstrip() + "\n"


def _part(name: str, sections: Data, notes: Mapping[tuple[str, str], Sequence[str]]) -> Iterator[str]:
    yield ""
    yield f"{name}:  # {_HEADS[name]}" if name in _HEADS else f"{name}:"
    for key, section in sections.items():
        yield from _comments(notes.get((name, key), ()), "  ")
        yield textwrap.indent(_yaml({key: section}), "  ")


def _comments(texts: Iterable[str], indent: str) -> Iterator[str]:
    """Each text as lines of a comment; what is below a list item is set in. An empty text is an empty line."""
    for text in texts:
        start = f"{indent}# "
        inner = start + "  " * text.startswith("- ")
        yield from textwrap.wrap(_printable(text), WIDTH, initial_indent=start, subsequent_indent=inner) or [""]


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _yaml(value: Data) -> str:
    import yaml

    node = _node(value, depth=0)
    return yaml.serialize(node, allow_unicode=True, width=WIDTH).rstrip("\n")


def _node(value: object, depth: int, key: str = "", *, inside: bool = False) -> yaml.Node:
    """The node of a value; `inside` = it stands on one line with others, between brackets."""
    import yaml

    if isinstance(value, Mapping):
        # the top is the key of a section, below that are its keys: both are on lines of their own
        flow = inside or not value or (depth > 1 and key not in _BELOW and _short(value))
        pairs = [
            (_scalar(str(name), flow), _node(each, depth + 1, str(name), inside=flow)) for name, each in value.items()
        ]
        return yaml.MappingNode("tag:yaml.org,2002:map", pairs, flow_style=flow)
    if isinstance(value, Sequence) and not isinstance(value, str):
        flow = inside or _short(value)
        items = [_node(each, depth + 1, inside=flow) for each in value]
        return yaml.SequenceNode("tag:yaml.org,2002:seq", items, flow_style=flow)
    return _scalar(value, inside)


def _scalar(value: object, inside: bool) -> yaml.ScalarNode:
    """A scalar; a text that is no plain word is written between double quotes."""
    import yaml

    if isinstance(value, str):
        style = None if _plain(value, inside) else '"'
        return yaml.ScalarNode("tag:yaml.org,2002:str", value, style=style)
    kind = next(name for name, type_ in _KINDS.items() if isinstance(value, type_))
    return yaml.ScalarNode(f"tag:yaml.org,2002:{kind}", str(value).lower())


def _plain(text: str, inside: bool) -> bool:
    """True for a text that means itself without quotes."""
    import yaml

    written = yaml.safe_dump([text], default_flow_style=inside, allow_unicode=True, width=len(text) + WIDTH)
    return written == (f"[{text}]\n" if inside else f"- {text}\n")


def _short(value: object) -> bool:
    """True for what fits on one line, with what is around it."""
    scalars = value.values() if isinstance(value, Mapping) else value if isinstance(value, Sequence) else ()
    return len(str(value)) < WIDTH - 20 and not any("\n" in str(each) for each in scalars)
