"""What a node keeps of one plan file: the record of the last apply, and the journal of all applies."""

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
"""Version of the record's JSON."""

_ROLLED_BACK = {kind.name: kind.rolled_back for kind in KINDS}


def read_record(snapshot: Snapshot, plan: str) -> Record:
    """The record in a snapshot; an empty one if the plan file was never applied.

    Raises:
        Problem: the record cannot be read, is damaged, or has another format.
    """
    probe = snapshot.probe("record")
    if probe.error is not None:
        raise Problem(_unreadable(snapshot.node, probe.error.text))
    if probe.value is None:
        return Record(plan)
    if not isinstance(probe.value, Mapping) or probe.value.get("format") != FORMAT:
        raise Problem(_unreadable(snapshot.node, "its format is not that of this gpuplan version"))
    try:
        return _record_from_json(probe.value)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise Problem(_unreadable(snapshot.node, f"it is damaged ({error})")) from error


def missing_record_warning(snapshot: Snapshot, record: Record) -> Diagnostic | None:
    """A warning if the node has containers of the plan file but no record: the record was deleted."""
    if not record.empty or snapshot.probe("docker").error is not None:
        return None
    try:
        names = sorted(each.role for each in containers(snapshot.probe("docker").value) if each.plan == record.plan)
    except (KeyError, TypeError, ValueError):
        return None  # the kinds that read containers report it
    if not names:
        return None
    return Diagnostic(
        "The node's record is missing",
        f"{snapshot.node} has containers of this plan file ({', '.join(names)}) but no record of an apply. It is "
        "unknown what was last applied, and whether MIG mode was on before.",
        "Restore /var/lib/gpuplan/plans/ from a backup. Without one, apply: it adopts what matches the plan file, and "
        "a later destroy will leave MIG mode on.",
        address=snapshot.node,
        severity=Severity.WARNING,
    )


def record_to_json(record: Record) -> JsonObject:
    """The JSON that `record.write` keeps on the node (docs/agent.md)."""
    return {
        "format": FORMAT,
        "plan": record.plan,
        "run": record.run,
        "who": record.who,
        "when": record.when,
        "boot": record.boot,
        "key": record.key,
        "resources": {str(address): to_json(recorded) for address, recorded in record.resources.items()},
        "remembered": {str(address): fact for address, fact in record.remembered.items()},
        "bystanders": list(record.bystanders),
    }


def _record_from_json(value: Mapping[str, Json]) -> Record:
    return Record(
        plan=str(value["plan"]),
        run=str(value["run"]),
        who=str(value["who"]),
        when=str(value["when"]),
        boot=str(value.get("boot") or ""),
        key=str(value.get("key") or ""),
        resources={
            parse_address(name): _recorded(parse_address(name), as_object(recorded))
            for name, recorded in as_object(value["resources"]).items()
        },
        remembered={parse_address(name): as_object(fact) for name, fact in as_object(value["remembered"]).items()},
        bystanders=tuple(str(name) for name in as_list(value["bystanders"])),
    )


def _recorded(address: Address, value: JsonObject) -> Recorded:
    needs = tuple(parse_address(str(need)) for need in as_list(value["needs"]))
    return Recorded(str(value["digest"]), decode_spec(address, value["spec"]), needs)


def _unreadable(node: str, reason: str) -> Diagnostic:
    return Diagnostic(
        "Cannot read the node's record",
        f"The record of the last apply on {node} cannot be read: {reason}.",
        "Restore the file in /var/lib/gpuplan/plans/ on the node from a backup. Without one, remove it: the next apply "
        "adopts what matches the plan file, but the GPUs' original settings are lost.",
        address=node,
    )


class Journal:
    """Appends to a node's journal of one plan file; each entry is on disk before the next operation."""

    def __init__(self, session: Session, plan: str, run: str) -> None:
        self._session = session
        self._plan = plan
        self._run = run

    def run_started(self, who: str, steps: int) -> None:
        """A run starts on this node."""
        self._append("run", {"who": who, "steps": steps})

    def step_started(self, step: str, title: str) -> None:
        """A step starts. A step that started and never ended was cut off."""
        self._append("begin", {"step": step, "title": title})

    def step_ended(self, outcome: StepOutcome) -> None:
        """A step ended."""
        self._append(
            "end",
            {
                "step": outcome.step,
                "status": outcome.status.value,
                "seconds": round(outcome.seconds, 3),
                "problems": [f"{problem.summary}: {problem.detail}" for problem in outcome.diagnostics],
            },
        )

    def run_ended(self, exit_code: int) -> None:
        """A run ended on this node."""
        self._append("done", {"exit_code": exit_code})

    def _append(self, event: str, entry: JsonObject) -> None:
        line = {"at": now(), "run": self._run, "event": event, **entry}
        self._session.agent("journal.append", plan=self._plan, entries=[line])


def now() -> str:
    """The current time in UTC, ISO 8601, in whole seconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class RecordKeeper:
    """Updates a node's record of one plan file while steps run, in several threads."""

    def __init__(self, session: Session, record: Record, run: str, who: str, boot: str = "") -> None:
        self._session = session
        self._boot = boot
        self._written = record
        self._before = record
        self._rolled_back: set[Address] = set()
        self._lock = threading.RLock()
        self.record = replace(record, run=run, who=who, when=now())

    def remember(self, facts: Iterable[tuple[Address, JsonObject | None]]) -> None:
        """Add facts to the record; None removes one."""
        with self._lock:
            remembered = dict(self.record.remembered)
            for address, fact in facts:
                if fact is None:
                    remembered.pop(address, None)
                else:
                    remembered[address] = fact
            self.record = replace(self.record, remembered=remembered)

    def write_facts(self, facts: Iterable[tuple[Address, JsonObject | None]]) -> None:
        """Add facts and write the record now, before the operation that they are about."""
        self.remember(facts)
        self.write()

    def seal(self, *texts: str) -> str:
        """The keyed digest of a secret; its key exists only in the record, and is written there first."""
        with self._lock:
            if not self.record.key:
                self.record = replace(self.record, key=random.token_hex(32))
                self.write()
            return keyed_digest(self.record.key, *texts)

    def rolled_back(self, part: Address) -> None:
        """A part of a resource, changed by this run, was rolled back."""
        with self._lock:
            self._rolled_back.add(part)
            for address, recorded in self.record.resources.items():
                if address.covers(part):
                    self.applied(Desired(address, recorded.spec, recorded.needs))

    def applied(self, desired: Desired) -> None:
        """A resource is now as desired, except for its rolled-back parts."""
        with self._lock:
            desired = replace(desired, spec=self._actual_spec(desired))
            recorded = Recorded(desired.digest, desired.spec, desired.needs)
            self.record = replace(self.record, resources={**self.record.resources, desired.address: recorded})

    def _actual_spec(self, desired: Desired) -> Any:
        """The desired spec, with the rolled-back parts as recorded before this run."""
        recorded = self._before.resources.get(desired.address)
        spec, before = desired.spec, recorded.spec if recorded else None
        for part in sorted(part for part in self._rolled_back if desired.address.covers(part)):
            spec = _ROLLED_BACK[part.kind](spec, before, part.name.removeprefix(f"{desired.address.name}/"))
        return spec

    def removed(self, address: Address) -> None:
        """A resource was removed, with all facts about it."""
        with self._lock:
            resources = {other: recorded for other, recorded in self.record.resources.items() if other != address}
            facts = {other: fact for other, fact in self.record.remembered.items() if not address.covers(other)}
            self.record = replace(self.record, resources=resources, remembered=facts)

    def settle(self, last: NodeChanges, scope: Scope, planned: Collection[Address]) -> None:
        """Record every resource that is as desired by the last look, and what is unmanaged.

        The record keeps what it says of resources that are neither in scope nor planned. It stays as it is if the node
        could not be read.
        """
        if any(part.address.kind == "node" for part in last.unknown):
            return
        unsettled = [*(change.address for change in last.changes), *(part.address for part in last.unknown)]

        def settled(address: Address) -> bool:
            concerned = address in planned or scope.has(address)
            return concerned and not any(other.covers(address) or address.covers(other) for other in unsettled)

        for desired in last.desired:
            if settled(desired.address):
                self.applied(desired)
        kept = {desired.address for desired in last.desired}
        for address in [address for address in self.record.resources if address not in kept and settled(address)]:
            self.removed(address)
        self._record_unmanaged(last, scope)
        if self._boot and not unsettled and scope.everything:
            self.record = replace(self.record, boot=self._boot)

    def _record_unmanaged(self, last: NodeChanges, scope: Scope) -> None:
        """Record what is unmanaged, of the kinds in scope, so that the next drift check reports only what is new."""
        if scope.targets:
            return
        names = {f"{unmanaged.address.kind}/{unmanaged.address.name}" for unmanaged in last.unmanaged}
        if scope.kinds:
            names |= {name for name in self.record.bystanders if name.partition("/")[0] not in scope.kinds}
        self.record = replace(self.record, bystanders=tuple(sorted(names)))

    def write(self) -> None:
        """Write the record to the node if anything but its time and author changed."""
        with self._lock:
            if replace(self.record, when="", run="", who="") == replace(self._written, when="", run="", who=""):
                return
            self._session.agent("record.write", plan=self.record.plan, record=record_to_json(self.record))
            self._written = self.record
