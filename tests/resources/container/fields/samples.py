"""A sample of each container field: what a plan file states, and how it is changed by hand on the node.

`raw` is what an operator's own `docker run` would have set instead, under the field's place in the create call's body.
`unsupported` says why the engine of the lab (Docker 20.10, control groups of version 1, no pquota) cannot keep it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Sample:
    """One field's sample."""

    stated: Any
    raw: Any = None
    """Value by hand; None removes the field."""
    path: str = ""
    """What differs then: the field's name, or a key below it."""
    beside: Mapping[str, Any] = field(default_factory=dict)
    """Other fields that it needs."""
    engine: str = ""
    """Release of the simulated engine, if the default one is too old."""
    unsupported: str = ""
    """Why the lab's engine does not keep it."""


NO_WEIGHTS = "the lab's kernel has no I/O weights, and the engine drops them with a warning"
SAMPLES: Mapping[str, Sample] = {
    "command": Sample(["sleep", "501"], ["sleep", "502"]),
    "entrypoint": Sample(["env"], ["nice"]),
    "user": Sample("1000:root", "1001"),
    "group_add": Sample(["44", "100"], ["44"]),
    "workdir": Sample("/tmp/", "/var"),
    "tty": Sample(True),
    "stdin_open": Sample(True),
    "init": Sample(True, False),
    "restart": Sample("on-failure:3", {"Name": "always"}),
    "stop_signal": Sample("usr1", "SIGINT"),
    "stop_timeout": Sample(1.5, 77),
    "healthcheck": Sample(
        {"test": "true", "interval": "7s"}, {"Test": ["CMD-SHELL", "true"], "Interval": 8 * 10**9}, "interval"
    ),
    "logging": Sample(
        {"driver": "json-file", "options": {"max-file": 3}},
        {"Type": "json-file", "Config": {"max-file": "4"}},
        "options.max-file",
    ),
    "labels": Sample({"tier": "gold"}, {"tier": "iron"}, "tier"),
    "annotations": Sample(
        {"org.example/a": "1"},
        {"org.example/a": "2"},
        "org.example/a",
        engine="24.0",
        unsupported="its API is 1.41, and annotations came with 1.43",
    ),
    "cap_add": Sample(["net_admin", "CAP_SYS_NICE"], ["CAP_SYS_NICE"]),
    "cap_drop": Sample(["MKNOD"], ["MKNOD", "CHOWN"]),
    "security_opt": Sample(["no-new-privileges:true"], ["no-new-privileges", "apparmor=unconfined"]),
    "privileged": Sample(
        "with-every-gpu", unsupported="the lab runs without the rights that a privileged container has"
    ),
    "read_only": Sample(True),
    "ipc": Sample("host", "private"),
    "pid": Sample("host"),
    "userns_mode": Sample("host"),
    "cgroupns": Sample("private", "host"),
    "cgroup_parent": Sample("/gpuplan-test", "/other"),
    "runtime": Sample("io.containerd.runc.v2", "runc"),
    "hostname": Sample("box", "elsewhere"),
    "domainname": Sample("example.org", "example.com"),
    "network": Sample("net-a", "net-b"),
    "networks": Sample({"net-a": {"aliases": ["api"]}}, {"net-a": {"Aliases": ["other"]}}, "net-a"),
    "ports": Sample(
        ["31080:80", "127.0.0.1::81"],
        {"80/tcp": [{"HostPort": "31081"}], "81/tcp": [{"HostIp": "127.0.0.1"}]},
        "80/tcp",
    ),
    "dns": Sample(["9.9.9.9", "1.1.1.1"], ["1.1.1.1", "9.9.9.9"]),
    "dns_search": Sample(["b.example", "a.example"], ["a.example", "b.example"]),
    "dns_opt": Sample(["ndots:2", "rotate"], ["rotate"]),
    "extra_hosts": Sample({"metrics": "10.0.0.1"}, ["metrics:10.0.0.2"], "metrics"),
    "volumes": Sample(["vol-a:/data:ro"], ["vol-a:/data"], "/data"),
    "tmpfs": Sample(["/run:size=65536k"], {"/run": "size=32m"}, "/run"),
    "devices": Sample(
        ["/dev/zero:/dev/z:r"],
        [{"PathOnHost": "/dev/zero", "PathInContainer": "/dev/z", "CgroupPermissions": "rwm"}],
        "/dev/z",
    ),
    "device_cgroup_rules": Sample(["c 10:229 rwm"], ["c 10:200 rwm"]),
    "storage_opt": Sample(
        {"size": "10G"}, {"size": "20G"}, "size", unsupported="its storage is not on xfs with the mount option pquota"
    ),
    "memory": Sample("64MiB", 128 << 20),
    "memory_swap": Sample("96MiB", -1, beside={"memory": "64MiB"}),
    "memory_reservation": Sample("32MiB", 16 << 20),
    "shm_size": Sample("256MiB", 128 << 20),
    "oom_score_adj": Sample(500, 100),
    "oom_kill_disable": Sample(True, False, beside={"memory": "64MiB"}),
    "cpus": Sample(0.25, 500_000_000),
    "cpuset": Sample("0,1", "0"),
    "cpu_shares": Sample(512, 256),
    "pids_limit": Sample(200, 100),
    "ulimits": Sample({"nofile": {"soft": 128, "hard": 256}}, [{"Name": "nofile", "Soft": 128, "Hard": 512}], "nofile"),
    "sysctls": Sample({"net.core.somaxconn": 512}, {"net.core.somaxconn": "256"}, "net.core.somaxconn"),
    "blkio_weight": Sample(300, 400, unsupported=NO_WEIGHTS),
    "blkio_weight_device": Sample(
        {"/dev/loop0": 200}, [{"Path": "/dev/loop0", "Weight": 300}], "/dev/loop0", unsupported=NO_WEIGHTS
    ),
}
