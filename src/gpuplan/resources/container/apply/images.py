"""Images while applying: pull or load one onto the node, and remove one that gpuplan brought there."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import BinaryIO

from gpuplan.resources.container.apply.engine import CREDENTIAL_ERRORS, EngineApi, EngineContext, explain
from gpuplan.resources.container.images import FETCHED, ImageRequest, canonical_name, short_digest
from gpuplan.resources.kind import Facts
from gpuplan.transport.registry import Credentials, credentials_for, refused
from gpuplan.types.diagnostic import Diagnostic, Problem

PULL_SILENCE = 120.0
"""Seconds without an event from the engine after which a pull counts as hung."""
LOAD_SILENCE = 300.0
"""Seconds in which the engine neither reads from an archive nor reports an event, after which a load counts as hung."""
_CHUNK = 1 << 20

EngineEvent = Mapping[str, object]
Report = Callable[[str], None]
"""Reports that work goes on, with a progress text or an empty one."""


def fetch_image(image: ImageRequest, engine: EngineContext) -> Facts:
    """Pull or load an image unless it is on the node; one that was not there before is remembered as fetched.

    Raises:
        Problem: it could not be fetched, or a second look does not find it.
    """
    before = image_id(image.name, engine)
    if before and image.pull != "always" and (not image.ids or before in image.ids):
        engine.say(f"{image.name} is already on the node")
        return []
    if image.archive:
        _load(image, engine)
    else:
        _pull(image, engine)
    after = image_id(image.name, engine)
    if not after:
        raise Problem(_not_found(image, engine))
    if image.ids and after not in image.ids:
        raise Problem(_archive_changed(image, after, engine))
    return [] if before else [(engine.address, FETCHED)]


def remove_image(image: str, engine: EngineContext) -> Facts:
    """Remove an image that gpuplan fetched.

    Raises:
        Problem: the engine refused (a container uses it), or a second look still finds it.
    """
    from docker.errors import ImageNotFound

    with engine.explain_errors(f"removing {image}"), suppress(ImageNotFound):
        engine.docker.remove_image(image)
    if image_id(image, engine):
        detail = f"{image} still exists after its removal."
        raise Problem(Diagnostic("Image was not removed", detail, address=str(engine.address)))
    engine.say(f"removed image {image}")
    return [(engine.address, None)]


def image_id(image: str, engine: EngineContext) -> str:
    """The id of the image with that name on the node; empty if there is none."""
    from docker.errors import ImageNotFound

    with engine.explain_errors(f"looking for {image}"):
        docker: EngineApi = engine.docker
        try:
            return str(docker.inspect_image(image)["Id"])
        except ImageNotFound:
            return ""


def follow_engine(
    begin: Callable[[Report], Iterable[EngineEvent]], silence: float, doing: str, engine: EngineContext
) -> Iterator[EngineEvent]:
    """The events of a long engine call, read in a thread: the SDK itself would wait for the next one without end.

    Raises:
        Problem: for `silence` seconds there was neither an event nor a report.
    """
    received: queue.Queue[EngineEvent | str | BaseException | None] = queue.Queue()

    def read_events() -> None:
        try:
            for event in begin(received.put):
                received.put(event)
            received.put(None)
        except BaseException as error:  # noqa: BLE001 - raised again in the waiting thread
            received.put(error)

    threading.Thread(target=read_events, daemon=True).start()
    while True:
        try:
            item = received.get(timeout=silence)
        except queue.Empty:
            raise Problem(_hung(doing, silence, engine)) from None
        if item is None:
            return
        if isinstance(item, BaseException):
            raise item
        if not isinstance(item, str):
            yield item
        elif item:
            engine.say(item)


def _pull(image: ImageRequest, engine: EngineContext) -> None:
    doing = f"pulling {image.name}"
    credentials = credentials_for(image.name)
    name = image.name if "@" in image.name else canonical_name(image.name)
    repository, _, tag = name.rpartition("@" if "@" in name else ":")
    progress = _PullProgress(engine)

    def begin(_: Report) -> Iterator[EngineEvent]:
        platform, auth = image.platform or None, dict(credentials.config)
        events: Iterator[EngineEvent] = engine.docker.pull(
            repository, tag=tag, stream=True, decode=True, auth_config=auth, platform=platform
        )
        return events

    with _explain_credentials(credentials), engine.explain_errors(doing):
        for event in follow_engine(begin, PULL_SILENCE, doing, engine):
            if error := event.get("error"):
                raise Problem(explain(str(engine.address), doing, str(error)))
            progress.update(event)


@contextmanager
def _explain_credentials(credentials: Credentials) -> Iterator[None]:
    """Add to a registry's refusal where its credentials were looked for."""
    try:
        yield
    except Problem as problem:
        source, fix = refused(credentials)
        raise Problem(
            [
                replace(diagnostic, detail=f"{diagnostic.detail.rstrip('.')}. {source}", fix=fix)
                if diagnostic.summary in CREDENTIAL_ERRORS
                else diagnostic
                for diagnostic in problem.diagnostics
            ]
        ) from problem


def _load(image: ImageRequest, engine: EngineContext) -> None:
    doing = f"loading {image.name} from {image.archive}"
    with engine.explain_errors(doing), engine.apply.source(image.archive) as content:

        def begin(report: Report) -> Iterator[EngineEvent]:
            docker: EngineApi = engine.docker
            return docker.load_image(_chunks(content, image, report))

        for event in follow_engine(begin, LOAD_SILENCE, doing, engine):
            if error := event.get("error"):
                raise Problem(explain(str(engine.address), doing, str(error)))


def _chunks(content: BinaryIO, image: ImageRequest, report: Report) -> Iterator[bytes]:
    """The archive in chunks; progress is reported every 10 %."""
    size = content.seek(0, 2)
    content.seek(0)
    reported, sent = 0, 0
    while chunk := content.read(_CHUNK):
        yield chunk
        sent += len(chunk)
        report("")
        if (percent := sent * 100 // max(size, 1)) >= reported + 10:
            reported = percent
            report(f"loading {image.archive}: {percent} % ({_size(sent)} of {_size(size)})")


@dataclass
class _PullProgress:
    """Adds up the layers of a pull and reports every 10 %."""

    engine: EngineContext
    layers: dict[str, tuple[int, int]] = field(default_factory=dict)
    reported: int = 0

    def update(self, event: EngineEvent) -> None:
        detail = event.get("progressDetail")
        if event.get("status") != "Downloading" or not isinstance(detail, Mapping) or not detail.get("total"):
            return
        self.layers[str(event.get("id"))] = (int(detail.get("current", 0)), int(detail["total"]))
        done, total = (sum(sizes) for sizes in zip(*self.layers.values(), strict=True))
        if (percent := done * 100 // total) >= self.reported + 10:
            self.reported = percent
            self.engine.say(f"pulling: {percent} % ({_size(done)} of {_size(total)})")


def _size(size: float) -> str:
    """Bytes in powers of a thousand, as docker itself shows them."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size:.0f} B"


def _hung(doing: str, silence: float, engine: EngineContext) -> Diagnostic:
    detail = f"{doing}: the engine has reported nothing for {silence:g} s."
    if doing.startswith("pulling"):
        fix = "Check on the node that the registry answers."
        return Diagnostic("Pull hangs", detail, fix, address=str(engine.address))
    fix = "Check the engine (journalctl -u docker) and the disk of the node."
    return Diagnostic("Load hangs", detail, fix, address=str(engine.address))


def _archive_changed(image: ImageRequest, loaded: str, engine: EngineContext) -> Diagnostic:
    detail = (
        f"{image.archive} was loaded and {image.name} is now {short_digest(loaded)} on {engine.address.node}, but the "
        f"archive held {short_digest(image.ids[0])} when the change set was made."
    )
    return Diagnostic("The archive has changed", detail, "Run gpuplan plan again.", address=str(engine.address))


def _not_found(image: ImageRequest, engine: EngineContext) -> Diagnostic:
    if image.archive:
        action, fix = f"{image.archive} was loaded", "Check that the archive holds that name and tag."
    else:
        action, fix = "The pull ended without an error", "Check the name of the image."
    detail = f"{action}, but {image.name} is not on {engine.address.node}."
    return Diagnostic("Image not found", detail, fix, address=str(engine.address))
