"""Cases as data: what is wanted, what stands, what is remembered → what the room must say of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpuplan.planfile.schema import PlanFile
from gpuplan.resources.container.kind import CONTAINER
from gpuplan.types.address import Address
from gpuplan.types.change import Change, Comparison, FieldChange
from gpuplan.types.diagnostic import Diagnostic
from gpuplan.types.inventory import Host
from gpuplan.types.record import Record, Recorded
from gpuplan.types.resource import Desired, DiffContext
from gpuplan.types.snapshot import Snapshot
from gpuplan.types.value import PRIVATE, KnownAfterApply, Secret
from tests.resources.container.node import checked, snapshot

CASES = sorted((Path(__file__).parent / "cases").glob("*.yaml"))
KEYS = (
    *("about", "desired", "gpus", "containers", "images", "default_runtime", "docker_error", "gpu_error"),
    *("bindings", "disturbed", "recorded", "remembered", "key", "secrets", "expect"),
    *("registry", "replace", "components"),
    *("access", "toolkit", "info", "version", "networks", "listening", "processes"),
)
TOLD = ("access", "toolkit", "info", "version", "registry", "components", "networks", "listening", "processes")
"""What a node says of itself beside its containers and images."""
EXPECT_KEYS = ("changes", "unmanaged", "unknown", "diagnostics")
CHANGE_KEYS = ("action", "fields", "steps", "reasons", "interrupts", "cause", "origin")
BOUND = {"a100-0": "GPU-a", "a100-0/cls-a": "MIG-a1", "a100-0/cls-b": "MIG-a2", "a100-1": "GPU-b"}
PAUSE = {"tags": ["lab/pause:1"]}
CUT = {
    "a100-0": {"nodes": "all", "select": {"index": 0}, "mig": {"cls-a": "3g.40gb", "cls-b": "3g.40gb"}},
    "a100-1": {"nodes": "all", "select": {"index": 1}, "mig": "disabled"},
}


@dataclass
class Case:
    """One file."""

    about: str
    desired: tuple[Desired, ...]
    faults: tuple[Diagnostic, ...]
    snapshot: Snapshot
    context: DiffContext
    expect: Mapping[str, Any]

    def compare(self) -> Comparison:
        """What the room says now."""
        return CONTAINER.compare(self.desired, self.snapshot, self.context)


def wishes(
    containers: Mapping[str, Any], gpus: Mapping[str, Any] = CUT
) -> tuple[tuple[Desired, ...], tuple[Diagnostic, ...]]:
    """What a `containers:` section of the plan file gives on this node."""
    filled = {
        name: {"nodes": "all", **({} if "archive" in stated else {"image": "lab/pause:1"}), **stated}
        for name, stated in containers.items()
    }
    desired, faults = CONTAINER.desired(PlanFile(version=1, name="prod", gpus=gpus, containers=filled), Host("n"))
    return tuple(desired), tuple(faults)


def load(path: Path) -> Case:
    """Read a case; a key that nobody reads is an error."""
    stated = checked(yaml.safe_load(path.read_text(encoding="utf-8")), KEYS)
    gpus = stated.get("gpus", CUT)
    desired, faults = wishes(stated.get("desired", {}), gpus)
    recorded, _ = wishes(stated.get("recorded", {}), gpus)
    record = Record(
        "prod",
        run="r1" if recorded else "",
        resources={each.address: Recorded(each.digest, each.spec, each.needs) for each in recorded},
        key=stated.get("key", ""),
        remembered={Address("n", *name.split("/", 1)): fact for name, fact in stated.get("remembered", {}).items()},
    )
    context = DiffContext(
        "n",
        "prod",
        record,
        bindings={_gpu(name): _bound(name, uuid) for name, uuid in stated.get("bindings", BOUND).items()},
        disturbed={_disturbed(name): why for name, why in stated.get("disturbed", {}).items()},
        secrets={reference: Secret(reference, text) for reference, text in stated.get("secrets", {}).items()},
        replace=tuple(stated.get("replace", ())),
    )
    look = snapshot(
        [{"plan": "prod", **each} for each in stated.get("containers", [])],
        stated.get("images", [PAUSE]),
        default_runtime=stated.get("default_runtime", "runc"),
        docker_error=stated.get("docker_error"),
        gpu_error=stated.get("gpu_error"),
        told={key: stated[key] for key in TOLD if key in stated},
    )
    expect = checked(stated["expect"], EXPECT_KEYS)
    for change in expect.get("changes", {}).values():
        checked(change, CHANGE_KEYS)
    return Case(stated["about"], desired, faults, look, context, expect)


def told(case: Case) -> Mapping[str, Any]:
    """What the room says of a case, in the form of `expect`."""
    comparison = case.compare()
    return {
        "changes": {change.address.name: _change(change) for change in comparison.changes},
        "unmanaged": [
            {
                "what": each.what,
                **({"sees": [part.name for part in each.sees]} if each.sees else {}),
                **({"guard": each.guard, "in_the_way_of": str(each.in_the_way_of)} if each.guard else {}),
            }
            for each in comparison.unmanaged
        ],
        "unknown": [f"{each.address.name}: {each.diagnostic.detail}" for each in comparison.unknown],
        "diagnostics": [f"{each.summary}: {each.detail}" for each in (*case.faults, *comparison.diagnostics)],
    }


def _change(change: Change) -> Mapping[str, Any]:
    return {
        "action": change.action.value,
        "fields": {field.path: _field(field) for field in change.fields},
        "steps": [step.title for step in change.steps],
        "reasons": list(change.reasons),
        "interrupts": list(change.interrupts),
        "cause": str(change.cause or ""),
        "origin": change.origin.value if change.origin else "",
    }


def _field(field: FieldChange) -> Any:
    if field.sensitive:
        assert (field.before, field.after) == (None, None)
        return PRIVATE
    return [field.before, str(field.after) if isinstance(field.after, KnownAfterApply) else field.after]


def _gpu(name: str) -> Address:
    return Address("n", "gpu", name)


def _disturbed(name: str) -> Address:
    """A part of a GPU, or the repository of a model server."""
    kind, _, rest = name.partition("/")
    return Address("n", kind, rest) if kind == "repository" else _gpu(name)


def _bound(name: str, uuid: str) -> str | KnownAfterApply:
    return KnownAfterApply(f"UUID of slice {name}") if uuid == "later" else uuid
