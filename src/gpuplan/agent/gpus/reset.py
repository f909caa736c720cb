"""Resetting one GPU, which NVML cannot do: by nvidia-smi, which comes with the driver."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence

from ..failure import Failure
from ..storage.files import PRIVATE, make_directory, write_atomically
from ..world import World
from . import nvml as calls

PATIENCE = 120.0
REFUSALS = (
    ("in use by another", "in_use"),
    ("not supported", "not_supported"),
    ("insufficient permissions", "no_permission"),
)
"""What nvidia-smi says in its refusals (it exits with 255 for each of them), and our word for it."""


def reset(world: World, uuid: str) -> dict[str, object]:
    """Reset exactly this GPU. Whether it was is what the next look says: nvidia-smi may report what did not happen."""
    if not uuid.startswith("GPU-"):
        raise Failure("invalid", "not the UUID of a GPU: {}".format(uuid))
    with _persistence_off(world, uuid):
        code, said = world.run(("nvidia-smi", "--gpu-reset", "-i", uuid), PATIENCE)
    if code:
        message = " ".join(said.split())
        word = next((word for text, word in REFUSALS if text in message.lower()), "unexpected")
        raise Failure(word, message or "nvidia-smi ended with {}".format(code))
    return {}


@contextlib.contextmanager
def _persistence_off(world: World, uuid: str) -> Iterator[None]:
    """Persistence mode is off inside, since it holds the GPU (NVIDIA/NVSentinel#1690), and as it was afterwards."""
    if not _persists(world, uuid):
        yield
        return
    _persist(world, uuid, 0)
    try:
        yield
    finally:
        _persist(world, uuid, 1)


def _persists(world: World, uuid: str) -> bool:
    with calls.opened(world) as nvml:
        device = nvml.nvmlDeviceGetHandleByUUID(uuid)
        return bool(calls.optional(nvml, lambda: nvml.nvmlDeviceGetPersistenceMode(device)))


def _persist(world: World, uuid: str, mode: int) -> None:
    with calls.opened(world) as nvml:
        nvml.nvmlDeviceSetPersistenceMode(nvml.nvmlDeviceGetHandleByUUID(uuid), mode)


# Services that are stopped while a GPU is reset: recorded before they stop, so that they are started again.

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9@_.:-]{0,127}\Z")
RUNNING = ("active", "activating", "reloading")
ASKING, ACTING = 15.0, 60.0
"""Seconds for a question to systemctl, and for a service to stop or start."""


def stopped_services(root: str) -> list[dict[str, object]]:
    """What was stopped and not started again: `{"service", "gpu"}` each."""
    try:
        with open(_file(root), encoding="utf-8") as file:
            found = json.load(file)
    except FileNotFoundError:
        return []
    except ValueError as error:
        raise Failure("bad_record", "{}: {}".format(_file(root), error)) from error
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def stop_services(world: World, uuid: str, services: Sequence[str]) -> dict[str, object]:
    """Stop those of them that run; where one does not stop, those that did are started again, and it is `timeout`."""
    ran = [name for name in map(_checked, services) if _runs(world, name)]
    try:
        for name in ran:
            _note(world.root, [*stopped_services(world.root), {"service": name, "gpu": uuid}])
            _act(world, "stop", name)
            if _runs(world, name):
                raise Failure("timeout", "{} is still running after systemctl stop".format(name))
    except Failure:
        with contextlib.suppress(Failure):
            start_services(world, uuid)
        raise
    return {"stopped": ran}


def start_services(world: World, uuid: str) -> dict[str, object]:
    """Start what was stopped for this GPU. One that does not start stays noted down, and hinders none of the others."""
    return _start(world, [each for each in stopped_services(world.root) if each.get("gpu") == uuid])


def start_all_services(world: World) -> dict[str, object]:
    """Start everything that was stopped: for an agent whose other side is gone."""
    return _start(world, stopped_services(world.root))


def _start(world: World, stopped: Sequence[Mapping[str, object]]) -> dict[str, object]:
    started, failures = [], []
    for each in stopped:
        name = _checked(str(each.get("service")))
        try:
            _act(world, "start", name)
            if not _runs(world, name):
                raise Failure("unexpected", "{} is not running after systemctl start".format(name))
        except Failure as failure:
            failures.append(failure)
            continue
        _note(world.root, [one for one in stopped_services(world.root) if one != each])
        started.append(name)
    if failures:
        raise Failure(failures[0].code, "; ".join(failure.text for failure in failures))
    return {"started": started}


def _runs(world: World, name: str) -> bool:
    """A unit that is not there does not run."""
    _, said = world.run(("systemctl", "is-active", "--", name), ASKING)
    return said.partition("\n")[0].strip() in RUNNING


def _act(world: World, verb: str, name: str) -> None:
    code, said = world.run(("systemctl", verb, "--", name), ACTING)
    if code:
        raise Failure("unexpected", "systemctl {} {}: {}".format(verb, name, said or code))


def _note(root: str, stopped: Sequence[Mapping[str, object]]) -> None:
    make_directory(root, PRIVATE, root)
    write_atomically(_file(root), json.dumps(list(stopped)).encode(), 0o600)


def _file(root: str) -> str:
    return os.path.join(root, "services.json")


def _checked(name: str) -> str:
    if not NAME.match(name):
        raise Failure("invalid", "not a valid service name: {!r}".format(name))
    return name
