"""Prove: whether a plan of some sections would find their node as it is; what would differ is not written."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from gpuplan.core.plan.compare import compare
from gpuplan.core.plan.desired import desire
from gpuplan.discover.entry import Entry, Node
from gpuplan.planfile.load import load_plan
from gpuplan.types.change import Change
from gpuplan.types.changeset import NodeChanges
from gpuplan.types.diagnostic import Diagnostic, Problem, Severity
from gpuplan.types.inventory import Host
from gpuplan.types.value import Secret

_FIELDS = 3
"""How many differing fields are told of one thing."""


@dataclass(frozen=True)
class Proof:
    """Tries sections out against the snapshot that they were described from."""

    plan: str
    host: Host
    node: Node
    secrets: Mapping[str, Secret]

    def objections(self, entries: Sequence[Entry], *kinds: str) -> tuple[str, ...]:
        """Why a plan file of these sections would not leave the node's things of these kinds as they are."""
        try:
            made = self._compared(entries)
        except Problem as problem:
            return tuple(_told(each) for each in _errors(problem.diagnostics))
        changes = (change for change in made.changes if change.address.kind in kinds)
        unknown = (each.diagnostic for each in made.unknown if each.address.kind in kinds)
        told = {str(change.address) for change in made.changes}
        errors = (each for each in _errors(made.diagnostics) if each.address not in told)
        wrong = (each for each in errors if any(f"/{kind}/" in each.address for kind in kinds))
        return (*map(_change, changes), *map(_told, (*unknown, *wrong)))

    def _compared(self, entries: Sequence[Entry]) -> NodeChanges:
        document: dict[str, object] = {"version": 1, "name": self.plan}
        for kind in ("gpus", "containers", "models"):
            place = {} if kind == "models" else {"nodes": self.node.name}
            part = {each.name: {**place, **each.section} for each in entries if each.kind == kind}
            document |= {kind: part} if part else {}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "plan.yaml"
            path.touch(0o600)
            path.write_text(yaml.safe_dump(document, sort_keys=False), "utf-8")
            plan = load_plan(str(path), environ={})
            wish = desire(plan, [self.host])[self.host.name]
        return compare(wish.desired, self.node.snapshot, self.plan, self.secrets)


def _errors(diagnostics: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    return (each for each in diagnostics if each.severity is Severity.ERROR)


def _told(diagnostic: Diagnostic) -> str:
    return diagnostic.detail.rstrip(".") or diagnostic.summary


def _change(change: Change) -> str:
    paths = [field.path for field in change.fields]
    more = f" and {len(paths) - _FIELDS} more" if len(paths) > _FIELDS else ""
    return f"a plan file cannot say {', '.join(paths[:_FIELDS])}{more} as it is"
