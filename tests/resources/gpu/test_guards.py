"""Each guard: refused without --allow, done with it, and not lifted by the name of another."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.core.plan.guards import GUARDS, node_refusals
from gpuplan.resources.gpu.apply.apply import apply_step
from gpuplan.resources.gpu.diff import diff
from gpuplan.resources.gpu.read import read
from gpuplan.types.change import NodeChanges
from gpuplan.types.diagnostic import Problem
from gpuplan.types.resource import DiffContext, Record
from tests.resources.gpu.fakenode import Node
from tests.resources.gpu.support import address, desired_gpus, run

A100 = {"board": "A100-SXM4-80GB"}
SLICE = {"profile": "7g.80gb", "start": 0, "mig": "MIG-x"}
CUT = {"a100-0": {"select": {"index": 0}, "mig": {"a": "4g.40gb"}}}


def idle_in(devices: list[str]) -> list[dict[str, Any]]:
    """An unmanaged container that has devices and is idle."""
    return [{"id": "eeee", "name": "notebook", "devices": devices}]


MADE_BEFORE = Record(
    "prod", run="r1", remembered={address("a100-0/x"): {"gpu": "GPU-0", "profile": "7g.80gb", "start": 0, "size": 8}}
)
"""This plan file made the existing slice."""


CASES: dict[str, tuple[Node, Any, bool, str]] = {
    "busy-slice": (
        Node([{**A100, "instances": [SLICE]}], idle_in(["MIG-x"])), CUT, True, "is used by container notebook"
    ),
    "unmanaged-slice": (Node([{**A100, "instances": [SLICE]}]), CUT, False, "was not made by this plan file"),
    "busy-gpu": (
        Node([{"board": "H100-SXM5-80GB", "current": False}], idle_in(["GPU-0"])), CUT, False,
        "a100-0 (GPU-0) is used by container notebook",
    ),
    "gpu-reset": (
        Node([{**A100, "current": False}], modules=["nvidia", "nvidia_drm"]), CUT, False,
        "must be reset and is held by kernel module nvidia_drm",
    ),
}  # fmt: skip
"""Guard → node, desired GPUs, whether this plan file made the existing slice, and the text that names the user."""


def compared(node: Node, wanted: Any, record: Record) -> NodeChanges:
    found = diff(desired_gpus(wanted), read(node.look()), DiffContext("n", "prod", record))
    return NodeChanges("n", changes=found.changes, unmanaged=found.unmanaged)


@pytest.mark.parametrize("guard", CASES)
def test_refused_without_done_with_and_no_other_name_lifts_it(guard: str) -> None:
    node, wanted, ours, named = CASES[guard]
    record = MADE_BEFORE if ours else Record("prod")
    change_set = compared(node, wanted, record)
    others = [each for each in GUARDS if each != guard]
    for allow in ((), others):
        (refusal,) = node_refusals(change_set, allow)
        assert refusal.summary == f"Refused by guard {guard}"
        assert named in refusal.detail
        assert f"--allow {guard}" in refusal.fix
    assert node_refusals(change_set, [guard]) == ()
    run(node, desired_gpus(wanted), record)
    assert [each["profile"] for each in node.gpus[0]["instances"]] == ["4g.40gb"]


def test_a_reboot_is_refused_and_if_it_is_allowed_the_mode_pends_until_then() -> None:
    node = Node([{**A100, "current": False, "virtualization": "passthrough"}])
    change_set = compared(node, CUT, Record("prod"))
    (refusal,) = node_refusals(change_set, [each for each in GUARDS if each != "gpu-reboot"])
    assert "only with a reboot of the node" in refusal.detail
    assert node_refusals(change_set, ["gpu-reboot"]) == ()
    with pytest.raises(Problem, match=r"needs a reboot.*passed through to a virtual machine") as caught:
        run(node, desired_gpus(CUT), Record("prod"))
    assert "gpuplan never reboots a node" in caught.value.diagnostics[0].fix
    assert (node.gpus[0]["current"], node.gpus[0]["pending"]) == (False, True)
    with pytest.raises(Problem, match="needs a reboot"):
        run(node, desired_gpus(CUT), Record("prod"))
    assert [operation for operation, _ in node.done] == ["mig.set_mode"], "it is set once and not set back"
    node.gpus[0]["current"] = True
    run(node, desired_gpus(CUT), Record("prod"))
    assert [each["profile"] for each in node.gpus[0]["instances"]] == ["4g.40gb"]


def test_a_lifted_guard_kills_no_process() -> None:
    node = Node([{**A100, "current": False, "processes": [{"name": "python", "pid": 7}]}])
    (change,) = compared(node, CUT, Record("prod")).changes
    with pytest.raises(Problem, match=r"process python \(pid 7\) uses the GPU GPU-0"):
        apply_step(change.steps[0], node)
    assert node.done == []
