"""Diff: the desired containers of one node against the observed ones, as changes with their steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gpuplan.resources.container.cdi import (
    gpus_refused,
    runtime_refused,
    specification_change,
    specifications_digest,
    writer_missing,
)
from gpuplan.resources.container.changes import remove
from gpuplan.resources.container.conflicts import (
    beyond_the_node,
    devices_in_use,
    memory_for_two_missing,
    names_taken,
    networks_missing,
    ports_taken,
    unmanaged_containers,
)
from gpuplan.resources.container.decide import (
    Decision,
    current_container,
    decide,
    engine_unreadable,
    matching_unmanaged,
    own_ids,
    reported_unmanaged,
)
from gpuplan.resources.container.fields.conversion import observed_fields
from gpuplan.resources.container.images import (
    canonical_name,
    find_image,
    image_unusable,
    images_to_fetch,
    images_to_remove,
    registry_errors,
    tag_moved,
)
from gpuplan.resources.container.read import ObservedContainers
from gpuplan.resources.container.resolve import NodeDiff
from gpuplan.resources.container.spec import ContainerSpec
from gpuplan.resources.snapshot.devices import requested
from gpuplan.resources.snapshot.docker import Live
from gpuplan.resources.snapshot.raw import texts
from gpuplan.types.address import Address
from gpuplan.types.change import Action, Change, Comparison
from gpuplan.types.diagnostic import Diagnostic
from gpuplan.types.resource import Desired, DiffContext
from gpuplan.types.value import Json, digest


def diff(desired: Sequence[Desired], observed: ObservedContainers, context: DiffContext) -> Comparison:
    """Compare all containers of one node."""
    if observed.error is not None:
        return engine_unreadable(desired, observed.error, context)
    node = NodeDiff(observed, context)
    own = [live for live in observed.containers if live.plan == context.plan]
    decisions = [decide(resource, own, node) for resource in desired]
    removed = sorted({live.role for live in own} - {resource.address.name for resource in desired})
    removals = [remove(name, [live for live in own if live.role == name], node) for name in removed]
    changes = [*(decision.change for decision in decisions if decision.change), *removals]
    images = list(_image_changes(decisions, changes, node))
    cdi = specification_change([decision.desired for decision in decisions if decision.desired], node)
    return Comparison(
        changes=(*images, *([cdi] if cdi else []), *changes),
        unmanaged=tuple(unmanaged_containers(node, matching_unmanaged(decisions), reported_unmanaged(decisions))),
        unknown=tuple(decision.unknown for decision in decisions if decision.unknown),
        diagnostics=(
            *_conflicts(decisions, node),
            *_gpu_access_issues(decisions, cdi, own, observed),
            *_tag_warnings(decisions, own, observed),
        ),
        rests_on={
            **{decision.address: _digest(decision.address.name, decision.spec, observed) for decision in decisions},
            **{Address(observed.node, "container", name): _digest(name, None, observed) for name in removed},
            **{change.address: _image_digest(change.address.name, observed) for change in images},
            **({cdi.address: specifications_digest(observed)} if cdi else {}),
        },
    )


def _image_changes(decisions: Sequence[Decision], changes: Sequence[Change], node: NodeDiff) -> Iterator[Change]:
    observed = node.observed
    yield from images_to_fetch(
        [decision.spec for decision in decisions if decision.spec and decision.creates], observed
    )
    desired = {canonical_name(str(decision.resource.spec.get("image") or "")) for decision in decisions}
    removed = {live.id for change in changes for live in _removed_by(change, node)}
    staying = [live for live in observed.containers if live.id not in removed]
    yield from images_to_remove(desired, staying, node)


def _removed_by(change: Change, node: NodeDiff) -> Iterable[Live]:
    """The containers that no longer exist after a change."""
    plan, name = node.context.plan, change.address.name
    own = [live for live in node.observed.containers if live.plan == plan and live.role == name]
    if change.action is not Action.UPDATE:
        return own
    ids = {container for step in change.steps for container in texts(step.payload.get("ids"))}
    return [live for live in own if live.id in ids]


def _conflicts(decisions: Sequence[Decision], node: NodeDiff) -> Iterator[Diagnostic]:
    """Warnings, and what on the node prevents containers from being created or started."""
    observed, plan = node.observed, node.context.plan
    yield from (decision.warning for decision in decisions if decision.warning)
    yield from names_taken(
        observed, plan, [decision.desired for decision in decisions if decision.desired and decision.names]
    )
    starting = [decision.desired for decision in decisions if decision.desired and decision.starts]
    creating = [decision.desired for decision in decisions if decision.desired and decision.creates]
    own = own_ids(decisions, node)
    yield from ports_taken(observed, own, starting)
    yield from devices_in_use(observed, own, starting)
    yield from beyond_the_node(observed, starting)
    yield from networks_missing(observed, creating)
    for decision in decisions:
        if decision.desired and decision.creates:
            yield from image_unusable(decision.desired, observed)
            if decision.start_first:
                yield from memory_for_two_missing(decision.desired, node)


def _tag_warnings(
    decisions: Sequence[Decision], own: Sequence[Live], observed: ObservedContainers
) -> Iterator[Diagnostic]:
    """Tags that have moved while their containers keep the image that they were created from."""
    for decision in decisions:
        current = decision.matching or current_container(decision.address.name, own)[0]
        if decision.desired and current and not decision.creates:
            yield from tag_moved(decision.desired, current, observed)
            yield from registry_errors(decision.desired, observed)


def _gpu_access_issues(
    decisions: Sequence[Decision], cdi: Change | None, own: Sequence[Live], observed: ObservedContainers
) -> Iterator[Diagnostic]:
    """Why containers that are to be started would not get their GPUs."""
    starting = [(decision.desired, decision.creates) for decision in decisions if decision.desired and decision.starts]
    yield from gpus_refused([desired for desired, _ in starting], observed.toolkit)
    yield from writer_missing(cdi, observed, creating=any(desired.specifications for desired, _ in starting))
    existing = [
        (desired, current_container(desired.address.name, own)[0]) for desired, creates in starting if not creates
    ]
    runtimes = [(desired, str(live.host_config.get("Runtime") or "")) for desired, live in existing if live]
    yield from runtime_refused(runtimes, observed.toolkit)


def _digest(name: str, spec: ContainerSpec | None, observed: ObservedContainers) -> str:
    """Digest of the containers with that name, as their own or by label, and of the image of the spec.

    An id represents everything that cannot change on a container, its environment included, so no secret takes part.
    """
    image = find_image(spec.image, observed.images) if spec else None
    containers = [_summary(live, observed) for live in observed.containers if name in (live.name, live.role)]
    return digest({"containers": containers, "image": image.id if image else None})


def _summary(live: Live, observed: ObservedContainers) -> Json:
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


def _image_digest(name: str, observed: ObservedContainers) -> str:
    image = find_image(name, observed.images)
    return digest(image.id if image else None)
