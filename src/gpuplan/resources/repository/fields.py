"""Tells the difference of one model's directory: file by file, and a config.pbtxt field by field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher

from gpuplan.resources.repository.read import FoundFile
from gpuplan.resources.repository.wanted import CONFIG, WantedFile, WantedModel
from gpuplan.triton import model_config
from gpuplan.types.change import FieldChange
from gpuplan.types.value import Json, JsonObject, as_object, canonical

SHORT = 12
"""Hexadecimal digits of a hash that are shown."""
EMPTY = "an empty directory"
_MARK = "gpuplan_content"


def differences(
    model: str, wanted: WantedModel, found: Mapping[str, FoundFile], recorded_config: WantedFile | None
) -> tuple[FieldChange, ...]:
    """What differs between the wanted and the found files of a model; empty where nothing does.

    `recorded_config` is the config.pbtxt that was applied last: where the node still has it, its text is known.
    """
    changes: list[FieldChange] = []
    for path in sorted({*wanted.files, *found}):
        here, there = wanted.files.get(path), found.get(path)
        if not _same(here, there):
            told = _config_fields(model, here, there, recorded_config) if path == CONFIG else None
            changes.extend([_file_change(model, path, here, there)] if told is None else told)
    if not changes and not _same(wanted.files.get(CONFIG), found.get(CONFIG)):
        changes.append(_file_change(model, CONFIG, wanted.files.get(CONFIG), found.get(CONFIG)))
    return tuple(changes)


def _same(wanted: WantedFile | None, found: FoundFile | None) -> bool:
    return (wanted and wanted.sha256) == (found and found.sha256) and not (found and (found.odd or found.link))


def _file_change(model: str, path: str, wanted: WantedFile | None, found: FoundFile | None) -> FieldChange:
    after = None if wanted is None else wanted.sha256[:SHORT] or EMPTY
    return FieldChange(f"models.{model}.files[{path}]", _before(found), after)


def _before(found: FoundFile | None) -> str | None:
    if found is None:
        return None
    if found.link is not None:
        return f"link to {found.link}"
    return f"a {found.odd}" if found.odd else found.sha256[:SHORT] or EMPTY


def _config_fields(
    model: str, wanted: WantedFile | None, found: FoundFile | None, recorded: WantedFile | None
) -> tuple[FieldChange, ...] | None:
    """The config's differences by field, none where only our mark differs; None where they cannot be told so."""
    before = None if found is None else found.text
    if before is None and found is not None and recorded is not None and recorded.sha256 == found.sha256:
        before = recorded.text
    if wanted is None or wanted.text is None or before is None:
        return None
    try:
        (old, old_mark), (new, new_mark) = _split(before), _split(wanted.text)
    except model_config.ConfigSyntaxError:
        return None
    if old == new and old_mark == new_mark:
        return None
    return tuple(FieldChange(f"models.{model}.config.{path}", was, will) for path, was, will in _walk("", old, new))


def _split(text: str) -> tuple[JsonObject, Json]:
    """A config without our mark, and the mark."""
    config = dict(model_config.to_json(model_config.parse(text)))
    parameters = dict(as_object(config.pop("parameters", {})))
    mark = parameters.pop(_MARK, None)
    return ({**config, "parameters": parameters} if parameters else config), mark


def _walk(path: str, old: Json, new: Json) -> Iterator[tuple[str, Json, Json]]:
    if old == new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old, *new}):
            yield from _walk(f"{path}.{key}" if path else key, old.get(key), new.get(key))
    elif isinstance(old, list) and isinstance(new, list) and _of_messages(old, new):
        yield from _by_name(path, old, new) if _named(old) and _named(new) else _by_place(path, old, new)
    else:
        yield path, old, new


def _of_messages(old: Sequence[Json], new: Sequence[Json]) -> bool:
    """True for two lists that can be told item by item; a list of plain values is told as a whole."""
    return bool(old and new) and all(isinstance(item, Mapping) for item in (*old, *new))


def _named(items: Sequence[Json]) -> bool:
    """True where each item has a name of its own, as tensors have."""
    names = [as_object(item).get("name") for item in items]
    return all(names) and len(set(map(str, names))) == len(names)


def _by_name(path: str, old: Sequence[Json], new: Sequence[Json]) -> Iterator[tuple[str, Json, Json]]:
    """Item by item, whatever their order; where nothing but the order differs, the order."""
    before, after = ({str(as_object(item)["name"]): item for item in items} for items in (old, new))
    told = [
        change
        for name in dict.fromkeys((*before, *after))
        for change in _walk(f"{path}[{name}]", before.get(name), after.get(name))
    ]
    yield from told or [(path, list(before), list(after))]


def _by_place(path: str, old: Sequence[Json], new: Sequence[Json]) -> Iterator[tuple[str, Json, Json]]:
    """Items that stayed are passed over; of the others each has the number that it had, or that it will have."""
    matcher = SequenceMatcher(
        None, [canonical(item) for item in old], [canonical(item) for item in new], autojunk=False
    )
    for _, start, end, first, last in (each for each in matcher.get_opcodes() if each[0] != "equal"):
        pairs = min(end - start, last - first)
        for number in range(pairs):
            yield from _walk(f"{path}[{first + number}]", old[start + number], new[first + number])
        yield from ((f"{path}[{number}]", old[number], None) for number in range(start + pairs, end))
        yield from ((f"{path}[{number}]", None, new[number]) for number in range(first + pairs, last))
