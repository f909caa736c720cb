"""Wanted and found files → changes: which models are brought, switched, or taken away."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from difflib import SequenceMatcher

from gpuplan.resources.repository.read import ObservedFile, ObservedRepositories
from gpuplan.resources.repository.spec import (
    CONFIG,
    ModelFiles,
    RepositoryFile,
    prepare,
    remove,
    remove_all,
    summary,
    switch,
    wanted_models,
)
from gpuplan.resources.snapshot.labels import CONTENT
from gpuplan.triton import model_config
from gpuplan.types.address import Address
from gpuplan.types.change import Action, Change, Comparison, FieldChange, Step, Unreadable
from gpuplan.types.diagnostic import Diagnostic
from gpuplan.types.record import Record
from gpuplan.types.resource import Desired, DiffContext
from gpuplan.types.snapshot import ProbeError
from gpuplan.types.value import Json, JsonObject, as_object, canonical, digest

# Tells the difference of one model's directory: file by file, and a config.pbtxt field by field.

SHORT = 12
"""Hexadecimal digits of a hash that are shown."""
EMPTY = "an empty directory"


def differences(
    model: str, wanted: ModelFiles, found: Mapping[str, ObservedFile], recorded_config: RepositoryFile | None
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


def _same(wanted: RepositoryFile | None, found: ObservedFile | None) -> bool:
    return (wanted and wanted.sha256) == (found and found.sha256) and not (found and (found.odd or found.link))


def _file_change(model: str, path: str, wanted: RepositoryFile | None, found: ObservedFile | None) -> FieldChange:
    after = None if wanted is None else wanted.sha256[:SHORT] or EMPTY
    return FieldChange(f"models.{model}.files[{path}]", _before(found), after)


def _before(found: ObservedFile | None) -> str | None:
    if found is None:
        return None
    if found.link is not None:
        return f"link to {found.link}"
    return f"a {found.odd}" if found.odd else found.sha256[:SHORT] or EMPTY


def _config_fields(
    model: str, wanted: RepositoryFile | None, found: ObservedFile | None, recorded: RepositoryFile | None
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
    mark = parameters.pop(CONTENT, None)
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


Files = Mapping[str, ObservedFile]


def diff(desired: Sequence[Desired], observed: ObservedRepositories, context: DiffContext) -> Comparison:
    """Every wanted repository, and every one of this plan file that is no longer wanted."""
    if observed.error is not None:
        known = {each.address for each in desired} | set(_recorded(context.record))
        return Comparison(unknown=tuple(_unknown(address, observed.error) for address in sorted(known)))
    changes: list[Change] = []
    unknown: list[Unreadable] = []
    for each in desired:
        name = str(each.spec["container"])
        found = observed.repositories.get(name)
        unread = observed.unreadable.get(name, {})
        unknown.extend(
            _unread(each.address.part(model), unread[model])
            for model in sorted({*unread} & {*wanted_models(each.spec)})
        )
        config = _recorded_configs(context.record, each.address)
        change = _created(each) if found is None else _updated(each, found, set(unread), config)
        changes.extend([change] if change else [])
    wanted = {each.address.name for each in desired}
    dropped = [name for name in observed.repositories if name not in wanted]
    changes.extend(_deleted(Address(context.node, "repository", name), observed.repositories[name]) for name in dropped)
    rests_on = _rests_on(desired, observed, context)
    return Comparison(changes=tuple(changes), unknown=tuple(unknown), rests_on=rests_on)


def _created(desired: Desired) -> Change:
    address, models = desired.address, wanted_models(desired.spec)
    return Change(
        address,
        Action.CREATE,
        fields=tuple(FieldChange(f"models.{name}", None, summary(model)) for name, model in models.items()),
        reasons=("the node has no such repository",),
        disturbs={address: "the repository is made anew", **_touched(address, models)},
        steps=(prepare(address), *(switch(address, name, model) for name, model in models.items())),
    )


def _updated(
    desired: Desired, found: Mapping[str, Files], unread: set[str], configs: Mapping[str, RepositoryFile]
) -> Change | None:
    """What differs. Of a model that could not be read nothing is known; one that is not wanted goes all the same."""
    address = desired.address
    models = {name: model for name, model in wanted_models(desired.spec).items() if name not in unread}
    fields: list[FieldChange] = []
    steps: list[Step] = []
    configured: set[str] = set()
    for name, model in models.items():
        told = _told(name, model, found.get(name), configs.get(name))
        fields.extend(told)
        if all(each.path.startswith(f"models.{name}.config.") for each in told):
            configured.add(name)
        steps.extend([switch(address, name, model)] if told else [])
    for name in sorted({*found, *unread} - {*wanted_models(desired.spec)}):
        fields.append(FieldChange(f"models.{name}", _count(found[name]) if name in found else "not readable", None))
        steps.append(remove(address, name))
    if not steps:
        return None
    touched = [step.payload["model"] for step in steps]
    return Change(
        address,
        Action.UPDATE,
        fields=tuple(fields),
        reasons=tuple(_reasons(models, found, [str(name) for name in touched], configured)),
        disturbs=_touched(address, [str(name) for name in touched]),
        steps=tuple(steps),
    )


def _told(name: str, model: ModelFiles, found: Files | None, config: RepositoryFile | None) -> tuple[FieldChange, ...]:
    if found is None:
        return (FieldChange(f"models.{name}", None, summary(model)),)
    return differences(name, model, found, config)


def _deleted(address: Address, found: Mapping[str, Files]) -> Change:
    reasons = (f"no model server called {address.name} is wanted on this node",)
    return Change(
        address,
        Action.DELETE,
        fields=tuple(FieldChange(f"models.{name}", _count(files), None) for name, files in found.items()),
        reasons=reasons,
        disturbs={address: "the repository is removed"},
        steps=(remove_all(address),),
    )


def _touched(address: Address, names: Iterable[str]) -> Mapping[Address, str]:
    return {address.part(name): f"the files of {name} change" for name in names}


def _reasons(
    wanted: Mapping[str, ModelFiles], found: Mapping[str, Files], touched: Iterable[str], configured: Set[str]
) -> Iterator[str]:
    """Why each model that is `touched` is; of those that are `configured` nothing differs but the config."""
    for name in touched:
        if name not in wanted:
            yield f"{name} is not among the models of this server"
        elif name not in found:
            yield f"{name} is not on the node"
        elif name in configured:
            yield f"the config of {name} on the node is not what its source and the plan file make of it"
        else:
            yield f"the files of {name} on the node differ from its source"


def _count(files: Files) -> str:
    return "1 file" if len(files) == 1 else f"{len(files)} files"


def _recorded(record: Record) -> tuple[Address, ...]:
    return tuple(address for address in record.resources if address.kind == "repository")


def _recorded_configs(record: Record, address: Address) -> Mapping[str, RepositoryFile]:
    """The config.pbtxt of each model as last applied."""
    recorded = record.resources.get(address)
    models = wanted_models(recorded.spec) if recorded else {}
    return {name: model.files[CONFIG] for name, model in models.items() if CONFIG in model.files}


def _rests_on(
    desired: Sequence[Desired], observed: ObservedRepositories, context: DiffContext
) -> Mapping[Address, str]:
    names = sorted({each.address.name for each in desired} | set(observed.repositories))
    return {Address(context.node, "repository", name): digest(_contents(observed, name)) for name in names}


def _contents(observed: ObservedRepositories, name: str) -> JsonObject | None:
    models = observed.repositories.get(name)
    if models is None:
        return None
    contents: dict[str, Json] = {
        model: {path: file.sha256 or f"link to {file.link} {file.odd}" for path, file in files.items()}
        for model, files in models.items()
    }
    return {**contents, **{model: error.code for model, error in observed.unreadable.get(name, {}).items()}}


def _unread(address: Address, error: ProbeError) -> Unreadable:
    return Unreadable(
        address,
        Diagnostic(
            "A model's files could not be read",
            f"The node could not read its files of this model: {error.text} ({error.code}).",
            "Look at the disk of the node; nothing is planned for this model until its files can be read.",
            address=str(address),
        ),
    )


def _unknown(address: Address, error: ProbeError) -> Unreadable:
    more = " Where it had much to read, plan again: it goes on from there." if error.code == "timeout" else ""
    return Unreadable(
        address,
        Diagnostic(
            "A model repository could not be read",
            f"The node did not tell what lies in its model repositories: {error.text} ({error.code}).",
            f"Look at /var/lib/gpuplan on the node; nothing is planned for these models until it can be read.{more}",
            address=str(address),
        ),
    )
