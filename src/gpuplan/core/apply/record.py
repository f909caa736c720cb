"""The record of a node, between its JSON on the node and the noun."""

from __future__ import annotations

import secrets as random
import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from gpuplan.core.plan.desired import decode_spec
from gpuplan.core.plan.targets import Scope
from gpuplan.resources.kinds import KINDS
from gpuplan.resources.snapshot.containers import containers
from gpuplan.transport.session import Session
from gpuplan.types.address import Address, parse_address
from gpuplan.types.change import NodeChanges
from gpuplan.types.diagnostic import Diagnostic, Problem, Severity
from gpuplan.types.outcome import StepOutcome
from gpuplan.types.resource import Desired, Record, Recorded
from gpuplan.types.snapshot import Snapshot
from gpuplan.types.value import Json, JsonObject, as_list, as_object, keyed_digest, to_json

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


def missing_record_warning(snapshot: Snapshot, record: Record) -> Diagnostic | None:
    """Word of a node that has containers of the plan file and no record of it: the record was removed."""
    if not record.empty or snapshot.probe("docker").error is not None:
        return None
    try:
        names = sorted(each.role for each in containers(snapshot.probe("docker").value) if each.plan == record.plan)
    except (KeyError, TypeError, ValueError):
        return None  # reported by the kinds that read containers
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


# The journal: the append-only story of an apply, kept on the node it happens to. It never holds a secret.


class Journal:
    """Appends to one node's journal of one plan file; each entry is on disk before the next act."""

    def __init__(self, session: Session, plan: str, run: str) -> None:
        self._session = session
        self._plan = plan
        self._run = run

    def begins(self, who: str, steps: int) -> None:
        """A run starts on this node."""
        self._append("run", {"who": who, "steps": steps})

    def step_begins(self, step: str, title: str) -> None:
        """A step is about to act: what was begun and never ended was cut off."""
        self._append("begin", {"step": step, "title": title})

    def step_ends(self, outcome: StepOutcome) -> None:
        """A step ended."""
        self._append(
            "end",
            {
                "step": outcome.step,
                "status": outcome.status.value,
                "seconds": round(outcome.seconds, 3),
                "problems": [f"{each.summary}: {each.detail}" for each in outcome.diagnostics],
            },
        )

    def ends(self, exit_code: int) -> None:
        """The run is over on this node."""
        self._append("done", {"exit_code": exit_code})

    def _append(self, event: str, entry: JsonObject) -> None:
        line = {"at": now(), "run": self._run, "event": event, **entry}
        self._session.agent("journal.append", plan=self._plan, entries=[line])


def now() -> str:
    """This moment in UTC, ISO 8601, in whole seconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# Keeps one node's record up to date while steps run, and writes it after each.

_ROLLED_BACK = {room.name: room.rolled_back for room in KINDS}


class RecordKeeper:
    """The record of one plan file on one node, as it grows; steps that run side by side may have it grow."""

    def __init__(self, session: Session, record: Record, run: str, who: str, boot: str = "") -> None:
        self._session = session
        self._boot = boot
        self._written = record
        self._begun = record
        self._undone: set[Address] = set()
        self._turn = threading.RLock()
        self.record = replace(record, run=run, who=who, when=now())

    def remember(self, facts: Iterable[tuple[Address, JsonObject | None]]) -> None:
        """Keep what an apply door asks the node to remember; None forgets."""
        with self._turn:
            remembered = dict(self.record.remembered)
            for address, fact in facts:
                if fact is None:
                    remembered.pop(address, None)
                else:
                    remembered[address] = fact
            self.record = replace(self.record, remembered=remembered)

    def note(self, facts: Iterable[tuple[Address, JsonObject | None]]) -> None:
        """Keep facts and write them at once, before the act that they are about."""
        self.remember(facts)
        self.write()

    def seal(self, *texts: str) -> str:
        """The keyed digest of a secret, by a key that only the record on the node holds; it is written there first."""
        with self._turn:
            if not self.record.key:
                self.record = replace(self.record, key=random.token_hex(32))
                self.write()
            return keyed_digest(self.record.key, *texts)

    def rolled_back(self, part: Address) -> None:
        """A part of a resource, which this run made, is again as it was before."""
        with self._turn:
            self._undone.add(part)
            for address, entry in self.record.resources.items():
                if address.covers(part):
                    self.applied(Desired(address, entry.spec, entry.needs))

    def applied(self, desired: Desired) -> None:
        """A resource is now as desired, apart from those of its parts that went back."""
        with self._turn:
            desired = replace(desired, spec=self._standing(desired))
            entry = Recorded(desired.digest, desired.spec, desired.needs)
            self.record = replace(self.record, resources={**self.record.resources, desired.address: entry})

    def _standing(self, desired: Desired) -> Any:
        """The spec with the parts that went back as they were recorded before this run."""
        begun = self._begun.resources.get(desired.address)
        spec, before = desired.spec, begun.spec if begun else None
        for part in sorted(each for each in self._undone if desired.address.covers(each)):
            spec = _ROLLED_BACK[part.kind](spec, before, part.name.removeprefix(f"{desired.address.name}/"))
        return spec

    def removed(self, address: Address) -> None:
        """A resource is gone, and everything that was remembered of it."""
        with self._turn:
            rest = {each: entry for each, entry in self.record.resources.items() if each != address}
            self.record = replace(self.record, resources=rest, remembered=forget(self.record, address))

    def settle(self, last: NodeChanges, scope: Scope, planned: Collection[Address]) -> None:
        """Record everything that the last look found to be as desired, and who else is there.

        Of what was not in the scope of the run, and not planned either, the record stays as it is. Of a node that the
        last look could not read nothing is known, and so nothing is recorded.
        """
        if any(each.address.kind == "node" for each in last.unknown):
            return
        open_ones = [*(change.address for change in last.changes), *(each.address for each in last.unknown)]

        def settled(address: Address) -> bool:
            meant = address in planned or scope.has(address)
            return meant and not any(one.covers(address) or address.covers(one) for one in open_ones)

        wanted: Mapping[Address, Desired] = {each.address: each for each in last.desired}
        for address, desired in wanted.items():
            if settled(address):
                self.applied(desired)
        for address in [each for each in self.record.resources if each not in wanted and settled(each)]:
            self.removed(address)
        self._know(last, scope)
        if self._boot and not open_ones and scope.everything:
            self.record = replace(self.record, boot=self._boot)

    def _know(self, last: NodeChanges, scope: Scope) -> None:
        """Whoever else was seen is known from now on, of the kinds that were looked at."""
        if scope.targets:
            return
        seen = {f"{each.address.kind}/{each.address.name}" for each in last.unmanaged}
        if scope.kinds:
            seen |= {each for each in self.record.bystanders if each.partition("/")[0] not in scope.kinds}
        self.record = replace(self.record, bystanders=tuple(sorted(seen)))

    def write(self) -> None:
        """Write the record where it differs from what the node has, apart from the time."""
        with self._turn:
            if replace(self.record, when="", run="", who="") == replace(self._written, when="", run="", who=""):
                return
            self._session.agent("record.write", plan=self.record.plan, record=record_to_json(self.record))
            self._written = self.record
