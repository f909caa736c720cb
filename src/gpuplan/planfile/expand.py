"""What the plan file puts on one node: concrete containers, `each` resolved, and the models of each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from gpuplan.planfile.schema import Container, Model, PlanFile
from gpuplan.planfile.select import gpu_parts, on_node
from gpuplan.resources.container.fields.networking import ServerPorts
from gpuplan.types.inventory import Host


@dataclass(frozen=True)
class Placed:
    """One container on one node."""

    name: str
    """Its own name: `container_name`, else that of the plan file, or NAME-0, NAME-1, … where that says `each`."""
    container: Container
    """With `gpus` filled in, `each` gone and `ports` of its own."""
    path: tuple[str | int, ...]
    """Where it comes from, for `PlanFile.where`."""


def containers_on(plan: PlanFile, host: Host) -> tuple[Placed, ...]:
    """All containers of this node in the order of the plan file; an `each` gives one for each matching slice."""
    return tuple(
        placed
        for name, container in plan.containers.items()
        if on_node(container.nodes, host)
        for placed in _expanded(name, container, plan, host)
    )


def models_on(plan: PlanFile, host: Host, container: str) -> tuple[tuple[str, Model], ...]:
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


def matches(plan: PlanFile, host: Host, each: str) -> tuple[str, ...]:
    """The slices of this node that an `each` means; a name in full means only itself, brackets included."""
    slices = tuple(part for part in gpu_parts(plan, host) if "/" in part and "[*]" not in part.partition("/")[0])
    return (each,) if each in slices else tuple(part for part in slices if fnmatchcase(part, each))


def _expanded(name: str, container: Container, plan: PlanFile, host: Host) -> Iterator[Placed]:
    path = ("containers", name)
    if container.each is None:
        yield Placed(container.container_name or name, container, path)
        return
    for number, part in enumerate(matches(plan, host, container.each)):
        update = {"each": None, "gpus": (part,), "ports": _shifted(container.ports, number)}
        yield Placed(f"{name}-{number}", container.model_copy(update=update), path)


def _shifted(ports: ServerPorts | tuple[str | int, ...], number: int) -> ServerPorts | tuple[str | int, ...]:
    if not isinstance(ports, ServerPorts):
        return ports
    stated = {name: getattr(ports, name) for name in ("http", "grpc", "metrics")}
    shifted = {name: port + ports.step * number for name, port in stated.items() if port is not None}
    return ports.model_copy(update={**shifted, "step": 0})


def _narrowed(model: Model, stated: str, own: str) -> Model:
    overrides = {own: model.overrides[stated]} if stated in model.overrides else {}
    return model.model_copy(update={"containers": (own,), "overrides": overrides})
