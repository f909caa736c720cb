"""The table of container fields: one entry for each option of a container that the Docker engine itself understands.

The name of an entry is its key in the plan file, its type the type of its value. The plan file's schema, the spec, what
is read of a node, the bodies of the create and update calls, the comparison, what `discover` writes and the list in
docs/plan-file.md follow from it. A new entry needs a sample value in tests/resources/container/fields/samples.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

from pydantic import Field as Stating
from pydantic import StringConstraints, create_model

from gpuplan.planfile.scalars import Bytes, Natural, Seconds, Section, Whole
from gpuplan.resources.container.fields import limits, mounts, networking, process
from gpuplan.resources.container.fields.field import Field, Flag, Number, Size, Text, TextMap, Texts, TextSet, Unstated
from gpuplan.resources.container.fields.field import entry as field

Capability = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_]+$")]
"""With or without ``CAP_``, in any case."""
RestartPolicy = Annotated[str, StringConstraints(pattern=r"^(no|always|unless-stopped|on-failure(:\d+)?)$")]
Command = tuple[str, ...] | str
Scalars = Mapping[str, process.Scalar]
IMAGE, NOTHING = Unstated.IMAGE, Unstated.NOTHING


@dataclass(frozen=True, kw_only=True)
class ContainerFields:
    """What one container has of each field. None, false and empty mean that the plan file does not state it."""

    # fmt: off
    # What runs, and as whom
    command: tuple[str, ...] | None = field(process.Words(
        "Config.Cmd", "A list of words, or one text that is split as a shell does; of model servers only for those "
        "with `repository: own`", IMAGE, stated=Command,
    ))
    entrypoint: tuple[str, ...] | None = field(process.Words(
        "Config.Entrypoint", "Like `command`; takes away the image's command", IMAGE, stated=Command,
    ))
    user: str | None = field(Text(
        "Config.User", "User, and group after a colon, by name or number", IMAGE, normal=process.user,
    ))
    group_add: tuple[str, ...] = field(TextSet(
        "HostConfig.GroupAdd", "Further groups, by name or number in the container",
    ), ())
    workdir: str | None = field(Text(
        "Config.WorkingDir", "Working directory", IMAGE, normal=process.workdir, check=process.check_workdir,
    ))
    tty: bool = field(Flag("Config.Tty", "true: a terminal", NOTHING), False)
    stdin_open: bool = field(Flag("Config.OpenStdin", "true: standard input stays open", NOTHING), False)
    init: bool | None = field(Field(
        "HostConfig.Init", "true: a process 1 that reaps other processes; the engine's own setting if not stated",
        empty=(None,),
    ))
    restart: RestartPolicy | None = field(process.Restart(
        "HostConfig.RestartPolicy", "`no`, `always`, `unless-stopped`, `on-failure` or `on-failure:N`", empty=("no",),
        normal=process.restart_policy, in_place=True,
    ))
    stop_signal: str | None = field(Text(
        "Config.StopSignal", "Signal that asks it to stop; the image's, or SIGTERM, if not stated", IMAGE,
        normal=process.signal, check=process.check_signal,
    ))
    stop_timeout: int | None = field(process.Timeout(
        "Config.StopTimeout", "Duration between the stop signal and the kill; of a model server 5 s more than its "
        "`exit-timeout-secs` (30 s) if not stated", empty=(None,), stated=Seconds,
    ))
    healthcheck: process.Healthcheck = field(process.Health(
        "Config.Healthcheck", "The engine's own health check, see below", IMAGE, stated=process.HealthcheckSection,
    ), process.Healthcheck())
    logging: process.Logging = field(process.Log(
        "HostConfig.LogConfig", "`driver` and `options`, as in Compose; options that are not stated are the engine's",
        stated=process.LoggingSection,
    ), process.Logging())
    labels: Mapping[str, str] = field(process.Labels(
        "Config.Labels", "Name → text; names that begin with `gpuplan.` are gpuplan's own", IMAGE,
    ), {})
    annotations: Mapping[str, str] = field(TextMap(
        "HostConfig.Annotations", "Name → text, for the OCI runtime", discarded=True, api="1.43",
    ), {})

    # Its rights
    cap_add: tuple[str, ...] = field(TextSet(
        "HostConfig.CapAdd", "Capabilities that it has besides the engine's default ones", item=process.capability,
        check=process.check_capabilities, stated=tuple[Capability, ...],
    ), ())
    cap_drop: tuple[str, ...] = field(TextSet(
        "HostConfig.CapDrop", "Capabilities that it does not have", item=process.capability,
        check=process.check_capabilities, stated=tuple[Capability, ...],
    ), ())
    security_opt: tuple[str, ...] = field(TextSet(
        "HostConfig.SecurityOpt", "`no-new-privileges`, `apparmor=PROFILE`, `label=…`, `seccomp=unconfined`",
        normal=process.security_options, check=process.check_security,
    ), ())
    privileged: bool = field(process.Privileged(
        "HostConfig.Privileged", "`with-every-gpu`: such a container has every device of the node, so it sees every "
        "GPU and slice whatever `gpus` says, and that must be said. `true` is refused", NOTHING,
        stated=Literal["with-every-gpu"] | bool,
    ), False)
    read_only: bool = field(Flag("HostConfig.ReadonlyRootfs", "true: its own file system is read-only", NOTHING), False)
    ipc: Literal["none", "private", "shareable", "host"] | None = field(Text(
        "HostConfig.IpcMode", "IPC namespace: `private`, `shareable`, `host` or `none`",
        empty=("", "private", "shareable"),
    ))
    pid: Literal["host"] | None = field(Text(
        "HostConfig.PidMode", "Process namespace: `host`; its own if not stated", NOTHING,
    ))
    userns_mode: Literal["host"] | None = field(Text(
        "HostConfig.UsernsMode", "User namespace: `host`; as the engine is set up if not stated", NOTHING,
    ))
    cgroupns: Literal["host", "private"] | None = field(Text(
        "HostConfig.CgroupnsMode", "Namespace of control groups: `host` or `private`", api="1.41",
    ))
    cgroup_parent: str | None = field(Text("HostConfig.CgroupParent", "Control group in which its own one is created"))
    runtime: str | None = field(Text(
        "HostConfig.Runtime", "OCI runtime, one that the engine is set up with",
        empty=("", "nvidia"),
    ))

    # Its network
    hostname: str | None = field(Text("Config.Hostname", "Host name in the container"))
    domainname: str | None = field(Text("Config.Domainname", "NIS domain name in the container"))
    network: str | None = field(networking.Network(
        "HostConfig.NetworkMode", "`host`, `none`, `bridge`, or one network of the node by name or id",
        empty=("bridge",), check=networking.check_network,
    ))
    networks: Mapping[str, tuple[str, ...]] = field(networking.Networks(
        "NetworkingConfig", "Instead of `network`: a list of networks, or network → a section with `aliases`, further "
        "names for the container there", NOTHING,
        stated=tuple[networking.NetworkName, ...] | Mapping[networking.NetworkName, networking.Attachment],
    ), {})
    ports: Mapping[str, tuple[str, ...]] = field(networking.Ports(
        "HostConfig.PortBindings", "For model servers a section, see below; for all: Docker's forms, "
        '`["8080:80", "127.0.0.1:9000:9000/udp"]`', NOTHING, stated=networking.ServerPorts | tuple[str | int, ...],
    ), {})
    dns: tuple[str, ...] = field(Texts(
        "HostConfig.Dns", "Addresses of name servers", item=networking.address_text, check=networking.check_servers,
    ), ())
    dns_search: tuple[str, ...] = field(Texts("HostConfig.DnsSearch", "Domains in which names are looked up"), ())
    dns_opt: tuple[str, ...] = field(TextSet(
        "HostConfig.DnsOptions", "Options of name resolution, such as `ndots:2`",
    ), ())
    extra_hosts: Mapping[str, str] = field(networking.Hosts(
        "HostConfig.ExtraHosts", "Host name → address, or `host-gateway`", NOTHING, check=networking.check_hosts,
    ), {})

    # What it has of its node
    volumes: Mapping[str, str] = field(mounts.Volumes(
        "HostConfig.Binds", 'Docker\'s forms: `["/srv/cache:/cache:ro", "name:/data"]`', NOTHING,
        stated=tuple[str, ...],
    ), {})
    tmpfs: Mapping[str, str] = field(mounts.Tmpfs(
        "HostConfig.Tmpfs", '`["/run", "/scratch:size=64m,mode=1777"]`', NOTHING, stated=tuple[str, ...],
    ), {})
    devices: Mapping[str, str] = field(mounts.Devices(
        "HostConfig.Devices", 'Devices of the node: `["/dev/fuse", "/dev/ttyS0:/dev/modem:rw"]`; never a GPU\'s, nor a '
        "directory that holds them, such as `/dev`", NOTHING, stated=tuple[str, ...],
    ), {})
    device_cgroup_rules: tuple[str, ...] = field(TextSet(
        "HostConfig.DeviceCgroupRules", 'Devices that it may use besides those: `["c 10:229 rwm"]`; never NVIDIA\'s',
        check=mounts.check_rules,
    ), ())
    storage_opt: Mapping[str, str] = field(TextMap(
        "HostConfig.StorageOpt", "`size`: how large its own file system may become, if the engine's storage supports "
        "it", check=limits.check_storage, stated=Scalars,
    ), {})

    # Limits
    memory: Bytes | None = field(Size(
        "HostConfig.Memory", "Bytes of memory; 0 is no limit", check=limits.check_memory, unlimited=True, in_place=True,
        discarded=True,
    ))
    memory_swap: Literal[-1] | Bytes | None = field(Size(
        "HostConfig.MemorySwap", "Bytes of memory and swap together (Compose: `memswap_limit`); -1 is unlimited swap; "
        "twice `memory` if not stated", check=limits.check_swap, unlimited=True, in_place=True, discarded=True,
    ))
    memory_reservation: Bytes | None = field(Size(
        "HostConfig.MemoryReservation", "Soft limit below `memory`, for when memory is short",
        check=limits.check_reservation, unlimited=True, in_place=True, discarded=True,
    ))
    shm_size: Bytes | None = field(Size(
        "HostConfig.ShmSize", "Bytes of shared memory", empty=(0, limits.DEFAULT_SHM_SIZE), check=limits.check_shm_size,
    ))
    oom_score_adj: Annotated[Whole, Stating(ge=-1000, le=1000)] | None = field(Number(
        "HostConfig.OomScoreAdj", "-1000 to 1000: how soon it is killed if the node runs out of memory",
    ))
    oom_kill_disable: bool | None = field(Flag(
        "HostConfig.OomKillDisable", "true: not killed if it runs out of its memory; not with control groups of "
        "version 2", discarded=True,
    ))
    cpus: Annotated[float, Stating(gt=0)] | None = field(limits.Cpus(
        "HostConfig.NanoCpus", "How many CPUs, such as 1.5", check=limits.check_cpus, in_place=True,
    ))
    cpuset: str | None = field(Text(
        "HostConfig.CpusetCpus", 'The CPUs that it may use, such as `"0-3,8"`', normal=limits.cpuset,
        check=limits.check_cpuset, in_place=True, discarded=True,
    ))
    cpu_shares: Natural | None = field(Number(
        "HostConfig.CpuShares", "Its weight if CPUs are short; 1024 is that of others", in_place=True, discarded=True,
    ))
    pids_limit: Annotated[Whole, Stating(ge=-1)] | None = field(Number(
        "HostConfig.PidsLimit", "The most processes and threads; -1 or 0 is no limit", normal=limits.no_limit,
        unlimited=True, in_place=True, discarded=True,
    ))
    ulimits: Mapping[str, tuple[int, int]] = field(limits.Ulimits(
        "HostConfig.Ulimits", "Name → number, or `{ soft: N, hard: N }`", stated=Mapping[str, Whole | limits.Ulimit],
    ), {})
    sysctls: Mapping[str, str] = field(TextMap(
        "HostConfig.Sysctls", "Kernel setting → value", NOTHING, check=limits.check_sysctls, stated=Scalars,
    ), {})
    blkio_weight: Natural | None = field(Number(
        "HostConfig.BlkioWeight", "10 to 1000: its weight at disks", check=limits.check_weight, in_place=True,
        discarded=True,
    ))
    blkio_weight_device: Mapping[str, int] = field(limits.Weights(
        "HostConfig.BlkioWeightDevice", "Disk → weight: `{ /dev/sda: 300 }`", discarded=True,
        stated=Mapping[str, Whole],
    ), {})
    # fmt: on


FIELDS: Mapping[str, Field] = {each.name: each.metadata["field"] for each in fields(ContainerFields)}
"""Each field by its name."""


def _engine_options() -> Any:
    """The part of the plan file's schema that states these fields."""
    types = get_type_hints(ContainerFields, include_extras=True)
    stated: dict[str, Any] = {name: _stated(FIELDS[name], types[name]) for name in FIELDS}
    return create_model("EngineOptions", __base__=Section, **stated)


def _stated(kind: Field, type_of_value: Any) -> tuple[Any, Any]:
    """Type and default in the schema."""
    annotation = kind.stated or type_of_value
    sides = {get_origin(side) or side for side in (annotation, *get_args(annotation))}
    if tuple in sides and kind.stated is not Command:
        return annotation, Stating(default=(), description=kind.description)
    if Mapping in sides:
        return annotation, Stating(default_factory=dict, description=kind.description)
    if bool in sides and type_of_value is bool:
        return annotation, Stating(default=False, description=kind.description)
    return annotation | None, Stating(default=None, description=kind.description)


if TYPE_CHECKING:
    EngineOptions = Section
else:
    EngineOptions = _engine_options()
