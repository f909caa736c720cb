"""Replacing: what a plan file says of how a container gets ready, takes over and stops, and what cannot be had."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpuplan.planfile.expand import PlacedContainer, models_on
from gpuplan.planfile.schema import ContainerSection, PlanFile
from gpuplan.resources.container.fields.networking import ServerPorts, host_ports, ports_of
from gpuplan.resources.container.spec import ContainerSpec, Readiness
from gpuplan.types.diagnostic import Severity
from gpuplan.types.inventory import Host

TIMEOUT = 60.0
"""Seconds for a container to get ready, where the plan file does not say; those that its models need not counted."""
EXIT_TIMEOUT = 30
"""Seconds that a Triton waits for requests in flight when it is told to stop (--exit-timeout-secs)."""
KILL_MARGIN = 5
"""Seconds between the end of that wait and the engine's kill."""
_EXIT_FLAG = "exit-timeout-secs"
_START_FIRST = "It cannot start before the old one stops"


@dataclass(frozen=True)
class SettingIssue:
    """Something that cannot be had, or that does harm."""

    key: str
    """Where the container states it, dotted."""
    summary: str
    detail: str
    fix: str
    severity: Severity = Severity.ERROR


def readiness_of(plan: PlanFile, host: Host, placed: PlacedContainer) -> Readiness:
    """When a container counts as ready.

    A Triton answers nobody before the models that it starts with are loaded, so that it has their time as well.
    """
    stated = placed.container.ready
    timeout = stated.timeout
    if timeout is None:
        timeout = TIMEOUT
        if placed.container.triton is not None:
            timeout += sum(model.load_timeout for _, model in models_on(plan, host, placed.name))
    return Readiness(
        timeout=timeout,
        http=stated.http or "",
        tcp=stated.tcp or 0,
        exec=stated.exec or (),
        healthcheck=stated.healthcheck,
        boot=stated.boot,
        interval=stated.interval,
        stated=stated.timeout is not None,
    )


def stop_timeout(spec: ContainerSpec) -> int | None:
    """Seconds between stop signal and kill that a new container is given.

    Where nothing is stated a model server gets more than it waits for requests itself, and any other what the engine
    thinks right.
    """
    if spec.stop_timeout is not None or not spec.triton:
        return spec.stop_timeout
    flag = f"--{_EXIT_FLAG}="
    told = [word.removeprefix(flag) for word in spec.command or () if word.startswith(flag)]
    return (int(told[-1]) if told and told[-1].isdecimal() else EXIT_TIMEOUT) + KILL_MARGIN


def drain_seconds(stated: ContainerSection) -> float:
    """Seconds in which requests in flight may end."""
    return ContainerSpec.drain if stated.drain is None else stated.drain


def replacement_issues(plan: PlanFile, placed: PlacedContainer) -> Iterator[SettingIssue]:
    """Everything that speaks against what is stated."""
    stated = placed.container
    yield from _probes(stated)
    yield from _deadlines(stated)
    yield from _stopping(stated)
    if stated.update == "start-first":
        yield from _start_first(plan, stated)
        yield from _found_too_early(placed)


def _probes(stated: ContainerSection) -> Iterator[SettingIssue]:
    ready = stated.ready
    probes = {"http": ready.http, "tcp": ready.tcp, "exec": ready.exec, "healthcheck": ready.healthcheck}
    told = [name for name, value in probes.items() if value]
    if len(told) > 1:
        detail = f"{' and '.join(told)} are stated, and one of http, tcp, exec and healthcheck is meant."
        yield SettingIssue("ready", "Several readiness probes", detail, "Keep one of them.")
    if told and stated.triton is not None:
        detail = f"A model server is ready when it is live and its models are READY; {told[0]} is never asked."
        yield SettingIssue(f"ready.{told[0]}", "A readiness probe of a model server", detail, f"Remove {told[0]}:.")


def _deadlines(stated: ContainerSection) -> Iterator[SettingIssue]:
    ready = stated.ready
    if stated.triton is None and ready.interval >= (least := TIMEOUT if ready.timeout is None else ready.timeout) > 0:
        detail = f"The next look is after {ready.interval:g} s, and it has {least:g} s to be ready."
        yield SettingIssue("ready.interval", "There is only one look", detail, "Look more often, or raise timeout:.")
    for key in ("timeout", "boot"):
        if getattr(ready, key) == 0:
            detail = f"ready.{key} is 0, and a container takes some time to start."
            yield SettingIssue(f"ready.{key}", "A deadline that cannot be met", detail, "Raise it, or leave it out.")
    if ready.boot is None:
        return
    if stated.triton is not None:
        detail = "A Triton takes no connection before its models are loaded, so that it has no boot of its own."
        yield SettingIssue("ready.boot", "A deadline that means nothing here", detail, "State timeout: alone.")
    elif ready.boot > (TIMEOUT if ready.timeout is None else ready.timeout):
        detail = f"It has {ready.boot:g} s to boot, and has to be ready before that."
        yield SettingIssue("ready.boot", "Booting may take longer than getting ready", detail, "Raise timeout:.")


def _stopping(stated: ContainerSection) -> Iterator[SettingIssue]:
    if stated.triton is None or stated.stop_timeout is None:
        return
    least = _exit_timeout(stated)
    if stated.stop_timeout < least:
        detail = (
            f"When it is told to stop, the server waits up to {least} s for requests in flight (--{_EXIT_FLAG}), "
            f"and after {stated.stop_timeout:g} s the engine kills it with them."
        )
        fix = f"State stop_timeout: {least + KILL_MARGIN}s, or a lower {_EXIT_FLAG} under triton.flags."
        yield SettingIssue(
            "stop_timeout", "A model server is killed before it has finished", detail, fix, Severity.WARNING
        )


def _start_first(plan: PlanFile, stated: ContainerSection) -> Iterator[SettingIssue]:
    if ports := _fixed_ports(stated):
        held = f"port{'s' * (len(ports) > 1)} {', '.join(ports)}"
        detail = f"The old one holds {held} of the node as long as it runs, and two cannot publish the same."
        fix = (
            "State update: stop-first; or publish no port of the node: put it on a network of its own (network: NAME), "
            "where its clients or a proxy reach it by its name."
        )
        yield SettingIssue("update", _START_FIRST, detail, fix)
    if stated.network == "host" and (stated.triton is not None or stated.ready.http or stated.ready.tcp):
        detail = "On the node's own network both would listen on the same port, and a probe would ask either of them."
        fix = "State update: stop-first, or a network of its own (network: NAME)."
        yield SettingIssue("update", _START_FIRST, detail, fix)
    for name in dict.fromkeys(part.partition("/")[0].partition("[")[0] for part in stated.gpus):
        gpu = plan.gpus.get(name)
        if gpu is not None and gpu.compute_mode == "exclusive_process":
            detail = f"compute_mode: exclusive_process lets one process at a time compute on {name}."
            fix = f"State update: stop-first, or compute_mode: default for {name}."
            yield SettingIssue("update", _START_FIRST, detail, fix)


def _found_too_early(placed: PlacedContainer) -> Iterator[SettingIssue]:
    """An engine lets a host name lead to its container on every network, from the start (moby, updateNetworkConfig)."""
    stated, aliases = placed.container, set[str]()
    if isinstance(stated.networks, Mapping):
        aliases = {alias for attachment in stated.networks.values() for alias in attachment.aliases}
    named = stated.networks or stated.network not in (None, "", "bridge", "default", "host", "none")
    if named and stated.hostname in {placed.name, *aliases}:
        detail = (
            f"Its host name {stated.hostname} is a name that clients find it by, and leads to the new one before it is "
            "ready."
        )
        yield SettingIssue("hostname", _START_FIRST, detail, "Leave hostname: out, or give it another one.")


def _fixed_ports(stated: ContainerSection) -> tuple[str, ...]:
    if isinstance(stated.ports, ServerPorts):
        named = (stated.ports.http, stated.ports.grpc, stated.ports.metrics)
        return tuple(str(port) for port in named if port is not None)
    try:
        return tuple(host_ports(ports_of(stated.ports)))
    except ValueError:
        return ()  # told where the ports are read


def _exit_timeout(stated: ContainerSection) -> int:
    flags = {} if stated.triton is None else stated.triton.flags
    told = next((value for name, value in flags.items() if name.removeprefix("--") == _EXIT_FLAG), EXIT_TIMEOUT)
    return int(str(told)) if str(told).isdecimal() else EXIT_TIMEOUT
