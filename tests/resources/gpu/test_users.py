"""However an idle container requested a slice, it counts as a user of that slice and of no other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuplan.resources.gpu.diff import diff
from gpuplan.resources.gpu.read import read
from gpuplan.types.resource import DiffContext, Record
from gpuplan.types.snapshot import Probe, Snapshot
from gpuplan.types.value import mapping, mappings
from tests.resources.gpu.fakenode import Node
from tests.resources.gpu.support import desired_gpus

CUT = {"a100-0": {"select": {"index": 1}, "mig": {"a": "7g.80gb"}}}


def ids(*names: str, **more: Any) -> dict[str, Any]:
    """A request by names."""
    return {"DeviceRequests": [{"Driver": "", "Capabilities": [["gpu"]], "DeviceIDs": list(names), "Count": 0, **more}]}


WAYS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "UUID": (ids("MIG-b"), {}),
    "index of GPU and slice": (ids("1:1"), {}),
    "the name of old drivers": (ids("MIG-GPU-1/2/0"), {}),
    "CDI request": (ids("nvidia.com/gpu=1:1", Driver="cdi", Capabilities=[]), {}),
    "CDI device": ({"Devices": [{"PathOnHost": "nvidia.com/mig=MIG-b"}]}, {}),
    "the runtime's variable": ({"Runtime": "nvidia"}, {"Env": ["NVIDIA_VISIBLE_DEVICES=1:1"]}),
}
ALL: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "all": (ids(Count=-1), {}),
    "the runtime's variable": ({"Runtime": "nvidia"}, {"Env": ["NVIDIA_VISIBLE_DEVICES=all"]}),
}


def looked(host_config: dict[str, Any], config: dict[str, Any]) -> Snapshot:
    """Two halves on the second GPU, and an idle unmanaged container with this request."""
    halves = [{"profile": "3g.40gb", "start": 0, "mig": "MIG-a"}, {"profile": "3g.40gb", "start": 4, "mig": "MIG-b"}]
    node = Node(
        [{"board": "A100-SXM4-80GB", "uuid": f"GPU-{number}", "instances": number * halves} for number in (0, 1)]
    )
    stranger = {
        "Id": "e" * 64, "Name": "/notebook", "State": {"Running": True}, "Config": config, "HostConfig": host_config,
    }  # fmt: skip
    seen = node.look()
    engine = Probe({"version": {}, "info": {"DefaultRuntime": "runc"}, "images": [], "containers": [stranger]})
    return replace(seen, probes={**seen.probes, "docker": engine})


def busy(host_config: dict[str, Any], config: dict[str, Any]) -> list[str]:
    """Slices that a guard protects since they are in use."""
    found = diff(desired_gpus(CUT), read(looked(host_config, config)), DiffContext("n", "prod", Record("prod")))
    return [each.address.name for each in found.unmanaged if each.guard == "busy-slice"]


@pytest.mark.parametrize("way", WAYS)
def test_one_slice(way: str) -> None:
    assert busy(*WAYS[way]) == ["a100-0/3g.40gb@4"]


@pytest.mark.parametrize("way", ALL)
def test_all_slices(way: str) -> None:
    assert busy(*ALL[way]) == ["a100-0/3g.40gb@0", "a100-0/3g.40gb@4"]


def test_a_count_means_the_first_gpus() -> None:
    node = Node([{"board": "H100-SXM5-80GB", "current": False}])
    desired = desired_gpus({"h100-0": {"select": {"index": 0}, "mig": {"a": "7g.80gb"}}})
    stranger = {"Id": "e" * 64, "Name": "/notebook", "State": {"Running": True}, "Config": {}}
    guards = []
    for count in (0, 1):
        seen, asks = node.look(), ids(Count=count) if count else {}
        engine = Probe({"info": {}, "containers": [{**stranger, "HostConfig": asks}]})
        observed = read(replace(seen, probes={**seen.probes, "docker": engine}))
        found = diff(desired, observed, DiffContext("n", "prod", Record("prod")))
        guards.append([each.guard for each in found.unmanaged])
    assert guards == [[], ["busy-gpu"]]


def test_no_request_is_none() -> None:
    assert busy({}, {"Env": ["NVIDIA_VISIBLE_DEVICES=all"]}) == []


@pytest.mark.parametrize("labels", [{"gpuplan.plan": "prod"}, {"gpuplan.plan": "prod", "gpuplan.name": "web"}])
def test_a_container_that_only_has_our_labels_is_unmanaged(labels: dict[str, str]) -> None:
    """One label is not enough; both may be those of an image that was committed from a managed container."""
    host_config, config = WAYS[next(iter(WAYS))]
    seen = looked(host_config, {**config, "Labels": labels})
    told = {**mapping(seen.probe("docker").value), "images": [{"Id": "sha256:1", "Config": {"Labels": labels}}]}
    told["containers"] = [{**each, "Image": "sha256:1"} for each in mappings(told["containers"])]
    observed = read(replace(seen, probes={**seen.probes, "docker": Probe(told)}))
    found = diff(desired_gpus(CUT), observed, DiffContext("n", "prod", Record("prod")))
    assert "busy-slice" in [each.guard for each in found.unmanaged]
