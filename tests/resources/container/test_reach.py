"""Whether a container reaches its GPUs: after its start, and when a later look finds that it does not."""

from __future__ import annotations

from typing import cast

import pytest

from gpuplan.resources.container.apply import lifecycle
from gpuplan.resources.container.apply.gpu_access import check_gpu_access, request_by_cdi
from gpuplan.resources.container.spec import ContainerSpec
from gpuplan.resources.kind import ApplyContext
from gpuplan.simulator.session import SimulatedSession
from gpuplan.simulator.tools import daemon_reload
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic, Problem
from gpuplan.types.snapshot import Probe, ProbeError, Snapshot
from gpuplan.types.value import Json
from tests.lab.fixtures import Lab
from tests.resources.container.bench import Bench
from tests.resources.container.node import GPUS

WEB = Address("n", "container", "web")


class Looks:
    """Hands that look, and see what they are told."""

    def __init__(self, **probes: Probe) -> None:
        self._probes = probes

    def look(self, *names: str) -> Snapshot:
        """Only the probes that are asked for."""
        return Snapshot("n", {name: self._probes[name] for name in names})


def apply_context(**probes: Probe) -> ApplyContext:
    return cast("ApplyContext", Looks(**probes))


def access(told: Json) -> Probe:
    return Probe({"containers": {"c": told}})


def lose_access(bench: Bench, request: pytest.FixtureRequest) -> None:
    if isinstance(bench.session, SimulatedSession):
        daemon_reload(bench.session.store)
    else:
        lab = request.getfixturevalue("lab")
        assert isinstance(lab, Lab)
        lab.run(bench.node, ["systemctl", "daemon-reload"])


def test_lost_access_is_seen_and_healed(bench: Bench, request: pytest.FixtureRequest) -> None:
    spec = ContainerSpec(image=bench.image, command=("sleep", "500"), stop_timeout=1, gpus=("g0",))
    web = bench.want("web", spec)
    assert bench.apply(web) == ["create container web"]
    assert bench.compare(web).changes == ()
    lose_access(bench, request)
    (change,) = bench.compare(web).changes
    assert [each.path for each in change.fields] == ["gpu_access"]
    assert bench.apply(web) == ["stop container web", "replace container web"]
    assert bench.compare(web).changes == ()


def test_one_that_does_not_reach_its_gpus_gives_the_old_one_back(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object) -> None:
        raise Problem(Diagnostic("The container cannot use its GPUs", "denied"))

    spec = ContainerSpec(image=bench.image, command=("sleep", "500"), stop_timeout=1, gpus=("g0",))
    old = bench.want("web", spec)
    bench.apply(old)
    newer = ContainerSpec(image=bench.image, command=("sleep", "501"), stop_timeout=1, gpus=("g0",))
    with monkeypatch.context() as patched:
        patched.setattr(lifecycle, "check_gpu_access", lost)
        with pytest.raises(Problem, match="cannot use its GPUs"):
            bench.apply(bench.want("web", newer))
    assert bench.names()["web"] == "running"
    assert bench.compare(old).changes == ()


def test_denied_after_the_start() -> None:
    denied = access({"nodes": ["nvidia0", "nvidiactl"], "denied": ["nvidiactl"]})
    with pytest.raises(Problem) as raised:
        check_gpu_access("c", WEB, apply_context(access=denied))
    assert "/dev/nvidiactl" in raised.value.diagnostics[0].detail


@pytest.mark.parametrize(
    "probe",
    [
        access({"nodes": ["nvidia0", "nvidiactl"], "denied": []}),
        access({"nodes": [], "denied": []}),
        access({"error": {"code": "not_supported", "text": ""}}),
        Probe({"containers": {}}),
        Probe(error=ProbeError("no_permission", "only root")),
    ],
)
def test_what_nobody_can_tell_is_believed(probe: Probe) -> None:
    check_gpu_access("c", WEB, apply_context(access=probe))


def listed(*names: str) -> ApplyContext:
    toolkit = {"tools": {}, "cdi": [{"path": "/etc/cdi/nvidia.yaml", "devices": list(names)}], "char_links": None}
    return apply_context(gpu=Probe({"gpus": cast("Json", GPUS)}), toolkit=Probe(toolkit))


def test_devices_are_asked_for_as_the_specification_names_them() -> None:
    by_uuid = request_by_cdi(
        {"Labels": {"a": "b"}, "HostConfig": {"Memory": 1}}, ["MIG-a2"], WEB, listed("MIG-a2", "0:1")
    )
    assert by_uuid == {
        "Labels": {"a": "b"},
        "HostConfig": {
            "Memory": 1,
            "DeviceRequests": [{"Driver": "cdi", "Count": 0, "DeviceIDs": ["nvidia.com/gpu=MIG-a2"]}],
        },
    }
    by_place = request_by_cdi({}, ["MIG-a2", "GPU-b"], WEB, listed("0:1", "1"))
    assert by_place["Labels"] == {"gpuplan.devices": "MIG-a2,GPU-b"}
    with pytest.raises(Problem, match="A device is in no CDI specification"):
        request_by_cdi({}, ["MIG-a2"], WEB, listed("0:0"))
