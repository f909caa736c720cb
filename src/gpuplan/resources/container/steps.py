"""Steps: the acts that create, replace, start, update or remove one container, and what each makes and frees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gpuplan.resources.container.bound import ResolvedDevices
from gpuplan.resources.container.forms import host_ports
from gpuplan.resources.container.images import image_address
from gpuplan.resources.container.shape import ContainerSpec, to_json
from gpuplan.resources.snapshot.docker import Live
from gpuplan.types.address import Address
from gpuplan.types.change import Step, Verb
from gpuplan.types.resource import Desired
from gpuplan.types.value import Json, JsonObject, Later

TAKE_OVER = "take-over"
"""Name of the step in which a new container starts while the old one serves."""


@dataclass(frozen=True)
class DesiredContainer:
    """One container as it is wanted here: its spec, its devices, and what it had when it was last applied."""

    desired: Desired
    spec: ContainerSpec
    bound: ResolvedDevices
    had: tuple[Address, ...] = ()
    """Needs that the record has of it."""
    leaves: tuple[Address, ...] = ()
    """Images of the containers that stand for it on the node."""
    specifications: tuple[Address, ...] = ()
    """What lists its devices, where the engine gives them by CDI."""
    adopts: str = ""
    """Id of the container of somebody else's whose place it takes."""
    by_cdi: bool = False
    """The engine has to be asked for its devices by the names of CDI."""
    beside: tuple[Live, ...] = ()
    """What else of it runs, left of a replacement that was cut off."""

    @property
    def address(self) -> Address:
        """Its address."""
        return self.desired.address

    @property
    def needs(self) -> tuple[Address, ...]:
        """Its devices by their own names, and its repository."""
        return (*self.bound.devices, *(need for need in self.desired.needs if need.kind != "gpu"))

    @property
    def settings(self) -> Address:
        """What is set on a container before it is started: its name, its limits."""
        return self.address.part("settings")


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
