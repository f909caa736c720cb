"""Decide: what to do with each desired container of a node: nothing, a change, an adoption, or unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from gpuplan.resources.container.cdi import with_specifications
from gpuplan.resources.container.changes import START_FIRST, converge, create, disturbance, replace_container
from gpuplan.resources.container.differences import Before, Differences, differences
from gpuplan.resources.container.images import images_of
from gpuplan.resources.container.read import (
    FAILED_SUFFIX,
    NEW_SUFFIX,
    PREVIOUS_SUFFIX,
    is_leftover,
    unnamed_volumes,
)
from gpuplan.resources.container.resolve import (
    DesiredContainer,
    NodeDiff,
    devices_are_known,
    devices_of,
    resolve_devices,
)
from gpuplan.resources.container.spec import REPLACES, VISIBLE, ContainerSpec, from_json
from gpuplan.resources.snapshot.devices import environment
from gpuplan.resources.snapshot.docker import Live
from gpuplan.types.address import Address
from gpuplan.types.change import Action, Change, Comparison, Unreadable
from gpuplan.types.diagnostic import Diagnostic, Severity
from gpuplan.types.record import Recorded
from gpuplan.types.resource import Desired, DiffContext
from gpuplan.types.snapshot import ProbeError

_ADDED_ENV = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
"""Variables that gpuplan adds to a container with GPUs, and an unmanaged one need not have."""
_GPUS_BY_INDEX = ("the GPUs that it requests by index",)
_RECORD_FORMAT = "The record of a container cannot be read"
_ENGINE_FIXES = {
    "no_docker": "Install Docker on the node, or start it: systemctl start docker.",
    "docker_refused": "Start the engine (systemctl start docker), and see journalctl -u docker.",
    "no_permission": "Add the user to the group docker, or set ansible_become: true in the inventory.",
    "timeout": "The engine hangs. See journalctl -u docker, and restart it if necessary.",
}


@dataclass(frozen=True)
class Decision:
    """What to do with one desired container."""

    resource: Desired
    desired: DesiredContainer | None = None
    """None if its spec could not be read."""
    change: Change | None = None
    unknown: Unreadable | None = None
    warning: Diagnostic | None = None
    unmanaged: Live | None = None
    """The unmanaged container of its name."""

    @property
    def address(self) -> Address:
        """Its address."""
        return self.resource.address

    @property
    def spec(self) -> ContainerSpec | None:
        """Its spec, if it could be read."""
        return self.desired.spec if self.desired else None

    @property
    def matching(self) -> Live | None:
        """The unmanaged container of its name, if that is as the plan file states."""
        return self.unmanaged if self.change is None and self.unknown is None else None

    @property
    def adopted(self) -> str:
        """Id of the unmanaged container that it replaces; empty if it replaces none."""
        return self.desired.adopts if self.desired else ""

    @property
    def creates(self) -> bool:
        """True if the change set creates a container, and so needs its image."""
        return self.change is not None and self.change.action in (Action.CREATE, Action.REPLACE) and self.starts

    @property
    def start_first(self) -> bool:
        """True if a new container starts while the old one serves."""
        return self.change is not None and any(step.name == START_FIRST for step in self.change.steps)

    @property
    def starts(self) -> bool:
        """True if the change set starts the container or its replacement."""
        return self.change is not None and any(self.address in step.makes for step in self.change.steps)

    @property
    def names(self) -> bool:
        """True if the change set creates, starts or renames the container, so that its name has to be free."""
        made = (address for step in (self.change.steps if self.change else ()) for address in step.makes)
        return any(self.address.covers(address) for address in made)


def decide(resource: Desired, own: Sequence[Live], node: NodeDiff) -> Decision:
    """Decide about one desired container. `own` are this plan file's containers of the node."""
    try:
        spec = from_json(resource.spec)
    except ValueError as error:
        return Decision(resource, unknown=_spec_unreadable(resource.address, error))
    name, context = resource.address.name, node.context
    recorded = context.record.resources.get(resource.address)
    before, warning = _last_applied(resource, recorded)
    current, extra = current_container(name, own)
    desired = DesiredContainer(
        resource,
        spec,
        resolve_devices(spec.gpus, context),
        recorded_needs=recorded.needs if recorded else (),
        current_images=images_of([live for live in own if live.role == name], node.observed),
    )
    desired = with_specifications(desired, node.observed.toolkit)
    if desired.resolved.unresolved:
        return Decision(resource, desired, unknown=_gpus_unreadable(resource.address, desired.resolved.unresolved))
    unmanaged, replaced = _unmanaged(resource.address, current, node)
    if unmanaged is not None:
        return _decide_unmanaged(desired, unmanaged, node)
    if replaced is not None:
        desired, extra = replace(desired, adopts=replaced.id), (*extra, replaced)
    if current is None:
        return Decision(resource, desired, create(desired), warning=warning)
    if not devices_are_known(current, node.observed):
        return Decision(resource, desired, unknown=_gpus_unreadable(resource.address, _GPUS_BY_INDEX))
    return Decision(resource, desired, converge(desired, before, current, extra, node), warning=warning)


def current_container(name: str, own: Sequence[Live]) -> tuple[Live | None, tuple[Live, ...]]:
    """The container that counts as the one of a name, and the leftovers of replacements that have to be removed."""
    candidates = [live for live in own if live.role == name]
    order = {name: 0, name + PREVIOUS_SUFFIX: 2, name + FAILED_SUFFIX: 4}
    if any(live.name == name + NEW_SUFFIX and live.busy for live in candidates):
        order[name + NEW_SUFFIX] = 1  # if no container has the name, it was ready and about to get it
    candidates.sort(key=lambda live: (order.get(live.name, 3), live.name))
    if not candidates or candidates[0].name == name + FAILED_SUFFIX:
        return None, ()
    return candidates[0], tuple(live for live in candidates[1:] if live.name != name + FAILED_SUFFIX)


def matching_unmanaged(decisions: Sequence[Decision]) -> Mapping[str, Set[Address]]:
    """Unmanaged containers that are as the plan file states: id → the GPUs and slices that it gives them."""
    return {
        decision.matching.id: decision.desired.resolved.devices.keys()
        for decision in decisions
        if decision.matching and decision.desired
    }


def reported_unmanaged(decisions: Sequence[Decision]) -> Set[str]:
    """Ids of unmanaged containers that a change or an unknown reports."""
    differing = {decision.unmanaged.id for decision in decisions if decision.unmanaged and not decision.matching}
    return differing | {decision.adopted for decision in decisions if decision.adopted}


def own_ids(decisions: Sequence[Decision], node: NodeDiff) -> Set[str]:
    """Ids of containers that are in no conflict: this plan file's, and unmanaged ones that match or are adopted."""
    own = {live.id for live in node.observed.containers if live.plan == node.context.plan}
    return own | matching_unmanaged(decisions).keys() | {decision.adopted for decision in decisions if decision.adopted}


def engine_unreadable(desired: Sequence[Desired], error: ProbeError, context: DiffContext) -> Comparison:
    """The engine could not be read: every container that is desired or was applied is unknown."""
    recorded = (address for address in context.record.resources if address.kind == "container")
    addresses = dict.fromkeys((*(resource.address for resource in desired), *recorded))
    return Comparison(unknown=tuple(Unreadable(address, _engine_unreadable(address, error)) for address in addresses))


def _unmanaged(address: Address, current: Live | None, node: NodeDiff) -> tuple[Live | None, Live | None]:
    """The unmanaged container with the name (or that gets it back), and the one that an adoption has replaced."""
    replaced = _replaced_by_adoption(address, node)
    holder = next(
        (
            live
            for live in node.observed.containers
            if live.name == address.name and not live.plan and not is_leftover(live)
        ),
        None,
    )
    if holder is None:
        return (replaced, None) if current is None else (None, replaced)
    unfinished = current is None or current.name == holder.name + NEW_SUFFIX
    return (holder if unfinished else None), None


def _replaced_by_adoption(address: Address, node: NodeDiff) -> Live | None:
    """The unmanaged container that an interrupted adoption began to replace."""
    container_id = node.context.record.remembered.get(address, {}).get(REPLACES)
    names = (address.name, address.name + PREVIOUS_SUFFIX)
    return next((live for live in node.observed.containers if live.id == container_id and live.name in names), None)


def _decide_unmanaged(desired: DesiredContainer, live: Live, node: NodeDiff) -> Decision:
    """An unmanaged container has the name. It is left alone, unless the plan file states adopt: true.

    An engine cannot add labels to an existing container, so adopting one means replacing it.
    """
    resource = desired.resource
    if not devices_are_known(live, node.observed):
        unknown = _gpus_unreadable(desired.address, _GPUS_BY_INDEX)
        return Decision(resource, desired, unknown=unknown, unmanaged=live)
    compared = _compare_unmanaged(desired, live, node)
    auto_remove = live.host_config.get("AutoRemove") is True
    if (desired.spec.adopt or _replaced_by_adoption(desired.address, node) is live) and not auto_remove:
        desired = replace(desired, adopts=live.id)
        return Decision(resource, desired, _adopt(desired, live, compared, node), unmanaged=live)
    if not (desired.spec.adopt or compared.fields or compared.reasons):
        return Decision(resource, desired, unmanaged=live)
    warning = _auto_remove(desired, live) if desired.spec.adopt else _differs(desired, live, compared)
    reasons = ("the existing container is unmanaged, so it is left alone", *compared.reasons)
    change = Change(desired.address, Action.REPLACE, compared.fields, reasons)
    return Decision(resource, desired, change, warning=warning, unmanaged=live)


def _compare_unmanaged(desired: DesiredContainer, live: Live, node: NodeDiff) -> Differences:
    spec = _without_added_env(desired.spec, live)
    compared = differences(spec, None, live, desired.resolved, node.observed, node.context)
    if (cause := disturbance(desired, node.context)) is not None:
        return replace(compared, reasons=(*compared.reasons, cause[1]))
    return compared


def _adopt(desired: DesiredContainer, live: Live, compared: Differences, node: NodeDiff) -> Change:
    """The change by which a managed container replaces an unmanaged one."""
    observed = node.observed
    desired = replace(
        desired,
        recorded_needs=(*desired.recorded_needs, *devices_of(live, node)),
        current_images=tuple(dict.fromkeys((*desired.current_images, *images_of([live], observed)))),
    )
    volumes = unnamed_volumes(live, observed.image(live.image_id))
    reasons = (
        "it is unmanaged, and adopt: true replaces it with a managed container",
        *(f"its anonymous volume at {path} is deleted with it" for path in volumes),
        *compared.reasons,
    )
    fields = tuple(change for change in compared.fields if change.path != "name")
    return replace_container(desired, live, fields, reasons, disturbance(desired, node.context))


def _without_added_env(spec: ContainerSpec, live: Live) -> ContainerSpec:
    """Without the variables that gpuplan adds by itself; the devices that they select are compared as devices."""
    has = environment(live.config)
    env = {
        name: value
        for name, value in spec.env.items()
        if name != VISIBLE and (name in has or _ADDED_ENV.get(name) != value)
    }
    return replace(spec, env=env)


def _last_applied(resource: Desired, recorded: Recorded | None) -> tuple[Before | None, Diagnostic | None]:
    """What was last applied; None and a warning if the record has another format."""
    if recorded is None:
        return None, None
    try:
        return Before(from_json(recorded.spec), recorded.digest), None
    except ValueError as error:
        name = resource.address.name
        return None, Diagnostic(
            _RECORD_FORMAT,
            f"The node's record of {name} has an unknown format ({_wrong_fields(error)}), so settings that the plan "
            "file no longer states are left as they are.",
            "Run gpuplan apply: it writes the record again.",
            where=resource.where,
            address=str(resource.address),
            severity=Severity.WARNING,
        )


def _differs(desired: DesiredContainer, live: Live, compared: Differences) -> Diagnostic:
    paths = dict.fromkeys(change.path for change in compared.fields)
    what = ", ".join(paths) or "; ".join(compared.reasons)
    name = desired.address.name
    return desired.issue(
        "Container name already in use",
        f"An unmanaged container named {name} already exists on {desired.address.node} ({live.image}, {live.status}), "
        f"and it differs from the plan file: {what}.",
        f"Change the plan file to match it (gpuplan discover writes what it is), set adopt: true for {name} to replace "
        "it, or choose another name.",
    )


def _auto_remove(desired: DesiredContainer, live: Live) -> Diagnostic:
    return desired.issue(
        "Cannot adopt the container",
        f"{live.name} on {desired.address.node} was started with --rm: the engine removes it as soon as it stops, so "
        "it could not be restored if the new container fails.",
        f"Stop it on {desired.address.node}; gpuplan then creates a managed one:\n    docker stop {live.name}",
    )


def _gpus_unreadable(address: Address, names: Sequence[str]) -> Unreadable:
    return Unreadable(
        address,
        Diagnostic(
            "Cannot read the GPUs of a container",
            f"{', '.join(names)} could not be read on {address.node}, so {address.name} was not compared.",
            "See the diagnostics about the node's GPUs.",
            address=str(address),
        ),
    )


def _spec_unreadable(address: Address, error: ValueError) -> Unreadable:
    return Unreadable(
        address,
        Diagnostic(
            _RECORD_FORMAT,
            f"The spec of {address.name} has an unknown format ({_wrong_fields(error)}), so it was not compared.",
            "Another version of gpuplan may have written it. Use that version, or apply the plan file with this one.",
            address=str(address),
        ),
    )


def _engine_unreadable(address: Address, error: ProbeError) -> Diagnostic:
    fix = _ENGINE_FIXES.get(error.code, "Run docker info on the node.")
    detail = f"Docker on {address.node}: {error.text}"
    return Diagnostic("Cannot read the Docker engine", detail, fix, address=str(address))


def _wrong_fields(error: ValueError) -> str:
    """The names of the wrong fields, without their values, which may be secret."""
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return str(error)
    return ", ".join(sorted({".".join(map(str, item["loc"][:2])) for item in error.errors(include_input=False)}))
