"""Wanted and found files → changes: which models are brought, switched, or taken away."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from gpuplan.resources.repository.fields import differences
from gpuplan.resources.repository.read import FoundFile, Observed
from gpuplan.resources.repository.steps import prepare, remove, remove_all, summary, switch
from gpuplan.resources.repository.wanted import CONFIG, WantedFile, WantedModel, wanted_models
from gpuplan.types.address import Address
from gpuplan.types.change import Action, Change, Comparison, FieldChange, Step, Unknown
from gpuplan.types.diagnostic import Diagnostic
from gpuplan.types.record import Record
from gpuplan.types.resource import Desired, DiffContext
from gpuplan.types.snapshot import ProbeError
from gpuplan.types.value import Json, JsonObject, digest

Files = Mapping[str, FoundFile]


def diff(desired: Sequence[Desired], observed: Observed, context: DiffContext) -> Comparison:
    """Every wanted repository, and every one of this plan file that is no longer wanted."""
    if observed.error is not None:
        known = {each.address for each in desired} | set(_recorded(context.record))
        return Comparison(unknown=tuple(_unknown(address, observed.error) for address in sorted(known)))
    changes: list[Change] = []
    unknown: list[Unknown] = []
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
    desired: Desired, found: Mapping[str, Files], unread: set[str], configs: Mapping[str, WantedFile]
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
    touched = [step.arguments["model"] for step in steps]
    return Change(
        address,
        Action.UPDATE,
        fields=tuple(fields),
        reasons=tuple(_reasons(models, found, [str(name) for name in touched], configured)),
        disturbs=_touched(address, [str(name) for name in touched]),
        steps=tuple(steps),
    )


def _told(name: str, model: WantedModel, found: Files | None, config: WantedFile | None) -> tuple[FieldChange, ...]:
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
    wanted: Mapping[str, WantedModel], found: Mapping[str, Files], touched: Iterable[str], configured: Set[str]
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


def _recorded_configs(record: Record, address: Address) -> Mapping[str, WantedFile]:
    """The config.pbtxt of each model as last applied."""
    recorded = record.resources.get(address)
    models = wanted_models(recorded.spec) if recorded else {}
    return {name: model.files[CONFIG] for name, model in models.items() if CONFIG in model.files}


def _rests_on(desired: Sequence[Desired], observed: Observed, context: DiffContext) -> Mapping[Address, str]:
    names = sorted({each.address.name for each in desired} | set(observed.repositories))
    return {Address(context.node, "repository", name): digest(_contents(observed, name)) for name in names}


def _contents(observed: Observed, name: str) -> JsonObject | None:
    models = observed.repositories.get(name)
    if models is None:
        return None
    contents: dict[str, Json] = {
        model: {path: file.sha256 or f"link to {file.link} {file.odd}" for path, file in files.items()}
        for model, files in models.items()
    }
    return {**contents, **{model: error.code for model, error in observed.unreadable.get(name, {}).items()}}


def _unread(address: Address, error: ProbeError) -> Unknown:
    return Unknown(
        address,
        Diagnostic(
            "A model's files could not be read",
            f"The node could not read its files of this model: {error.text} ({error.code}).",
            "Look at the disk of the node; nothing is planned for this model until its files can be read.",
            address=str(address),
        ),
    )


def _unknown(address: Address, error: ProbeError) -> Unknown:
    more = " Where it had much to read, plan again: it goes on from there." if error.code == "timeout" else ""
    return Unknown(
        address,
        Diagnostic(
            "A model repository could not be read",
            f"The node did not tell what lies in its model repositories: {error.text} ({error.code}).",
            f"Look at /var/lib/gpuplan on the node; nothing is planned for these models until it can be read.{more}",
            address=str(address),
        ),
    )
