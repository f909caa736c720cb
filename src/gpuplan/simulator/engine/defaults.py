"""What the engine fills in where a create request says nothing, as Docker Engine 20.10.24 with cgroup v1 does."""

from __future__ import annotations

import posixpath
from copy import deepcopy

from gpuplan.simulator.state import Document, SimulatedImage, items, mapping, number, text, texts

_MASKED = ["/proc/asound", "/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
           "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware"]  # fmt: skip
_READONLY = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]
_HOST: Document = {
    "Binds": None, "ContainerIDFile": "", "LogConfig": {"Type": "json-file", "Config": {}}, "NetworkMode": "default",
    "PortBindings": None, "RestartPolicy": {"Name": "", "MaximumRetryCount": 0}, "AutoRemove": False,
    "VolumeDriver": "", "VolumesFrom": None, "CapAdd": None, "CapDrop": None, "CgroupnsMode": "host", "Dns": None,
    "DnsOptions": None, "DnsSearch": None, "ExtraHosts": None, "GroupAdd": None, "IpcMode": "private", "Cgroup": "",
    "Links": None, "OomScoreAdj": 0, "PidMode": "", "Privileged": False, "PublishAllPorts": False,
    "ReadonlyRootfs": False, "SecurityOpt": None, "UTSMode": "", "UsernsMode": "", "ShmSize": 67108864,
    "Runtime": "runc", "ConsoleSize": [0, 0], "Isolation": "", "CpuShares": 0, "Memory": 0, "NanoCpus": 0,
    "CgroupParent": "", "BlkioWeight": 0, "BlkioWeightDevice": None, "BlkioDeviceReadBps": None,
    "BlkioDeviceWriteBps": None, "BlkioDeviceReadIOps": None, "BlkioDeviceWriteIOps": None, "CpuPeriod": 0,
    "CpuQuota": 0, "CpuRealtimePeriod": 0, "CpuRealtimeRuntime": 0, "CpusetCpus": "", "CpusetMems": "",
    "Devices": None, "DeviceCgroupRules": None, "DeviceRequests": None, "KernelMemory": 0, "KernelMemoryTCP": 0,
    "MemoryReservation": 0, "MemorySwap": 0, "MemorySwappiness": None, "OomKillDisable": False, "PidsLimit": None,
    "Ulimits": None, "CpuCount": 0, "CpuPercent": 0, "IOMaximumIOps": 0, "IOMaximumBandwidth": 0,
    "MaskedPaths": _MASKED, "ReadonlyPaths": _READONLY,
}  # fmt: skip
_CONFIG: Document = {
    "Hostname": "", "Domainname": "", "User": "", "AttachStdin": False, "AttachStdout": False, "AttachStderr": False,
    "Tty": False, "OpenStdin": False, "StdinOnce": False, "Env": None, "Cmd": None, "Image": "", "Volumes": None,
    "WorkingDir": "", "Entrypoint": None, "OnBuild": None, "Labels": {},
}  # fmt: skip
_OPTIONAL = ("ExposedPorts", "StopSignal", "StopTimeout", "NetworkDisabled", "MacAddress", "Shell")
"""Fields of Config that inspect leaves out where they are empty."""


def host_config(stated: Document) -> Document:
    """The whole HostConfig of a request that states a part of it."""
    full = deepcopy(_HOST)
    full.update({key: value for key, value in stated.items() if value is not None})
    policy = mapping(full["RestartPolicy"])
    full["RestartPolicy"] = {
        "Name": text(policy.get("Name")),
        "MaximumRetryCount": number(policy.get("MaximumRetryCount")),
    }
    log = mapping(full["LogConfig"])
    full["LogConfig"] = {"Type": text(log.get("Type")) or "json-file", "Config": mapping(log.get("Config"))}
    if number(full["Memory"]) > 0 and not full["MemorySwap"]:
        full["MemorySwap"] = 2 * number(full["Memory"])
    if full["Privileged"]:
        full["MaskedPaths"] = full["ReadonlyPaths"] = None
    if full["Privileged"] or full["IpcMode"] == "host" or full["PidMode"] == "host":
        full["SecurityOpt"] = [*texts(full["SecurityOpt"]), "label=disable"]
    if full["DeviceRequests"] is not None:
        full["DeviceRequests"] = [_device_request(mapping(one)) for one in items(full["DeviceRequests"])]
    if full["PortBindings"] is not None:
        full["PortBindings"] = {port: _bindings(sides) for port, sides in mapping(full["PortBindings"]).items()}
    full["NetworkMode"] = full["NetworkMode"] or "default"
    full["ShmSize"] = full["ShmSize"] or 67108864
    if number(full["PidsLimit"]) <= 0:
        full["PidsLimit"] = None
    full["IpcMode"] = full["IpcMode"] or "private"
    return full


_UPDATED = (
    *("BlkioWeight", "CpuShares", "NanoCpus", "CpuPeriod", "CpuQuota", "CpusetCpus", "CpusetMems"),
    *("Memory", "MemorySwap", "MemoryReservation"),
)
"""What `docker update` changes if it is not empty, besides the restart policy and the limit of processes."""


def updated(host: Document, stated: Document) -> Document:
    """A HostConfig after an update (moby, container_unix.go, UpdateContainer): empty values leave it as it is."""
    full = {**host, **{key: stated[key] for key in _UPDATED if stated.get(key)}}
    if stated.get("PidsLimit") is not None:
        full["PidsLimit"] = max(number(stated["PidsLimit"]), 0)
    if name := text(mapping(stated.get("RestartPolicy")).get("Name")):
        retries = number(mapping(stated["RestartPolicy"]).get("MaximumRetryCount"))
        full["RestartPolicy"] = {"Name": name, "MaximumRetryCount": retries}
    return full


def config(stated: Document, image: SimulatedImage, identity: str, node: str, host: Document) -> Document:
    """The whole Config: what the request states over what the image has (image.Merge of the engine)."""
    full = deepcopy(_CONFIG)
    full.update({key: value for key, value in stated.items() if key in full and value is not None})
    own, shared = stated, image.config
    for key in ("User", "WorkingDir"):
        full[key] = text(own.get(key)) or text(shared.get(key))
    if directory := text(full["WorkingDir"]):
        full["WorkingDir"] = posixpath.normpath(directory)
    full["Env"] = _environment(texts(own.get("Env")), texts(shared.get("Env"))) or None
    full["Labels"] = {**mapping(shared.get("Labels")), **mapping(own.get("Labels"))}
    full["Volumes"] = {**mapping(shared.get("Volumes")), **mapping(own.get("Volumes"))} or None
    full["Entrypoint"], full["Cmd"] = _program(own, shared)
    for key in _OPTIONAL:
        value = own[key] if own.get(key) is not None else shared.get(key)
        if value not in (None, "", [], {}):  # a stop timeout of 0 is one
            full[key] = value
    if health := {**mapping(shared.get("Healthcheck")), **_stated(mapping(own.get("Healthcheck")))}:
        full["Healthcheck"] = health
    if ports := {**mapping(shared.get("ExposedPorts")), **mapping(own.get("ExposedPorts"))}:
        full["ExposedPorts"] = ports
    if not full["Hostname"]:
        full["Hostname"] = node if host["NetworkMode"] == "host" else identity[:12]
    return full


def _stated(parts: Document) -> Document:
    """What is empty or 0 comes from the image."""
    return {key: value for key, value in parts.items() if value}


def _environment(own: list[str], shared: list[str]) -> list[str]:
    names = {entry.partition("=")[0] for entry in own}
    return own + [entry for entry in shared if entry.partition("=")[0] not in names]


def _program(own: Document, shared: Document) -> tuple[list[str] | None, list[str] | None]:
    """Entrypoint and Cmd: an entrypoint of one's own takes the image's Cmd away; an empty text resets it."""
    entrypoint, command = texts(own.get("Entrypoint")), texts(own.get("Cmd"))
    if not entrypoint:
        command = command or texts(shared.get("Cmd"))
        entrypoint = texts(shared.get("Entrypoint"))
    if entrypoint == [""]:
        entrypoint = []
    return entrypoint or None, command or None


def _bindings(sides: object) -> list[Document]:
    stated = [mapping(side) for side in items(sides)]
    return [{"HostIp": text(side.get("HostIp")), "HostPort": text(side.get("HostPort"))} for side in stated]


def _device_request(stated: Document) -> Document:
    return {
        "Driver": text(stated.get("Driver")),
        "Count": number(stated.get("Count")),
        "DeviceIDs": texts(stated.get("DeviceIDs")) or None,
        "Capabilities": stated.get("Capabilities"),
        "Options": stated.get("Options"),
    }
