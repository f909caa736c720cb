"""The text of a discovered plan file: readable YAML, with comments about what it leaves out."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import yaml

WIDTH = 110
Data = Mapping[str, object]
_COMMENTS = {"gpus": "as partitioned", "containers": "as running", "models": "as loaded"}
_BLOCK_KEYS = frozenset({"env", "labels", "gpus", "containers", "models", "mig"})
"""Mappings that are always written with one key per line."""
_KINDS: Mapping[str, type] = {"bool": bool, "int": int, "float": float}


def render_plan_file(document: Data, notes: Mapping[tuple[str, str], Sequence[str]], header: Iterable[str]) -> str:
    """The file; `notes` are by section kind and key, `header` is written at the top."""
    lines = [*_comments(header, "")]
    for key, value in document.items():
        lines += _part(key, value, notes) if isinstance(value, Mapping) else [_yaml({key: value})]
    return "\n".join(lines).rstrip() + "\n"


def _part(name: str, sections: Data, notes: Mapping[tuple[str, str], Sequence[str]]) -> Iterator[str]:
    yield ""
    yield f"{name}:  # {_COMMENTS[name]}" if name in _COMMENTS else f"{name}:"
    for key, section in sections.items():
        yield from _comments(notes.get((name, key), ()), "  ")
        yield textwrap.indent(_yaml({key: section}), "  ")


def _comments(texts: Iterable[str], indent: str) -> Iterator[str]:
    """Each text as comment lines; list items are indented. An empty text is an empty line."""
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


def _node(value: object, depth: int, key: str = "", *, inline: bool = False) -> yaml.Node:
    """The YAML node of a value; `inline` means within brackets on one line."""
    import yaml

    if isinstance(value, Mapping):
        # the key of a section and its fields are on lines of their own
        flow = inline or not value or (depth > 1 and key not in _BLOCK_KEYS and _short(value))
        pairs = [
            (_scalar(str(name), flow), _node(each, depth + 1, str(name), inline=flow)) for name, each in value.items()
        ]
        return yaml.MappingNode("tag:yaml.org,2002:map", pairs, flow_style=flow)
    if isinstance(value, Sequence) and not isinstance(value, str):
        flow = inline or _short(value)
        items = [_node(each, depth + 1, inline=flow) for each in value]
        return yaml.SequenceNode("tag:yaml.org,2002:seq", items, flow_style=flow)
    return _scalar(value, inline)


def _scalar(value: object, inline: bool) -> yaml.ScalarNode:
    """A scalar; a string that YAML would read as something else is quoted."""
    import yaml

    if isinstance(value, str):
        style = None if _plain(value, inline) else '"'
        return yaml.ScalarNode("tag:yaml.org,2002:str", value, style=style)
    kind = next(name for name, type_ in _KINDS.items() if isinstance(value, type_))
    return yaml.ScalarNode(f"tag:yaml.org,2002:{kind}", str(value).lower())


def _plain(text: str, inline: bool) -> bool:
    """True if the string needs no quotes."""
    import yaml

    written = yaml.safe_dump([text], default_flow_style=inline, allow_unicode=True, width=len(text) + WIDTH)
    return written == (f"[{text}]\n" if inline else f"- {text}\n")


def _short(value: object) -> bool:
    """True if the value fits on one line."""
    scalars = value.values() if isinstance(value, Mapping) else value if isinstance(value, Sequence) else ()
    return len(str(value)) < WIDTH - 20 and not any("\n" in str(each) for each in scalars)
