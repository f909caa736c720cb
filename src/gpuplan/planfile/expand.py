"""What the plan file means on one node: which sections apply to it, its slices, containers and models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from gpuplan.planfile.scalars import Nodes
from gpuplan.planfile.schema import ContainerSection, MigSection, ModelSection, PlanFile, SliceSection
from gpuplan.resources.container.fields.networking import ServerPorts
from gpuplan.types.inventory import Host


def on_node(nodes: Nodes, host: Host) -> bool:
    """True where one of the patterns (node, group or glob) means this host."""
    return any(
        pattern in host.groups or pattern in ("all", host.name) or fnmatchcase(host.name, pattern)
        for pattern in patterns_of(nodes)
    )


def patterns_of(nodes: Nodes) -> tuple[str, ...]:
    """The patterns of a `nodes:` value."""
    return (nodes,) if isinstance(nodes, str) else nodes


def slices_of(mig: MigSection | None) -> Iterator[tuple[str, SliceSection]]:
    """(name, section) of each slice of a `mig:` section in the order written; a count gives NAME[0] … NAME[n-1]."""
    if mig is None or isinstance(mig, str):
        return
    for name, stated in mig.items():
        each = SliceSection(profile=stated) if isinstance(stated, str) else stated
        names = [name] if each.count == 1 else [f"{name}[{number}]" for number in range(each.count)]
        yield from ((one, each) for one in names)


def device_names(mig: MigSection | None) -> Iterator[str]:
    """What a container can be given of a GPU: its slices; NAME/0, NAME/1, … of one with several compute instances."""
    for name, stated in slices_of(mig):
        if len(stated.compute) > 1:
            yield from (f"{name}/{number}" for number in range(len(stated.compute)))
        else:
            yield name


def gpu_parts(plan: PlanFile, host: Host) -> tuple[str, ...]:
    """Everything that `gpus:` of a container may name on this node: ``a100-0``, ``a100-0/cls-a``, ``a100-0/b/1``.

    A GPU selected by `all` is known only on the node; it is listed as ``NAME`` and ``NAME[*]``.
    """
    found: list[str] = []
    for name, gpu in plan.gpus.items():
        if not on_node(gpu.nodes, host):
            continue
        whole = (name, f"{name}[*]") if gpu.select == "all" else (name,)
        for each in whole:
            found.append(each)
            found.extend(f"{each}/{part}" for part in device_names(gpu.mig))
    return tuple(found)


@dataclass(frozen=True)
class PlacedContainer:
    """One container on one node."""

    name: str
    """Its own name: `container_name`, else that of the plan file, or NAME-0, NAME-1, … where that says `each`."""
    container: ContainerSection
    """With `gpus` filled in, `each` gone and `ports` of its own."""
    path: tuple[str | int, ...]
    """Where it comes from, for `PlanFile.where`."""


def containers_on(plan: PlanFile, host: Host) -> tuple[PlacedContainer, ...]:
    """All containers of this node in the order of the plan file; an `each` gives one for each matching slice."""
    return tuple(
        placed
        for name, container in plan.containers.items()
        if on_node(container.nodes, host)
        for placed in _expanded(name, container, plan, host)
    )


def models_on(plan: PlanFile, host: Host, container: str) -> tuple[tuple[str, ModelSection], ...]:
    """The models that the container called `container` on this node serves, in the order of the plan file.

    A model that names an `each` container is on every container that it gives. In each returned model `containers`
    holds only this container's own name, and so does `overrides` where the plan file has one for it.
    """
    stated = next((str(placed.path[1]) for placed in containers_on(plan, host) if placed.name == container), None)
    return tuple(
        (name, _narrowed(model, stated, container))
        for name, model in plan.models.items()
        if stated is not None and stated in model.containers
    )


def matching_slices(plan: PlanFile, host: Host, each: str) -> tuple[str, ...]:
    """The slices of this node that an `each` means; a name in full means only itself, brackets included."""
    slices = tuple(part for part in gpu_parts(plan, host) if "/" in part and "[*]" not in part.partition("/")[0])
    return (each,) if each in slices else tuple(part for part in slices if fnmatchcase(part, each))


def _expanded(name: str, container: ContainerSection, plan: PlanFile, host: Host) -> Iterator[PlacedContainer]:
    path = ("containers", name)
    if container.each is None:
        yield PlacedContainer(container.container_name or name, container, path)
        return
    for number, part in enumerate(matching_slices(plan, host, container.each)):
        update = {"each": None, "gpus": (part,), "ports": _shifted(container.ports, number)}
        yield PlacedContainer(f"{name}-{number}", container.model_copy(update=update), path)


def _shifted(ports: ServerPorts | tuple[str | int, ...], number: int) -> ServerPorts | tuple[str | int, ...]:
    if not isinstance(ports, ServerPorts):
        return ports
    stated = {name: getattr(ports, name) for name in ("http", "grpc", "metrics")}
    shifted = {name: port + ports.step * number for name, port in stated.items() if port is not None}
    return ports.model_copy(update={**shifted, "step": 0})


def _narrowed(model: ModelSection, stated: str, own: str) -> ModelSection:
    overrides = {own: model.overrides[stated]} if stated in model.overrides else {}
    return model.model_copy(update={"containers": (own,), "overrides": overrides})
