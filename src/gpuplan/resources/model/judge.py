"""One wanted model against its server: whether it has to be loaded or reloaded, and because of what."""

from __future__ import annotations

from collections.abc import Mapping

from gpuplan.resources.model.read import READY, Version
from gpuplan.resources.model.situation import Situation
from gpuplan.resources.model.standing import (
    SHORT,
    first_time,
    loaded_by_hand,
    overridden,
    override_gap,
    override_lost,
    unseen,
    versions,
    versions_gone,
)
from gpuplan.resources.model.steps import list_at_start, load, see_through
from gpuplan.resources.model.wanted import Wanted
from gpuplan.types.address import Address
from gpuplan.types.change import Action, Change, FieldChange, Verb
from gpuplan.types.resource import Desired, DiffContext


def judge(
    desired: Desired,
    wanted: Wanted,
    found: Situation,
    context: DiffContext,
    earlier: Mapping[Address, Change],
) -> Change | None:
    """The change of one wanted model, None where it is as it should be. `earlier` are the changes of its parts.

    A reload interrupts nothing: the server loads beside what serves, then swaps, ensembles and their parts included.
    """
    known = desired.address in context.record.resources
    fields = _fields(desired, wanted, found, context)
    why, root = _forced(wanted, found, context)
    if not fields and not why:
        return _unproven(desired, wanted) if wanted.model in found.unproven else None
    if not why and [field.path for field in fields] == ["at_start"]:
        return Change(desired.address, Action.UPDATE, fields, steps=(list_at_start(desired, wanted),))
    loaded = found.server is not None and bool(found.server.ready(wanted.model))
    part = None if root else _part_behind(desired, fields, earlier)
    cause = root if root and _follows(fields, wanted, context) else part
    again = root is not None and root.kind == "repository"
    verb, dropped = (Verb.UPDATE if loaded else Verb.CREATE), _dropped(desired, context)
    anew = bool(override_gap(desired, wanted, found, context))
    step = load(desired, wanted, verb, dropped, again=again, anew=anew, swaps=not found.disturbed)
    return Change(
        desired.address,
        Action.UPDATE if loaded else Action.CREATE,
        fields=fields,
        reasons=_reasons(wanted, found, why, part, told=known or loaded),
        interrupts=(*versions_gone(wanted, found), *override_gap(desired, wanted, found, context)),
        disturbs={desired.address: f"{wanted.model} is loaded anew"},
        cause=cause if known else None,
        steps=(step,),
    )


def _fields(desired: Desired, wanted: Wanted, found: Situation, context: DiffContext) -> tuple[FieldChange, ...]:
    fields: list[FieldChange] = []
    known = desired.address in context.record.resources
    server, model = found.server, wanted.model
    ready = server.ready(model) if server else ()
    if not ready and (server or found.disturbed):
        fields.append(FieldChange("state", server.state(model) if server else None, READY))
        if not known:  # what is loaded for the first time is listed for the start as a matter of course
            return (*fields, *first_time(wanted))
    elif server and not wanted.serves(ready):
        fields.extend(versions(wanted, server))
    content = (server.contents.get(model) if server else None) or ""
    if ready and wanted.repository:
        fields.extend(overridden(desired, wanted, content, context))
    elif ready and content != wanted.content:
        fields.append(FieldChange("content", content[:SHORT] or None, wanted.content[:SHORT]))
    if model not in found.at_start and not wanted.own:
        fields.append(FieldChange("at_start", False, True))
    return tuple(fields)


def _unproven(desired: Desired, wanted: Wanted) -> Change:
    """All is as wanted, and the run that made it so did not come to seeing that it serves as it should."""
    reason = f"the run that loaded {wanted.model} was cut off before its files had proved themselves"
    fields = (FieldChange("proven", False, True),)
    return Change(desired.address, Action.UPDATE, fields, (reason,), steps=(see_through(desired, wanted),))


def _forced(wanted: Wanted, found: Situation, context: DiffContext) -> tuple[str, Address | None]:
    """Why the model must be loaded anew whatever it looks like now, and the resource that is the root of it."""
    if found.disturbed:
        return found.disturbed, found.container
    repository = Address(context.node, "repository", wanted.container)
    files = repository.part(wanted.model)
    for disturbed, why in context.disturbed.items():
        if disturbed.covers(files):
            return why, repository
    return "", None


def _follows(fields: tuple[FieldChange, ...], wanted: Wanted, context: DiffContext) -> bool:
    """True where nothing differs but what a new server, new files, or a whole new repository explain."""
    anew = Address(context.node, "repository", wanted.container) in context.disturbed
    return all(
        field.path in ("state", "content", "override") or (anew and field.path == "at_start") for field in fields
    )


def _part_behind(
    desired: Desired, fields: tuple[FieldChange, ...], earlier: Mapping[Address, Change]
) -> Address | None:
    """The part that is not loaded, where that alone explains that this model is not either."""
    if [field.path for field in fields] != ["state"]:
        return None
    absent = (need for need in desired.needs if need in earlier)
    return next((need for need in absent if any(field.path == "state" for field in earlier[need].fields)), None)


def _reasons(wanted: Wanted, found: Situation, why: str, part: Address | None, *, told: bool) -> tuple[str, ...]:
    """What the server says, and what forces the change; the latter not of a model that nobody has seen yet."""
    reasons = _server_reasons(wanted, found, forced=bool(why))
    if why and told:
        reasons.append(why)
    if part is not None:
        name = part.name.partition("/")[2]
        reasons.append(f"{name}, which it is composed of or calls, is not loaded as it should be")
    return tuple(reasons)


def _server_reasons(wanted: Wanted, found: Situation, *, forced: bool) -> list[str]:
    if found.server is None:
        return []
    if wanted.model not in found.server.index:
        return [] if forced else [unseen(wanted, found.server)]
    missing = [each for each in found.server.index[wanted.model] if each.state != READY and each.reason]
    told = [_reason(each) for each in missing if each.number in wanted.versions or not wanted.versions]
    if loaded_by_hand(wanted, found.server):
        told.append("somebody loaded it with another config than that of its files")
    return list(dict.fromkeys((*told, *override_lost(wanted, found.server))))


def _reason(version: Version) -> str:
    if version.reason == "unloaded":
        return f"version {version.number} was unloaded"
    return f"the server says of version {version.number}: {' '.join(version.reason.split()).rstrip(' ;.')}"


def _dropped(desired: Desired, context: DiffContext) -> tuple[Address, ...]:
    """Parts that the model had when it was last applied and has no more; they may go once it is reloaded."""
    recorded = context.record.resources.get(desired.address)
    before = recorded.needs if recorded else ()
    return tuple(need for need in before if need.kind == "model" and need not in desired.needs)
