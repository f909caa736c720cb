"""Steps: the acts that create, replace, start, update or remove one container, and what each makes and frees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpuplan.kinds.container.bound import Bound
from gpuplan.kinds.container.images import canonical_name
from gpuplan.kinds.container.ports import host_ports
from gpuplan.kinds.container.read import Live
from gpuplan.kinds.container.shape import ContainerSpec, to_json
from gpuplan.model.address import Address
from gpuplan.model.change import Step, Verb
from gpuplan.model.resource import Desired
from gpuplan.model.value import Json, Later


@dataclass(frozen=True)
class Wanted:
    """One container as it is wanted here: its spec, its devices, and what it had when it was last applied."""

    desired: Desired
    spec: ContainerSpec
    bound: Bound
    had: tuple[Address, ...] = ()
    """Needs that the record has of it."""

    @property
    def address(self) -> Address:
        """Its address."""
        return self.desired.address

    @property
    def needs(self) -> tuple[Address, ...]:
        """Its devices by their own names, and its repository."""
        return (*self.bound.devices, *(need for need in self.desired.needs if need.kind != "gpu"))


def image_step(wanted: Wanted) -> Step:
    """Bring the image before anything is stopped for it."""
    spec, node = wanted.spec, wanted.address.node
    title = f"load image {spec.image} from {spec.archive}" if spec.archive else f"pull image {spec.image}"
    makes = (_image(node, spec.image),)
    return Step("image", wanted.address, Verb.CREATE, title, {"spec": to_json(spec)}, makes=makes)


def create_step(wanted: Wanted) -> Step:
    """Create, start, and wait until it is ready."""
    return _making("create", Verb.CREATE, f"create container {wanted.address.name}", wanted)


def replace_step(wanted: Wanted) -> Step:
    """Create the new one beside the old, which is kept until the new one is ready."""
    return _making("replace", Verb.UPDATE, f"replace container {wanted.address.name}", wanted)


def start_step(wanted: Wanted) -> Step:
    """Start what is there, and wait until it is ready."""
    return _making("start", Verb.UPDATE, f"start container {wanted.address.name}", wanted)


def update_step(wanted: Wanted, live: Live) -> Step:
    """Set what the engine can change on a container that runs, its name included."""
    title = f"update container {wanted.address.name}"
    return Step("update", wanted.address, Verb.UPDATE, title, {"spec": to_json(wanted.spec), "id": live.id})


def tidy_step(wanted: Wanted, extra: Sequence[Live]) -> Step:
    """Remove what an interrupted replacement left."""
    title = f"remove {', '.join(each.name for each in extra)}"
    return Step("tidy", wanted.address, Verb.DELETE, title, {"ids": [each.id for each in extra]})


def stop_step(wanted: Wanted, live: Live, held: Iterable[str]) -> Step:
    """Stop the old one, as soon as everything for the new one is on the node."""
    node = wanted.address.node
    repository = tuple(need for need in wanted.needs if need.kind == "repository")
    return Step(
        "stop",
        wanted.address,
        Verb.UPDATE,
        f"stop container {wanted.address.name}",
        {"id": live.id, "name": live.name},
        uses=(_image(node, wanted.spec.image), *repository),
        releases=tuple(dict.fromkeys((*wanted.had, *wanted.needs))),
        frees=(wanted.address, *_ports(node, held)),
    )


def remove_step(address: Address, held: Iterable[str], needs: Iterable[Address], images: Sequence[str]) -> Step:
    """Stop and remove a container and what replacements left of it; then those of the images that nothing uses."""
    return Step(
        "remove",
        address,
        Verb.DELETE,
        f"remove container {address.name}",
        {"images": list(images)},
        releases=tuple(needs),
        frees=(address, *_ports(address.node, held)),
    )


def _making(name: str, verb: Verb, title: str, wanted: Wanted) -> Step:
    node, spec = wanted.address.node, wanted.spec
    gpus: dict[str, Json] = {
        part.name: None if isinstance(uuid, Later) else uuid for part, uuid in wanted.bound.devices.items()
    }
    return Step(
        name,
        wanted.address,
        verb,
        title,
        {"spec": to_json(spec), "digest": wanted.desired.digest, "gpus": gpus},
        makes=(wanted.address, *_ports(node, host_ports(spec.ports))),
        uses=(*wanted.needs, _image(node, spec.image)),
    )


def _image(node: str, name: str) -> Address:
    return Address(node, "image", canonical_name(name))


def _ports(node: str, held: Iterable[str]) -> tuple[Address, ...]:
    """Host ports as addresses of their own, so that one container gives a port up before another takes it."""
    return tuple(Address(node, "port", port.rpartition(":")[2]) for port in held)
