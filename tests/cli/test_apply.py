"""`apply --local` on this machine, which has no GPU: what it says where there is nothing, or nothing to read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuplan.cli.apply import restore_this_node
from gpuplan.cli.change_sets import Approval
from gpuplan.inventory import load_inventory
from gpuplan.simulator.hardware import open_store
from gpuplan.simulator.world import reboot
from tests.cli.command import Command
from tests.cli.test_story import INVENTORY, ON_NODES

LOCAL = ("apply", "--local", "--auto-approve")
RECORD = {
    "format": 1,
    "plan": "prod",
    "run": "r1",
    "who": "ops@bastion",
    "when": "2026-11-30T09:00:00Z",
    "boot": "b1",
    "resources": {
        "gpu-x/gpu/g": {
            "digest": "d",
            "spec": {"select": {"key": "uuid", "value": "GPU-1"}, "mig": "disabled"},
            "needs": [],
        },
    },
    "remembered": {},
    "bystanders": [],
}


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("GPUPLAN_ROOT", str(tmp_path / "root"))
    return tmp_path / "root"


def recorded(root: Path, plan: str) -> None:
    folder = root / "plans" / plan
    folder.mkdir(parents=True)
    (folder / "record.json").write_text(json.dumps({**RECORD, "plan": plan}))


def test_without_a_record_there_is_nothing_to_restore(command: Command) -> None:
    ran = command(*LOCAL, "--only", "gpu")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "Nothing to restore: no plan file was applied to this node.\n"


def test_what_cannot_be_read_fails_visibly_for_every_plan(command: Command, root: Path) -> None:
    recorded(root, "prod")
    recorded(root, "another")
    ran = command(*LOCAL, "--only", "gpu")
    assert ran.code == 4
    assert ran.out.index("Plan another,") < ran.out.index("Plan prod,")
    assert "gpu-x/gpu/g" in ran.err


def test_a_damaged_record_does_not_hide_the_next_plan(command: Command, root: Path) -> None:
    recorded(root, "prod")
    (root / "plans" / "broken").mkdir()
    (root / "plans" / "broken" / "record.json").write_text("{")
    ran = command(*LOCAL, "--only", "gpu", "--json")
    answer = json.loads(ran.out)
    assert (ran.code, answer["kind"], answer["exit_code"]) == (1, "gpuplan restore", 1)
    assert [plan["plan"] for plan in answer["plans"]] == ["prod"]
    assert any("record" in each["summary"] for each in answer["diagnostics"])


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["apply"], "Nothing to apply"),
        (["apply", "plan.yaml", "--local"], "--local"),
        (["apply", "--local", "--target", "x"], "--local"),
        (["apply", "--local"], "--auto-approve"),
        (["apply", "--local", "--auto-approve", "--only", "gpus"], "gpu, repository, container, model"),
        (["plan", "plan.yaml", "-i", "inv.yaml", "--only", "gpus"], "gpu, repository, container, model"),
    ],
)
def test_wrong_usage(command: Command, argv: list[str], says: str) -> None:
    ran = command(*argv)
    assert (ran.code, ran.out) == (64, "")
    assert says in ran.err


def test_a_node_after_a_reboot(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    (host,) = load_inventory(INVENTORY).hosts
    assert command("apply", *ON_NODES, "--auto-approve").code == 0
    reboot(open_store(host), host.name)
    found = command("drift-check", *ON_NODES)
    assert found.code == 2
    assert "Drift: 1 on 1 node." in found.out
    assert "· the node was restarted at 20" in found.out
    assert restore_this_node(("gpu",), Approval(True, ()), False, host) == 0
    told = capsys.readouterr()
    assert "Plan quickstart, as last applied:" in told.out
    assert "Warning: Containers must be replaced" in told.err
    assert "container/triton-large, container/triton-small" in told.err.replace("\n│ ", " ")
    planned = command("plan", *ON_NODES, "--only", "gpu")
    assert "No changes" in planned.out
    assert restore_this_node((), Approval(True, ()), False, host) == 0
    assert command("plan", *ON_NODES, "--detailed-exitcode").code == 0
