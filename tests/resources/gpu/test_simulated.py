"""GPUs with the real agent on a simulated node: applied, in sync, changed, and back to the original state."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpuplan.resources.gpu import GPU
from gpuplan.resources.kind import Facts
from gpuplan.simulator.session import SimulatedSession
from gpuplan.transport.session import Question
from gpuplan.types.change import Comparison
from gpuplan.types.inventory import Connection, Host
from gpuplan.types.record import Record, Recorded
from gpuplan.types.resource import Desired, DiffContext
from gpuplan.types.snapshot import Snapshot
from gpuplan.types.value import JsonObject
from tests.resources.gpu.support import desired_gpus, remember


class SimulatedContext(SimulatedSession):
    """A simulated session as the apply context of a step."""

    plan = "prod"

    def look(self, *probes: str) -> Snapshot:
        return self.ask(Question("prod", probes))

    def remember(self, facts: Facts) -> None:
        assert facts

    def say(self, text: str) -> None:
        assert text

    def missing(self, digests: object) -> list[str]:
        raise NotImplementedError("the GPU kind brings no content")

    source = secret = missing


def compare(node: SimulatedContext, desired: tuple[Desired, ...], record: Record) -> Comparison:
    return GPU.compare(desired, node.look("gpu", "docker", "others"), DiffContext("n", "prod", record))


def apply(node: SimulatedContext, desired: tuple[Desired, ...], record: Record) -> Record:
    found = compare(node, desired, record)
    assert (found.diagnostics, found.unknown) == ((), ())
    for change in found.changes:
        for step in change.steps:
            record = remember(record, GPU.apply(step, node))
    return replace(record, resources={each.address: Recorded(each.digest, each.spec) for each in desired})


@pytest.mark.parametrize(
    ("model", "first", "second"),
    [
        ("A100-SXM4-80GB", {"a": "3g.40gb", "b": "2g.20gb", "c": "1g.10gb"}, {"a": "4g.40gb", "b": "2g.20gb"}),
        ("H100-SXM5-80GB", {"a": "4g.40gb", "b": "3g.40gb"}, {"b": "3g.40gb", "c": "1g.20gb", "d": "1g.10gb+me"}),
        ("A30", {"a": "2g.12gb", "b": "1g.6gb"}, {"a": "4g.24gb"}),
    ],
)
def test_slices_are_applied_changed_and_the_original_state_restored(
    model: str, first: JsonObject, second: JsonObject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    simulated: JsonObject = {"gpus": [{"model": model}], "driver": "570.86.15"}
    node = SimulatedContext(Host("n", connection=Connection.SIMULATED, simulated=simulated))
    record = Record("prod", run="r1")
    for mig in (first, second):
        desired = desired_gpus({"g": {"select": {"index": 0}, "mig": mig}})
        record = apply(node, desired, record)
        settled = compare(node, desired, record)
        assert settled.changes == ()
        assert all(isinstance(bound, str) for bound in settled.bindings.values())
    record = apply(node, (), record)
    assert record.remembered == {}
    assert [(gpu.mig_enabled, gpu.instances) for gpu in GPU.read(node.look("gpu")).gpus] == [(False, ())]
    node.close()
