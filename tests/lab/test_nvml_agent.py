"""The agent over the simulated library, through the real pynvml: whatever one GPU does, the others are told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuplan.nvidia.boards import BOARDS, Board, find_board
from tests.lab.nvml.build import bare_state, build

THREE = ("A100-SXM4-80GB", "H100-SXM5-80GB", "A30")
PROGRAM = """
import json, sys
from gpuplan.agent.gpus import probe
from gpuplan.agent.agent import Agent
from gpuplan.agent.world import World
probe.PATIENCE = float(sys.argv[1])
agent = Agent(World())
for line in sys.stdin:
    print(json.dumps(agent.handle(json.loads(line))), flush=True)
import os
os._exit(0)
"""


class Node:
    """A driver in a directory, and an agent in a process of its own over it."""

    def __init__(self, built: Path, directory: Path, boards: tuple[str, ...]) -> None:
        self._built = built
        self.state = directory / "state"
        self.state.write_text(bare_state("test", boards))
        self.env = {
            **os.environ,
            "LD_LIBRARY_PATH": str(built),
            "NVMLSIM_STATE": str(self.state),
            "GPUPLAN_ROOT": str(directory / "root"),
            "PATH": f"{built}:{os.environ['PATH']}",
        }

    def ask(self, *requests: dict[str, Any], patience: float = 10) -> list[Any]:
        """The agent's answers to these requests, in order, by one process."""
        lines = "".join(json.dumps(each) + "\n" for each in requests)
        argv = [sys.executable, "-c", PROGRAM, str(patience)]
        done = subprocess.run(argv, env=self.env, input=lines, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def probe(self, patience: float = 10) -> Any:
        """The gpu probe."""
        request = {"op": "ask", "plan": "", "probes": ["gpu"], "deadlines": {"gpu": 30}}
        (answer,) = self.ask(request, patience=patience)
        return answer["ok"]["probes"]["gpu"]

    def gpus(self, patience: float = 10) -> Any:
        """The GPUs of the gpu probe."""
        return self.probe(patience)["value"]["gpus"]

    def sim(self, *order: str) -> None:
        """An order to the simulated driver."""
        subprocess.run([str(self._built / "nvmlsim"), *order], env=self.env, check=True)

    def uuid(self, index: int) -> str:
        """UUID of a GPU."""
        lines = [line.split() for line in self.state.read_text().splitlines() if line.startswith(f"gpu {index} ")]
        return lines[0][3]

    def do(self, operation: str, index: int = 0, **arguments: object) -> Any:
        """One operation on a GPU: its answer, or the code with which it refuses."""
        (answer,) = self.ask({"op": operation, "uuid": self.uuid(index), **arguments})
        return answer["ok"] if "ok" in answer else answer["error"]["code"]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("nvml-agent")
    build(directory)
    return directory


@pytest.fixture
def make(built: Path, tmp_path: Path) -> Callable[..., Node]:
    return lambda *boards: Node(built, tmp_path, boards or THREE)


@pytest.fixture
def node(make: Callable[..., Node]) -> Node:
    return make()


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon that has the device file of GPU 15 open, which no machine that tests this has."""
    device = Path("/dev/nvidia15")
    if os.geteuid() != 0 or device.exists():
        pytest.skip("needs root, and a machine without a sixteenth GPU")
    device.write_bytes(b"")
    try:
        with subprocess.Popen(["sleep", "60"], stdin=device.open()) as process:
            yield process
            process.kill()
    finally:
        device.unlink()


@pytest.mark.parametrize("boards", [BOARDS[:9], BOARDS[9:]], ids=["first", "second"])
def test_every_board_of_the_catalog_has_its_profiles(make: Callable[..., Node], boards: tuple[Board, ...]) -> None:
    node = make(*(board.catalog_name for board in boards))
    on = [{"op": "mig.set_mode", "uuid": node.uuid(index), "enabled": True} for index in range(len(boards))]
    assert [answer["ok"]["current"] for answer in node.ask(*on)] == [True] * len(boards)
    for board, gpu in zip(boards, node.gpus(), strict=True):
        told = {each["name"]: (each["id"], each["placements"]) for each in gpu["profiles"]}
        assert told == {each.name: (each.id, [list(place) for place in each.placements]) for each in board.profiles}
        assert gpu["architecture"] == board.architecture


@pytest.mark.parametrize(
    ("code", "word"),
    [(2, "invalid"), (3, "not_supported"), (4, "no_permission"), (13, "not_supported"), (15, "gpu_is_lost"),
     (16, "reset_required"), (19, "in_use"), (23, "insufficient_resources"), (999, "unexpected")],
)  # fmt: skip
def test_a_gpu_that_refuses_to_answer_hides_none_of_the_others(node: Node, code: int, word: str) -> None:
    node.sim("fault", "nvmlDeviceGetMemoryInfo", str(code), "1")
    first, second, third = node.gpus()
    assert (second["index"], second["error"]["code"]) == (1, word)
    assert [first["name"], third["name"]] == ["NVIDIA A100-SXM4-80GB", "NVIDIA A30"]


@pytest.mark.parametrize(
    "function", ["nvmlDeviceGetHandleByIndex", "nvmlDeviceGetMigMode", "nvmlDeviceGetGpuInstanceProfileInfoV"]
)
def test_a_gpu_that_hangs_hides_none_of_the_others(node: Node, function: str) -> None:
    node.sim("delay", function, "40000", "1")
    began = time.monotonic()
    first, second, third = node.gpus(patience=1)
    assert time.monotonic() - began < 20
    assert (second["index"], second["error"]["code"]) == (1, "timeout")
    assert [first["index"], third["index"]] == [0, 2]
    assert "error" not in first
    assert "error" not in third


def test_while_one_gpu_hangs_another_is_changed(node: Node) -> None:
    node.sim("delay", "nvmlDeviceSetMigMode", "8000", "1")
    hanging = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "1"], env=node.env, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    with hanging:
        assert hanging.stdin is not None
        hanging.stdin.write(json.dumps({"op": "mig.set_mode", "uuid": node.uuid(1), "enabled": True}) + "\n")
        hanging.stdin.flush()
        began = time.monotonic()
        assert node.do("mig.set_mode", 0, enabled=True)["current"] is True
        assert time.monotonic() - began < 6
        hanging.kill()


@pytest.mark.parametrize(
    "function",
    ["nvmlDeviceGetEccMode", "nvmlDeviceGetComputeMode", "nvmlDeviceGetVirtualizationMode", "nvmlDeviceGetArchitecture",
     "nvmlDeviceGetPowerManagementLimitConstraints", "nvmlDeviceGetMinorNumber"],
)  # fmt: skip
@pytest.mark.parametrize("code", [3, 13])
def test_what_an_older_driver_does_not_know_is_null_and_no_error(node: Node, function: str, code: int) -> None:
    node.sim("fault", function, str(code), "0")
    gpu = node.gpus()[0]
    assert "error" not in gpu
    assert gpu["uuid"] == node.uuid(0)


@pytest.mark.parametrize(("code", "word"), [(9, "no_driver"), (18, "driver_mismatch"), (4, "no_permission")])
def test_a_driver_that_does_not_start_is_the_probes_error(node: Node, code: int, word: str) -> None:
    node.sim("fault", "nvmlInit", str(code))
    assert node.probe()["error"]["code"] == word


def test_instances_that_may_not_be_listed_are_an_error_of_that_part(node: Node) -> None:
    node.do("mig.set_mode", 0, enabled=True)
    node.sim("fault", "nvmlDeviceGetGpuInstances", "4", "0")
    gpu = node.gpus()[0]
    assert gpu["instances"]["error"]["code"] == "no_permission"
    assert gpu["mig"]["current"] is True


@pytest.mark.parametrize(
    ("function", "code", "operation", "arguments", "word"),
    [
        ("nvmlDeviceSetMigMode", 19, "mig.set_mode", {"enabled": True}, "in_use"),
        ("nvmlDeviceSetMigMode", 3, "mig.set_mode", {"enabled": True}, "not_supported"),
        ("nvmlDeviceSetPersistenceMode", 4, "gpu.set", {"setting": "persistence_mode", "value": True}, "no_permission"),
        ("nvmlDeviceSetEccMode", 3, "gpu.set", {"setting": "ecc", "value": False}, "not_supported"),
        ("nvmlDeviceSetComputeMode", 13, "gpu.set", {"setting": "compute_mode", "value": "default"}, "not_supported"),
    ],
)
def test_what_the_driver_refuses_has_its_word(
    node: Node, function: str, code: int, operation: str, arguments: dict[str, object], word: str
) -> None:
    node.sim("fault", function, str(code), "0")
    assert node.do(operation, 0, **arguments) == word


@pytest.mark.parametrize(
    ("setting", "value", "told"),
    [
        ("persistence_mode", True, ("persistence_mode", True)),
        ("power_limit_mw", 250_000, ("power_limit_mw", 250_000)),
        ("compute_mode", "prohibited", ("compute_mode", "prohibited")),
        ("ecc", False, ("ecc", {"current": True, "pending": False})),
    ],
)
def test_settings_are_set_and_some_wait_for_a_reset(
    node: Node, setting: str, value: object, told: tuple[str, object]
) -> None:
    assert node.do("gpu.set", 0, setting=setting, value=value) == {}
    assert node.gpus()[0][told[0]] == told[1]


def test_a_power_limit_beyond_the_gpus_own_is_refused(node: Node) -> None:
    assert node.gpus()[0]["power_limits_mw"] == {"default": 400_000, "lowest": 100_000, "highest": 400_000}
    assert node.do("gpu.set", 0, setting="power_limit_mw", value=500_000) == "invalid"


@pytest.mark.parametrize("index", [0, 1])
def test_a_reset_is_of_one_gpu_and_takes_what_a_reset_takes(node: Node, index: int) -> None:
    survives = find_board(THREE[index]).mode_survives_reboot  # type: ignore[union-attr]  # all three are in the catalog
    for each in (0, 1):
        node.do("mig.set_mode", each, enabled=True)
        node.do("gpu.set", each, setting="ecc", value=False)
        node.do("gpu.set", each, setting="persistence_mode", value=True)
        node.do("gpu.set", each, setting="power_limit_mw", value=300_000)
        node.do("mig.create", each, profile_id=9, start=0, size=4, compute=[])
    assert node.do("gpu.reset", index) == {}
    gpu, other = node.gpus()[index], node.gpus()[1 - index]
    assert (gpu["ecc"], gpu["mig"]["current"], gpu["instances"]) == ({"current": False, "pending": False}, survives, [])
    assert (gpu["power_limit_mw"], gpu["persistence_mode"]) == (gpu["power_limits_mw"]["default"], True)
    assert (other["ecc"]["current"], len(other["instances"]), other["power_limit_mw"]) == (True, 1, 300_000)


def test_a_reset_of_a_gpu_that_computes_is_refused(node: Node) -> None:
    node.sim("process", "0", "-1", "-1", "4242", "100")
    assert node.do("gpu.reset", 0) == "in_use"
    assert node.do("gpu.reset", 1) == {}


def test_a_reset_that_is_reported_and_does_not_happen(node: Node) -> None:
    node.sim("fault", "gpu-reset", "0")
    node.do("gpu.set", 0, setting="ecc", value=False)
    assert node.do("gpu.reset", 0) == {}
    assert node.gpus()[0]["ecc"] == {"current": True, "pending": False}


def test_where_a_gpu_is_passed_through_its_mode_pends_and_no_reset_is_possible(node: Node) -> None:
    node.sim("virtualization", "1")
    assert node.gpus()[0]["virtualization"] == "passthrough"
    assert node.do("mig.set_mode", 0, enabled=True) == {"status": 0, "current": False, "pending": True}
    assert node.do("gpu.reset", 0) == "not_supported"
    assert node.do("mig.set_mode", 1, enabled=True)["current"] is True, "Hopper needs no reset"
    node.sim("boot")
    assert [gpu["mig"]["current"] for gpu in node.gpus()[:2]] == [True, False]


def test_without_nvidia_smi_no_reset_is_claimed(node: Node) -> None:
    node.env["PATH"] = "/nowhere"
    assert node.do("gpu.reset", 0) == "no_tool"


def test_a_daemon_that_has_the_device_file_open_is_named_and_keeps_the_mode_pending(
    make: Callable[..., Node], holder: subprocess.Popen[bytes]
) -> None:
    node = make(*["A100-SXM4-80GB"] * 16)
    (held,) = node.gpus()[15]["holders"]
    assert (held["pid"], held["name"]) == (holder.pid, "sleep")
    assert node.gpus()[14]["holders"] == []
    assert node.do("mig.set_mode", 15, enabled=True) == {"status": 19, "current": False, "pending": True}
    assert node.do("gpu.reset", 15) == "in_use"
    holder.kill()
    holder.wait()
    assert node.do("gpu.reset", 15) == {}
    assert node.gpus()[15]["mig"] == {"supported": True, "current": True, "pending": True}
