"""The gpu probe reads through NVML what docs/snapshot.md promises, whatever single GPUs or parts of them refuse."""

from types import SimpleNamespace

import pytest

from tests.agent.fake_nvml import FakeNvml, Instance
from tests.agent.support import AgentCaller


def test_a_gpu_without_mig_mode(agent: AgentCaller) -> None:
    value = agent.value("gpu")
    assert (value["driver"], value["cuda"]) == ("570.86.15", "12.8")
    (gpu,) = value["gpus"]
    assert gpu["uuid"] == "GPU-0"
    assert gpu["pci"] == "00000000:07:00.0"
    assert gpu["compute_capability"] == "8.0"
    assert gpu["memory"] == {"total": 80 << 30, "used": 1 << 30, "free": 79 << 30}
    assert gpu["mig"] == {"supported": True, "current": False, "pending": False}
    assert gpu["instances"] == []
    assert [profile["name"] for profile in gpu["profiles"]] == ["1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb"]
    assert all(profile["placements"] is None for profile in gpu["profiles"])


def test_instances_are_listed_as_they_stand_with_the_uuids_of_their_devices(agent: AgentCaller) -> None:
    board = agent.node.gpus.boards[0]
    board.mig = True
    board.instances = [Instance(2, 9, 4, [0]), Instance(1, 19, 0)]
    (gpu,) = agent.value("gpu")["gpus"]
    assert gpu["instances"] == [
        {"id": 1, "profile_id": 19, "profile": "1g.10gb", "start": 0, "size": 1, "compute_instances": []},
        {
            "id": 2,
            "profile_id": 9,
            "profile": "3g.40gb",
            "start": 4,
            "size": 4,
            "compute_instances": [{"id": 0, "profile_id": 2, "slices": 3, "uuid": "MIG-0-2-0"}],
        },
    ]
    assert [profile["placements"] for profile in gpu["profiles"] if profile["id"] == 9] == [[[0, 4], [4, 4]]]


def test_text_may_be_bytes_or_str(agent: AgentCaller) -> None:
    as_text = agent.value("gpu")
    agent.node.gpus = FakeNvml(encode=True)
    assert agent.value("gpu") == as_text


def test_a_lost_gpu_does_not_hide_the_others(agent: AgentCaller) -> None:
    agent.node.gpus = FakeNvml(boards=8)
    agent.node.gpus.lost = {3}
    gpus = agent.value("gpu")["gpus"]
    assert gpus[3] == {"index": 3, "error": {"code": "gpu_is_lost", "text": "GPU is lost"}}
    assert [gpu["uuid"] for gpu in gpus if "error" not in gpu] == [f"GPU-{i}" for i in range(8) if i != 3]


def test_a_part_that_needs_root_is_an_error_and_not_empty(agent: AgentCaller) -> None:
    agent.node.gpus.boards[0].mig = True
    agent.node.gpus.faults["nvmlDeviceGetGpuInstances"] = 4
    (gpu,) = agent.value("gpu")["gpus"]
    assert gpu["instances"]["error"]["code"] == "no_permission"
    assert gpu["uuid"] == "GPU-0"


def test_a_gpu_that_knows_no_mig(agent: AgentCaller) -> None:
    agent.node.gpus.faults["nvmlDeviceGetMigMode"] = 3
    agent.node.gpus.faults["nvmlDeviceGetPowerManagementLimit"] = 3
    (gpu,) = agent.value("gpu")["gpus"]
    assert gpu["mig"] == {"supported": False, "current": False, "pending": False}
    assert (gpu["profiles"], gpu["instances"], gpu["power_limit_mw"]) == ([], [], None)


def test_processes_name_their_instance(agent: AgentCaller) -> None:
    agent.node.gpus.boards[0].processes = [
        SimpleNamespace(pid=7, usedGpuMemory=None, gpuInstanceId=1, computeInstanceId=0),
        SimpleNamespace(pid=8, usedGpuMemory=99, gpuInstanceId=0xFFFFFFFF, computeInstanceId=0xFFFFFFFF),
    ]
    (gpu,) = agent.value("gpu")["gpus"]
    common = {"container": None, "service": None}
    assert gpu["processes"] == [
        {"pid": 7, "name": "process-7", "used_memory": None, "gpu_instance": 1, "compute_instance": 0, **common},
        {"pid": 8, "name": "process-8", "used_memory": 99, "gpu_instance": None, "compute_instance": None, **common},
    ]


@pytest.mark.parametrize(
    ("value", "code"),
    [(9, "no_driver"), (12, "no_library"), (18, "driver_mismatch"), (4, "no_permission"), (999, "unexpected")],
)
def test_what_nvml_says_at_its_start_is_the_probes_error(agent: AgentCaller, value: int, code: str) -> None:
    agent.node.gpus.faults["nvmlInit"] = value
    assert agent.probe("gpu")["error"]["code"] == code


def test_nvml_is_shut_down_after_each_question(agent: AgentCaller) -> None:
    agent.value("gpu")
    agent.node.gpus.faults["nvmlDeviceGetCount"] = 999
    agent.probe("gpu")
    assert agent.node.gpus.open == 0
