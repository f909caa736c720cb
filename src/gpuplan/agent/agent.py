"""The operations of docs/agent.md, by name."""

from __future__ import annotations

import contextlib
from typing import Callable, Mapping

from . import cdi, mig, record, reset, services, settings
from .arguments import Arguments
from .ask import ask
from .blobs import Blobs
from .deadlines import within
from .failure import Failure, explain
from .lock import Lock
from .repository import Repositories
from .world import World

Answer = Mapping[str, object]
Operation = Callable[["Agent", Arguments, bytes], Answer]

DRIVER = ("mig.", "gpu.")
"""Operations that call into the driver, which may hang there for ever."""
DRIVER_PATIENCE = 180.0
"""Seconds; a reset of a GPU takes some."""


class Agent:
    """One agent: the node that it sees, the lock that it may hold, and the content that is on its way."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.lock = Lock(world.root)
        self.blobs = Blobs(world.root)
        self.repositories = Repositories(world.root, self.blobs)

    def handle(self, request: Mapping[str, object], body: bytes | None = None) -> dict[str, object]:
        """One request, one answer: `{"ok": …}` or `{"error": {"code", "text"}}`. Never raises."""
        try:
            name = request.get("op")
            operation = OPERATIONS.get(name) if isinstance(name, str) else None
            if operation is None:
                raise Failure("invalid", "no such operation: {}".format(name))
            arguments = Arguments(request)
            if isinstance(name, str) and name.startswith(DRIVER):
                return {"ok": within(DRIVER_PATIENCE, lambda: operation(self, arguments, b""))}
            return {"ok": operation(self, arguments, body or b"")}
        except Exception as error:  # noqa: BLE001 - the node's every failure is an answer; the connection lives on
            return {"error": explain(error).to_json()}

    def forsaken(self) -> None:
        """The other side is gone: services that it had stopped for a reset run again, as they would have."""
        if self.lock.held:
            with contextlib.suppress(Failure):
                services.start_all(self.world)

    def close(self) -> None:
        """Give back the lock and forget what has not fully arrived."""
        self.blobs.leave()
        self.lock.release()


OPERATIONS: Mapping[str, Operation] = {
    "ask": lambda agent, a, _: ask(agent.world, a),
    "lock.take": lambda agent, a, _: agent.lock.take(a.mapping("owner")),
    "lock.release": lambda agent, *_: agent.lock.release(),
    "mig.set_mode": lambda agent, a, _: mig.set_mode(agent.world, a.text("uuid"), a.flag("enabled")),
    "mig.create": lambda agent, a, _: mig.create(
        agent.world, a.text("uuid"), a.number("profile_id"), a.number("start"), a.number("size"), a.numbers("compute")
    ),
    "mig.create_compute": lambda agent, a, _: mig.create_compute(
        agent.world, a.text("uuid"), a.number("instance"), a.numbers("compute")
    ),
    "mig.destroy_compute": lambda agent, a, _: mig.destroy_compute(
        agent.world,
        a.text("uuid"),
        a.number("instance"),
        a.number("profile_id"),
        a.number("start"),
        a.number("compute"),
    ),
    "mig.destroy": lambda agent, a, _: mig.destroy(
        agent.world, a.text("uuid"), a.number("instance"), a.number("profile_id"), a.number("start")
    ),
    "gpu.set": lambda agent, a, _: settings.put(agent.world, a.text("uuid"), a.text("setting"), a),
    "gpu.reset": lambda agent, a, _: reset.reset(agent.world, a.text("uuid")),
    "cdi.generate": lambda agent, a, _: cdi.generate(agent.world, a.text("path")),
    "service.stop": lambda agent, a, _: services.stop(agent.world, a.text("uuid"), a.texts("services")),
    "service.start": lambda agent, a, _: services.start(agent.world, a.text("uuid")),
    "blob.missing": lambda agent, a, _: agent.blobs.missing(a.texts("digests")),
    "blob.begin": lambda agent, a, _: agent.blobs.begin(a.text("digest"), a.number("size")),
    "blob.pack": lambda agent, a, body: agent.blobs.pack(a.mapping("contents"), body),
    "blob.put": lambda agent, a, body: agent.blobs.put(
        a.text("digest"), a.number("size"), a.number("offset"), body, a.flag("last")
    ),
    "blob.collect": lambda agent, *_: agent.blobs.collect(),
    "repository.prepare": lambda agent, a, _: agent.repositories.prepare(a.text("plan"), a.text("container")),
    "repository.switch": lambda agent, a, _: agent.repositories.switch(
        a.text("plan"), a.text("container"), a.text("model"), a.text("content"), a.mapping("files")
    ),
    "repository.settle": lambda agent, a, _: agent.repositories.settle(
        a.text("plan"), a.text("container"), a.text("model")
    ),
    "repository.restore": lambda agent, a, _: agent.repositories.restore(
        a.text("plan"), a.text("container"), a.text("model")
    ),
    "repository.remove": lambda agent, a, _: agent.repositories.remove(
        a.text("plan"), a.text("container"), a.optional_text("model")
    ),
    "repository.load_at_start": lambda agent, a, _: agent.repositories.load_at_start(
        a.text("plan"), a.text("container"), a.text("model"), a.flag("wanted")
    ),
    "record.list": lambda agent, *_: record.names(agent.world.root),
    "record.write": lambda agent, a, _: record.write(agent.world.root, a.text("plan"), a.mapping("record")),
    "record.remove": lambda agent, a, _: record.remove(agent.world.root, a.text("plan")),
    "journal.append": lambda agent, a, _: record.append(agent.world.root, a.text("plan"), a.entries("entries")),
}
