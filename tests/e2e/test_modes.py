"""Who holds a GPU on a real node, and the services that are stopped for its reset: over SSH, through every failure."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.lab.fixtures import Lab

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

NODE = "gpu-a1"
PLAN = """
version: 1
name: modes
gpus:
  a100-0:
    nodes: gpu-a1
    select: { index: 0 }
    mig: { a: 3g.40gb }
"""
STOPS = "    stop_services: [nvidia-dcgm, nvsm]\n"
Gpuplan = Callable[..., subprocess.CompletedProcess[str]]


def until(found: Callable[[], bool], seconds: float = 20) -> None:
    """Wait for something that happens on the node by itself."""
    deadline = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < deadline, f"not within {seconds:g} s"
        time.sleep(0.05)


@pytest.fixture
def node(lab: Lab) -> Iterator[Lab]:
    """gpu-a1, bare, with a monitor that has GPU 0 open, and one that is installed and does not run."""
    lab.wipe(NODE)
    services = lab.root(NODE) / "etc/lab-services"
    services.mkdir(exist_ok=True)
    for name in ("nvidia-dcgm", "nvsm"):
        (services / name).write_text("exec sleep 1000000 </dev/nvidia0\n")
    lab.run(NODE, ["systemctl", "start", "nvidia-dcgm"])
    yield lab
    lab.run(NODE, ["systemctl", "stop", "nvidia-dcgm"])
    lab.run(NODE, ["systemctl", "stop", "nvsm"])
    lab.wipe(NODE)


@pytest.fixture
def command(node: Lab, tmp_path: Path) -> Callable[..., list[str]]:
    (tmp_path / "plan.yaml").write_text(PLAN)

    def line(verb: str, *more: str) -> list[str]:
        where = [str(tmp_path / "plan.yaml"), "-i", str(node.inventory)]
        return [sys.executable, "-m", "gpuplan", verb, *where, *more]

    return line


@pytest.fixture
def gpuplan(command: Callable[..., list[str]]) -> Gpuplan:
    def run(verb: str, *more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command(verb, *more), capture_output=True, text=True, check=False, timeout=120)

    return run


def runs(lab: Lab, service: str) -> bool:
    return lab.run(NODE, ["systemctl", "is-active", "--", service], check=False).returncode == 0


def said(done: subprocess.CompletedProcess[str]) -> str:
    """Everything it printed, whatever lines it was wrapped into."""
    return " ".join(f"{done.stdout} {done.stderr}".split())


def test_a_monitor_that_holds_the_gpu_is_named_with_its_service(gpuplan: Gpuplan) -> None:
    done = gpuplan("apply", "--auto-approve")
    assert done.returncode == 6, said(done)
    assert "gpu-reset" in said(done)
    assert "held by service nvidia-dcgm (sleep, pid " in said(done)


def test_what_may_be_stopped_is_stopped_and_runs_again(node: Lab, gpuplan: Gpuplan, tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN + STOPS)
    done = gpuplan("apply", "--auto-approve")
    assert done.returncode == 0, said(done)
    assert (runs(node, "nvidia-dcgm"), runs(node, "nvsm")) == (True, False)
    assert json.loads(gpuplan("plan", "--json").stdout)["nodes"][0]["changes"] == []
    done = gpuplan("destroy", "--auto-approve")
    assert done.returncode == 0, said(done)
    assert (runs(node, "nvidia-dcgm"), runs(node, "nvsm")) == (True, False)


def test_a_change_without_effect_is_no_success_and_leaves_the_monitor_running(
    node: Lab, gpuplan: Gpuplan, tmp_path: Path
) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN + STOPS)
    node.nvml(NODE, "fault", "nvmlDeviceSetMigMode", "0")
    done = gpuplan("apply", "--auto-approve")
    assert done.returncode == 1, said(done)
    assert "did not converge" in said(done)
    assert runs(node, "nvidia-dcgm")
    node.nvml(NODE, "clear-faults")
    assert gpuplan("apply", "--auto-approve").returncode == 0


def test_gpuplan_is_killed_while_a_service_is_stopped(
    node: Lab, gpuplan: Gpuplan, command: Callable[..., list[str]], tmp_path: Path
) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN + STOPS)
    node.nvml(NODE, "delay", "nvmlDeviceSetMigMode", "3000")
    with subprocess.Popen(
        command("apply", "--auto-approve"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        until(lambda: not runs(node, "nvidia-dcgm"))
        os.kill(process.pid, signal.SIGKILL)
    until(lambda: runs(node, "nvidia-dcgm"))
    node.nvml(NODE, "clear-faults")
    done = gpuplan("apply", "--auto-approve")
    assert done.returncode == 0, said(done)
    assert runs(node, "nvidia-dcgm")


def test_the_agent_is_killed_while_a_service_is_stopped_and_the_next_run_starts_it(
    node: Lab, gpuplan: Gpuplan, command: Callable[..., list[str]], tmp_path: Path
) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN + STOPS)
    node.nvml(NODE, "delay", "nvmlDeviceSetMigMode", "3000")
    with subprocess.Popen(
        command("apply", "--auto-approve"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        until(lambda: not runs(node, "nvidia-dcgm"))
        node.run(NODE, ["kill", "-9", *_openers_of_the_lock(node)])
        assert process.wait(60) != 0
    assert not runs(node, "nvidia-dcgm")
    node.nvml(NODE, "clear-faults")
    assert "an earlier apply was interrupted after it stopped nvidia-dcgm" in said(gpuplan("plan"))
    done = gpuplan("apply", "--auto-approve")
    assert done.returncode == 0, said(done)
    assert (runs(node, "nvidia-dcgm"), runs(node, "nvsm")) == (True, False)


def _openers_of_the_lock(lab: Lab) -> list[str]:
    """Processes of the node that have the lock file open."""
    script = "for p in /proc/[0-9]*; do ls -l $p/fd 2>/dev/null | grep -q gpuplan/lock && basename $p; done; true"
    return lab.run(NODE, ["bash", "-c", script]).stdout.split()
