"""Replacement: readiness, start-first and stopping as the plan file states them, and settings that cannot work."""

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
"""Seconds for a container to become ready if the plan file states none, without the time that its models need."""
EXIT_TIMEOUT = 30
"""Seconds that a Triton waits for requests in flight when it is stopped (--exit-timeout-secs)."""
KILL_MARGIN = 5
"""Seconds between the end of that wait and the engine's kill."""
_EXIT_FLAG = "exit-timeout-secs"
_START_FIRST = "Start-first is not possible"


@dataclass(frozen=True)
class SettingIssue:
    """A setting of a container that cannot work, or that does harm."""

    key: str
    """The setting, dotted."""
    summary: str
    detail: str
    fix: str
    severity: Severity = Severity.ERROR


def readiness_of(plan: PlanFile, host: Host, placed: PlacedContainer) -> Readiness:
    """When a container counts as ready.

    A Triton accepts no connection before its models are loaded, so their load timeouts count as well.
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
    """Seconds between stop signal and kill of a new container.

    If none are stated, a model server gets more than it waits for requests itself, and any other container the
    engine's default (None).
    """
    if spec.stop_timeout is not None or not spec.triton:
        return spec.stop_timeout
    flag = f"--{_EXIT_FLAG}="
    values = [word.removeprefix(flag) for word in spec.command or () if word.startswith(flag)]
    return (int(values[-1]) if values and values[-1].isdecimal() else EXIT_TIMEOUT) + KILL_MARGIN


def drain_seconds(stated: ContainerSection) -> float:
    """Seconds in which requests in flight may finish."""
    return ContainerSpec.drain if stated.drain is None else stated.drain


def replacement_issues(plan: PlanFile, placed: PlacedContainer) -> Iterator[SettingIssue]:
    """Settings of a container's readiness, update and stop that cannot work."""
    stated = placed.container
    yield from _probes(stated)
    yield from _deadlines(stated)
    yield from _stopping(stated)
    if stated.update == "start-first":
        yield from _start_first(plan, stated)
        yield from _resolves_too_early(placed)


def _probes(stated: ContainerSection) -> Iterator[SettingIssue]:
    ready = stated.ready
    probes = {"http": ready.http, "tcp": ready.tcp, "exec": ready.exec, "healthcheck": ready.healthcheck}
    stated_probes = [name for name, value in probes.items() if value]
    if len(stated_probes) > 1:
        detail = f"It states {' and '.join(stated_probes)}, but only one of http, tcp, exec and healthcheck is allowed."
        yield SettingIssue("ready", "Several readiness probes", detail, "Keep one of them.")
    if stated_probes and stated.triton is not None:
        detail = f"A model server is ready when it is live and its models are READY; {stated_probes[0]} is not used."
        yield SettingIssue(
            f"ready.{stated_probes[0]}", "Readiness probe without effect", detail, f"Remove {stated_probes[0]}:."
        )


def _deadlines(stated: ContainerSection) -> Iterator[SettingIssue]:
    ready = stated.ready
    if stated.triton is None and ready.interval >= (least := TIMEOUT if ready.timeout is None else ready.timeout) > 0:
        detail = f"The container is probed every {ready.interval:g} s but has to be ready within {least:g} s."
        yield SettingIssue(
            "ready.interval", "Container is probed only once", detail, "Lower interval:, or raise timeout:."
        )
    for key in ("timeout", "boot"):
        if getattr(ready, key) == 0:
            detail = f"ready.{key} is 0, but a container takes some time to start."
            yield SettingIssue(f"ready.{key}", "Deadline cannot be met", detail, f"Raise {key}:, or remove it.")
    if ready.boot is None:
        return
    if stated.triton is not None:
        detail = "Triton accepts no connection before its models are loaded, so it has no boot time of its own."
        yield SettingIssue("ready.boot", "Deadline without effect", detail, "Remove boot:, and state only timeout:.")
    elif ready.boot > (TIMEOUT if ready.timeout is None else ready.timeout):
        detail = f"It has {ready.boot:g} s to boot but has to be ready before that."
        yield SettingIssue(
            "ready.boot", "Boot deadline is after the readiness deadline", detail, "Raise timeout:, or lower boot:."
        )


def _stopping(stated: ContainerSection) -> Iterator[SettingIssue]:
    if stated.triton is None or stated.stop_timeout is None:
        return
    least = _exit_timeout(stated)
    if stated.stop_timeout < least:
        detail = (
            f"When it is stopped, the server waits up to {least} s for requests in flight (--{_EXIT_FLAG}), but the "
            f"engine kills it after {stated.stop_timeout:g} s."
        )
        fix = f"Set stop_timeout: {least + KILL_MARGIN}s, or a lower {_EXIT_FLAG} under triton.flags."
        yield SettingIssue(
            "stop_timeout", "Model server is killed before its requests finish", detail, fix, Severity.WARNING
        )


def _start_first(plan: PlanFile, stated: ContainerSection) -> Iterator[SettingIssue]:
    if ports := _fixed_ports(stated):
        held = f"port{'s' * (len(ports) > 1)} {', '.join(ports)}"
        detail = f"The old container holds host {held} while it runs, and the new one cannot publish the same."
        fix = (
            "Set update: stop-first. Or drop the host ports and put the container on a network (network: NAME), where "
            "clients or a proxy reach it by its name."
        )
        yield SettingIssue("update", _START_FIRST, detail, fix)
    if stated.network == "host" and (stated.triton is not None or stated.ready.http or stated.ready.tcp):
        detail = "With network: host both containers listen on the same port, so a probe may reach either one."
        fix = "Set update: stop-first, or use another network (network: NAME)."
        yield SettingIssue("update", _START_FIRST, detail, fix)
    for name in dict.fromkeys(part.partition("/")[0].partition("[")[0] for part in stated.gpus):
        gpu = plan.gpus.get(name)
        if gpu is not None and gpu.compute_mode == "exclusive_process":
            detail = f"compute_mode: exclusive_process allows only one process at a time on {name}."
            fix = f"Set update: stop-first, or compute_mode: default for {name}."
            yield SettingIssue("update", _START_FIRST, detail, fix)


def _resolves_too_early(placed: PlacedContainer) -> Iterator[SettingIssue]:
    """The engine resolves a host name to its container on every network from the start (moby, updateNetworkConfig)."""
    stated, aliases = placed.container, set[str]()
    if isinstance(stated.networks, Mapping):
        aliases = {alias for attachment in stated.networks.values() for alias in attachment.aliases}
    named = stated.networks or stated.network not in (None, "", "bridge", "default", "host", "none")
    if named and stated.hostname in {placed.name, *aliases}:
        detail = (
            f"Clients reach it by its host name {stated.hostname}, which would resolve to the new container before it "
            "is ready."
        )
        yield SettingIssue("hostname", _START_FIRST, detail, "Remove hostname:, or choose another one.")


def _fixed_ports(stated: ContainerSection) -> tuple[str, ...]:
    if isinstance(stated.ports, ServerPorts):
        named = (stated.ports.http, stated.ports.grpc, stated.ports.metrics)
        return tuple(str(port) for port in named if port is not None)
    try:
        return tuple(host_ports(ports_of(stated.ports)))
    except ValueError:
        return ()  # reported when the ports are read


def _exit_timeout(stated: ContainerSection) -> int:
    flags = {} if stated.triton is None else stated.triton.flags
    value = next((value for name, value in flags.items() if name.removeprefix("--") == _EXIT_FLAG), EXIT_TIMEOUT)
    return int(str(value)) if str(value).isdecimal() else EXIT_TIMEOUT
