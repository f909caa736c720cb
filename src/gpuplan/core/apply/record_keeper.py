"""The ledger: keeps one node's record true while steps are done, and writes it after each."""

from __future__ import annotations

import secrets as random
import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from gpuplan.core.apply.journal import now
from gpuplan.core.apply.records import forget, record_to_json
from gpuplan.core.plan.targets import Scope
from gpuplan.resources.kinds import KINDS
from gpuplan.transport.session import Session
from gpuplan.types.address import Address
from gpuplan.types.changeset import NodeChanges
from gpuplan.types.record import Record, Recorded
from gpuplan.types.resource import Desired
from gpuplan.types.value import JsonObject, keyed_digest

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
