"""Diff: the containers that are wanted against those of the node, into changes with their steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from gpuplan.resources.container import decide
from gpuplan.resources.container.cdi import (
    gpus_refused,
    runtime_refused,
    specification_change,
    specifications_digest,
    with_specifications,
    writer_missing,
)
from gpuplan.resources.container.changes import create, follow, remove
from gpuplan.resources.container.conflicts import (
    beyond_the_node,
    devices_in_use,
    names_taken,
    networks_missing,
    ports_listened_on,
    ports_taken,
    unmanaged_containers,
    why_no_room,
)
from gpuplan.resources.container.decide import (
    Decision,
    before_unread,
    ours,
    spec_unread,
    told,
    unread,
    unresolved,
    welcome,
)
from gpuplan.resources.container.differences import Before
from gpuplan.resources.container.fields.conversion import observed_fields
from gpuplan.resources.container.images import (
    canonical_name,
    find_image,
    image_impossible,
    images_of,
    images_to_fetch,
    images_to_remove,
    registry_silent,
    tag_moved,
)
from gpuplan.resources.container.read import FAILED_SUFFIX, NEW_SUFFIX, PREVIOUS_SUFFIX, ObservedContainers
from gpuplan.resources.container.resolve import DesiredContainer, devices_are_known, resolve_devices
from gpuplan.resources.container.spec import ContainerSpec, from_json
from gpuplan.resources.snapshot.devices import requested
from gpuplan.resources.snapshot.docker import Live
from gpuplan.resources.snapshot.raw import texts
from gpuplan.types.address import Address
from gpuplan.types.change import Action, Change, Comparison
from gpuplan.types.diagnostic import Diagnostic
from gpuplan.types.record import Recorded
from gpuplan.types.resource import Desired, DiffContext
from gpuplan.types.value import Json, digest


def diff(desired: Sequence[Desired], observed: ObservedContainers, context: DiffContext) -> Comparison:
    """Compare all containers of one node."""
    if observed.error is not None:
        return unread(desired, observed.error, context)
    ours = [live for live in observed.containers if live.plan == context.plan]
    verdicts = [_judge(each, ours, observed, context) for each in desired]
    gone = sorted({live.role for live in ours} - {each.address.name for each in desired})
    removals = [remove(role, [each for each in ours if each.role == role], observed, context) for role in gone]
    changes = [*(verdict.change for verdict in verdicts if verdict.change), *removals]
    images = list(_images(verdicts, changes, observed, context))
    cdi = specification_change([verdict.wanted for verdict in verdicts if verdict.wanted], observed, context)
    return Comparison(
        changes=(*images, *([cdi] if cdi else []), *changes),
        unmanaged=tuple(unmanaged_containers(observed, context, welcome(verdicts), told(verdicts))),
        unknown=tuple(verdict.unknown for verdict in verdicts if verdict.unknown),
        diagnostics=(
            *_impossible(verdicts, observed, context.plan),
            *_preflight(verdicts, cdi, ours, observed),
            *_tags(verdicts, ours, observed),
        ),
        rests_on={
            **{verdict.address: _seen(verdict.address.name, verdict.spec, observed) for verdict in verdicts},
            **{Address(observed.node, "container", role): _seen(role, None, observed) for role in gone},
            **{change.address: _seen_image(change.address.name, observed) for change in images},
            **({cdi.address: specifications_digest(observed)} if cdi else {}),
        },
    )


def _judge(desired: Desired, ours: Sequence[Live], observed: ObservedContainers, context: DiffContext) -> Decision:
    try:
        spec = from_json(desired.spec)
    except ValueError as fault:
        return Decision(desired, unknown=spec_unread(desired.address, fault))
    recorded = context.record.resources.get(desired.address)
    before, warning = _before(desired, recorded)
    current, extra = _current(desired.address.name, ours)
    leaves = images_of([live for live in ours if live.role == desired.address.name], observed)
    wanted = DesiredContainer(
        desired, spec, resolve_devices(spec.gpus, context), recorded.needs if recorded else (), leaves
    )
    wanted = with_specifications(wanted, observed.toolkit)
    if wanted.bound.missing:
        return Decision(desired, wanted, unknown=unresolved(desired.address, wanted.bound.missing))
    foreign, aside = _foreign(desired.address, current, observed, context)
    if foreign is not None:
        return _stranger(wanted, foreign, observed, context)
    if aside is not None:
        wanted, extra = replace(wanted, adopts=aside.id), (*extra, aside)
    if current is None:
        return Decision(desired, wanted, create(wanted), warning=warning)
    if not devices_are_known(current, observed):
        asks = ("the GPUs that it asks for by index",)
        return Decision(desired, wanted, unknown=unresolved(desired.address, asks))
    change = follow(wanted, before, current, extra, observed, context)
    return Decision(desired, wanted, change, warning=warning)


def _foreign(
    address: Address, current: Live | None, observed: ObservedContainers, context: DiffContext
) -> tuple[Live | None, Live | None]:
    """What somebody else made and has the name (or is to get it back), and what a new one has taken the place of."""
    begun = decide.moved_aside(address, observed, context)
    foreign = decide.holder(address.name, observed)
    if foreign is not None:
        return (foreign if decide.stands(current, foreign) else None), None
    return (begun, None) if current is None else (None, begun)


def _stranger(wanted: DesiredContainer, live: Live, observed: ObservedContainers, context: DiffContext) -> Decision:
    """The verdict on a container that somebody else made: left alone, unless the plan file has it replaced."""
    desired, address = wanted.desired, wanted.address
    if not devices_are_known(live, observed):
        asks = ("the GPUs that it asks for by index",)
        return Decision(desired, wanted, unknown=unresolved(address, asks), foreign=live)
    begun = decide.moved_aside(address, observed, context) is live
    if (wanted.spec.adopt or begun) and not decide.removes_itself(live):
        wanted = replace(wanted, adopts=live.id)
        change = decide.adopted(wanted, live, observed, context)
        return Decision(desired, wanted, change, foreign=live)
    found = decide.compared(wanted, live, observed, context)
    if wanted.spec.adopt:
        change, _ = decide.differing(wanted, live, found)
        return Decision(desired, wanted, change, warning=decide.gone_when_it_stops(wanted, live), foreign=live)
    if found.fields or found.reasons:
        change, told = decide.differing(wanted, live, found)
        return Decision(desired, wanted, change, warning=told, foreign=live)
    return Decision(desired, wanted, foreign=live)


def _before(desired: Desired, recorded: Recorded | None) -> tuple[Before | None, Diagnostic | None]:
    """What was last applied; nothing, and a warning, where the record has it in another form."""
    if recorded is None:
        return None, None
    try:
        return Before(from_json(recorded.spec), recorded.digest), None
    except ValueError as fault:
        return None, before_unread(desired, fault)


def _current(name: str, ours: Sequence[Live]) -> tuple[Live | None, tuple[Live, ...]]:
    """The container that stands for a name, and what else of it is there and has to go."""
    mine = [live for live in ours if live.role == name]
    order = {name: 0, name + PREVIOUS_SUFFIX: 2, name + FAILED_SUFFIX: 4}
    if any(live.name == name + NEW_SUFFIX and live.busy for live in mine):
        order[name + NEW_SUFFIX] = 1  # where nobody has the name, it has proven itself: it was about to take it
    candidates = sorted(mine, key=lambda live: (order.get(live.name, 3), live.name))
    if not candidates or candidates[0].name == name + FAILED_SUFFIX:
        return None, ()
    return candidates[0], tuple(live for live in candidates[1:] if live.name != name + FAILED_SUFFIX)


def _images(
    verdicts: Sequence[Decision], changes: Sequence[Change], observed: ObservedContainers, context: DiffContext
) -> Iterator[Change]:
    yield from images_to_fetch([verdict.spec for verdict in verdicts if verdict.spec and verdict.made], observed)
    wanted = {canonical_name(str(verdict.desired.spec.get("image") or "")) for verdict in verdicts}
    leaving = {live.id for change in changes for live in _leaving(change, observed, context.plan)}
    staying = [live for live in observed.containers if live.id not in leaving]
    yield from images_to_remove(wanted, staying, context.record, observed)


def _leaving(change: Change, observed: ObservedContainers, plan: str) -> Iterable[Live]:
    """The containers that are on the node no more once a change is made."""
    mine = [live for live in observed.containers if live.plan == plan and live.role == change.address.name]
    if change.action is not Action.UPDATE:
        return mine
    ids = {one for step in change.steps for one in texts(step.arguments.get("ids"))}
    return [live for live in mine if live.id in ids]


def _impossible(verdicts: Sequence[Decision], observed: ObservedContainers, plan: str) -> Iterator[Diagnostic]:
    yield from (verdict.warning for verdict in verdicts if verdict.warning)
    named = [verdict.wanted for verdict in verdicts if verdict.wanted and verdict.makes(verdict.address)]
    yield from names_taken(observed, plan, named)
    starting = [verdict.wanted for verdict in verdicts if verdict.wanted and verdict.starts]
    known = ours(verdicts, observed, plan)
    yield from ports_taken(observed, known, starting)
    yield from ports_listened_on(observed, known, starting)
    yield from devices_in_use(observed, known, starting)
    yield from beyond_the_node(observed, starting)
    yield from networks_missing(observed, [each.wanted for each in verdicts if each.wanted and each.made])
    for verdict in verdicts:
        if verdict.wanted and verdict.made:
            yield from image_impossible(verdict.wanted, observed)
            yield from _no_room_for_two(verdict, observed, plan)


def _tags(verdicts: Sequence[Decision], ours: Sequence[Live], observed: ObservedContainers) -> Iterator[Diagnostic]:
    """Tags that have moved on under containers that stay as they are."""
    for verdict in verdicts:
        current = verdict.welcome or _current(verdict.address.name, ours)[0]
        if verdict.wanted and current and not verdict.made:
            yield from tag_moved(verdict.wanted, current, observed)
            yield from registry_silent(verdict.wanted, observed)


def _preflight(
    verdicts: Sequence[Decision], cdi: Change | None, ours: Sequence[Live], observed: ObservedContainers
) -> Iterator[Diagnostic]:
    """Why containers that are to be started would not get their GPUs."""
    starting = [(verdict.wanted, verdict.made) for verdict in verdicts if verdict.wanted and verdict.starts]
    yield from gpus_refused([wanted for wanted, _ in starting], observed.toolkit)
    yield from writer_missing(cdi, observed, making=any(wanted.specifications for wanted, _ in starting))
    standing = [(wanted, _current(wanted.address.name, ours)[0]) for wanted, made in starting if not made]
    runtimes = [(wanted, str(live.host_config.get("Runtime") or "")) for wanted, live in standing if live]
    yield from runtime_refused(runtimes, observed.toolkit)


def _no_room_for_two(verdict: Decision, observed: ObservedContainers, plan: str) -> Iterator[Diagnostic]:
    """Devices on which a new container cannot compute beside the old."""
    wanted = verdict.wanted
    if wanted is None or not verdict.takes_over:
        return
    uuids = {str(uuid) for uuid in wanted.bound.devices.values()}
    for live in observed.containers:
        if live.id == wanted.adopts or (live.plan, live.role) == (plan, wanted.address.name):
            for why in why_no_room(live.id, uuids, observed.memory):
                yield Diagnostic(
                    "Two containers do not fit on a GPU",
                    f"{wanted.address.name} is to start beside the old one (update: start-first), but {why}.",
                    f"State update: stop-first for {wanted.address.name}, or make room on {wanted.address.node}.",
                    where=wanted.desired.where,
                    address=str(wanted.address),
                )


def _seen(name: str, spec: ContainerSpec | None, observed: ObservedContainers) -> str:
    """Digest of each container that has a name, as its own or by label, and of the image that is wanted for it.

    An id stands for all that cannot change on a container, its environment included, so that no secret takes part.
    """
    image = find_image(spec.image, observed.images) if spec else None
    found = [_seen_container(live, observed) for live in observed.containers if name in (live.name, live.role)]
    return digest({"containers": found, "image": image.id if image else None})


def _seen_container(live: Live, observed: ObservedContainers) -> Json:
    fields = observed_fields(live)
    return {
        "id": live.id,
        "name": live.name,
        "status": live.status,
        "image": live.image_id,
        "limits": [fields[path] for path in ("restart", "memory", "cpus")],
        "denied": list(observed.denied.get(live.id, ())),
        "gpus": sorted(requested(live.config, live.host_config, observed.default_runtime, observed.gpus)),
    }


def _seen_image(name: str, observed: ObservedContainers) -> str:
    image = find_image(name, observed.images)
    return digest(image.id if image else None)
