"""The lab is what gpuplan's tests take it for."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator

import pytest
import yaml

from tests.lab.fixtures import Lab
from tests.lab.place import PAUSE, TRITON

pytestmark = pytest.mark.lab

LIST_GPUS = """
import pynvml as n
n.nvmlInit()
for index in range(n.nvmlDeviceGetCount()):
    print(n.nvmlDeviceGetName(n.nvmlDeviceGetHandleByIndex(index)))
"""
TWO_SLICES = """
import ctypes, sys, pynvml as n
profile, compute_profile, size = map(int, sys.argv[1:])
n.nvmlInit()
gpu = n.nvmlDeviceGetHandleByIndex(0)
n.nvmlDeviceSetMigMode(gpu, 1)
for start in (0, size):
    place = n.c_nvmlGpuInstancePlacement_t(start, size)
    gi = n.nvmlDeviceCreateGpuInstanceWithPlacement(gpu, profile, ctypes.byref(place))
    n.nvmlGpuInstanceCreateComputeInstance(gi, compute_profile)
for index in range(2):
    print(n.nvmlDeviceGetUUID(n.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index)))
"""
HALVES = {"gpu-h1": ("9", "2", "4"), "gpu-t1": ("5", "1", "2")}
"""3g.40gb and 2g.12gb: profile, profile of the compute instance that fills it, memory slices."""
MODE_AND_SLICES = """
import pynvml as n
n.nvmlInit()
gpu = n.nvmlDeviceGetHandleByIndex(0)
count = 0
try:
    for index in range(7):
        n.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index)
        count += 1
except n.NVMLError_NotFound:
    pass
print(n.nvmlDeviceGetMigMode(gpu)[0], count)
"""
DESTROY_FIRST = """
import pynvml as n
n.nvmlInit()
gi = n.nvmlDeviceGetGpuInstanceById(n.nvmlDeviceGetHandleByIndex(0), 1)
try:
    n.nvmlComputeInstanceDestroy(n.nvmlGpuInstanceGetComputeInstanceById(gi, 0))
    print("destroyed")
except n.NVMLError as error:
    print(error.value)
"""


def python(lab: Lab, node: str, program: str) -> list[str]:
    return lab.run(node, ["python3", "-c", program]).stdout.splitlines()


def halve(lab: Lab, node: str) -> list[str]:
    """Cut the node's GPU into halves; the UUIDs of both."""
    return lab.run(node, ["python3", "-c", TWO_SLICES, *HALVES[node]]).stdout.splitlines()


@pytest.fixture
def node(lab: Lab) -> Iterator[str]:
    """gpu-h1, bare before and after."""
    lab.wipe("gpu-h1")
    yield "gpu-h1"
    lab.wipe("gpu-h1")


def test_ops_may_do_everything_and_guest_nothing(lab: Lab) -> None:
    for name in lab.hosts:
        assert lab.run(name, ["sudo", "-n", "id", "-un"], "ops").stdout == "root\n"
        assert lab.run(name, ["docker", "version", "-f", "{{.Server.APIVersion}}"], "ops").stdout.startswith("1.")
        assert lab.run(name, ["sudo", "-n", "true"], "guest", check=False).returncode != 0
        assert lab.run(name, ["docker", "ps"], "guest", check=False).returncode != 0


def test_the_real_pynvml_sees_the_gpus(lab: Lab) -> None:
    seen = {name: python(lab, name, LIST_GPUS) for name in lab.hosts}
    assert seen == {
        "gpu-a1": ["NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB"],
        "gpu-h1": ["NVIDIA H100 80GB HBM3"],
        "gpu-t1": ["NVIDIA A30"],
    }


def test_the_inventory_is_ansibles(lab: Lab) -> None:
    groups = yaml.safe_load(lab.inventory.read_text())
    hosts = {name: host["ansible_host"] for group in groups.values() for name, host in group.get("hosts", {}).items()}
    assert hosts == {name: host.address for name, host in lab.hosts.items()}


def test_only_one_node_lacks_the_triton_image(lab: Lab) -> None:
    lab.wipe("gpu-t1")
    listing = ["docker", "images", "--format", "{{.Repository}}:{{.Tag}}"]
    images = {name: set(lab.run(name, listing).stdout.split()) for name in lab.hosts}
    assert images == {"gpu-a1": {TRITON, PAUSE}, "gpu-h1": {TRITON, PAUSE}, "gpu-t1": {PAUSE}}
    assert lab.archive.stat().st_size > 100 << 20


def test_a_slice_reaches_a_container_only_while_it_stands(lab: Lab, node: str) -> None:
    first, second = halve(lab, node)
    run = ["docker", "run", "--rm", "--gpus", f'"device={first},{second}"', PAUSE, "env"]
    assert f"NVIDIA_VISIBLE_DEVICES={first},{second}" in lab.run(node, run).stdout
    refused = lab.run(node, ["docker", "run", "--rm", "--gpus", '"device=MIG-dead"', PAUSE, "true"], check=False)
    assert refused.returncode != 0
    assert "nvidia-container-cli: device error: MIG-dead: unknown device" in refused.stderr


def test_a_triton_serves_from_its_slice_and_holds_it(lab: Lab, node: str) -> None:
    (first, _) = halve(lab, node)
    flags = ["tritonserver", "--model-repository=/models", "--model-control-mode=explicit"]
    lab.run(
        node,
        ["docker", "run", "-d", "--name", "triton", "--gpus", f"device={first}", "-p", "8000:8000", TRITON, *flags],
    )
    waiting = f"until wget -q -O- http://{lab.hosts[node].address}:8000/v2; do sleep 0.1; done"
    subprocess.run(["timeout", "30", "busybox", "sh", "-c", waiting], check=True, capture_output=True)
    with urllib.request.urlopen(f"http://{lab.hosts[node].address}:8000/v2", timeout=5) as answer:
        assert json.load(answer)["version"] == "2.51.0"
    in_use = "19"
    assert python(lab, node, DESTROY_FIRST) == [in_use]
    lab.run(node, ["docker", "rm", "-f", "triton"])
    assert python(lab, node, DESTROY_FIRST) == ["destroyed"]


@pytest.mark.parametrize(("name", "mode"), [("gpu-t1", "1"), ("gpu-h1", "0")])
def test_a_reboot_takes_instances_and_on_hopper_the_mode(lab: Lab, name: str, mode: str) -> None:
    lab.wipe(name)
    halve(lab, name)
    boots = [lab.run(name, ["cat", "/proc/sys/kernel/random/boot_id"]).stdout]
    lab.reboot(name)
    boots.append(lab.run(name, ["cat", "/proc/sys/kernel/random/boot_id"], "ops").stdout)
    assert boots[0] != boots[1]
    assert python(lab, name, MODE_AND_SLICES) == [f"{mode} 0"]
    lab.wipe(name)


def test_a_partition_cuts_a_node_off_until_it_heals(lab: Lab) -> None:
    probe = ["timeout", "1", "bash", "-c", f"</dev/tcp/{lab.hosts['gpu-h1'].address}/22"]
    lab.partition("gpu-h1")
    try:
        assert subprocess.run(probe, check=False, capture_output=True).returncode != 0
    finally:
        lab.heal("gpu-h1")
    assert subprocess.run(probe, check=False, capture_output=True).returncode == 0


def test_wipe_leaves_a_bare_node(lab: Lab, node: str) -> None:
    halve(lab, node)
    lab.run(node, ["docker", "run", "-d", PAUSE])
    lab.run(node, ["mkdir", "-p", "/var/lib/gpuplan/plans"])
    lab.nvml(node, "fault", "nvmlDeviceGetCount", "15")
    lab.wipe(node)
    assert python(lab, node, MODE_AND_SLICES) == ["0 0"]
    assert lab.run(node, ["docker", "ps", "-aq"]).stdout == ""
    assert not (lab.root(node) / "var/lib/gpuplan").exists()
