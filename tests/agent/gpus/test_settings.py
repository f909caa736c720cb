"""Settings of a GPU, its reset, and the services that are stopped for it."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from gpuplan.agent import proc
from gpuplan.agent.agent import Agent
from gpuplan.agent.failure import Failure
from gpuplan.agent.gpus import probe
from gpuplan.agent.world import run
from tests.agent.fake_nvml import FakeNvml
from tests.agent.support import AgentCaller


class Systemd:
    """`systemctl` with services in a dictionary."""

    def __init__(self, **services: str) -> None:
        self.services = {name.replace("_", "-"): state for name, state in services.items()}
        self.stubborn: set[tuple[str, str]] = set()
        self.noted: list[str] = []
        self.root = ""

    def __call__(self, argv: tuple[str, ...]) -> tuple[int, str]:
        program, verb, dashes, name = argv
        assert (program, dashes) == ("systemctl", "--")
        if verb == "is-active":
            state = self.services.get(name, "inactive")
            return (0 if state == "active" else 3), f"{state}\n"
        if verb == "stop":
            self.noted.append(Path(self.root, "services.json").read_text())
        if (verb, name) in self.stubborn:
            raise Failure("timeout", f"systemctl {verb} {name} did not end within 60 s")
        self.services[name] = {"stop": "inactive", "start": "active"}[verb]
        return 0, ""


@pytest.fixture
def systemd(agent: AgentCaller) -> Systemd:
    made = Systemd(nvidia_dcgm="active", nvsm="inactive", nvidia_persistenced="activating")
    made.root = agent.node.root
    agent.node.program = made
    return made


@pytest.mark.parametrize(
    ("setting", "value", "key", "told"),
    [
        ("persistence_mode", False, "persistence_mode", False),
        ("power_limit_mw", 350000, "power_limit_mw", 350000),
        ("compute_mode", "exclusive_process", "compute_mode", "exclusive_process"),
        ("ecc", False, "ecc", {"current": True, "pending": False}),
    ],
)
def test_a_setting_is_set(agent: AgentCaller, setting: str, value: object, key: str, told: object) -> None:
    agent.ok("gpu.set", uuid="GPU-0", setting=setting, value=value)
    (found,) = agent.value("gpu")["gpus"]
    assert found[key] == told


@pytest.mark.parametrize(
    ("setting", "value", "code"),
    [
        ("fan", 3, "invalid"),
        ("compute_mode", "turbo", "invalid"),
        ("ecc", "on", "invalid"),
        ("power_limit_mw", 900000, "invalid"),
    ],
)
def test_what_cannot_be_set(agent: AgentCaller, setting: str, value: object, code: str) -> None:
    assert agent.refused("gpu.set", uuid="GPU-0", setting=setting, value=value) == code


def test_settings_that_a_gpu_does_not_have_are_null(agent: AgentCaller) -> None:
    for name in ("EccMode", "PersistenceMode", "PowerManagementLimit", "PowerManagementLimitConstraints"):
        agent.node.gpus.faults[f"nvmlDeviceGet{name}"] = 3
    for name in ("VirtualizationMode", "Architecture", "ComputeMode"):
        agent.node.gpus.faults[f"nvmlDeviceGet{name}"] = 13  # an older driver
    (found,) = agent.value("gpu")["gpus"]
    keys = ("ecc", "persistence_mode", "power_limit_mw", "power_limits_mw", "virtualization", "architecture")
    assert {found[key] for key in (*keys, "compute_mode")} == {None}


def test_who_has_the_device_file_open_is_told_by_gpu(agent: AgentCaller) -> None:
    agent.node.gpus = FakeNvml(boards=2)
    agent.node.open_by = {1: [812]}
    first, second = agent.value("gpu")["gpus"]
    assert first["holders"] == []
    assert second["holders"] == [{"pid": 812, "name": "process-812", "container": None, "service": None}]


def test_holders_that_may_not_be_seen_are_an_error_and_not_none(agent: AgentCaller) -> None:
    agent.node.open_by = Failure("no_permission", "only root")
    (found,) = agent.value("gpu")["gpus"]
    assert found["holders"] == {"error": {"code": "no_permission", "text": "only root"}}


def test_open_device_files_are_found_in_proc(tmp_path: Path) -> None:
    links = {"812": ["/dev/nvidia0", "/dev/nvidiactl"], "813": ["/dev/nvidia1", "/dev/nvidia0"], "9": ["/dev/null"],
             str(os.getpid()): ["/dev/nvidia0"], "self": ["/dev/nvidia0"]}  # fmt: skip
    for pid, targets in links.items():
        (tmp_path / pid / "fd").mkdir(parents=True)
        for number, target in enumerate(targets):
            (tmp_path / pid / "fd" / str(number)).symlink_to(target)
    (tmp_path / "77").mkdir()
    assert proc.device_holders(str(tmp_path)) == {0: [812, 813], 1: [813]}


@pytest.mark.parametrize(
    ("cgroup", "service"),
    [
        ("0::/system.slice/nvidia-dcgm.service\n", "nvidia-dcgm.service"),
        ("4:memory:/system.slice/nvsm.service\n1:name=systemd:/system.slice/nvsm.service/x\n", "nvsm.service"),
        ("0::/system.slice/system-x.slice/x@1.service\n", "x@1.service"),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/top.service\n", None),
        ("0::/system.slice/docker-0123.scope\n", None),
        ("", None),
    ],
)
def test_a_cgroup_names_the_service(cgroup: str, service: str | None) -> None:
    assert proc.service_of(cgroup) == service


def test_a_gpu_that_hangs_does_not_hide_the_others(agent: AgentCaller) -> None:
    agent.node.gpus = FakeNvml(boards=8)
    never = agent.node.gpus.hanging[5] = threading.Event()
    began = time.monotonic()
    found: Any = probe.probe(agent.node, patience=0.3)["gpus"]
    assert time.monotonic() - began < 5
    assert found[5] == {"index": 5, "error": {"code": "timeout", "text": "no answer within 0.3 s"}}
    assert [each["uuid"] for each in found if "error" not in each] == [f"GPU-{i}" for i in range(8) if i != 5]
    assert agent.node.gpus.open == 1, "a session that is in use must stay open"
    never.set()


@pytest.mark.parametrize("name", ["nvmlDeviceGetName", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetPciInfo"])
@pytest.mark.parametrize(("value", "code"), [(15, "gpu_is_lost"), (16, "reset_required"), (999, "unexpected")])
def test_whatever_a_gpu_refuses_is_its_own_error(agent: AgentCaller, name: str, value: int, code: str) -> None:
    agent.node.gpus.faults[name] = value
    (found,) = agent.value("gpu")["gpus"]
    assert found["error"]["code"] == code


def test_a_reset_is_of_that_gpu_alone_and_persistence_mode_is_off_meanwhile(agent: AgentCaller) -> None:
    def smi(argv: tuple[str, ...]) -> tuple[int, str]:
        assert agent.node.gpus.boards[0].persistence == 0
        assert agent.node.gpus.open == 0, "whoever resets must not be a client"
        return 0, "GPU 00000000:07:00.0 was successfully reset."

    agent.node.program = smi
    agent.ok("gpu.reset", uuid="GPU-0")
    assert agent.node.ran == [("nvidia-smi", "--gpu-reset", "-i", "GPU-0")]
    assert agent.node.gpus.told == ["persistence 0", "persistence 1"]


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("The following GPUs could not be reset:\n  GPU 00000000:1A:00.0: In use by another client\n", "in_use"),
        ("GPU 00000000:C1:00.0 is currently in use by another process.", "in_use"),
        ("Resetting GPU 00000000:00:06.0 is not supported.", "not_supported"),
        ("Segmentation fault", "unexpected"),
    ],
)
def test_a_reset_that_is_refused(agent: AgentCaller, said: str, code: str) -> None:
    agent.node.program = lambda argv: (255, said)
    assert agent.refused("gpu.reset", uuid="GPU-0") == code
    assert agent.node.gpus.boards[0].persistence == 1


@pytest.mark.parametrize("uuid", ["--help", "0", "MIG-0"])
def test_only_a_gpu_is_reset(agent: AgentCaller, uuid: str) -> None:
    assert agent.refused("gpu.reset", uuid=uuid) == "invalid"
    assert agent.node.ran == []


def test_exactly_those_that_ran_are_stopped_and_started_again(agent: AgentCaller, systemd: Systemd) -> None:
    stated = ["nvidia-dcgm", "nvsm", "nvidia-persistenced", "not-there"]
    assert agent.ok("service.stop", uuid="GPU-0", services=stated) == {
        "stopped": ["nvidia-dcgm", "nvidia-persistenced"]
    }
    assert set(systemd.services.values()) == {"inactive"}
    assert agent.value("gpu")["stopped_services"] == [
        {"service": "nvidia-dcgm", "gpu": "GPU-0"},
        {"service": "nvidia-persistenced", "gpu": "GPU-0"},
    ]
    assert agent.ok("service.start", uuid="GPU-1") == {"started": []}
    assert agent.ok("service.start", uuid="GPU-0") == {"started": ["nvidia-dcgm", "nvidia-persistenced"]}
    assert systemd.services == {"nvidia-dcgm": "active", "nvsm": "inactive", "nvidia-persistenced": "active"}
    assert agent.value("gpu")["stopped_services"] == []


def test_a_service_is_noted_down_before_it_stops(agent: AgentCaller, systemd: Systemd) -> None:
    agent.ok("service.stop", uuid="GPU-0", services=["nvidia-dcgm", "nvidia-persistenced"])
    assert [len(json.loads(text)) for text in systemd.noted] == [1, 2]


def test_where_one_does_not_stop_the_others_run_again(agent: AgentCaller, systemd: Systemd) -> None:
    systemd.stubborn = {("stop", "nvidia-persistenced")}
    stated = ["nvidia-dcgm", "nvidia-persistenced"]
    assert agent.refused("service.stop", uuid="GPU-0", services=stated) == "timeout"
    assert systemd.services["nvidia-dcgm"] == systemd.services["nvidia-persistenced"] == "active"
    assert agent.value("gpu")["stopped_services"] == []


def test_one_that_does_not_start_hinders_no_other_and_stays_noted_down(agent: AgentCaller, systemd: Systemd) -> None:
    agent.ok("service.stop", uuid="GPU-0", services=["nvidia-dcgm", "nvidia-persistenced"])
    systemd.stubborn = {("start", "nvidia-dcgm")}
    assert agent.refused("service.start", uuid="GPU-0") == "timeout"
    assert systemd.services["nvidia-persistenced"] == "active"
    assert agent.value("gpu")["stopped_services"] == [{"service": "nvidia-dcgm", "gpu": "GPU-0"}]


def test_another_agent_starts_what_one_left_stopped(agent: AgentCaller, systemd: Systemd) -> None:
    agent.ok("service.stop", uuid="GPU-0", services=["nvidia-dcgm"])
    second = AgentCaller(agent.node)
    assert second.ok("service.start", uuid="GPU-0") == {"started": ["nvidia-dcgm"]}


@pytest.mark.parametrize("holds_the_lock", [True, False])
def test_an_agent_whose_other_side_is_gone_starts_what_it_stopped(
    agent: AgentCaller, systemd: Systemd, holds_the_lock: bool
) -> None:
    if holds_the_lock:
        agent.ok("lock.take", owner={"run": "r", "who": "w", "since": "s", "pid": 1})
    agent.ok("service.stop", uuid="GPU-0", services=["nvidia-dcgm"])
    agent.agent.on_disconnect()
    assert systemd.services["nvidia-dcgm"] == ("active" if holds_the_lock else "inactive")


@pytest.mark.parametrize("name", ["--now", "a b", "../x", "", "a\nb", "a;b"])
def test_names_that_are_none(agent: AgentCaller, systemd: Systemd, name: str) -> None:
    assert agent.refused("service.stop", uuid="GPU-0", services=[name]) == "invalid"
    assert agent.node.ran == []


def test_a_program_that_is_not_there_and_one_that_does_not_end() -> None:
    with pytest.raises(Failure) as absent:
        run(("no-such-program-at-all",), 5)
    assert absent.value.code == "no_tool"
    began = time.monotonic()
    with pytest.raises(Failure) as late:
        run(("sleep", "30"), 0.2)
    assert late.value.code == "timeout"
    assert time.monotonic() - began < 10
    assert run(("sh", "-c", "echo out; echo err >&2; exit 3"), 5) == (3, "out\nerr")


def test_an_operation_that_hangs_in_the_driver_ends(agent: AgentCaller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuplan.agent.agent.DRIVER_PATIENCE", 0.2)
    never = threading.Event()
    monkeypatch.setattr(agent.node.gpus, "nvmlDeviceSetMigMode", lambda *_: never.wait(30), raising=False)
    assert agent.refused("mig.set_mode", uuid="GPU-0", enabled=True) == "timeout"
    assert isinstance(agent.agent, Agent)
    assert agent.value("gpu")["driver"] == "570.86.15"
    never.set()
