"""What could not be read of a node is not in its plan file, and what does not depend on it is."""

from __future__ import annotations

from dataclasses import replace

from gpuplan.discover.discover import discover_plan_file
from gpuplan.discover.entries import Discovery
from gpuplan.transport.session import Question
from gpuplan.types.inventory import Connection, Host
from gpuplan.types.snapshot import Probe, ProbeError, Snapshot
from tests.discover.test_round_trip import PROBES
from tests.resources.container.bench import Bench


def found_in(snapshot: Snapshot) -> Discovery:
    return discover_plan_file("found", [(Host("n", Connection.SIMULATED), snapshot)])


def look(bench: Bench) -> Snapshot:
    asking = [{"Driver": "", "Count": -1, "DeviceIDs": None, "Capabilities": [["gpu"]], "Options": {}}]
    for name, host in (("plain", {}), ("all", {"DeviceRequests": asking})):
        body = {"Image": bench.image, "Cmd": ["sleep", "500"], "HostConfig": host}
        bench.engine.start(bench.engine.create_container_from_config(body, name)["Id"])
    return bench.session.ask(Question("found", PROBES))


def without(snapshot: Snapshot, **errors: ProbeError) -> Snapshot:
    return replace(snapshot, probes={**snapshot.probes, **{name: Probe(error=each) for name, each in errors.items()}})


def keys(found: Discovery, kind: str) -> list[str]:
    return [each.key for each in found.of(kind)]


def test_a_node_without_a_driver_has_containers_all_the_same(simulated: Bench) -> None:
    found = found_in(without(look(simulated), gpu=ProbeError("no_library", "libnvidia-ml.so.1 is not there")))
    assert keys(found, "gpus") == []
    assert keys(found, "containers") == ["plain"]
    told = {each.what: each.why for each in found.left_out}
    assert "libnvidia-ml.so.1 is not there" in told["GPUs"]
    assert "its GPUs are unknown" in told["container all"]


def test_a_lost_gpu_is_told(simulated: Bench) -> None:
    snapshot = look(simulated)
    gpus = list(snapshot.probe("gpu").value["gpus"])
    gpus[1] = {"index": 1, "error": {"code": "gpu_is_lost", "text": "GPU is lost"}}
    value = {**snapshot.probe("gpu").value, "gpus": gpus}
    found = found_in(replace(snapshot, probes={**snapshot.probes, "gpu": Probe(value)}))
    assert keys(found, "gpus") == ["a100-0"]
    assert keys(found, "containers") == ["plain"]
    assert [each.what for each in found.left_out] == ["GPU 1", "container all"]


def test_a_silent_engine_leaves_the_gpus(simulated: Bench) -> None:
    found = found_in(without(look(simulated), docker=ProbeError("docker_refused", "nobody answers")))
    assert keys(found, "gpus") == ["a100-0", "a100-1"]
    assert [(each.what, each.why) for each in found.left_out] == [("containers", "could not be read: nobody answers")]
