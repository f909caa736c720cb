"""Desired and observed files → changes: which models are copied or removed, shown file by file and field by field."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from difflib import SequenceMatcher

from gpuplan.resources.repository.read import ObservedFile, ObservedFiles, ObservedRepositories
from gpuplan.resources.repository.spec import (
    CONFIG,
    ModelFiles,
    RepositoryFile,
    create_repository,
    remove_model,
    remove_repository,
    repository_spec,
    switch_model,
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

SHORT = 12
"""Hexadecimal digits of a digest that are shown."""
EMPTY_DIRECTORY = "an empty directory"


def diff(desired: Sequence[Desired], observed: ObservedRepositories, context: DiffContext) -> Comparison:
    """Every desired repository, and every other one of this plan file."""
    if observed.error is not None:
        recorded = {address for address in context.record.resources if address.kind == "repository"}
        addresses = sorted({resource.address for resource in desired} | recorded)
        return Comparison(unknown=tuple(_unreadable_node(address, observed.error) for address in addresses))
    changes: list[Change] = []
    unknown: list[Unreadable] = []
    for resource in desired:
        address, models = resource.address, repository_spec(resource.spec).models
        files = observed.repositories.get(address.name)
        errors = observed.unreadable.get(address.name, {})
        unknown.extend(_unreadable_model(address.part(name), errors[name]) for name in sorted({*errors} & {*models}))
        if files is None:
            changes.append(_create(address, models))
        elif change := _update(address, models, files, set(errors), _recorded_configs(context.record, address)):
            changes.append(change)
    names = {resource.address.name for resource in desired}
    for name, files in observed.repositories.items():
        if name not in names:
            changes.append(_delete(Address(context.node, "repository", name), files))
    rests_on = {
        Address(context.node, "repository", name): digest(_contents(observed, name))
        for name in sorted(names | set(observed.repositories))
    }
    return Comparison(changes=tuple(changes), unknown=tuple(unknown), rests_on=rests_on)


def _create(address: Address, models: Mapping[str, ModelFiles]) -> Change:
    return Change(
        address,
        Action.CREATE,
        fields=tuple(FieldChange(f"models.{name}", None, files.summary) for name, files in models.items()),
        reasons=("the node has no such repository",),
        disturbs={address: "the repository is created", **_disturbed(address, models)},
        steps=(create_repository(address), *(switch_model(address, name, files) for name, files in models.items())),
    )


def _update(
    address: Address,
    models: Mapping[str, ModelFiles],
    observed: Mapping[str, ObservedFiles],
    unreadable: Set[str],
    recorded_configs: Mapping[str, RepositoryFile],
) -> Change | None:
    """The difference of a repository; an unreadable model is left alone if it is desired, and removed if it is not."""
    changed: dict[str, Sequence[FieldChange]] = {}
    for name, files in models.items():
        if name in unreadable:
            continue
        if name not in observed:
            changed[name] = (FieldChange(f"models.{name}", None, files.summary),)
        elif changes := file_changes(name, files, observed[name], recorded_configs.get(name)):
            changed[name] = changes
    removed = sorted({*observed, *unreadable} - {*models})
    fields = [field for model_fields in changed.values() for field in model_fields]
    for name in removed:
        before = _count(observed[name]) if name in observed else "unreadable"
        fields.append(FieldChange(f"models.{name}", before, None))
    if not fields:
        return None
    steps: list[Step] = [switch_model(address, name, models[name]) for name in changed]
    steps += [remove_model(address, name) for name in removed]
    reasons = [_reason(name, changed[name], copied=name in observed) for name in changed]
    reasons += [f"the plan file does not list {name} for this server" for name in removed]
    return Change(
        address,
        Action.UPDATE,
        fields=tuple(fields),
        reasons=tuple(reasons),
        disturbs=_disturbed(address, (*changed, *removed)),
        steps=tuple(steps),
    )


def _delete(address: Address, observed: Mapping[str, ObservedFiles]) -> Change:
    return Change(
        address,
        Action.DELETE,
        fields=tuple(FieldChange(f"models.{name}", _count(files), None) for name, files in observed.items()),
        reasons=(f"the plan file has no Triton server {address.name} on this node",),
        disturbs={address: "the repository is removed"},
        steps=(remove_repository(address),),
    )


def _disturbed(address: Address, models: Iterable[str]) -> Mapping[Address, str]:
    return {address.part(name): f"the files of {name} change" for name in models}


def _reason(model: str, fields: Sequence[FieldChange], *, copied: bool) -> str:
    if not copied:
        return f"{model} is not on the node"
    if all(field.path.startswith(f"models.{model}.config.") for field in fields):
        return f"the config of {model} on the node differs from its source and the plan file"
    return f"the files of {model} on the node differ from its source"


def _count(files: ObservedFiles) -> str:
    return "1 file" if len(files) == 1 else f"{len(files)} files"


def _recorded_configs(record: Record, address: Address) -> Mapping[str, RepositoryFile]:
    """The config.pbtxt of each model as last applied."""
    recorded = record.resources.get(address)
    models = repository_spec(recorded.spec).models if recorded else {}
    return {name: model.files[CONFIG] for name, model in models.items() if CONFIG in model.files}


def _contents(observed: ObservedRepositories, name: str) -> JsonObject | None:
    models = observed.repositories.get(name)
    if models is None:
        return None
    contents: dict[str, Json] = {
        model: {path: file.sha256 or f"link to {file.link} {file.special}" for path, file in files.items()}
        for model, files in models.items()
    }
    return {**contents, **{model: error.code for model, error in observed.unreadable.get(name, {}).items()}}


def _unreadable_model(address: Address, error: ProbeError) -> Unreadable:
    return Unreadable(
        address,
        Diagnostic(
            "Cannot read the files of a model",
            f"The node could not read its files of this model: {error.text} ({error.code}).",
            "Check the disk of the node. Nothing is planned for this model until its files can be read.",
            address=str(address),
        ),
    )


def _unreadable_node(address: Address, error: ProbeError) -> Unreadable:
    more = " If it has many files to hash, run the command again: it continues." if error.code == "timeout" else ""
    return Unreadable(
        address,
        Diagnostic(
            "Cannot read the model repositories",
            f"The node did not report the files in its model repositories: {error.text} ({error.code}).",
            "Check /var/lib/gpuplan on the node. Nothing is planned for its models until they can be read." + more,
            address=str(address),
        ),
    )


def file_changes(
    model: str, desired: ModelFiles, observed: ObservedFiles, recorded_config: RepositoryFile | None
) -> tuple[FieldChange, ...]:
    """The differences of a model's files, those of a config.pbtxt by field; empty if there are none.

    `recorded_config` is the config.pbtxt that was last applied: its text is known, also if the node did not report it.
    """
    changes: list[FieldChange] = []
    for path in sorted({*desired.files, *observed}):
        new, old = desired.files.get(path), observed.get(path)
        if not _equal(new, old):
            fields = _config_changes(model, new, old, recorded_config) if path == CONFIG else None
            changes.extend([_file_change(model, path, new, old)] if fields is None else fields)
    new, old = desired.files.get(CONFIG), observed.get(CONFIG)
    if not changes and not _equal(new, old):  # nothing but the content digest in it differs
        changes.append(_file_change(model, CONFIG, new, old))
    return tuple(changes)


def _equal(desired: RepositoryFile | None, observed: ObservedFile | None) -> bool:
    same = (desired and desired.sha256) == (observed and observed.sha256)
    return same and (observed is None or observed.is_regular)


def _file_change(model: str, path: str, desired: RepositoryFile | None, observed: ObservedFile | None) -> FieldChange:
    before: str | None = None
    if observed is not None and observed.link is not None:
        before = f"link to {observed.link}"
    elif observed is not None:
        before = f"a {observed.special}" if observed.special else observed.sha256[:SHORT] or EMPTY_DIRECTORY
    after = None if desired is None else desired.sha256[:SHORT] or EMPTY_DIRECTORY
    return FieldChange(f"models.{model}.files[{path}]", before, after)


def _config_changes(
    model: str, desired: RepositoryFile | None, observed: ObservedFile | None, recorded: RepositoryFile | None
) -> tuple[FieldChange, ...] | None:
    """The differences of a config by field, none if only the content digest differs; None if it cannot be parsed."""
    before = None if observed is None else observed.text
    if before is None and observed is not None and recorded is not None and recorded.sha256 == observed.sha256:
        before = recorded.text
    if desired is None or desired.text is None or before is None:
        return None
    try:
        (old, old_content), (new, new_content) = _parse(before), _parse(desired.text)
    except model_config.ConfigSyntaxError:
        return None
    if (old, old_content) == (new, new_content):
        return None
    return tuple(FieldChange(f"models.{model}.config.{path}", was, will) for path, was, will in _walk("", old, new))


def _parse(text: str) -> tuple[JsonObject, Json]:
    """A config without the content digest, and the digest."""
    config = dict(model_config.to_json(model_config.parse(text)))
    parameters = dict(as_object(config.pop("parameters", {})))
    content = parameters.pop(CONTENT, None)
    return ({**config, "parameters": parameters} if parameters else config), content


def _walk(path: str, old: Json, new: Json) -> Iterator[tuple[str, Json, Json]]:
    """The path, old and new value of each difference."""
    if old == new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old, *new}):
            yield from _walk(f"{path}.{key}" if path else key, old.get(key), new.get(key))
    elif isinstance(old, list) and isinstance(new, list) and _are_objects(old, new):
        yield from _walk_named(path, old, new) if _have_names(old) and _have_names(new) else _walk_list(path, old, new)
    else:
        yield path, old, new


def _are_objects(old: Sequence[Json], new: Sequence[Json]) -> bool:
    """Whether two lists can be compared item by item; a list of plain values is shown as a whole."""
    return bool(old and new) and all(isinstance(item, Mapping) for item in (*old, *new))


def _have_names(items: Sequence[Json]) -> bool:
    """Whether each item has a name of its own, as tensors have."""
    names = [as_object(item).get("name") for item in items]
    return all(names) and len(set(map(str, names))) == len(names)


def _walk_named(path: str, old: Sequence[Json], new: Sequence[Json]) -> Iterator[tuple[str, Json, Json]]:
    """Item by item, whatever their order; the order, if only that differs."""
    before, after = ({str(as_object(item)["name"]): item for item in items} for items in (old, new))
    changes = [
        change
        for name in dict.fromkeys((*before, *after))
        for change in _walk(f"{path}[{name}]", before.get(name), after.get(name))
    ]
    yield from changes or [(path, list(before), list(after))]


def _walk_list(path: str, old: Sequence[Json], new: Sequence[Json]) -> Iterator[tuple[str, Json, Json]]:
    """Items that differ, with their new index; removed items with their old one."""
    old_texts, new_texts = ([canonical(item) for item in items] for items in (old, new))
    matcher = SequenceMatcher(None, old_texts, new_texts, autojunk=False)
    for tag, start, end, first, last in matcher.get_opcodes():
        if tag == "equal":
            continue
        pairs = min(end - start, last - first)
        for offset in range(pairs):
            yield from _walk(f"{path}[{first + offset}]", old[start + offset], new[first + offset])
        yield from ((f"{path}[{index}]", old[index], None) for index in range(start + pairs, end))
        yield from ((f"{path}[{index}]", None, new[index]) for index in range(first + pairs, last))
