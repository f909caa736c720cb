"""Idle: follows what an engine does over minutes or hours, and gives it up only when it has fallen silent.

The SDK itself would wait for ever, already for the first word of an answer.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import BinaryIO

from gpuplan.resources.container.apply.engine import REFUSALS, EngineApi, explain, explain_engine_errors
from gpuplan.resources.container.images import FETCHED, ImageRequest, canonical_name, short_digest
from gpuplan.resources.kind import ApplyContext, Facts
from gpuplan.transport.registry import Credentials, credentials_for, refused
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic, Problem

PULL = 120.0
"""Seconds without a word from the engine after which a pull counts as hung."""
LOAD = 300.0
"""Seconds in which the engine takes nothing of an archive and says nothing of it, after which a load counts as hung."""

Event = Mapping[str, object]
Sign = Callable[[str], None]
"""Tells that work goes on, with a word of progress or without."""


def follow_engine(
    begin: Callable[[Sign], Iterable[Event]], seconds: float, doing: str, address: Address, context: ApplyContext
) -> Iterator[Event]:
    """What `begin` gives, begun and read in a thread of its own; what it signs meanwhile is said.

    Raises:
        Problem: for so many seconds there was neither an event nor a sign.
    """
    heard: queue.Queue[Event | str | BaseException | None] = queue.Queue()

    def listen() -> None:
        try:
            for event in begin(heard.put):
                heard.put(event)
            heard.put(None)
        except BaseException as fault:  # noqa: BLE001 - raised again in the thread that waits
            heard.put(fault)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        try:
            found = heard.get(timeout=seconds)
        except queue.Empty:
            raise Problem(_silent(doing, seconds, address)) from None
        if found is None:
            return
        if isinstance(found, BaseException):
            raise found
        if not isinstance(found, str):
            yield found
        elif found:
            context.say(found)


def _silent(doing: str, seconds: float, address: Address) -> Diagnostic:
    detail = f"{doing}: the engine has said nothing for {seconds:g} s."
    if doing.startswith("pulling"):
        return Diagnostic(
            "A pull hangs", detail, "Check from the node that the registry answers.", address=str(address)
        )
    fix = "Look at the engine there (journalctl -u docker) and at its disk."
    return Diagnostic("A load hangs", detail, fix, address=str(address))


_CHUNK = 1 << 20


def fetch_image(wish: ImageRequest, address: Address, context: ApplyContext) -> Facts:
    """See that the image is on the node; what it brought is remembered, so that it can be taken away again.

    Raises:
        Problem: it could not be brought, or a second look does not find it.
    """
    before = image_id(wish.name, address, context)
    if before and wish.pull != "always" and (not wish.ids or before in wish.ids):
        context.say(f"{wish.name} is already on the node")
        return []
    if wish.archive:
        _load(wish, address, context)
    else:
        _pull(wish, address, context)
    after = image_id(wish.name, address, context)
    if not after:
        raise Problem(_absent(wish, address))
    if wish.ids and after not in wish.ids:
        raise Problem(_another(wish, after, address))
    return [] if before else [(address, FETCHED)]


def remove_image(image: str, address: Address, context: ApplyContext) -> Facts:
    """Remove an image that gpuplan brought.

    Raises:
        Problem: the engine refused, as it does where a container uses it by now, or a second look still finds it.
    """
    from docker.errors import ImageNotFound

    with explain_engine_errors(str(address), f"removing {image}"), suppress(ImageNotFound):
        context.docker().remove_image(image)
    if image_id(image, address, context):
        raise Problem(Diagnostic("An image was not removed", f"{image} is still there.", address=str(address)))
    context.say(f"image {image} is gone")
    return [(address, None)]


def image_id(image: str, address: Address, context: ApplyContext) -> str:
    """The id of the image that a name means on the node; empty where it has none of that name."""
    from docker.errors import ImageNotFound

    with explain_engine_errors(str(address), f"looking for {image}"):
        engine: EngineApi = context.docker()
        try:
            return str(engine.inspect_image(image)["Id"])
        except ImageNotFound:
            return ""


def _pull(wish: ImageRequest, address: Address, context: ApplyContext) -> None:
    doing = f"pulling {wish.name}"
    given = credentials_for(wish.name)
    name = wish.name if "@" in wish.name else canonical_name(wish.name)
    repository, _, tag = name.rpartition("@" if "@" in name else ":")
    progress = _Progress(context)

    def begin(_: Sign) -> Iterator[Event]:
        platform, auth = wish.platform or None, dict(given.config)
        events: Iterator[Event] = context.docker().pull(
            repository, tag=tag, stream=True, decode=True, auth_config=auth, platform=platform
        )
        return events

    with _about_credentials(given), explain_engine_errors(str(address), doing):
        for event in follow_engine(begin, PULL, doing, address, context):
            if error := event.get("error"):
                raise Problem(explain(str(address), doing, str(error)))
            progress.see(event)


@contextmanager
def _about_credentials(given: Credentials) -> Iterator[None]:
    """Within it, what a registry refuses is told with the place where its credentials were looked for."""
    try:
        yield
    except Problem as problem:
        where, fix = refused(given)
        raise Problem(
            [
                replace(each, detail=f"{each.detail.rstrip('.')}. {where}", fix=fix)
                if each.summary in REFUSALS
                else each
                for each in problem.diagnostics
            ]
        ) from problem


def _load(wish: ImageRequest, address: Address, context: ApplyContext) -> None:
    doing = f"loading {wish.name} from {wish.archive}"
    with explain_engine_errors(str(address), doing), context.source(wish.archive) as content:

        def begin(sign: Sign) -> Iterator[Event]:
            engine: EngineApi = context.docker()
            return engine.load_image(_told_chunks(content, wish, sign))

        for event in follow_engine(begin, LOAD, doing, address, context):
            if error := event.get("error"):
                raise Problem(explain(str(address), doing, str(error)))


def _told_chunks(content: BinaryIO, wish: ImageRequest, sign: Sign) -> Iterator[bytes]:
    """The archive in pieces, none of which is kept; each further tenth is said."""
    size = content.seek(0, 2)
    content.seek(0)
    told_at, sent = 0, 0
    while chunk := content.read(_CHUNK):
        yield chunk
        sent += len(chunk)
        sign("")
        if (percent := sent * 100 // max(size, 1)) >= told_at + 10:
            told_at = percent
            sign(f"loading {wish.archive} {percent} % ({_amount(sent)} of {_amount(size)})")


def _amount(size: float) -> str:
    """Bytes as people read them, in powers of a thousand as docker itself tells them."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size:.0f} B"


@dataclass
class _Progress:
    """Adds up the layers of a pull and says each further tenth."""

    context: ApplyContext
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
            self.context.say(f"pulling {percent} % ({_amount(done)} of {_amount(total)})")


def _another(wish: ImageRequest, found: str, address: Address) -> Diagnostic:
    detail = (
        f"{wish.archive} was loaded, and {wish.name} is {short_digest(found)} on {address.node}; the archive held "
        f"{short_digest(wish.ids[0])} when the change set was made."
    )
    return Diagnostic("The archive has changed", detail, "Run gpuplan plan again.", address=str(address))


def _absent(wish: ImageRequest, address: Address) -> Diagnostic:
    if wish.archive:
        why, fix = f"{wish.archive} was loaded", "Check that the archive holds that name and tag."
    else:
        why, fix = "The pull ended without an error", "Check the name of the image."
    detail = f"{why}, and {wish.name} is not on {address.node}."
    return Diagnostic("The image was not found", detail, fix, address=str(address))
