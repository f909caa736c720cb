"""Containers as hypothesis draws them: all that a plan file can state, within what one engine can run at once.

They are drawn as the plan file writes them, so that its own reading is under test as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from gpuplan.planfile.schema import PlanFile
from gpuplan.resources.container.kind import CONTAINER
from gpuplan.resources.container.spec import ContainerSpec, from_json
from gpuplan.types.diagnostic import Severity
from gpuplan.types.inventory import Host
from tests.resources.container.bench import KEY

NAMES = st.from_regex(r"[A-Z][A-Z0-9_]{0,6}", fullmatch=True)
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=12).filter(
    lambda text: "${" not in text
)
PORTS = (
    st.sampled_from(["80", "81/udp", "127.0.0.1::82"]),
    st.integers(31000, 31999).map("{0}:83".format),
    st.integers(32000, 32399).map("127.0.0.1:{0}:84".format),
    st.integers(32400, 32499).map("0.0.0.0:{0}:53/udp".format),
    st.integers(32500, 32699).map("{0}:85-86".format).map(lambda form: form.replace(":", "-32700:", 1)),
)
NETWORKS = ("net-a", "net-b")
"""Networks that the node has to have."""
STATED: Mapping[str, st.SearchStrategy[Any]] = {
    "gpus": st.sampled_from([["g0"], ["g1", "g0"]]),
    "ports": st.lists(st.one_of(PORTS[:4]), max_size=3, unique_by=lambda form: form.rpartition(":")[2]),
    "env": st.dictionaries(NAMES, st.one_of(TEXTS, TEXTS.map("a=b={}".format), st.just(KEY)), max_size=3),
    "volumes": st.lists(
        st.sampled_from(
            ["vol-a:/data", "vol-b:/srv/x/:ro", "/tmp/gpuplan-test:/opt", "/tmp/gpuplan-test:/mnt:ro,private",
             "vol-c:/var/tmp:nocopy"]
        ),
        max_size=3,
        unique=True,
    ),
    "tmpfs": st.lists(
        st.sampled_from(["/scratch", "/run:size=64m,mode=0755", "/cache:rw,noexec,size=65536k", "/x:exec,size=1g"]),
        max_size=2,
        unique=True,
    ),
    "devices": st.sampled_from([["/dev/null:/dev/nothing"], ["/dev/zero:/dev/z:r", "/dev/full:/dev/f:mr"]]),
    "command": st.sampled_from(["sleep 500", ["sh", "-c", "exec sleep 600"]]),
    "entrypoint": st.sampled_from([[], ["env"]]),
    "user": st.sampled_from(["1000", "0:0"]),
    "group_add": st.sampled_from([["44"], ["100", "44"]]),
    "workdir": st.sampled_from(["/tmp", "/tmp/"]),
    "hostname": st.just("box"),
    "dns": st.sampled_from([["1.1.1.1"], ["9.9.9.9", "1.1.1.1"]]),
    "ipc": st.sampled_from(["private", "shareable", "host"]),
    "pid": st.just("host"),
    "shm_size": st.sampled_from(["64MiB", 1 << 28]),
    "memory": st.sampled_from(["64MiB", 1 << 28, 0]),
    "cpus": st.sampled_from([0.25, 1.5, 0.3333333333]),
    "memory_swap": st.sampled_from([-1, "512MiB"]),
    "memory_reservation": st.just("16MiB"),
    "oom_score_adj": st.sampled_from([0, 300]),
    "oom_kill_disable": st.booleans(),
    "cpuset": st.sampled_from(["0", "0,1"]),
    "cpu_shares": st.sampled_from([0, 512]),
    "pids_limit": st.sampled_from([-1, 0, 200]),
    "domainname": st.just("example.org"),
    "dns_search": st.sampled_from([["a.example"], ["b.example", "a.example"]]),
    "dns_opt": st.sampled_from([["ndots:2"], ["rotate", "ndots:2"]]),
    "userns_mode": st.just("host"),
    "cgroupns": st.sampled_from(["host", "private"]),
    "device_cgroup_rules": st.sampled_from([["c 10:229 rwm"], ["c 10:229 rwm", "b 7:* r"]]),
    "stop_signal": st.sampled_from(["SIGINT", "term", "10"]),
    "tty": st.booleans(),
    "stdin_open": st.booleans(),
    "ulimits": st.sampled_from([{"nofile": {"soft": 128, "hard": 256}}, {"msgqueue": 1000, "nofile": 64}]),
    "sysctls": st.sampled_from([{"net.ipv4.ip_unprivileged_port_start": 80}, {"net.core.somaxconn": "512"}]),
    "cap_add": st.sampled_from([["NET_ADMIN", "cap_sys_ptrace"], ["CAP_NET_ADMIN"]]),
    "cap_drop": st.sampled_from([["MKNOD"], ["net_raw", "CAP_MKNOD"]]),
    "security_opt": st.sampled_from([["no-new-privileges"], ["no-new-privileges:true", "seccomp=unconfined"],
                                     ["label=disable"]]),
    "read_only": st.booleans(),
    "init": st.booleans(),
    "healthcheck": st.sampled_from(
        [{"test": "true", "interval": 0.1}, {"test": ["CMD", "true"], "interval": 0.1, "timeout": "1m1s", "retries": 4},
         {"disable": True}, {"start_period": "5s", "test": ["CMD-SHELL", "exit 0"], "interval": 0.2}]
    ),
    "logging": st.sampled_from(
        [{"driver": "json-file"}, {"options": {"max-size": "10m"}}, {"driver": "local", "options": {"max-file": 3}}]
    ),
    "labels": st.dictionaries(NAMES.map(str.lower), TEXTS, max_size=2),
    "extra_hosts": st.sampled_from([{"metrics": "10.0.0.1"}, {"six": "fd00::1"}]),
    "restart": st.sampled_from(["no", "always", "unless-stopped", "on-failure", "on-failure:3", "on-failure:0"]),
}  # fmt: skip
"""Key of the plan file → what may stand there."""
PLACES = st.one_of(
    st.just({}),
    st.sampled_from(["bridge", NETWORKS[0], "none"]).map(lambda network: {"network": network}),
    st.sampled_from([["net-a"], ["net-a", "net-b"], ["net-b", "bridge"]]).map(lambda several: {"networks": several}),
    st.just({"networks": {"net-b": {"aliases": ["other", "another"]}, "net-a": {}}}),
)


def stated() -> st.SearchStrategy[dict[str, Any]]:
    """Sections of the plan file, of containers that stay up."""
    options = st.fixed_dictionaries({}, optional=dict(STATED))
    return st.builds(lambda one, place: _possible({**one, **place}), options, PLACES)


def spec_of(section: Mapping[str, Any], image: str) -> ContainerSpec:
    """What the plan file makes of a section."""
    whole = {"nodes": "all", "image": image, "command": "sleep 500", "stop_timeout": 1, **section}
    gpus = {f"g{index}": {"nodes": "all", "select": {"index": index}} for index in (0, 1)}
    desired, faults = CONTAINER.desired(
        PlanFile(version=1, name="bench", gpus=gpus, containers={"law": whole}), Host("n")
    )
    assert [each for each in faults if each.severity is Severity.ERROR] == []
    return from_json(desired[0].spec)


def _possible(section: dict[str, Any]) -> dict[str, Any]:
    """Without what no engine starts: a writable path is missing, or a namespace is the node's own."""
    left = dict(section)
    if left.get("network") == "none":
        left.pop("ports", None)
        left.pop("sysctls", None)
    if left.get("ipc") == "host":
        left.pop("shm_size", None)
    if not left.get("memory") and left.get("memory_swap") != -1:
        left.pop("memory_swap", None)
    return left
