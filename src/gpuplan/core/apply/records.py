"""The record of a node, between its JSON on the node and the noun."""

from __future__ import annotations

from collections.abc import Mapping

from gpuplan.core.plan.decode import decode_spec
from gpuplan.resources.snapshot.docker import containers
from gpuplan.types.address import Address, parse_address
from gpuplan.types.diagnostic import Diagnostic, Problem, Severity
from gpuplan.types.record import Record, Recorded
from gpuplan.types.snapshot import Snapshot
from gpuplan.types.value import Json, JsonObject, as_list, as_object, to_json

FORMAT = 1


def read_record(snapshot: Snapshot, plan: str) -> Record:
    """The record in a snapshot; an empty one where the plan file was never applied.

    Raises:
        Problem: the node could not say, or says something that is not a record of this format.
    """
    probe = snapshot.probe("record")
    if probe.error is not None:
        raise Problem(_unreadable(snapshot.node, probe.error.text))
    if probe.value is None:
        return Record(plan)
    if not isinstance(probe.value, Mapping) or probe.value.get("format") != FORMAT:
        raise Problem(_unreadable(snapshot.node, "it has another format than this version of gpuplan writes"))
    try:
        return _from_json(probe.value)
    except (KeyError, ValueError, TypeError, AttributeError) as fault:
        raise Problem(_unreadable(snapshot.node, f"it is damaged ({fault})")) from fault


def lost_record(snapshot: Snapshot, record: Record) -> Diagnostic | None:
    """Word of a node that has containers of the plan file and no record of it: somebody removed the record."""
    if not record.empty or snapshot.probe("docker").error is not None:
        return None
    try:
        names = sorted(each.role for each in containers(snapshot.probe("docker").value) if each.plan == record.plan)
    except (KeyError, TypeError, ValueError):
        return None  # told by the rooms that read containers
    if not names:
        return None
    return Diagnostic(
        "The node's record is missing",
        f"{snapshot.node} has containers of this plan file ({', '.join(names)}) and no record of an apply. What was "
        "last applied is not known, nor whether MIG mode was on before.",
        "Put the record back if there is a backup. Else apply: it takes over what fits, and a destroy will leave MIG "
        "mode on.",
        address=snapshot.node,
        severity=Severity.WARNING,
    )


def record_to_json(record: Record) -> JsonObject:
    """The JSON form that `record.write` keeps on the node (docs/agent.md)."""
    return {
        "format": FORMAT,
        "plan": record.plan,
        "run": record.run,
        "who": record.who,
        "when": record.when,
        "boot": record.boot,
        "key": record.key,
        "resources": {
            str(address): {
                "digest": recorded.digest,
                "spec": to_json(recorded.spec),
                "needs": [str(need) for need in recorded.needs],
            }
            for address, recorded in record.resources.items()
        },
        "remembered": {str(address): fact for address, fact in record.remembered.items()},
        "bystanders": list(record.bystanders),
    }


def _from_json(value: Mapping[str, Json]) -> Record:
    return Record(
        plan=str(value["plan"]),
        run=str(value["run"]),
        who=str(value["who"]),
        when=str(value["when"]),
        boot=str(value.get("boot") or ""),
        key=str(value.get("key") or ""),
        resources={
            parse_address(name): Recorded(
                digest=str(as_object(entry)["digest"]),
                spec=decode_spec(parse_address(name), as_object(entry)["spec"]),
                needs=tuple(parse_address(str(need)) for need in as_list(as_object(entry)["needs"])),
            )
            for name, entry in as_object(value["resources"]).items()
        },
        remembered={parse_address(name): as_object(fact) for name, fact in as_object(value["remembered"]).items()},
        bystanders=tuple(str(name) for name in as_list(value["bystanders"])),
    )


def forget(record: Record, gone: Address) -> Mapping[Address, JsonObject]:
    """What is remembered apart from one resource and its parts."""
    return {address: fact for address, fact in record.remembered.items() if not gone.covers(address)}


def _unreadable(node: str, why: str) -> Diagnostic:
    return Diagnostic(
        "The node's record could not be read",
        f"What {node} remembers of the last apply could not be read: {why}.",
        "Put a backup of it back into /var/lib/gpuplan/plans/ on the node. If there is none, remove the damaged file: "
        "an apply then takes over what fits the plan file, but not how the GPUs were found.",
        address=node,
    )
