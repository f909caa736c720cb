"""What an operator does to a container by hand: changes of one thing, and rewritings that change nothing."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpuplan.resources.container.spec import ContainerSpec
from tests.resources.container.bench import Bench

Body = dict[str, Any]
"""The body of a create call, as an engine's inspect tells it back."""
STRAY = "net-c"
"""A network that no plan file names."""


@dataclass(frozen=True)
class Hand:
    """A change by hand of one thing, and the field that it is found as; empty where nothing is to be found."""

    name: str
    act: Callable[[Body], object]
    field: str = ""


def changes(spec: ContainerSpec, body: Body) -> Iterator[Hand]:
    """Every change of one thing that can be made to this container by creating it anew."""
    host = body["HostConfig"]
    yield from _lists(spec, host)
    yield from _scalars(spec, body)
    yield from _stated_only(spec, host)
    yield Hand("env added", lambda b: b["Env"].append("BY_HAND=a=b"), "env.BY_HAND")
    for name in spec.env:
        yield Hand(f"env {name} removed", lambda b, n=name: _without_env(b, n), f"env.{name}")
        yield Hand(f"env {name} changed", lambda b, n=name: _with_env(b, n), f"env.{name}")
    for label in spec.labels:
        yield Hand(f"label {label} removed", lambda b, n=label: b["Labels"].pop(n), f"labels.{label}")
    yield Hand("label added", lambda b: b["Labels"].update({"by": "hand"}), "labels.by")
    yield Hand("other GPUs", lambda b: b["HostConfig"].update(DeviceRequests=_other_gpus(spec)), "gpus")


def rewritings(spec: ContainerSpec, body: Body, bench: Bench) -> Iterator[Hand]:
    """Everything that says the same in other words."""
    host = body["HostConfig"]
    numbers = {uuid: name.removeprefix("g") for name, uuid in bench.gpus.items()}
    ids = [numbers[bench.gpus[part]] for part in spec.gpus]
    ask = {"Driver": "nvidia", "Count": 0, "Capabilities": [["gpu", "utility"]], "Options": None}
    yield Hand("variables in another order", lambda b: b["Env"].reverse())
    yield Hand("the image by its id", lambda b: b.update(Image=bench.engine.inspect_image(bench.image)["Id"]))
    yield Hand("capabilities", lambda b: host_set(b, "CapAdd", [f"CAP_{each}" for each in reversed(spec.cap_add)]))
    if spec.user == "0:0":
        yield Hand("the name of user 0", lambda b: b.update(User="root:root"))
    if ids:
        yield Hand("GPUs by index", lambda b: host_set(b, "DeviceRequests", [{**ask, "DeviceIDs": ids}]))
        apart = [{**ask, "DeviceIDs": [each]} for each in ids]
        yield Hand("one request for each GPU", lambda b: host_set(b, "DeviceRequests", apart))
    if len(ids) == len(numbers):
        yield Hand("all of them", lambda b: host_set(b, "DeviceRequests", [{**ask, "Count": -1}]))
    if spec.cpus is not None:
        quota = {"NanoCpus": 0, "CpuPeriod": 100_000, "CpuQuota": 25_000}
        if spec.cpus == 0.25:
            yield Hand("a share as a quota", lambda b: b["HostConfig"].update(quota))
    if host.get("Binds"):
        yield Hand("volumes in another order", lambda b: b["HostConfig"]["Binds"].reverse())
    for inside, sides in (host.get("PortBindings") or {}).items():
        if all(not side["HostIp"] for side in sides):
            given = [{**side, "HostIp": "0.0.0.0"} for side in sides]
            yield Hand("every address", lambda b, i=inside, g=given: b["HostConfig"]["PortBindings"].update({i: g}))
    if host.get("Tmpfs"):
        other = {path: f"rw,{options},nosuid" if options else "noexec" for path, options in host["Tmpfs"].items()}
        yield Hand("what every tmpfs has", lambda b: host_set(b, "Tmpfs", other))


def recreate(bench: Bench, name: str, spec: ContainerSpec, act: Callable[[Body], object]) -> None:
    """Create a container anew as it is but for what `act` does to its body; it is not started."""
    found = bench.engine.inspect_container(name)
    body = body_of(found, spec)
    act(body)
    networks = _networks(found)
    first = body["HostConfig"]["NetworkMode"]
    if networks.get(first):
        body["NetworkingConfig"] = {"EndpointsConfig": {first: {"Aliases": networks[first]}}}
    bench.engine.remove_container(name, force=True)
    bench.engine.create_container_from_config(body, name)
    for network in networks.keys() - {first, "bridge" if first == "default" else first}:
        bench.engine.connect_container_to_network(name, network, aliases=networks[network] or None)


def body_of(found: Mapping[str, Any], spec: ContainerSpec) -> Body:
    """The body that would create what inspect tells of, without what the engine would add by itself."""
    body = copy.deepcopy({**found["Config"], "HostConfig": found["HostConfig"]})
    host = body["HostConfig"]
    unconfined = host["Privileged"] or "host" in (host["PidMode"], host["IpcMode"])
    if unconfined and "label=disable" not in spec.security_opt:
        host["SecurityOpt"] = [each for each in host["SecurityOpt"] or [] if each != "label=disable"]
    return body


def host_set(body: Body, key: str, value: Any) -> None:
    """Set one thing of the host configuration."""
    body["HostConfig"][key] = value


def _networks(found: Mapping[str, Any]) -> dict[str, list[str]]:
    attached, own = found["NetworkSettings"]["Networks"], (found["Id"][:12], found["Config"]["Hostname"])
    return {
        name: [alias for alias in raw["Aliases"] or [] if alias not in own]
        for name, raw in attached.items()
        if name not in ("host", "none")
    }


def _lists(spec: ContainerSpec, host: Body) -> Iterator[Hand]:
    """One more and one less of each list that the plan file states in full."""
    added: Mapping[str, tuple[str, Any, str]] = {
        "CapAdd": ("SYS_CHROOT", spec.cap_add, "cap_add"),
        "CapDrop": ("SETFCAP", spec.cap_drop, "cap_drop"),
        "GroupAdd": ("4711", spec.group_add, "group_add"),
        "Dns": ("8.8.4.4", spec.dns, "dns"),
        "ExtraHosts": ("byhand:10.9.9.9", spec.extra_hosts, "extra_hosts.byhand"),
        "SecurityOpt": ("apparmor=unconfined", spec.security_opt, "security_opt"),
        "Binds": ("vol-z:/by-hand", spec.volumes, "volumes./by-hand"),
    }
    for key, (value, stated, field) in added.items():
        yield Hand(f"{key} added", lambda b, k=key, v=value: host_set(b, k, [*(b["HostConfig"][k] or []), v]), field)
        if stated and "." not in field and stated != ("label=disable",):
            yield Hand(f"{key} gone", lambda b, k=key: host_set(b, k, None), field)
    tables: Mapping[str, tuple[str, Any, str]] = {
        "PortBindings": ("99/tcp", [{"HostIp": "", "HostPort": ""}], "ports"),
        "Tmpfs": ("/by-hand", "", "tmpfs"),
        "Sysctls": ("net.ipv4.tcp_keepalive_time", "600", "sysctls"),
    }
    for key, (name, value, kind) in tables.items():
        more = lambda b, k=key, n=name, v=value: host_set(b, k, {**(b["HostConfig"].get(k) or {}), n: v})  # noqa: E731 - one of many
        yield Hand(f"{key} added", more, f"{kind}.{name}")
        for each in host.get(key) or {}:
            yield Hand(f"{key} {each} gone", lambda b, k=key, e=each: b["HostConfig"][k].pop(e), f"{kind}.{each}")
    device = {"PathOnHost": "/dev/zero", "PathInContainer": "/dev/byhand", "CgroupPermissions": "rwm"}
    yield Hand("a device", lambda b: host_set(b, "Devices", [*(b["HostConfig"]["Devices"] or []), device]),
               "devices./dev/byhand")  # fmt: skip
    for path in spec.volumes:
        left = [bind for bind in host["Binds"] if bind.split(":")[1] != path]
        yield Hand(f"mount {path} gone", lambda b, bound=left: host_set(b, "Binds", bound), f"volumes.{path}")


def _scalars(spec: ContainerSpec, body: Body) -> Iterator[Hand]:
    """What differs whether it was stated or not."""
    yield Hand("user", lambda b: b.update(User="65534"), "user")
    yield Hand("workdir", lambda b: b.update(WorkingDir="/var"), "workdir")
    yield Hand("command", lambda b: b.update(Cmd=["sleep", "999"]), "command")
    yield Hand("read_only", lambda b: host_set(b, "ReadonlyRootfs", not spec.read_only), "read_only")
    yield Hand("pid", lambda b: host_set(b, "PidMode", "" if spec.pid else "host"), "pid")
    yield Hand("privileged", lambda b: host_set(b, "Privileged", True), "privileged")
    health = body.get("Healthcheck") or {}
    yield Hand("check", lambda b: b.update(Healthcheck={**health, "Test": ["CMD", "false"]}), "healthcheck.test")
    yield Hand("often", lambda b: b.update(Healthcheck={**health, "Interval": 7 * 10**9}), "healthcheck.interval")


def _stated_only(spec: ContainerSpec, host: Body) -> Iterator[Hand]:
    """What is left alone where the plan file is silent."""
    if spec.hostname:
        yield Hand("hostname", lambda b: b.update(Hostname="elsewhere"), "hostname")
    if spec.shm_size:
        yield Hand("shm_size", lambda b: host_set(b, "ShmSize", 1 << 27), "shm_size")
    if spec.init is not None:
        yield Hand("init", lambda b: host_set(b, "Init", not spec.init), "init")
    if spec.stop_timeout:
        yield Hand("stop_timeout", lambda b: b.update(StopTimeout=77), "stop_timeout")
    if spec.ipc in ("private", "shareable"):
        other = "shareable" if spec.ipc == "private" else "private"
        yield Hand("ipc", lambda b: host_set(b, "IpcMode", other), "ipc")
    for name in spec.ulimits:
        less = [each for each in host["Ulimits"] if each["Name"] != name]
        yield Hand(f"ulimit {name}", lambda b, u=less: host_set(b, "Ulimits", u), f"ulimits.{name}")
    if spec.logging.driver == "json-file":
        yield Hand("driver", lambda b: host_set(b, "LogConfig", {"Type": "local", "Config": {}}), "logging.driver")
    for name in spec.logging.options:
        kept = {key: value for key, value in host["LogConfig"]["Config"].items() if key != name}
        less = {"Type": host["LogConfig"]["Type"], "Config": kept}
        yield Hand(f"log {name}", lambda b, c=less: host_set(b, "LogConfig", c), f"logging.options.{name}")


def _without_env(body: Body, name: str) -> None:
    body["Env"] = [line for line in body["Env"] if not line.startswith(f"{name}=")]


def _with_env(body: Body, name: str) -> None:
    body["Env"] = [f"{line}x" if line.startswith(f"{name}=") else line for line in body["Env"]]


def _other_gpus(spec: ContainerSpec) -> list[Body] | None:
    if len(spec.gpus) == 1:
        return None
    return [{"Driver": "", "Count": 1, "DeviceIDs": None, "Capabilities": [["gpu"]], "Options": {}}]
