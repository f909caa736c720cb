"""Acting on MIG: exact placements, nothing half-made, and never an instance that is not the one meant."""

from types import SimpleNamespace

from tests.agent.fake_nvml import Instance
from tests.agent.support import AgentCaller


def test_create_puts_both_instances_at_the_placement(agent: AgentCaller) -> None:
    agent.node.gpus.boards[0].mig = True
    made = agent.ok("mig.create", uuid="GPU-0", profile_id=9, start=4, size=4)
    assert made == {"instance": 1, "mig_uuid": "MIG-0-1-0", "mig_uuids": ["MIG-0-1-0"]}
    (instance,) = agent.value("gpu")["gpus"][0]["instances"]
    assert (instance["start"], instance["compute_instances"][0]["uuid"]) == (4, "MIG-0-1-0")


def test_a_placement_that_is_taken_is_refused(agent: AgentCaller) -> None:
    agent.ok("mig.create", uuid="GPU-0", profile_id=9, start=4, size=4)
    assert agent.refused("mig.create", uuid="GPU-0", profile_id=19, start=5, size=1) == "insufficient_resources"


def test_without_its_compute_instance_the_gpu_instance_goes_again(agent: AgentCaller) -> None:
    agent.node.gpus.faults["nvmlGpuInstanceCreateComputeInstance"] = 23
    assert agent.refused("mig.create", uuid="GPU-0", profile_id=9, start=0, size=4) == "insufficient_resources"
    assert agent.node.gpus.boards[0].instances == []


def test_create_compute_fills_an_empty_instance(agent: AgentCaller) -> None:
    agent.node.gpus.boards[0].instances = [Instance(3, 9, 0)]
    made = agent.ok("mig.create_compute", uuid="GPU-0", instance=3)
    assert made == {"mig_uuid": "MIG-0-3-0", "mig_uuids": ["MIG-0-3-0"]}


def test_destroy_takes_the_compute_instances_first(agent: AgentCaller) -> None:
    agent.node.gpus.boards[0].instances = [Instance(3, 9, 0, [0])]
    agent.ok("mig.destroy", uuid="GPU-0", instance=3, profile_id=9, start=0)
    assert agent.node.gpus.boards[0].instances == []


def test_destroy_refuses_an_instance_that_is_another_one_now(agent: AgentCaller) -> None:
    agent.node.gpus.boards[0].instances = [Instance(3, 9, 4, [0])]
    assert agent.refused("mig.destroy", uuid="GPU-0", instance=3, profile_id=9, start=0) == "moved"
    assert agent.refused("mig.destroy", uuid="GPU-0", instance=2, profile_id=9, start=0) == "not_found"
    assert agent.node.gpus.boards[0].instances[0].compute == [0]


def test_a_busy_instance_is_left_whole(agent: AgentCaller) -> None:
    board = agent.node.gpus.boards[0]
    board.instances = [Instance(3, 9, 0, [0])]
    board.processes = [SimpleNamespace(pid=7, usedGpuMemory=1, gpuInstanceId=3, computeInstanceId=0)]
    assert agent.refused("mig.destroy", uuid="GPU-0", instance=3, profile_id=9, start=0) == "in_use"
    assert board.instances[0].compute == [0]


def test_set_mode_tells_what_a_second_look_sees(agent: AgentCaller) -> None:
    assert agent.ok("mig.set_mode", uuid="GPU-0", enabled=True) == {"status": 0, "current": True, "pending": True}
    agent.node.gpus.faults["nvmlDeviceSetMigMode"] = 4
    assert agent.refused("mig.set_mode", uuid="GPU-0", enabled=False) == "no_permission"
    assert agent.node.gpus.open == 0


def test_arguments_of_another_type_are_told(agent: AgentCaller) -> None:
    assert agent.refused("mig.create", uuid="GPU-0", profile_id="9", start=0, size=4) == "invalid"
    assert agent.refused("mig.set_mode", uuid="GPU-0", enabled=1) == "invalid"
    assert agent.refused("no.such") == "invalid"
