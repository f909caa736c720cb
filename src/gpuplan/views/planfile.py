"""The text of a plan file that was discovered: YAML, with what it does not say in comments."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence

WIDTH = 110
Data = Mapping[str, object]
_HEADS = {"gpus": "GPUs, as they are cut", "containers": "Containers, as they run"}


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
    for text in texts:
        start = f"{indent}# "
        yield from textwrap.wrap(_printable(text), WIDTH, initial_indent=start, subsequent_indent=f"{start}  ") or [
            f"{indent}#"
        ]


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _yaml(value: Data) -> str:
    import yaml

    text = yaml.safe_dump(_plain(value), sort_keys=False, allow_unicode=True, width=WIDTH, default_flow_style=None)
    return text.rstrip("\n")


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(each) for each in value]
    return value
