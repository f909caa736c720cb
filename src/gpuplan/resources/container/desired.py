"""Spec: the containers that a plan file puts on a node, in canonical form, and what is wrong with them."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpuplan.planfile.engineoptions import Ulimit
from gpuplan.planfile.expand import Placed, containers_on
from gpuplan.planfile.repositories import is_remote, starts_itself
from gpuplan.planfile.schema import PlanFile, ServerPorts
from gpuplan.planfile.sources import sources_on
from gpuplan.resources.container import normal, options
from gpuplan.resources.container.forms import clashes, host_ports, mounts_of, ports_of
from gpuplan.resources.container.images import archived_image, stated_image
from gpuplan.resources.container.refused import refused
from gpuplan.resources.container.replacement import drain_seconds, readiness_of, replacement_issues
from gpuplan.resources.container.server import (
    FlagIssue,
    check_flags,
    command_line,
    decides_completion,
    own_command_issues,
    repository_mounts,
)
from gpuplan.resources.container.shape import REPOSITORY, VISIBLE, ContainerSpec, EnvValue, from_json, to_json
from gpuplan.secrets.references import is_secret
from gpuplan.triton.releases import release_of
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic, Severity
from gpuplan.types.inventory import Host
from gpuplan.types.resource import Desired

_HTTP = re.compile(r"\d{1,5}(/[!-~]*)?", re.ASCII)
SERVER_PORTS = {"http": "8000/tcp", "grpc": "8001/tcp", "metrics": "8002/tcp"}


def containers(plan: PlanFile, host: Host) -> tuple[Sequence[Desired], Sequence[Diagnostic]]:
    """The containers of one node, and every fault of the plan file in them."""
    desired: list[Desired] = []
    faults: list[Diagnostic] = []
    for placed in containers_on(plan, host):
        told = _Told(plan, host, placed)
        desired.extend(_desired(told))
        faults.extend(told.faults)
    faults.extend(_shared_ports(desired))
    return desired, faults


@dataclass
class _Told:
    """One container of the plan file while it is read, with the faults found so far."""

    plan: PlanFile
    host: Host
    placed: Placed
    faults: list[Diagnostic] = field(default_factory=list)

    def fault(self, key: str, summary: str, detail: str, fix: str = "", severity: Severity = Severity.ERROR) -> None:
        address = f"{self.host.name}/container/{self.placed.name}"
        where = self.plan.where(*self.placed.path, *key.split("."))
        self.faults.append(Diagnostic(summary, detail, fix, where, address, severity))


def _desired(told: _Told) -> Iterator[Desired]:
    node, name = told.host.name, told.placed.name
    spec = _spec(told)
    if any(fault.severity is Severity.ERROR for fault in told.faults):
        return
    needs = [Address(node, "gpu", part) for part in spec.devices]
    if spec.triton and not spec.own:
        needs.append(Address(node, "repository", name))
    yield Desired(Address(node, "container", name), to_json(spec), tuple(needs), told.plan.where(*told.placed.path))


def _spec(told: _Told) -> ContainerSpec:
    stated, fault = told.placed.container, told.fault
    image = stated_image(stated, told.plan.path, fault)
    completion = _completion(told)
    _refuse(told)
    mounts = _mounts(told)
    return ContainerSpec(
        image=image,
        archive=stated.archive or "",
        archived=archived_image(stated, image, told.plan.path, fault),
        platform=stated.platform or "",
        pull=stated.pull,
        devices=stated.gpus,
        ports=_ports(told),
        env=_env(told),
        mounts=mounts,
        command=_command(told, image, completion[0]) or None,
        entrypoint=_words(told, "entrypoint", stated.entrypoint),
        user=stated.user or None,
        group_add=tuple(sorted(set(stated.group_add))),
        workdir=options.workdir(stated, fault),
        hostname=stated.hostname or None,
        network=stated.network or None,
        networks=options.networks(stated, fault),
        dns=options.dns(stated, fault),
        ipc=stated.ipc or None,
        pid=stated.pid or None,
        shm_size=options.shm_size(stated, fault),
        memory=options.memory(stated, fault),
        cpus=options.cpus(stated, fault),
        ulimits={name: _limits(limit) for name, limit in stated.ulimits.items()},
        sysctls=options.texts(stated.sysctls),
        cap_add=tuple(normal.capabilities(stated.cap_add)),
        cap_drop=tuple(normal.capabilities(stated.cap_drop)),
        security_opt=options.security_opt(stated, fault),
        privileged=options.privileged(stated, fault),
        read_only=stated.read_only,
        init=stated.init,
        host_devices=options.host_devices(stated, fault),
        tmpfs=options.tmpfs(stated, mounts, fault),
        healthcheck=options.healthcheck(stated, fault),
        logging=options.logging(stated),
        labels=_labels(told),
        extra_hosts=dict(stated.extra_hosts),
        restart=stated.restart,
        stop_timeout=None if stated.stop_timeout is None else math.ceil(stated.stop_timeout),
        drain=drain_seconds(stated),
        start_first=stated.update == "start-first",
        adopt=stated.adopt,
        ready=readiness_of(told.plan, told.host, told.placed),
        own=stated.triton is not None and starts_itself(stated.triton.repository),
        triton=stated.triton is not None,
        configs_say_all=completion == (False, True),
        config_lacks=_lacks(told) if completion == (None, True) else "",
    )


def _refuse(told: _Told) -> None:
    """What Docker would refuse, or what could not be told apart afterwards."""
    stated = told.placed.container
    if len(told.placed.name) < 2:
        told.fault(
            "", "A container's name is too short", "Docker wants at least two characters.", "Give it another name."
        )
    refused(stated, told.fault)
    if stated.network == "host" and stated.ports:
        told.fault("ports", "Ports on the host's network", "With network: host nothing is published.", "Remove ports:.")
    if stated.memory and (stated.shm_size or 0) > stated.memory:
        detail = "What lies in shared memory counts as memory, so the container is killed before it is full."
        told.fault("shm_size", "More shared memory than memory", detail, "Give it more memory.", Severity.WARNING)
    if stated.ready.http and not (_HTTP.fullmatch(stated.ready.http) and _port(stated.ready.http) in range(1, 65536)):
        told.fault(
            "ready.http",
            "A readiness probe is not understood",
            f"{stated.ready.http!r} is not PORT/PATH.",
            "Write 8080/health: a port inside the container, and a path.",
        )
    for each in replacement_issues(told.plan, told.placed):
        told.fault(each.key, each.summary, each.detail, each.fix, each.severity)


def _port(probe: str) -> int:
    return int(probe.partition("/")[0])


def _ports(told: _Told) -> Mapping[str, tuple[str, ...]]:
    stated = told.placed.container.ports
    if isinstance(stated, ServerPorts):
        sides = {inside: getattr(stated, name) for name, inside in SERVER_PORTS.items()}
        return {inside: (str(port),) for inside, port in sides.items() if port is not None}
    try:
        return ports_of(stated)
    except ValueError as fault:
        told.fault("ports", "A port is not understood", f"{fault}.", 'Write "8080:80", "127.0.0.1:8080:80/udp" or 80.')
        return {}


def _env(told: _Told) -> Mapping[str, EnvValue]:
    stated = told.placed.container
    if VISIBLE in stated.env:
        detail = f"{VISIBLE} is set by gpuplan: from gpus:, and to void where there are none."
        told.fault(f"env.{VISIBLE}", "GPUs are not given by an environment variable", detail, "Use gpus: instead.")
    own = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if stated.gpus else {VISIBLE: "void"}
    return own | {name: _value(value) for name, value in stated.env.items()}


def _value(value: str | int | float | bool) -> EnvValue:
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    return {"secret": text} if is_secret(text) else text


def _mounts(told: _Told) -> Mapping[str, str]:
    try:
        mounts = mounts_of(told.placed.container.volumes)
    except ValueError as fault:
        told.fault(
            "volumes", "A volume is not understood", f"{fault}.", 'Write "/srv/cache:/cache" or "name:/data:ro".'
        )
        return {}
    triton = told.placed.container.triton
    if triton is None or starts_itself(triton.repository):
        return mounts
    given = repository_mounts(triton.repository)
    for place in (REPOSITORY, *given):
        if any(f"{path}/".startswith(f"{place}/") for path in mounts):
            told.fault("volumes", "A path is taken", f"{place} is where a model server's repository is mounted.")
    return {**mounts, **given}


def _completion(told: _Told) -> tuple[bool | None, bool]:
    """Whether a model server completes configs, None where nothing is to be said; and whether gpuplan decided that.

    It does not need to where all configs of its models say all; a server without models keeps it for those to come.
    """
    triton = told.placed.container.triton
    if triton is None:
        return None, False
    if flag := decides_completion(triton.flags):
        if triton.auto_complete is not None:
            detail = f"--{flag} and auto_complete: say the same thing, or the opposite of it."
            told.fault(f"triton.flags.{flag}", "Auto-completion is stated twice", detail, "Keep auto_complete:.")
        return None, False
    if triton.auto_complete is not None:
        return triton.auto_complete, False
    if is_remote(triton.repository):
        return None, False
    models = sources_on(told.plan, told.host, told.placed.name)[0]
    return (False if models and not any(each.lacking for each in models) else None), True


def _lacks(told: _Told) -> str:
    """What the first model lacks whose config leaves something to the server."""
    for each in sources_on(told.plan, told.host, told.placed.name)[0]:
        if each.lacking:
            return f"the config of {each.model} leaves out {', '.join(each.lacking)}"
    return ""


def _command(told: _Told, image: str, completion: bool | None) -> tuple[str, ...] | None:
    stated = told.placed.container
    if stated.triton is None:
        return _words(told, "command", stated.command)
    if starts_itself(stated.triton.repository):
        words = _words(told, "command", stated.command)
        for each in own_command_issues(stated.triton, words):
            told.fault(each.key, each.summary, each.detail, each.fix)
        return words
    for key in ("command", "entrypoint"):
        if getattr(stated, key) is not None:
            detail = f"A container with triton: runs tritonserver; it cannot have a {key} of its own."
            told.fault(key, "A model server's command is rendered", detail, "State flags under triton.flags instead.")
    release = release_of(image)
    for fault in check_flags(stated.triton.flags, stated.triton.cache, release):
        severity = Severity.ERROR if fault.fatal else Severity.WARNING
        summary = _about(fault)
        told.fault(f"triton.flags.{fault.flag}", summary, f"--{fault.flag}: {fault.why}.", fault.fix, severity)
    return command_line(stated.triton.flags, stated.triton.cache, release, stated.triton.repository, completion)


def _about(fault: FlagIssue) -> str:
    if fault.fatal:
        return "This Triton release does not accept a flag"
    return "A deprecated flag of Triton" if "deprecated" in fault.why else "A flag of Triton that has no effect"


def _words(told: _Told, key: str, value: tuple[str, ...] | str | None) -> tuple[str, ...] | None:
    if not isinstance(value, str):
        return value
    try:
        return tuple(shlex.split(value))
    except ValueError as fault:
        told.fault(key, "A command is not understood", f"{value!r}: {fault}.", "Write it as a list of words.")
        return None


def _labels(told: _Told) -> Mapping[str, str]:
    for name in told.placed.container.labels:
        if name.startswith("gpuplan."):
            told.fault(f"labels.{name}", "A label is reserved", "Labels that begin with gpuplan. mark what it made.")
    return dict(told.placed.container.labels)


def _limits(limit: int | Ulimit) -> tuple[int, int]:
    return (limit.soft, limit.hard) if isinstance(limit, Ulimit) else (limit, limit)


def _shared_ports(desired: Sequence[Desired]) -> Iterator[Diagnostic]:
    """Two containers of one node that publish the same host port."""
    seen: list[tuple[str, Desired]] = []
    for each in desired:
        for port in host_ports(from_json(each.spec).ports):
            for other, holder in seen:
                if holder is not each and clashes(port, other):
                    detail = (
                        f"Both {holder.address.name} and {each.address.name} publish {port} on {each.address.node}."
                    )
                    fix = "Give one of them another port; with each:, add a step:."
                    yield Diagnostic("Two containers publish one port", detail, fix, each.where, str(each.address))
            seen.append((port, each))
