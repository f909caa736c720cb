"""A reboot on real parts: one finding for each GPU, slices from the node's own record, then everything that follows."""

from __future__ import annotations

import json
import shutil
import signal
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpuplan.cli import main
from tests.e2e.installed import PROGRAM, install, remove
from tests.lab.fixtures import Lab

HERE = Path(__file__).parent
MODELS = HERE.parents[1] / "plans" / "models"
NODES = ("gpu-a1", "gpu-h1")
LOCAL = [PROGRAM, "apply", "--local", "--auto-approve"]
MIG_ON = """
import pynvml as n
n.nvmlInit()
for index in range(n.nvmlDeviceGetCount()):
    n.nvmlDeviceSetMigMode(n.nvmlDeviceGetHandleByIndex(index), 1)
"""
"""The mode of an A100 is a matter of resets, and of other tests."""
ROOTS = {
    "gpu-a1/gpu/a100-0": {"gpu-a1/container/triton-large", "gpu-a1/model/triton-large/tokenizer"},
    "gpu-a1/gpu/a100-1": {"gpu-a1/container/triton-small", "gpu-a1/model/triton-small/tokenizer"},
    "gpu-h1/gpu/h100-0": {"gpu-h1/container/triton-first", "gpu-h1/model/triton-first/tokenizer"},
}
CONTAINERS = {"gpu-a1/container/triton-large", "gpu-a1/container/triton-small", "gpu-h1/container/triton-first"}

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]
Gpuplan = Callable[..., tuple[int, str]]


@pytest.fixture
def gpuplan(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Gpuplan]:
    """The command on the plan file: `gpuplan("plan", "--json")` → exit code and what it printed."""
    for node in lab.hosts:
        lab.wipe(node)
    shutil.copy(HERE / "boot.yaml", tmp_path)
    shutil.copytree(MODELS, tmp_path / "models")
    monkeypatch.chdir(tmp_path)
    told: list[str] = []

    def run(verb: str, *more: str) -> tuple[int, str]:
        code = main([verb, "boot.yaml", "-i", str(lab.inventory), *more])
        printed = capsys.readouterr()
        told.append(f"$ gpuplan {verb} {' '.join(more)} → {code}\n{printed.out}{printed.err}")
        return code, printed.out

    yield run
    print("\n".join(told))
    for node in NODES:
        remove(lab, node)


def slices(lab: Lab, node: str) -> list[str]:
    """GPU, profile, start and size of every GPU instance."""
    state = (lab.root(node) / "var/lib/nvmlsim/state").read_text()
    return sorted(" ".join(line.split()[1:]) for line in state.splitlines() if line.startswith("gi "))


def drift(report: str) -> dict[str, set[str]]:
    nodes = json.loads(report)["nodes"]
    return {each["change"]["address"]: set(each["dependants"]) for node in nodes for each in node["drift"]}


def reasons(report: str) -> dict[str, str]:
    nodes = json.loads(report)["nodes"]
    return {each["change"]["address"]: each["change"]["reasons"][0] for node in nodes for each in node["drift"]}


def is_loaded(lab: Lab, node: str, port: int) -> bool:
    with urllib.request.urlopen(f"http://{lab.hosts[node].address}:{port}/v2/models/tokenizer", timeout=10) as answer:
        return json.load(answer)["name"] == "tokenizer"


def test_a_reboot_and_back(lab: Lab, gpuplan: Gpuplan) -> None:
    lab.run("gpu-a1", ["python3", "-c", MIG_ON])
    assert gpuplan("apply", "--auto-approve")[0] == 0
    before = {node: slices(lab, node) for node in NODES}
    assert [len(found) for found in before.values()] == [9, 2]
    for node in NODES:
        install(lab, node)
        lab.reboot(node)
    assert [slices(lab, node) for node in NODES] == [[], []]

    code, report = gpuplan("drift-check", "--json")
    assert code == 2
    assert drift(report) == ROOTS
    assert all(reason.startswith("the node was restarted at ") for reason in reasons(report).values())

    told = lab.run("gpu-a1", ["sudo", *LOCAL, "--only", "gpu"], "ops").stderr
    assert "Containers must be replaced" in told
    hopper_before_its_engine_answers(lab)
    assert {node: slices(lab, node) for node in NODES} == before
    assert set(drift(gpuplan("drift-check", "--json")[1])) == CONTAINERS

    lab.run("gpu-h1", LOCAL)
    assert set(drift(gpuplan("drift-check", "--json")[1])) == {each for each in CONTAINERS if "gpu-a1" in each}
    assert gpuplan("apply", "--auto-approve")[0] == 0
    assert gpuplan("plan", "--detailed-exitcode")[0] == 0
    assert gpuplan("drift-check") == (0, "")
    assert {node: slices(lab, node) for node in NODES} == before
    assert all(is_loaded(lab, *server) for server in (("gpu-a1", 8000), ("gpu-a1", 8010), ("gpu-h1", 8000)))


def hopper_before_its_engine_answers(lab: Lab) -> None:
    """At boot the engine's socket takes connections, and the engine waits for us."""
    (engine,) = lab.run("gpu-h1", ["pgrep", "-o", "-x", "dockerd"]).stdout.split()
    lab.run("gpu-h1", ["kill", f"-{signal.SIGSTOP}", engine])
    try:
        done = lab.run("gpu-h1", [*LOCAL, "--only", "gpu", "--json"])
    finally:
        lab.run("gpu-h1", ["kill", f"-{signal.SIGCONT}", engine])
    (plan,) = json.loads(done.stdout)["plans"]
    (node,) = plan["nodes"]
    assert next(step["title"] for step in node["steps"]) == "turn MIG mode on"
    assert sum(step["seconds"] for step in node["steps"]) < 10
