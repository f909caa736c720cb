"""Asking: every probe of docs/snapshot.md that the question names, side by side, in one answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from . import access, engine, gpu, host, manifest, others, record, triton
from .arguments import Arguments
from .deadlines import run_all
from .failure import Failure
from .world import World

FORMAT = 1
DEADLINE = 30.0
"""Seconds for a probe whose deadline the question does not state."""

PROBES: Mapping[str, Callable[[World, str], object]] = {
    "host": lambda world, _: host.probe(world),
    "gpu": lambda world, _: gpu.probe(world),
    "docker": lambda world, _: engine.probe(world),
    "triton": lambda world, _: triton.probe(world),
    "access": access.probe,
    "toolkit": lambda world, _: world.toolkit(),
    "repository": manifest.probe,
    "record": record.probe,
    "others": others.probe,
}


def ask(world: World, arguments: Arguments) -> dict[str, object]:
    """The snapshot. A probe that hangs is left behind at its deadline; it cannot keep the answer."""
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
