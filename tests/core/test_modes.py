"""Modes, resets, settings and services on simulated nodes, through the whole flow."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from gpuplan.core.plan.guards import GUARDS, refusals
from gpuplan.simulator.hardware import open_store
from gpuplan.simulator.store import StateStore
from gpuplan.simulator.world import reboot
from gpuplan.types.diagnostic import Exit
from gpuplan.types.inventory import Host
from tests.conftest import CutOffs

from .conftest import World

PLAN = """
version: 1
name: story
gpus:
  a100-0:
    nodes: all
    select: { index: 0 }
    mig: { left: 3g.40gb, right: 3g.40gb }
"""
SERVICES = "[nvidia-dcgm, nvidia-persistenced]"
STOPPING = PLAN + f"    stop_services: {SERVICES}\n"


@pytest.fixture
def small(world: World) -> World:
    world.write(PLAN)
    return world


def host(world: World) -> Host:
    (found,) = world.inventory.hosts
    return found


def store(world: World) -> StateStore:
    return open_store(host(world))


def words(world: World, **more: object) -> str:
    (outcome,) = world.apply(**more)
    told = [*outcome.diagnostics, *(each for step in outcome.steps for each in step.diagnostics)]
    return " ".join(f"{each.summary}: {each.detail} {each.fix}" for each in told)


def exit_code(world: World, **more: object) -> int:
    (outcome,) = world.apply(**more)
    return outcome.exit_code


def test_the_first_cut_of_an_idle_gpu_needs_no_leave(small: World) -> None:
    assert refusals(small.plan(), ()) == ()
    assert exit_code(small) == Exit.DONE
    assert small.plan().empty


def test_a_daemon_that_holds_the_gpu_is_named_and_only_its_own_guard_lets_it_be_tried(small: World) -> None:
    small.nodes({"n1": {"services": "[nvidia-persistenced]"}})
    assert exit_code(small, allow=[each for each in GUARDS if each != "gpu-reset"]) == Exit.REFUSED
    assert "held by service nvidia-persistenced (pid 800)" in words(small)
    told = words(small, allow=["gpu-reset"])
    assert "The GPU needs a reset" in told
    assert "held by service nvidia-persistenced (pid 800)" in told
    (change,) = [each for node in small.plan().nodes for each in node.changes]
    assert change.steps[0].title == "reset the GPU to turn MIG mode on"


def test_services_that_may_be_stopped_are_started_again(small: World) -> None:
    small.nodes({"n1": {"services": SERVICES}})
    small.write(STOPPING)
    assert exit_code(small) == Exit.DONE
    assert [each.active for each in store(small).read().services] == [True, True]
    assert small.plan().empty


def test_what_pends_is_drift_and_the_next_apply_resets_it(small: World) -> None:
    small.nodes({"n1": {"services": SERVICES}})
    small.write(STOPPING)
    small.apply()
    with store(small).write() as state:
        state.gpus[0].pending = False
    (node,) = small.drift().nodes
    assert [each.change.steps[0].title for each in node.drift] == ["keep MIG mode on and cancel the pending change"]
    assert exit_code(small) == Exit.DONE
    with store(small).write() as state:
        state.gpus[0].mig, state.gpus[0].instances = False, []
    (node,) = small.drift().nodes
    assert [each.change.steps[0].name for each in node.drift] == ["reset"]
    assert exit_code(small) == Exit.DONE
    assert small.plan().empty


def test_a_kernel_module_is_named_and_its_guard_lifted(small: World) -> None:
    small.nodes({"n1": {"modules": "[nvidia_drm]"}})
    assert "held by kernel module nvidia_drm" in words(small)
    assert exit_code(small, allow=["busy-gpu", "gpu-reboot"]) == Exit.REFUSED
    assert exit_code(small, allow=["gpu-reset"]) == Exit.DONE
    assert small.plan().empty


def test_in_a_virtual_machine_the_mode_waits_for_a_reboot_and_the_next_apply_goes_on(small: World) -> None:
    small.nodes({"n1": {"virtualization": "passthrough"}})
    assert exit_code(small, allow=["gpu-reset", "busy-gpu"]) == Exit.REFUSED
    assert not store(small).read().gpus[0].pending
    assert "The node needs a reboot" in words(small, allow=["gpu-reboot"])
    assert store(small).read().gpus[0].pending
    reboot(store(small), "n1")
    assert exit_code(small) == Exit.DONE
    assert small.plan().empty


@pytest.mark.parametrize("operation", ["gpu.reset", "mig.set_mode"])
def test_a_success_that_did_not_happen_is_told(small: World, operation: str) -> None:
    if operation == "gpu.reset":
        with store(small).write() as state:
            state.gpus[0].pending = True
    small.nodes({"n1": {"faults": f"[{{ without_effect: {operation} }}]"}})
    assert "did not converge" in words(small)
    assert store(small).read().gpus[0].instances == []


def test_settings_are_set_and_left_as_found(small: World) -> None:
    small.write(PLAN + "    persistence_mode: false\n    power_limit: 300W\n    ecc: false\n")
    assert exit_code(small) == Exit.DONE
    assert small.plan().empty
    gpu = store(small).read().gpus[0]
    assert (gpu.persistence, gpu.power_limit_mw, gpu.ecc) == (False, 300000, False)
    assert (gpu.mig, len(gpu.instances)) == (True, 2)
    with store(small).write() as state:
        state.gpus[0].power_limit_mw = 400000
    (node,) = small.drift().nodes
    (drift,) = node.drift
    assert [(each.path, each.before, each.after) for each in drift.change.fields] == [("power_limit", "400 W", "300 W")]
    (outcome,) = small.apply(small.plan(destroy=True))
    assert outcome.exit_code == Exit.DONE
    gpu = store(small).read().gpus[0]
    assert (gpu.persistence, gpu.ecc, gpu.mig, gpu.instances) == (True, True, False, [])
    assert gpu.power_limit_mw in (0, 400000), "0 is the default, which a reset brings back"


def test_ecc_of_a_gpu_that_serves_takes_its_containers_along(world: World) -> None:
    world.apply()
    world.edit("    mig: {", "    ecc: false\n    mig: {")
    (node,) = world.plan().nodes
    assert {change.address.kind for change in node.changes} == {"gpu", "container", "model"}
    (outcome,) = world.apply()
    assert outcome.exit_code == Exit.DONE, outcome
    assert world.plan().empty
    assert not store(world).read().gpus[0].ecc


@pytest.mark.faults
def test_a_run_that_is_cut_off_anywhere_leaves_no_service_stopped_after_the_next(
    make_world: Callable[[], World], cut_offs: CutOffs
) -> None:
    left_stopped = 0
    for cut in cut_offs(1, stride=2):
        world = make_world()
        world.write(STOPPING)
        world.nodes({"n1": {"services": SERVICES, "faults": f"[{{ drop_after: {cut} }}]"}})
        if exit_code(world) == Exit.DONE:
            break
        left_stopped += not all(each.active for each in store(world).read().services)
        world.nodes({"n1": {"services": SERVICES}})
        assert exit_code(world) == Exit.DONE, f"cut off after {cut} changes"
        assert all(each.active for each in store(world).read().services), f"cut off after {cut} changes"
        assert world.plan().empty, f"cut off after {cut} changes"
    assert left_stopped, "no cut fell between stopping and starting"


@pytest.mark.parametrize(("code", "said"), [(15, "GPU is lost"), ("hang", "no answer within")])
def test_one_of_eight_gpus_that_does_not_answer_hides_none_of_the_others(
    small: World, monkeypatch: pytest.MonkeyPatch, code: object, said: str
) -> None:
    monkeypatch.setattr("gpuplan.agent.gpus.probe.PATIENCE", 1.0)
    faults = f"[{{ nvml: nvmlDeviceGetMemoryInfo, code: {code}, gpu: 5 }}]"
    text = small.folder / "inventory.yaml"
    small.nodes({"n1": {"faults": faults}})
    text.write_text(text.read_text().replace("count: 1", "count: 8"))
    small.write(PLAN + "  a100-5: { nodes: all, select: { index: 5 }, mig: { x: 7g.80gb } }\n")
    began = time.monotonic()
    (node,) = small.plan().nodes
    assert time.monotonic() - began < 15
    assert [change.address.name for change in node.changes] == ["a100-0"]
    (unknown,) = node.unknown
    assert unknown.address.name == "a100-5"
    assert said in unknown.diagnostic.detail
    assert threading.active_count() < 50
