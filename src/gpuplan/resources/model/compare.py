"""Compares one desired model with its server: whether it must be loaded or reloaded, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpuplan.resources.model.read import READY, ModelServer, ModelVersion
from gpuplan.resources.model.server_status import ServerStatus
from gpuplan.resources.model.spec import ModelSpec, model_spec, replaces_overrides
from gpuplan.resources.model.steps import list_at_start, load, verify
from gpuplan.types.address import Address
from gpuplan.types.change import Action, Change, FieldChange, Verb
from gpuplan.types.resource import Desired, DiffContext
from gpuplan.types.value import Json, JsonObject

SHORT = 12
"""Hexadecimal digits of a digest that are shown."""


def compare_model(
    desired: Desired, status: ServerStatus, context: DiffContext, earlier: Mapping[Address, Change]
) -> Change | None:
    """The change of one desired model; None if it is served as desired. `earlier` has the changes of its parts.

    A reload interrupts nothing: the server loads the new version and then swaps, ensembles and their parts included.
    """
    spec = model_spec(desired.spec)
    recorded = desired.address in context.record.resources
    fields = _fields(desired, spec, status, context)
    why, root = _forced(spec, status, context)
    if not fields and not why:
        return _unverified(desired, spec) if spec.model in status.unverified else None
    if not why and [field.path for field in fields] == ["at_start"]:
        return Change(desired.address, Action.UPDATE, fields, steps=(list_at_start(desired, spec),))
    loaded = status.server is not None and bool(status.server.ready(spec.model))
    part = None if root else _part_not_loaded(desired, fields, earlier)
    cause = root if root and _explained(fields, spec, context) else part
    downtime = unload_reason(desired, spec, status, context)
    step = load(
        desired,
        spec,
        Verb.UPDATE if loaded else Verb.CREATE,
        _dropped_parts(desired, context),
        force=root is not None and root.kind == "repository",
        unload_first=bool(downtime),
        swaps=not status.disturbed,
    )
    return Change(
        desired.address,
        Action.UPDATE if loaded else Action.CREATE,
        fields=fields,
        reasons=_reasons(spec, status, why if recorded or loaded else "", part, forced=bool(why)),
        interrupts=(*removed_versions(spec, status), *downtime),
        disturbs={desired.address: f"{spec.model} is reloaded" if loaded else f"{spec.model} is loaded"},
        cause=cause if recorded else None,
        steps=(step,),
    )


def _fields(desired: Desired, spec: ModelSpec, status: ServerStatus, context: DiffContext) -> tuple[FieldChange, ...]:
    fields: list[FieldChange] = []
    server, model = status.server, spec.model
    ready = server.ready(model) if server else ()
    if not ready and (server or status.disturbed):
        fields.append(FieldChange("state", server.state(model) if server else None, READY))
        if desired.address not in context.record.resources:  # at_start goes without saying for a first load
            return (*fields, *_first_load(spec))
    elif server and not spec.has_versions(ready):
        fields.extend(_versions(spec, server))
    content = (server.contents.get(model) if server else None) or ""
    if ready and spec.repository:
        fields.extend(_overrides(desired, spec, content, context))
    elif ready and content != spec.content:
        fields.append(FieldChange("content", content[:SHORT] or None, spec.content[:SHORT]))
    if model not in status.at_start and not spec.own_command:
        fields.append(FieldChange("at_start", False, True))
    return tuple(fields)


def _first_load(spec: ModelSpec) -> Iterator[FieldChange]:
    if spec.versions:
        yield FieldChange("versions", None, list(spec.versions))
    if spec.overrides:
        yield FieldChange("override", None, shown_overrides(spec.overrides))


def _versions(spec: ModelSpec, server: ModelServer) -> Iterator[FieldChange]:
    """The versions that should be READY and are not, and the other way round."""
    states = {version.number: version.state or None for version in server.index.get(spec.model, ())}
    ready = server.ready(spec.model)
    for number in sorted({*spec.versions, *ready}):
        if (number in spec.versions) is not (number in ready):
            yield FieldChange(f"versions.{number}", states.get(number), READY if number in spec.versions else None)


def _overrides(desired: Desired, spec: ModelSpec, content: str, context: DiffContext) -> Iterator[FieldChange]:
    """The overrides, if others are in force; `content` is the digest of those that are."""
    if content != spec.content:
        previous = _recorded(desired, context)
        known = previous is not None and previous.content == content
        before = shown_overrides(previous.overrides) if previous and known else content[:SHORT]
        after = shown_overrides(spec.overrides) if spec.overrides else None
        yield FieldChange("override", before if content else None, after)


def shown_overrides(overrides: Sequence[JsonObject]) -> Json:
    """The value of the field `override`."""
    return overrides[0] if len(overrides) == 1 else list(overrides)


def removed_versions(spec: ModelSpec, status: ServerStatus) -> Sequence[str]:
    """Versions that stop serving, in one sentence."""
    ready = status.server.ready(spec.model) if status.server and spec.versions else ()
    removed = [number for number in ready if number not in spec.versions]
    if not removed:
        return ()
    which, verb, them = (
        (f"version {removed[0]}", "stops", "it")
        if len(removed) == 1
        else (f"versions {', '.join(map(str, removed))}", "stop", "them")
    )
    return (
        f"{which} of {spec.model} on {status.container.name} {verb} serving: requests for {them} are refused, "
        f"requests without a version switch to version {spec.versions[-1]} without downtime",
    )


def unload_reason(desired: Desired, spec: ModelSpec, status: ServerStatus, context: DiffContext) -> Sequence[str]:
    """What is interrupted if the model must be unloaded before it is loaded, since only an unload lifts an override.

    Overrides that state every field of those in force need no unload.
    """
    server = status.server
    if server is None or not server.ready(spec.model) or status.disturbed:
        return ()
    downtime = (f"model {spec.model} on {status.container.name} stops serving until it is loaded again",)
    content = server.contents.get(spec.model) or ""
    if not spec.repository:
        return downtime if _loaded_manually(spec, server) and not _has_new_files(spec, context) else ()
    if not content or content == spec.content:
        return ()
    previous = _recorded(desired, context)
    known = previous is not None and previous.content == content
    if previous and known and replaces_overrides(spec.overrides, previous.overrides):
        return ()
    return downtime


def _loaded_manually(spec: ModelSpec, server: ModelServer) -> bool:
    """Whether the server took a config from a load call: the config of gpuplan's files carries its mark.

    A plain load does not change such a model as long as its files are those that it was loaded from.
    """
    return not spec.repository and bool(server.ready(spec.model)) and not server.contents.get(spec.model)


def _has_new_files(spec: ModelSpec, context: DiffContext) -> bool:
    files = Address(context.node, "repository", spec.container).part(spec.model)
    return any(disturbed.covers(files) for disturbed in context.disturbed)


def _recorded(desired: Desired, context: DiffContext) -> ModelSpec | None:
    recorded = context.record.resources.get(desired.address)
    return model_spec(recorded.spec) if recorded else None


def _unverified(desired: Desired, spec: ModelSpec) -> Change:
    """The model is served as desired, but the run that loaded it was interrupted before it had checked that."""
    reason = f"the run that loaded {spec.model} was interrupted before the model was verified"
    fields = (FieldChange("verified", False, True),)
    return Change(desired.address, Action.UPDATE, fields, (reason,), steps=(verify(desired, spec),))


def _forced(spec: ModelSpec, status: ServerStatus, context: DiffContext) -> tuple[str, Address | None]:
    """Why the model must be reloaded whatever its state, and the resource that causes it."""
    if status.disturbed:
        return status.disturbed, status.container
    repository = Address(context.node, "repository", spec.container)
    files = repository.part(spec.model)
    for disturbed, why in context.disturbed.items():
        if disturbed.covers(files):
            return why, repository
    return "", None


def _explained(fields: Sequence[FieldChange], spec: ModelSpec, context: DiffContext) -> bool:
    """Whether a new server, new files or a new repository explain all differences."""
    new_repository = Address(context.node, "repository", spec.container) in context.disturbed
    paths = ("state", "content", "override", "at_start") if new_repository else ("state", "content", "override")
    return all(field.path in paths for field in fields)


def _part_not_loaded(
    desired: Desired, fields: Sequence[FieldChange], earlier: Mapping[Address, Change]
) -> Address | None:
    """The part that is not loaded, if only that explains why this model is not loaded either."""
    if [field.path for field in fields] != ["state"]:
        return None
    changed = (need for need in desired.needs if need in earlier)
    return next((need for need in changed if any(field.path == "state" for field in earlier[need].fields)), None)


def _reasons(spec: ModelSpec, status: ServerStatus, why: str, part: Address | None, *, forced: bool) -> tuple[str, ...]:
    reasons = _server_reasons(spec, status, forced=forced)
    if why:
        reasons.append(why)
    if part is not None:
        reasons.append(f"it depends on {part.name.partition('/')[2]}, which is not loaded as it should be")
    return tuple(reasons)


def _server_reasons(spec: ModelSpec, status: ServerStatus, *, forced: bool) -> list[str]:
    server = status.server
    if server is None:
        return []
    if spec.model not in server.index:
        return [] if forced else [_not_listed(spec, server)]
    missing = [version for version in server.index[spec.model] if version.state != READY and version.reason]
    reasons = [_version_reason(v) for v in missing if v.number in spec.versions or not spec.versions]
    if _loaded_manually(spec, server):
        reasons.append("it was loaded manually with a config other than that of its files")
    if spec.overrides and server.ready(spec.model) and not server.contents.get(spec.model):
        reasons.append("its config override was lost: a restarted server loads the config of its repository")
    return list(dict.fromkeys(reasons))


def _version_reason(version: ModelVersion) -> str:
    if version.reason == "unloaded":
        return f"version {version.number} was unloaded"
    return f"the server reports for version {version.number}: {' '.join(version.reason.split()).rstrip(' ;.')}"


def _not_listed(spec: ModelSpec, server: ModelServer) -> str:
    if server.on_disk is None:
        return "the server does not find the model in its repository"
    if spec.model in server.on_disk:
        return f"the server does not list the model yet, although {spec.repository} on the node has it"
    return f"the model is not in {spec.repository} on the node"


def _dropped_parts(desired: Desired, context: DiffContext) -> tuple[Address, ...]:
    """Parts that the model had when it was last applied and no longer has; they may be unloaded after its reload."""
    recorded = context.record.resources.get(desired.address)
    previous = recorded.needs if recorded else ()
    return tuple(need for need in previous if need.kind == "model" and need not in desired.needs)
