"""Changes: what becomes of one container, decided from its differences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from gpuplan.resources.container.conflicts import held_ports
from gpuplan.resources.container.differences import Before, desired_env, differences
from gpuplan.resources.container.fields.conversion import IN_PLACE, desired_fields, show_value
from gpuplan.resources.container.fields.networking import host_ports
from gpuplan.resources.container.images import image_address, images_of, moved_tag
from gpuplan.resources.container.read import ObservedContainers
from gpuplan.resources.container.resolve import DesiredContainer, devices_of
from gpuplan.resources.container.spec import to_json
from gpuplan.resources.snapshot.docker import Live
from gpuplan.resources.snapshot.raw import whole
from gpuplan.types.address import Address
from gpuplan.types.change import Action, Change, FieldChange, Origin, Step, Verb
from gpuplan.types.resource import DiffContext
from gpuplan.types.value import Json, JsonObject, Later

TAKE_OVER = "take-over"
"""Name of the step in which a new container starts while the old one serves."""


def create_step(wanted: DesiredContainer) -> Step:
    """Create, start, and wait until it is ready."""
    return _making("create", Verb.CREATE, f"create container {wanted.address.name}", wanted)


def replace_step(wanted: DesiredContainer) -> Step:
    """Create the new one in the place of the old, which is kept until the new one is ready."""
    return _making("replace", Verb.UPDATE, f"replace container {wanted.address.name}", wanted)


def take_over_step(wanted: DesiredContainer, held: Iterable[str]) -> Step:
    """Create the new one beside the old, which serves until the new one does."""
    step = _making(TAKE_OVER, Verb.UPDATE, f"replace container {wanted.address.name} while it serves", wanted)
    left = tuple(address for address in wanted.had if not any(address.covers(need) for need in wanted.needs))
    return replace(step, releases=(*step.releases, *left), frees=_ports(wanted.address.node, held))


def start_step(wanted: DesiredContainer) -> Step:
    """Start what is there, and wait until it is ready."""
    node, name = wanted.address.node, wanted.address.name
    return Step(
        "start",
        wanted.address,
        Verb.UPDATE,
        f"start container {name}",
        _arguments(wanted),
        makes=(wanted.address, *_ports(node, host_ports(wanted.spec.ports))),
        uses=(*wanted.needs, wanted.settings),
    )


def update_step(wanted: DesiredContainer, live: Live) -> Step:
    """Set what the engine can change on a container that runs, its name included."""
    title = f"update container {wanted.address.name}"
    arguments: JsonObject = {"spec": to_json(wanted.spec), "id": live.id}
    return Step("update", wanted.address, Verb.UPDATE, title, arguments, makes=(wanted.settings,))


def tidy_step(wanted: DesiredContainer, extra: Sequence[Live]) -> Step:
    """Remove what an interrupted replacement left, once the container itself has proven that it serves."""
    title = f"remove {', '.join(each.name for each in extra)}"
    arguments: JsonObject = {**_arguments(wanted), "ids": [each.id for each in extra]}
    uses, releases = (wanted.address,), wanted.leaves
    return Step("tidy", wanted.address, Verb.DELETE, title, arguments, uses=uses, releases=releases)


def stop_step(wanted: DesiredContainer, live: Live, held: Iterable[str]) -> Step:
    """Stop the old one, and whatever runs beside it, as soon as everything for the new one is on the node."""
    node = wanted.address.node
    repository = tuple(need for need in wanted.needs if need.kind == "repository")
    return Step(
        "stop",
        wanted.address,
        Verb.UPDATE,
        f"stop container {wanted.address.name}",
        {"ids": [live.id, *(each.id for each in wanted.beside)], "drain": wanted.spec.drain, **_adopts(wanted)},
        uses=(image_address(node, wanted.spec.image), *repository),
        releases=tuple(dict.fromkeys((*wanted.had, *wanted.needs))),
        frees=(wanted.address, *_ports(node, held)),
    )


def remove_step(address: Address, held: Iterable[str], needs: Iterable[Address]) -> Step:
    """Stop and remove a container and what replacements left of it. `needs` is what it releases."""
    return Step(
        "remove",
        address,
        Verb.DELETE,
        f"remove container {address.name}",
        releases=tuple(needs),
        frees=(address, *_ports(address.node, held)),
    )


def _making(name: str, verb: Verb, title: str, wanted: DesiredContainer) -> Step:
    node, spec = wanted.address.node, wanted.spec
    return Step(
        name,
        wanted.address,
        verb,
        title,
        _arguments(wanted),
        makes=(wanted.address, *_ports(node, host_ports(spec.ports))),
        uses=(*wanted.needs, *wanted.specifications, image_address(node, spec.image)),
        releases=wanted.leaves,
    )


def _arguments(wanted: DesiredContainer) -> dict[str, Json]:
    gpus: dict[str, Json] = {
        part.name: None if isinstance(uuid, Later) else uuid for part, uuid in wanted.bound.devices.items()
    }
    cdi: dict[str, Json] = {"cdi": True} if wanted.by_cdi else {}
    return {"spec": to_json(wanted.spec), "digest": wanted.desired.digest, "gpus": gpus, **cdi, **_adopts(wanted)}


def _adopts(wanted: DesiredContainer) -> dict[str, Json]:
    return {"adopts": wanted.adopts} if wanted.adopts else {}


def _ports(node: str, held: Iterable[str]) -> tuple[Address, ...]:
    """Host ports as addresses of their own, so that one container gives a port up before another takes it."""
    return tuple(Address(node, "port", port.rpartition(":")[2]) for port in held)


_UPDATED = IN_PLACE | {"name"}
_IN_PLACE = _UPDATED | {"state", "leftover"}


def create(wanted: DesiredContainer) -> Change:
    """The container is not there."""
    spec = wanted.spec
    fields = [FieldChange("image", None, spec.image)]
    if wanted.bound.later:
        names = ", ".join(address.name for address in wanted.bound.later)
        fields.append(FieldChange("gpus", None, Later(f"UUID of {names}")))
    elif wanted.bound.devices:
        fields.append(FieldChange("gpus", None, sorted(str(uuid) for uuid in wanted.bound.devices.values())))
    fields.extend(FieldChange(path, None, show_value(path, value)) for path, value in desired_fields(spec).items())
    fields.extend(desired_env(spec.env))
    name = wanted.address.name
    return Change(
        wanted.address,
        Action.CREATE,
        tuple(fields),
        disturbs={wanted.address: f"container {name} is created"},
        steps=(create_step(wanted),),
    )


def follow(
    wanted: DesiredContainer,
    before: Before | None,
    live: Live,
    extra: Sequence[Live],
    observed: ObservedContainers,
    context: DiffContext,
) -> Change | None:
    """The container is there: what has to be done for it to be as wanted; None where nothing has to."""
    found = differences(wanted.spec, before, live, wanted.bound, observed, context)
    disturbed = disturbance(wanted, context)
    fields = (*found.fields, *(FieldChange("leftover", each.name, None) for each in extra))
    reasons = (*found.reasons, *(f"{each.name} is left of an interrupted replacement" for each in extra))
    forced = any(fnmatchcase(str(wanted.address), pattern) for pattern in context.replace)
    if disturbed is None and not fields and not forced:
        return None
    if forced or disturbed is not None or live.status in ("dead", "removing") or not _stays(wanted, live, fields):
        beside = tuple(each for each in extra if each.busy)
        holds = [address for each in (live, *beside) for address in devices_of(each, observed, context)]
        fields = (*_newer_image(wanted, live, observed), *fields)
        reasons = (*reasons, *(["--replace names it"] if forced else []))
        wanted = replace(wanted, had=(*wanted.had, *holds), beside=beside)
        change = in_its_place(wanted, live, fields, reasons, disturbed)
        asked = forced and not found.fields  # nothing was changed on the node: the operator wants it so
        pending = (found.pending or asked) and not (extra or disturbed)
        return replace(change, origin=Origin.PENDING) if pending else change
    return _updated(wanted, fields, reasons, live, extra)


def remove(role: str, ours: Sequence[Live], observed: ObservedContainers, context: DiffContext) -> Change:
    """The container is not wanted any more."""
    address = Address(context.node, "container", role)
    recorded = context.record.resources.get(address)
    ports = [port for live in ours for port in held_ports(live)]
    needs = [*(recorded.needs if recorded else ()), *(a for live in ours for a in devices_of(live, observed, context))]
    images = dict.fromkeys(live.image for live in ours)
    return Change(
        address,
        Action.DELETE,
        tuple(FieldChange("image", image, None) for image in images),
        interrupts=tuple(f"container {live.name} stops" for live in ours if live.status == "running"),
        disturbs={address: f"container {role} is removed"},
        steps=(remove_step(address, ports, dict.fromkeys((*needs, *images_of(ours, observed)))),),
    )


def _newer_image(wanted: DesiredContainer, live: Live, observed: ObservedContainers) -> tuple[FieldChange, ...]:
    """The image that a container gets with its replacement, where its tag has moved on."""
    found = moved_tag(wanted.spec, live, observed)
    if found is None:
        return ()
    before, after = (f"{wanted.spec.image} ({each})" for each in (found.before, found.after))
    return (FieldChange("image", before, after),)


def _stays(wanted: DesiredContainer, live: Live, fields: Sequence[FieldChange]) -> bool:
    """True where the engine makes all of it so on the container that is there.

    It refuses CPUs where somebody has set a quota (moby, container/container_unix.go, UpdateContainer); Podman tells
    its own CPUs as a quota, too.
    """
    quota, period, cpus = (whole(live.host_config.get(key)) > 0 for key in ("CpuQuota", "CpuPeriod", "NanoCpus"))
    refused = (
        (quota or period)
        and not cpus
        and wanted.spec.cpus is not None
        and any(change.path in _UPDATED for change in fields)
    )
    return not refused and all(map(_in_place, fields))


def _in_place(change: FieldChange) -> bool:
    return change.path in _IN_PLACE and (change.path not in IN_PLACE or change.after is not None)


def disturbance(wanted: DesiredContainer, context: DiffContext) -> tuple[Address, str] | None:
    """The resource whose change takes the container along, and why.

    A repository that is made anew leaves the container with a mount of the directory that went.
    """
    repository = Address(context.node, "repository", wanted.address.name)
    if repository in context.disturbed:
        return repository, context.disturbed[repository]
    for need in wanted.bound.devices:
        for disturbed, why in context.disturbed.items():
            if disturbed.covers(need):
                return Address(need.node, "gpu", need.name.partition("/")[0].partition("[")[0]), why
    return None


def in_its_place(
    wanted: DesiredContainer,
    live: Live,
    fields: tuple[FieldChange, ...],
    reasons: tuple[str, ...],
    because: tuple[Address, str] | None,
) -> Change:
    """The change by which a new container takes the place of one; `because` is what takes it along, and why."""
    name = wanted.address.name
    follows = because is not None and all(change.path in ("gpus", "state") for change in fields)
    stops = because is not None or not _takes_over(wanted, live)
    why = [*reasons, *([because[1]] if because else []), *_how(wanted, live, stops)]
    running = [each for each in (live, *wanted.beside) if each.busy]
    held = [port for each in running for port in held_ports(each)]
    steps = (
        (*([stop_step(wanted, live, held)] if running else []), replace_step(wanted))
        if stops
        else (take_over_step(wanted, held_ports(live)),)
    )
    return Change(
        wanted.address,
        Action.REPLACE,
        fields,
        reasons=tuple(dict.fromkeys(why)),
        interrupts=(f"container {name} stops",) if stops and any(each.status == "running" for each in running) else (),
        disturbs={wanted.address: f"container {name} is replaced"},
        cause=because[0] if because and follows else None,
        steps=steps,
    )


def _takes_over(wanted: DesiredContainer, live: Live) -> bool:
    """True where the new one can start while the old one serves."""
    return wanted.spec.start_first and live.status == "running" and not wanted.bound.later


def _how(wanted: DesiredContainer, live: Live, stops: bool) -> tuple[str, ...]:
    """Whether there is a gap, where the plan file says that there should be none."""
    if not stops:
        return ("the new one takes over while the old one serves",)
    if wanted.spec.start_first and live.busy:
        return ("it stops before the new one starts in spite of update: start-first, since what it rests on changes",)
    return ()


def _updated(
    wanted: DesiredContainer,
    fields: tuple[FieldChange, ...],
    reasons: tuple[str, ...],
    live: Live,
    extra: Sequence[Live],
) -> Change:
    paths = {change.path for change in fields}
    steps: list[Step] = []
    if paths & _UPDATED:
        steps.append(update_step(wanted, live))
    if "state" in paths:
        steps.append(start_step(wanted))
    if extra:
        steps.append(tidy_step(wanted, extra))
    started = {wanted.address: f"container {wanted.address.name} is started"} if "state" in paths else {}
    return Change(wanted.address, Action.UPDATE, fields, reasons, disturbs=started, steps=tuple(steps))
