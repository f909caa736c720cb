"""Bring: an image to a node, from its registry or from an archive beside the plan file; and take it away again."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import BinaryIO

from gpuplan.kinds.container.acts.faults import Engine, explain, told
from gpuplan.kinds.container.images import BROUGHT, Wish, canonical_name
from gpuplan.kinds.room import Hands, Memory
from gpuplan.model.address import Address
from gpuplan.model.diagnostic import Diagnostic, Problem

IDLE = 120.0
"""Seconds without a word from the engine after which a pull counts as hung."""
_CHUNK = 1 << 20


def bring(wish: Wish, address: Address, hands: Hands) -> Memory:
    """See that the image is on the node; what it brought is remembered, so that it can be taken away again.

    Raises:
        Problem: it could not be brought, or a second look does not find it.
    """
    before = present(wish.name, address, hands)
    if before and wish.pull != "always":
        hands.say(f"{wish.name} is already on the node")
        return []
    if wish.archive:
        _load(wish, address, hands)
    else:
        _pull(wish.name, address, hands)
    if not present(wish.name, address, hands):
        raise Problem(_absent(wish, address))
    return [] if before else [(address, BROUGHT)]


def take_away(image: str, address: Address, hands: Hands) -> Memory:
    """Remove an image that gpuplan brought.

    Raises:
        Problem: the engine refused, as it does where a container uses it by now, or a second look still finds it.
    """
    from docker.errors import ImageNotFound

    with told(str(address), f"removing {image}"), suppress(ImageNotFound):
        hands.docker().remove_image(image)
    if present(image, address, hands):
        raise Problem(Diagnostic("An image was not removed", f"{image} is still there.", address=str(address)))
    hands.say(f"image {image} is gone")
    return [(address, None)]


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


def _load(wish: Wish, address: Address, hands: Hands) -> None:
    doing = f"loading {wish.name} from {wish.archive}"
    with told(str(address), doing), hands.source(wish.archive) as content:
        engine: Engine = hands.docker()
        for event in engine.load_image(_told_chunks(content, wish, hands)):
            if error := event.get("error"):
                raise Problem(explain(str(address), doing, str(error)))


def _told_chunks(content: BinaryIO, wish: Wish, hands: Hands) -> Iterator[bytes]:
    size = content.seek(0, 2)
    content.seek(0)
    told_at, sent = 0, 0
    while chunk := content.read(_CHUNK):
        yield chunk
        sent += len(chunk)
        if (percent := sent * 100 // max(size, 1)) >= told_at + 10:
            told_at = percent
            hands.say(f"loading {wish.archive} {percent} %")


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


def _absent(wish: Wish, address: Address) -> Diagnostic:
    if wish.archive:
        why, fix = f"{wish.archive} was loaded", "Check that the archive holds that name and tag."
    else:
        why, fix = "The pull ended without an error", "Check the name of the image."
    detail = f"{why}, and {wish.name} is not on {address.node}."
    return Diagnostic("The image was not found", detail, fix, address=str(address))
