"""The others probe: what the other plan files made on this node, so that no plan takes what is another's."""

from __future__ import annotations

import os
from collections.abc import Mapping

from . import paths, record
from .failure import Failure, explain
from .world import World

FORMAT = 1
"""The format of a record that is understood (docs/agent.md)."""
KINDS = ("gpu", "container")
"""What plans can take from one another; repositories and models lie within a plan's own."""
MOST = 1000
"""Plan files on one node. A list that is cut short would say that the rest is nobody's, so more of them is an error."""


def probe(world: World, plan: str) -> dict[str, object]:
    """The value of the probe `others`: all plans but the asked one. A damaged record is told in its plan's place."""
    names = [name for name in _plans(world.root) if name != plan]
    if len(names) > MOST:
        raise Failure("too_large", "there are more than {} plan files on the node".format(MOST))
    found = {name: _summary(world.root, name) for name in names}
    return {name: summary for name, summary in found.items() if summary is not None}


def _plans(root: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(paths.plans(root)) if paths.NAME.match(name))
    except FileNotFoundError:
        return []


def _summary(root: str, plan: str) -> dict[str, object] | None:
    """What one plan made; None where it has no record, because nothing of it was applied or all was destroyed."""
    try:
        found = record.read(root, plan)
        return None if found is None else _ours(plan, found)
    except (Failure, OSError) as error:
        return {"error": explain(error).to_json()}


def _ours(plan: str, found: Mapping[str, object]) -> dict[str, object]:
    resources, remembered = found.get("resources"), found.get("remembered")
    if found.get("format") != FORMAT or not isinstance(resources, dict) or not isinstance(remembered, dict):
        raise Failure("bad_record", "the record of {} has another format than this version reads".format(plan))
    if found.get("plan") != plan:
        raise Failure("bad_record", "the record in the place of {} is that of {!r}".format(plan, found.get("plan")))
    return {
        "resources": sorted(filter(_of_interest, resources)),
        "remembered": {address: fact for address, fact in remembered.items() if _of_interest(address)},
    }


def _of_interest(address: str) -> bool:
    """True for an address `node/kind/name` of a kind that plans can take from one another."""
    return address.split("/")[1:2] in ([kind] for kind in KINDS)
