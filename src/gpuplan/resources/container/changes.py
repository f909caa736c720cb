"""Changes: the change of one container, from its differences, with the steps that make it so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from gpuplan.resources.container.conflicts import held_ports
from gpuplan.resources.container.differences import Before, desired_env, differences
from gpuplan.resources.container.fields.conversion import IN_PLACE, desired_fields, show_value
from gpuplan.resources.container.fields.networking import host_ports
from gpuplan.resources.container.images import image_address, images_of, moved_tag
from gpuplan.resources.container.resolve import DesiredContainer, NodeDiff, devices_of
from gpuplan.resources.container.spec import to_json
from gpuplan.resources.snapshot.docker import Live
from gpuplan.resources.snapshot.raw import whole
from gpuplan.types.address import Address
from gpuplan.types.change import Action, Change, FieldChange, Origin, Step, Verb
from gpuplan.types.resource import DiffContext
from gpuplan.types.value import Json, JsonObject, KnownAfterApply

START_FIRST = "replace-start-first"
"""Name of the step in which the new container starts while the old one serves."""
_UPDATABLE = IN_PLACE | {"name"}
_WITHOUT_REPLACEMENT = _UPDATABLE | {"state", "leftover"}


def create(desired: DesiredContainer) -> Change:
    """The change of a container that does not exist."""
    spec, name = desired.spec, desired.address.name
    fields = [FieldChange("image", None, spec.image)]
    if desired.resolved.unknown:
        names = ", ".join(address.name for address in desired.resolved.unknown)
        fields.append(FieldChange("gpus", None, KnownAfterApply(f"UUID of {names}")))
    elif desired.resolved.devices:
        fields.append(FieldChange("gpus", None, sorted(str(uuid) for uuid in desired.resolved.devices.values())))
    fields.extend(FieldChange(path, None, show_value(path, value)) for path, value in desired_fields(spec).items())
    fields.extend(desired_env(spec.env))
    step = _creating_step("create", Verb.CREATE, f"create container {name}", desired)
    return Change(
        desired.address,
        Action.CREATE,
        tuple(fields),
        disturbs={desired.address: f"container {name} is created"},
        steps=(step,),
    )


def converge(
    desired: DesiredContainer, before: Before | None, live: Live, extra: Sequence[Live], node: NodeDiff
) -> Change | None:
    """The change of an existing container; None if it is as desired. `extra` are leftovers to remove."""
    context = node.context
    compared = differences(desired.spec, before, live, desired.resolved, node.observed, context)
    cause = disturbance(desired, context)
    fields = (*compared.fields, *(FieldChange("leftover", other.name, None) for other in extra))
    reasons = (*compared.reasons, *(f"{other.name} is left from an interrupted replacement" for other in extra))
    forced = any(fnmatchcase(str(desired.address), pattern) for pattern in context.replace)
    if cause is None and not fields and not forced:
        return None
    if not (forced or cause or live.status in ("dead", "removing")) and _updatable_in_place(desired, live, fields):
        return _update_in_place(desired, fields, reasons, live, extra)
    also_running = tuple(other for other in extra if other.busy)
    held = [address for other in (live, *also_running) for address in devices_of(other, node)]
    fields = (*_newer_image(desired, live, node), *fields)
    reasons = (*reasons, *(["--replace names it"] if forced else []))
    desired = replace(desired, recorded_needs=(*desired.recorded_needs, *held), also_running=also_running)
    change = replace_container(desired, live, fields, reasons, cause)
    requested = forced and not compared.fields  # nothing changed on the node: the operator asked for it
    pending = (compared.pending or requested) and not (extra or cause)
    return replace(change, origin=Origin.PENDING) if pending else change


def remove(name: str, own: Sequence[Live], node: NodeDiff) -> Change:
    """The change of a container that the plan file no longer has."""
    address = Address(node.context.node, "container", name)
    recorded = node.context.record.resources.get(address)
    devices = [device for live in own for device in devices_of(live, node)]
    needs = [*(recorded.needs if recorded else ()), *devices, *images_of(own, node.observed)]
    ports = [port for live in own for port in held_ports(live)]
    step = Step(
        "remove",
        address,
        Verb.DELETE,
        f"remove container {name}",
        releases=tuple(dict.fromkeys(needs)),
        frees=(address, *_port_addresses(address.node, ports)),
    )
    return Change(
        address,
        Action.DELETE,
        tuple(FieldChange("image", image, None) for image in dict.fromkeys(live.image for live in own)),
        interrupts=tuple(f"container {live.name} stops" for live in own if live.status == "running"),
        disturbs={address: f"container {name} is removed"},
        steps=(step,),
    )


def disturbance(desired: DesiredContainer, context: DiffContext) -> tuple[Address, str] | None:
    """The resource whose change forces a replacement of the container, and why.

    A re-created repository counts: the container would keep a mount of the removed directory.
    """
    repository = Address(context.node, "repository", desired.address.name)
    if repository in context.disturbed:
        return repository, context.disturbed[repository]
    for need in desired.resolved.devices:
        for disturbed, why in context.disturbed.items():
            if disturbed.covers(need):
                return Address(need.node, "gpu", need.name.partition("/")[0].partition("[")[0]), why
    return None


def replace_container(
    desired: DesiredContainer,
    live: Live,
    fields: tuple[FieldChange, ...],
    reasons: tuple[str, ...],
    cause: tuple[Address, str] | None,
) -> Change:
    """The change by which a new container replaces a live one; `cause` is what forces it, and why."""
    name = desired.address.name
    forced_by_cause = cause is not None and all(change.path in ("gpus", "state") for change in fields)
    start_first = desired.spec.start_first and live.status == "running" and not desired.resolved.unknown
    start_first = start_first and cause is None
    running = [other for other in (live, *desired.also_running) if other.busy]
    if start_first:
        steps: tuple[Step, ...] = (_start_first_step(desired, held_ports(live)),)
    else:
        stop = [_stop_step(desired, live, [port for other in running for port in held_ports(other)])] if running else []
        replacing = _creating_step("replace", Verb.UPDATE, f"replace container {name}", desired)
        steps = (*stop, replacing)
    why = [*reasons, *([cause[1]] if cause else []), *_method_reasons(desired, live, start_first)]
    stops = not start_first and any(other.status == "running" for other in running)
    return Change(
        desired.address,
        Action.REPLACE,
        fields,
        reasons=tuple(dict.fromkeys(why)),
        interrupts=(f"container {name} stops",) if stops else (),
        disturbs={desired.address: f"container {name} is replaced"},
        cause=cause[0] if cause and forced_by_cause else None,
        steps=steps,
    )


def _newer_image(desired: DesiredContainer, live: Live, node: NodeDiff) -> tuple[FieldChange, ...]:
    """The image that the new container gets if its tag has moved."""
    tag = moved_tag(desired.spec, live, node.observed)
    if tag is None:
        return ()
    before, after = (f"{desired.spec.image} ({digest})" for digest in (tag.before, tag.after))
    return (FieldChange("image", before, after),)


def _updatable_in_place(desired: DesiredContainer, live: Live, fields: Sequence[FieldChange]) -> bool:
    """True if the engine can make all these changes on the existing container.

    It refuses CPUs if a CPU quota is set (moby, container/container_unix.go, UpdateContainer); Podman reports CPUs as
    a quota, too.
    """
    quota, period, cpus = (whole(live.host_config.get(key)) > 0 for key in ("CpuQuota", "CpuPeriod", "NanoCpus"))
    has_quota = (quota or period) and not cpus and desired.spec.cpus is not None
    if has_quota and any(change.path in _UPDATABLE for change in fields):
        return False
    return all(
        change.path in _WITHOUT_REPLACEMENT and (change.path not in IN_PLACE or change.after is not None)
        for change in fields
    )


def _update_in_place(
    desired: DesiredContainer,
    fields: tuple[FieldChange, ...],
    reasons: tuple[str, ...],
    live: Live,
    extra: Sequence[Live],
) -> Change:
    paths = {change.path for change in fields}
    steps: list[Step] = []
    if paths & _UPDATABLE:
        steps.append(_update_step(desired, live))
    if "state" in paths:
        steps.append(_start_step(desired))
    if extra:
        steps.append(_remove_leftovers_step(desired, extra))
    started = {desired.address: f"container {desired.address.name} is started"} if "state" in paths else {}
    return Change(desired.address, Action.UPDATE, fields, reasons, disturbs=started, steps=tuple(steps))


def _method_reasons(desired: DesiredContainer, live: Live, start_first: bool) -> tuple[str, ...]:
    """How it is replaced, if the plan file states update: start-first."""
    if start_first:
        return ("the old container serves until the new one is ready",)
    if desired.spec.start_first and live.busy:
        return ("despite update: start-first the old container stops first, because its GPU or repository changes",)
    return ()


def _creating_step(name: str, verb: Verb, title: str, desired: DesiredContainer) -> Step:
    node, spec = desired.address.node, desired.spec
    return Step(
        name,
        desired.address,
        verb,
        title,
        _arguments(desired),
        makes=(desired.address, *_port_addresses(node, host_ports(spec.ports))),
        uses=(*desired.needs, *desired.specifications, image_address(node, spec.image)),
        releases=desired.current_images,
    )


def _start_first_step(desired: DesiredContainer, ports: Iterable[str]) -> Step:
    title = f"replace container {desired.address.name} while it serves"
    step = _creating_step(START_FIRST, Verb.UPDATE, title, desired)
    dropped = [address for address in desired.recorded_needs if not any(address.covers(need) for need in desired.needs)]
    return replace(step, releases=(*step.releases, *dropped), frees=_port_addresses(desired.address.node, ports))


def _stop_step(desired: DesiredContainer, live: Live, ports: Iterable[str]) -> Step:
    """Stop the old container, and what else of it runs, when everything that the new one needs is on the node."""
    node = desired.address.node
    repository = tuple(need for need in desired.needs if need.kind == "repository")
    ids: list[Json] = [live.id, *(other.id for other in desired.also_running)]
    return Step(
        "stop",
        desired.address,
        Verb.UPDATE,
        f"stop container {desired.address.name}",
        {"ids": ids, "drain": desired.spec.drain, **_adopts(desired)},
        uses=(image_address(node, desired.spec.image), *repository),
        releases=tuple(dict.fromkeys((*desired.recorded_needs, *desired.needs))),
        frees=(desired.address, *_port_addresses(node, ports)),
    )


def _start_step(desired: DesiredContainer) -> Step:
    return Step(
        "start",
        desired.address,
        Verb.UPDATE,
        f"start container {desired.address.name}",
        _arguments(desired),
        makes=(desired.address, *_port_addresses(desired.address.node, host_ports(desired.spec.ports))),
        uses=(*desired.needs, desired.settings),
    )


def _update_step(desired: DesiredContainer, live: Live) -> Step:
    title = f"update container {desired.address.name}"
    arguments: JsonObject = {"spec": to_json(desired.spec), "id": live.id}
    return Step("update", desired.address, Verb.UPDATE, title, arguments, makes=(desired.settings,))


def _remove_leftovers_step(desired: DesiredContainer, extra: Sequence[Live]) -> Step:
    """Remove what an interrupted replacement left, after the container itself is confirmed ready."""
    return Step(
        "remove-leftovers",
        desired.address,
        Verb.DELETE,
        f"remove {', '.join(other.name for other in extra)}",
        {**_arguments(desired), "ids": [other.id for other in extra]},
        uses=(desired.address,),
        releases=desired.current_images,
    )


def _arguments(desired: DesiredContainer) -> dict[str, Json]:
    gpus: dict[str, Json] = {
        device.name: None if isinstance(uuid, KnownAfterApply) else uuid
        for device, uuid in desired.resolved.devices.items()
    }
    cdi: dict[str, Json] = {"cdi": True} if desired.by_cdi else {}
    return {
        "spec": to_json(desired.spec),
        "digest": desired.resource.digest,
        "gpus": gpus,
        **cdi,
        **_adopts(desired),
    }


def _adopts(desired: DesiredContainer) -> dict[str, Json]:
    return {"adopts": desired.adopts} if desired.adopts else {}


def _port_addresses(node: str, ports: Iterable[str]) -> tuple[Address, ...]:
    """Host ports as addresses, so that one container frees a port before another one takes it."""
    return tuple(Address(node, "port", port.rpartition(":")[2]) for port in ports)
