"""Apply steps on a GPU as a whole: modes, resets, settings and services, each done only if a second look shows it."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.resources.gpu.apply.apply import apply_step
from gpuplan.types.change import Step
from gpuplan.types.diagnostic import ConnectionLost, Diagnostic, Problem
from gpuplan.types.resource import Record
from tests.resources.gpu.fakenode import Node
from tests.resources.gpu.support import changes, desired_gpus, remember, run

HELD = [{"name": "nv-hostengine", "pid": 900, "service": "nvidia-dcgm.service"}]
STOPS = ["nvidia-dcgm", "nvsm"]


def a100(**more: Any) -> dict[str, Any]:
    return {"board": "A100-SXM4-80GB", "current": False, **more}


def wanted(**more: Any) -> Any:
    return desired_gpus({"a100-0": {"select": {"index": 0}, **more}})


def the_step(node: Node, desired: Any, name: str) -> Step:
    (change,) = changes(node, desired, Record("prod"))
    return next(step for step in change.steps if step.name == name)


def operations(node: Node) -> list[str]:
    return [operation for operation, _ in node.done]


def services_of(node: Node) -> Node:
    node.services = {"nvidia-dcgm": True, "nvsm": False}
    return node


def test_a_pending_mode_only_needs_the_reset() -> None:
    node = Node([a100(pending=True), a100(uuid="GPU-other")])
    run(node, wanted(mig={"a": "3g.40gb"}), Record("prod"))
    assert operations(node) == ["gpu.reset", "mig.create"]
    assert {arguments["uuid"] for _, arguments in node.done} == {"GPU-0"}


def test_a_reset_without_effect_is_a_failure() -> None:
    node = Node([a100(pending=True)])
    node.deaf.add("gpu.reset")
    with pytest.raises(Problem, match=r"did not converge.*GPU-0 was not reset.*is off and will be on"):
        run(node, wanted(mig={"a": "3g.40gb"}), Record("prod"))
    assert node.gpus[0]["instances"] == []


def test_a_pending_change_is_cancelled_without_a_reset() -> None:
    node = Node([a100(current=True, pending=False, instances=[{"profile": "3g.40gb", "start": 0}])])
    node.gpus[0]["processes"] = [{"name": "python", "pid": 3, "instance": 1, "container": "aaaa"}]
    node.containers = [{"id": "aaaa", "name": "serving", "plan": "prod", "devices": ["MIG-1"]}]
    run(node, wanted(mig={"a": "3g.40gb"}), Record("prod"))
    assert operations(node) == ["mig.set_mode"]
    assert (node.gpus[0]["current"], node.gpus[0]["pending"]) == (True, True)


def test_what_prevents_the_reset_is_named() -> None:
    node = Node([a100(pending=True, holders=HELD)])
    with pytest.raises(Problem, match=r"in_use\).*held by service nvidia-dcgm \(nv-hostengine, pid 900\)"):
        apply_step(the_step(node, wanted(mig={"a": "3g.40gb"}), "reset"), node)


@pytest.mark.parametrize("board", ["A100-SXM4-80GB", "H100-SXM5-80GB"])
def test_ecc_changes_with_a_reset_and_everything_else_is_restored(board: str) -> None:
    power = [350000, 400000, 100000, 400000]
    node = Node([{"board": board, "current": False, "ecc": [True, True], "power": power, "persistence_mode": False}])
    stated = {"mig": {"a": "3g.40gb", "b": "2g.20gb"}, "power_limit": "350W"}
    record = run(node, wanted(**stated), Record("prod"))
    places = [(each["profile"], each["start"]) for each in node.gpus[0]["instances"]]
    node.done.clear()
    record = run(node, wanted(**stated, ecc=False), record)
    assert operations(node)[:4] == ["mig.destroy", "mig.destroy", "gpu.set", "gpu.reset"]
    assert (node.gpus[0]["ecc"], node.gpus[0]["power"][0], node.gpus[0]["current"]) == ([False, False], 350000, True)
    assert sorted((each["profile"], each["start"]) for each in node.gpus[0]["instances"]) == sorted(places)
    assert changes(node, wanted(**stated, ecc=False), record) == ()
    run(node, (), record)
    assert (node.gpus[0]["ecc"], node.gpus[0]["current"], node.gpus[0]["instances"]) == ([True, True], False, [])


def test_settings_are_applied_and_their_original_values_restored() -> None:
    power = [400000, 400000, 100000, 400000]
    node = Node([a100(persistence_mode=False, power=power, compute_mode="default")])
    stated = {"persistence_mode": True, "power_limit": "300W", "compute_mode": "prohibited"}
    record = run(node, wanted(**stated), Record("prod"))
    gpu = node.gpus[0]
    assert (gpu["persistence_mode"], gpu["power"][0], gpu["compute_mode"]) == (True, 300000, "prohibited")
    assert changes(node, wanted(**stated), record) == ()
    record = run(node, wanted(**{**stated, "power_limit": "200W"}), record)
    record = run(node, (), record)
    assert (gpu["persistence_mode"], gpu["power"][0], gpu["compute_mode"]) == (False, 400000, "default")
    assert record.remembered == {}


def test_a_setting_without_effect_is_a_failure() -> None:
    node = Node([a100(persistence_mode=False)])
    node.deaf.add("gpu.set")
    with pytest.raises(Problem, match=r"persistence_mode of GPU-0 is False, not True"):
        run(node, wanted(persistence_mode=True), Record("prod"))


def test_only_services_that_ran_are_started_again() -> None:
    node = services_of(Node([a100(holders=HELD)]))
    seen: list[bool] = []
    node.before = lambda operation: seen.append(node.services["nvidia-dcgm"]) if operation == "mig.set_mode" else None
    run(node, wanted(mig={"a": "3g.40gb"}, stop_services=STOPS), Record("prod"))
    assert operations(node) == ["service.stop", "mig.set_mode", "service.start", "mig.create"]
    assert seen == [False]
    assert (node.services["nvidia-dcgm"], node.services["nvsm"], node.stopped) == (True, False, [])
    assert {"stopped nvidia-dcgm", "started nvidia-dcgm again"} <= set(node.said)


def test_services_are_started_again_after_a_failure() -> None:
    node = services_of(Node([a100()]))
    node.deaf.add("mig.set_mode")
    with pytest.raises(Problem, match="did not converge"):
        run(node, wanted(mig={"a": "3g.40gb"}, stop_services=STOPS), Record("prod"))
    assert (node.services["nvidia-dcgm"], node.stopped) == (True, [])


def test_a_service_that_does_not_stop_leaves_the_gpu_unchanged_until_the_next_apply() -> None:
    node = services_of(Node([a100()]))
    node.stubborn.add("stop nvidia-dcgm")
    desired = wanted(mig={"a": "3g.40gb"}, stop_services=STOPS)
    with pytest.raises(Problem, match=r"Cannot stop a service.*did not stop within 60 s"):
        run(node, desired, Record("prod"))
    assert (node.services["nvidia-dcgm"], node.gpus[0]["current"]) == (True, False)
    node.stubborn.clear()
    record = run(node, desired, Record("prod"))
    assert changes(node, desired, record) == ()


def test_a_service_that_does_not_start_is_reported_and_the_next_apply_starts_it() -> None:
    node = services_of(Node([a100()]))
    node.stubborn.add("start nvidia-dcgm")
    desired = wanted(mig={"a": "3g.40gb"}, stop_services=STOPS)
    with pytest.raises(Problem, match="Cannot start a service"):
        run(node, desired, Record("prod"))
    assert node.gpus[0]["current"] is True
    node.stubborn.clear()
    record = run(node, desired, Record("prod"))
    assert (node.services["nvidia-dcgm"], node.stopped) == (True, [])
    assert changes(node, desired, record) == ()


def test_the_next_apply_starts_what_an_interrupted_apply_stopped() -> None:
    node = services_of(Node([a100()]))
    desired = wanted(mig={"a": "3g.40gb"}, stop_services=STOPS)

    def cut(operation: str) -> None:
        if operation in ("mig.set_mode", "service.start"):
            raise ConnectionLost(Diagnostic("The connection to the node was lost"))

    node.before = cut
    with pytest.raises(ConnectionLost):
        run(node, desired, Record("prod"))
    assert node.services["nvidia-dcgm"] is False
    node.before = lambda operation: None
    (change,) = changes(node, desired, Record("prod"))
    assert change.steps[0].title == "start nvidia-dcgm again (stopped by an earlier apply)"
    record = run(node, desired, Record("prod"))
    assert node.services["nvidia-dcgm"] is True
    assert changes(node, desired, record) == ()


def test_stopped_services_are_started_though_the_gpu_is_dropped() -> None:
    node = services_of(Node([a100()]))
    record = run(node, wanted(mig={"a": "3g.40gb"}), Record("prod"))
    node.services["nvidia-dcgm"] = False
    node.stopped = [{"service": "nvidia-dcgm", "gpu": "GPU-0"}]
    run(node, (), record)
    assert (node.services["nvidia-dcgm"], node.stopped) == (True, [])


def test_each_mode_step_is_idempotent() -> None:
    node = Node([a100(ecc=[True, True], persistence_mode=False)])
    (change,) = changes(node, wanted(mig={"a": "3g.40gb"}, ecc=False, persistence_mode=True), Record("prod"))
    record = Record("prod")
    for step in change.steps:
        assert apply_step(step, node) == apply_step(step, node)
        record = remember(record, apply_step(step, node))
    assert operations(node).count("gpu.reset") == 1
    assert operations(node).count("mig.set_mode") == 1
