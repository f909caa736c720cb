"""Options: how the engine's own options are read from a plan file, and which of them are refused with what to write."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from gpuplan.resources.container.create_body import Owner, create_body
from gpuplan.resources.container.fields.mounts import tmpfs_options
from gpuplan.resources.container.fields.process import Healthcheck, Logging
from tests.resources.container.test_spec import faults, one


@pytest.mark.parametrize(
    ("stated", "told"),
    [
        ({"privileged": True}, "Privileged container sees every GPU"),
        ({"devices": ["/dev/nvidia0"]}, "GPUs cannot be given as devices"),
        ({"devices": ["nvidia.com/gpu=0"]}, "GPUs cannot be given as devices"),
        ({"devices": ["/dev/dri/../nvidia0"]}, "GPUs cannot be given as devices"),
        ({"devices": ["//dev//nvidiactl:/dev/x:rw"]}, "GPUs cannot be given as devices"),
        ({"devices": ["/dev/"]}, "GPUs cannot be given as devices"),
        ({"devices": ["/dev/char"]}, "GPUs cannot be given as devices"),
        ({"devices": ["/proc/1/root/dev/nvidia0"]}, "GPUs cannot be given as devices"),
        ({"devices": ["fuse"]}, "Device is not valid"),
        ({"devices": ["/dev/fuse:/dev/fuse:rx"]}, "Device is not valid"),
        ({"tmpfs": ["run"]}, "tmpfs is not valid"),
        ({"tmpfs": ["/run", "/run/:size=1m"]}, "Two mounts at one path"),
        ({"tmpfs": ["/run"], "volumes": ["/a:/run"]}, "Two mounts at one path"),
        ({"security_opt": ["seccomp=/etc/profile.json"]}, "Seccomp profiles in files are not supported"),
        ({"security_opt": ["systempaths=unconfined"]}, "Security option is unknown"),
        ({"network": "host", "networks": ["a"]}, "Both network and networks are stated"),
        ({"networks": ["host"]}, "Not a network"),
        ({"networks": {"bridge": {"aliases": ["a"]}}}, "Aliases on the network bridge"),
        ({"dns": ["resolver"]}, "Name server is not an address"),
        ({"healthcheck": {"test": ["curl", "x"]}}, "Health check is not valid"),
        ({"healthcheck": {"interval": 0.0001}}, "Duration is too short"),
        ({"memory": "1MiB"}, "Memory limit is too low"),
        ({"shm_size": 0}, "Shared memory size is 0"),
        ({"cpus": 0.001}, "CPU limit is too low"),
        ({"workdir": "srv"}, "Working directory is not absolute"),
        ({"network": "container:other"}, "Networks of other containers are not supported"),
        ({"cap_add": ["NET_ADMNI"]}, "Capability is unknown"),
        ({"cap_drop": ["cap_everything"]}, "Capability is unknown"),
        ({"ulimits": {"files": 5}}, "Resource limit is unknown"),
        ({"ulimits": {"core": -2}}, "Resource limit is not valid"),
        ({"ulimits": {"nofile": {"soft": 10, "hard": 5}}}, "Soft limit is above the hard limit"),
        ({"ulimits": {"nofile": {"soft": -1, "hard": 5}}}, "Soft limit is above the hard limit"),
        ({"sysctls": {"vm.swappiness": 1}}, "Kernel setting applies to the whole node"),
        ({"sysctls": {"net.core.somaxconn": 1}, "network": "host"}, "Kernel setting applies to the whole node"),
        ({"extra_hosts": {"a b": "10.0.0.1"}}, "Host name is not valid"),
        ({"extra_hosts": {"db": "[fe80::1]"}}, "Host address is not valid"),
        ({"image": "Team/App:1"}, "Invalid image reference"),
        ({"image": "registry:5000/App:1"}, "Invalid image reference"),
        ({"ready": {"timeout": 0}}, "Deadline cannot be met"),
    ],
)
def test_what_is_refused(stated: dict[str, Any], told: str) -> None:
    assert [summary for summary, _, _ in faults(**stated)] == [told]


@pytest.mark.parametrize(
    "stated", [{"pid": "container:other"}, {"pid": "none"}, {"ipc": "shared"}, {"ipc": "container:other"}]
)
def test_a_namespace_is_one_of_a_few(stated: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="Input should be"):
        faults(**stated)


@pytest.mark.parametrize(
    "stated",
    [
        {"ipc": "shareable", "pid": "host", "cap_add": ["all", "CAP_BPF"], "cap_drop": ["mknod"]},
        {"ulimits": {"core": 0, "memlock": -1, "stack": {"soft": 1, "hard": -1}}},
        {"sysctls": {"net.core.somaxconn": 1, "kernel.shm_rmid_forced": 1, "fs.mqueue.msg_max": 9}},
        {"extra_hosts": {"db": "10.0.0.1", "v6": "fe80::1", "gw": "host-gateway", "local": "::1"}},
        {"image": "Registry.Example:5000/team/my-app__x.y:V1.0_rc@sha256:0a"},
        {"image": "localhost/app"},
        {"image": "sha256:0e760224f481"},
    ],
)
def test_what_the_engine_takes_is_taken(stated: dict[str, Any]) -> None:
    assert faults(**stated) == []


def test_what_is_understood_goes_to_the_engine() -> None:
    spec = one(
        devices=["/dev/fuse", "/dev/ttyS0:/dev/modem:wr"],
        tmpfs=["/run:mode=0755,size=64m,rw"],
        networks={"front": {"aliases": ["b", "a"]}, "back": {}},
        healthcheck={"test": "probe", "interval": "1m30s"},
        logging={"options": {"max-file": 3, "compress": True}},
        privileged="with-every-gpu",
        sysctls={"net.core.somaxconn": 512},
    )
    assert spec.healthcheck == Healthcheck(("CMD-SHELL", "probe"), 90.0)
    assert spec.logging == Logging(None, {"max-file": "3", "compress": "true"})
    body: Any = create_body(spec, Owner("p", "web", "d"), [], {}, "")
    host = body["HostConfig"]
    assert host["Devices"] == [
        {"PathOnHost": "/dev/fuse", "PathInContainer": "/dev/fuse", "CgroupPermissions": "rwm"},
        {"PathOnHost": "/dev/ttyS0", "PathInContainer": "/dev/modem", "CgroupPermissions": "rw"},
    ]
    assert (host["Tmpfs"], host["Privileged"]) == ({"/run": "mode=755,size=64m"}, True)
    assert (host["NetworkMode"], host["Sysctls"]) == ("front", {"net.core.somaxconn": "512"})
    assert host["LogConfig"] == {"Type": "", "Config": {"max-file": "3", "compress": "true"}}
    assert body["NetworkingConfig"] == {"EndpointsConfig": {"front": {"Aliases": ["a", "b"]}}}
    assert body["Healthcheck"] == {"Test": ["CMD-SHELL", "probe"], "Interval": 90_000_000_000}


def test_more_shared_memory_than_memory_is_warned_of() -> None:
    told = faults(memory="1GiB", shm_size="2GiB")
    assert [summary for summary, _, _ in told] == ["Shared memory is larger than the memory limit"]
    assert one(memory="1GiB", shm_size="2GiB").shm_size == 2 << 30


def test_nothing_stated_says_nothing_to_the_engine() -> None:
    body: Any = create_body(one(), Owner("p", "web", "d"), [], {}, "")
    assert body["HostConfig"] == {}
    assert set(body) == {"Image", "Labels", "Env", "HostConfig"}


def test_what_stands_for_the_image_is_not_stated() -> None:
    spec = one(user="", workdir="", hostname="", command="", healthcheck={"interval": 0, "retries": 0})
    assert (spec.user, spec.workdir, spec.hostname, spec.command) == (None, None, None, None)
    assert spec.healthcheck == Healthcheck()


@pytest.mark.parametrize(
    ("one_form", "other"),
    [("size=64m", "size=67108864,rw"), ("mode=0755", "mode=755,nosuid"), ("size=1500k", "size=1536000")],
)
def test_forms_of_a_tmpfs(one_form: str, other: str) -> None:
    assert tmpfs_options(one_form.split(",")) == tmpfs_options(other.split(","))
    assert tmpfs_options(["exec"]) != tmpfs_options([])
