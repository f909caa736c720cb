"""Bring: an image to a node, pulled from its registry or loaded from an archive beside the plan file."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO

from gpuplan.kinds.container.engine import Engine
from gpuplan.kinds.container.faults import explain, told
from gpuplan.kinds.container.images import canonical_name
from gpuplan.kinds.container.shape import ContainerSpec
from gpuplan.kinds.room import Hands
from gpuplan.model.address import Address
from gpuplan.model.diagnostic import Diagnostic, Problem
from gpuplan.model.value import JsonObject

IDLE = 120.0
"""Seconds without a word from the engine after which a pull counts as hung."""
_CHUNK = 1 << 20


def bring(spec: ContainerSpec, address: Address, hands: Hands) -> list[tuple[Address, JsonObject | None]]:
    """See that the image is on the node; what it brought is remembered, so that `destroy` can take it away again.

    Raises:
        Problem: it could not be brought, or a second look does not find it.
    """
    if spec.pull != "always" and present(spec.image, address, hands):
        hands.say(f"{spec.image} is already on the node")
        return []
    before = present(spec.image, address, hands)
    if spec.pull == "never" and not spec.archive:
        raise Problem(_absent(spec, address))
    if spec.archive:
        _load(spec, address, hands)
    else:
        _pull(spec.image, address, hands)
    if not present(spec.image, address, hands):
        raise Problem(_absent(spec, address))
    return [] if before else [(image_address(address.node, spec.image), {"brought": True})]


def image_address(node: str, image: str) -> Address:
    """Where it is remembered that gpuplan brought an image."""
    return Address(node, "image", canonical_name(image))


def present(image: str, address: Address, hands: Hands) -> bool:
    """True where the node has the image."""
    from docker.errors import ImageNotFound

    with told(str(address), f"looking for {image}"):
        engine: Engine = hands.docker()
        try:
            engine.inspect_image(image)
        except ImageNotFound:
            return False
    return True


def _pull(image: str, address: Address, hands: Hands) -> None:
    doing = f"pulling {image}"
    name = image if "@" in image else canonical_name(image)
    repository, _, tag = name.rpartition("@" if "@" in name else ":")
    progress = _Progress(hands)
    with told(str(address), doing):
        for event in _awake(hands.docker().pull(repository, tag=tag, stream=True, decode=True), doing, address):
            if error := event.get("error"):
                raise Problem(explain(str(address), doing, str(error)))
            progress.see(event)


def _load(spec: ContainerSpec, address: Address, hands: Hands) -> None:
    doing = f"loading {spec.image} from {spec.archive}"
    with told(str(address), doing), hands.source(spec.archive) as content:
        engine: Engine = hands.docker()
        for event in engine.load_image(_told_chunks(content, spec, hands)):
            if error := event.get("error"):
                raise Problem(explain(str(address), doing, str(error)))


def _told_chunks(content: BinaryIO, spec: ContainerSpec, hands: Hands) -> Iterator[bytes]:
    size = content.seek(0, 2)
    content.seek(0)
    told_at, sent = 0, 0
    while chunk := content.read(_CHUNK):
        yield chunk
        sent += len(chunk)
        if (percent := sent * 100 // max(size, 1)) >= told_at + 10:
            told_at = percent
            hands.say(f"loading {spec.archive} {percent} %")


@dataclass
class _Progress:
    """Adds up the layers of a pull and says each further tenth."""

    hands: Hands
    layers: dict[str, tuple[int, int]] = field(default_factory=dict)
    told: int = 0

    def see(self, event: Mapping[str, object]) -> None:
        detail = event.get("progressDetail")
        if event.get("status") != "Downloading" or not isinstance(detail, Mapping) or not detail.get("total"):
            return
        self.layers[str(event.get("id"))] = (int(detail.get("current", 0)), int(detail["total"]))
        done, total = (sum(each) for each in zip(*self.layers.values(), strict=True))
        if (percent := done * 100 // total) >= self.told + 10:
            self.told = percent
            self.hands.say(f"pulling {percent} %")


def _awake(events: Iterator[Mapping[str, object]], doing: str, address: Address) -> Iterator[Mapping[str, object]]:
    """The same events; a stream that says nothing for too long is given up (the SDK itself would wait for ever)."""
    heard: queue.Queue[Mapping[str, object] | BaseException | None] = queue.Queue()

    def listen() -> None:
        try:
            for event in events:
                heard.put(event)
            heard.put(None)
        except BaseException as fault:  # noqa: BLE001 - raised again in the thread that waits
            heard.put(fault)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        try:
            event = heard.get(timeout=IDLE)
        except queue.Empty:
            raise Problem(_hung(doing, address)) from None
        if event is None:
            return
        if isinstance(event, BaseException):
            raise event
        yield event


def _hung(doing: str, address: Address) -> Diagnostic:
    detail = f"{doing}: the engine has said nothing for {IDLE:.0f} s."
    return Diagnostic("A pull hangs", detail, "Check from the node that the registry answers.", address=str(address))


def _absent(spec: ContainerSpec, address: Address) -> Diagnostic:
    if spec.archive:
        why, fix = f"{spec.archive} was loaded", "Check that the archive holds that name and tag."
    elif spec.pull == "never":
        why, fix = "The plan file says pull: never", "Bring it to the node, or say pull: missing."
    else:
        why, fix = "The pull ended without an error", "Check the name of the image."
    detail = f"{why}, and {spec.image} is not on {address.node}."
    return Diagnostic("The image was not found", detail, fix, address=str(address))
