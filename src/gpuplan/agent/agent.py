"""The operations of docs/agent.md, by name."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from typing import Callable

from . import docker, triton
from .failure import Failure, explain, run_all, within
from .gpus import mig, probe, reset
from .storage import record, repository
from .storage.blobs import Blobs
from .storage.record import Lock
from .storage.repository import Repositories
from .world import World

# The arguments of one request, each read with the type that the operation needs.


class RequestArguments:
    """Typed access to a request's fields; a field of another type is `invalid`, never a traceback."""

    def __init__(self, request: Mapping[str, object]) -> None:
        self._request = request

    def text(self, name: str) -> str:
        """A string that is there."""
        value = self._request.get(name)
        if not isinstance(value, str):
            raise Failure("invalid", "{} must be a string".format(name))
        return value

    def optional_text(self, name: str) -> str | None:
        """A string, or None if the request says null or nothing."""
        return None if self._request.get(name) is None else self.text(name)

    def number(self, name: str) -> int:
        """A whole number that is not negative."""
        value = self._request.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise Failure("invalid", "{} must be a whole number".format(name))
        return value

    def numbers(self, name: str) -> Sequence[int] | None:
        """A list of whole numbers above zero, or None if the request says null or nothing."""
        value = self._request.get(name)
        if value is None:
            return None
        if not isinstance(value, (list, tuple)) or not all(type(item) is int and item > 0 for item in value):
            raise Failure("invalid", "{} must be a list of whole numbers".format(name))
        return value

    def flag(self, name: str) -> bool:
        """True or false."""
        value = self._request.get(name)
        if not isinstance(value, bool):
            raise Failure("invalid", "{} must be true or false".format(name))
        return value

    def texts(self, name: str) -> Sequence[str]:
        """A list of strings."""
        value = self._request.get(name)
        if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
            raise Failure("invalid", "{} must be a list of strings".format(name))
        return value

    def get(self, name: str) -> object:
        """A value of any type; None if the request has none."""
        return self._request.get(name)

    def entries(self, name: str) -> Sequence[object]:
        """A list of anything."""
        value = self._request.get(name)
        if not isinstance(value, (list, tuple)):
            raise Failure("invalid", "{} must be a list".format(name))
        return value

    def mapping(self, name: str) -> Mapping[str, object]:
        """An object."""
        value = self._request.get(name)
        if not isinstance(value, Mapping):
            raise Failure("invalid", "{} must be an object".format(name))
        return value


# Asking: every probe of docs/snapshot.md that the question names, side by side, in one answer.

FORMAT = 1
DEADLINE = 30.0
"""Seconds for a probe whose deadline the question does not state."""

PROBES: Mapping[str, Callable[[World, str], object]] = {
    "host": lambda world, _: _probe_host(world),
    "gpu": lambda world, _: probe.probe(world),
    "docker": lambda world, _: docker.probe(world),
    "triton": lambda world, _: triton.probe(world),
    "access": docker.probe_access,
    "toolkit": lambda world, _: world.toolkit(),
    "repository": repository.probe,
    "record": record.probe,
    "others": record.probe_others,
}


def ask(world: World, arguments: RequestArguments) -> dict[str, object]:
    """The snapshot. A probe that passes its deadline is abandoned, so it cannot delay the answer."""
    plan = arguments.text("plan")
    names = arguments.texts("probes")
    unknown = [name for name in names if name not in PROBES]
    if unknown:
        raise Failure("invalid", "no such probe: {}".format(", ".join(unknown)))
    stated = arguments.mapping("deadlines")
    began = time.monotonic()
    probes = run_all(
        {name: _job(world, name, plan) for name in names}, {name: _deadline(stated.get(name)) for name in names}
    )
    return {
        "format": FORMAT,
        "asked_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seconds": round(time.monotonic() - began, 4),
        "probes": probes,
    }


def _job(world: World, name: str, plan: str) -> Callable[[], object]:
    return lambda: PROBES[name](world, plan)


def _deadline(stated: object) -> float:
    return float(stated) if isinstance(stated, (int, float)) and stated > 0 else DEADLINE


Answer = Mapping[str, object]
Operation = Callable[["Agent", RequestArguments, bytes], Answer]

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
            arguments = RequestArguments(request)
            if isinstance(name, str) and name.startswith(DRIVER):
                return {"ok": within(DRIVER_PATIENCE, lambda: operation(self, arguments, b""))}
            return {"ok": operation(self, arguments, body or b"")}
        except Exception as error:  # noqa: BLE001 - every failure is an answer; the connection stays open
            return {"error": explain(error).to_json()}

    def on_disconnect(self) -> None:
        """Restart the services that were stopped for a reset: the connection is gone before it could ask for that."""
        if self.lock.held:
            with contextlib.suppress(Failure):
                reset.start_all_services(self.world)

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
    "gpu.set": lambda agent, a, _: probe.set_gpu(agent.world, a.text("uuid"), a.text("setting"), a.get("value")),
    "gpu.reset": lambda agent, a, _: reset.reset(agent.world, a.text("uuid")),
    "cdi.generate": lambda agent, a, _: mig.generate_cdi(agent.world, a.text("path")),
    "service.stop": lambda agent, a, _: reset.stop_services(agent.world, a.text("uuid"), a.texts("services")),
    "service.start": lambda agent, a, _: reset.start_services(agent.world, a.text("uuid")),
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

# The host probe: what the node is, how much room it has, and who holds its lock.


def _probe_host(world: World) -> dict[str, object]:
    """The value of the probe `host`."""
    return {"hypervisor": False, **world.host(), "disk": _disk(world.root), "lock": record.lock_holder(world.root)}


def _disk(root: str) -> dict[str, object]:
    """Room on the file system that holds the root, or that will hold it once it is made."""
    path = os.path.abspath(root)
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    room = os.statvfs(path)
    return {
        "path": root,
        "free": room.f_bavail * room.f_frsize,
        "total": room.f_blocks * room.f_frsize,
        "inodes": room.f_favail if room.f_files else None,
    }
