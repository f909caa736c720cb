"""Acting on MIG: exact placements, nothing half-made, and never an instance that is not the one meant."""

from types import SimpleNamespace

from tests.transport.conftest import Asking
from tests.transport.fake_nvml import Instance


def test_create_puts_both_instances_at_the_placement(asking: Asking) -> None:
    asking.node.gpus.boards[0].mig = True
    made = asking.ok("mig.create", uuid="GPU-0", profile_id=9, start=4, size=4)
    assert made == {"instance": 1, "mig_uuid": "MIG-0-1-0", "mig_uuids": ["MIG-0-1-0"]}
    (instance,) = asking.value("gpu")["gpus"][0]["instances"]
    assert (instance["start"], instance["compute_instances"][0]["uuid"]) == (4, "MIG-0-1-0")


def test_a_placement_that_is_taken_is_refused(asking: Asking) -> None:
    asking.ok("mig.create", uuid="GPU-0", profile_id=9, start=4, size=4)
    assert asking.refused("mig.create", uuid="GPU-0", profile_id=19, start=5, size=1) == "insufficient_resources"


def test_without_its_compute_instance_the_gpu_instance_goes_again(asking: Asking) -> None:
    asking.node.gpus.faults["nvmlGpuInstanceCreateComputeInstance"] = 23
    assert asking.refused("mig.create", uuid="GPU-0", profile_id=9, start=0, size=4) == "insufficient_resources"
    assert asking.node.gpus.boards[0].instances == []


def test_create_compute_fills_an_empty_instance(asking: Asking) -> None:
    asking.node.gpus.boards[0].instances = [Instance(3, 9, 0)]
    made = asking.ok("mig.create_compute", uuid="GPU-0", instance=3)
    assert made == {"mig_uuid": "MIG-0-3-0", "mig_uuids": ["MIG-0-3-0"]}


def test_destroy_takes_the_compute_instances_first(asking: Asking) -> None:
    asking.node.gpus.boards[0].instances = [Instance(3, 9, 0, [0])]
    asking.ok("mig.destroy", uuid="GPU-0", instance=3, profile_id=9, start=0)
    assert asking.node.gpus.boards[0].instances == []


def test_destroy_refuses_an_instance_that_is_another_one_now(asking: Asking) -> None:
    asking.node.gpus.boards[0].instances = [Instance(3, 9, 4, [0])]
    assert asking.refused("mig.destroy", uuid="GPU-0", instance=3, profile_id=9, start=0) == "moved"
    assert asking.refused("mig.destroy", uuid="GPU-0", instance=2, profile_id=9, start=0) == "not_found"
    assert asking.node.gpus.boards[0].instances[0].compute == [0]


def test_a_busy_instance_is_left_whole(asking: Asking) -> None:
    board = asking.node.gpus.boards[0]
    board.instances = [Instance(3, 9, 0, [0])]
    board.processes = [SimpleNamespace(pid=7, usedGpuMemory=1, gpuInstanceId=3, computeInstanceId=0)]
    assert asking.refused("mig.destroy", uuid="GPU-0", instance=3, profile_id=9, start=0) == "in_use"
    assert board.instances[0].compute == [0]


def test_set_mode_tells_what_a_second_look_sees(asking: Asking) -> None:
    assert asking.ok("mig.set_mode", uuid="GPU-0", enabled=True) == {"status": 0, "current": True, "pending": True}
    asking.node.gpus.faults["nvmlDeviceSetMigMode"] = 4
    assert asking.refused("mig.set_mode", uuid="GPU-0", enabled=False) == "no_permission"
    assert asking.node.gpus.open == 0


def test_arguments_of_another_type_are_told(asking: Asking) -> None:
    assert asking.refused("mig.create", uuid="GPU-0", profile_id="9", start=0, size=4) == "invalid"
    assert asking.refused("mig.set_mode", uuid="GPU-0", enabled=1) == "invalid"
    assert asking.refused("no.such") == "invalid"
