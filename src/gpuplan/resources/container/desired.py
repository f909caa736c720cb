"""The containers that a plan file puts on a node, as specs, and what is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuplan.planfile.expand import PlacedContainer, containers_on
from gpuplan.planfile.schema import ContainerSection, PlanFile, TritonSection
from gpuplan.planfile.sources import sources_on
from gpuplan.planfile.sources.repositories import is_remote, starts_itself
from gpuplan.resources.container.fields.conversion import read_fields
from gpuplan.resources.container.fields.field import Reading
from gpuplan.resources.container.fields.mounts import REPOSITORY
from gpuplan.resources.container.fields.networking import clashes, host_ports
from gpuplan.resources.container.images import archived_image, stated_image
from gpuplan.resources.container.replacement import drain_seconds, readiness_of, replacement_issues
from gpuplan.resources.container.server import (
    FlagIssue,
    check_flags,
    command_line,
    decides_completion,
    own_command_issues,
    repository_mounts,
)
from gpuplan.resources.container.spec import VISIBLE, ContainerSpec, EnvValue, from_json, to_json
from gpuplan.secrets.references import is_secret_reference
from gpuplan.triton.releases import release_of
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic, Severity
from gpuplan.types.inventory import Host
from gpuplan.types.resource import Desired

_HTTP = re.compile(r"\d{1,5}(/[!-~]*)?", re.ASCII)


def containers(plan: PlanFile, host: Host) -> tuple[Sequence[Desired], Sequence[Diagnostic]]:
    """The containers of one node, and every problem of the plan file in them."""
    desired: list[Desired] = []
    problems: list[Diagnostic] = []
    for placed in containers_on(plan, host):
        stated = _Stated(plan, host, placed)
        desired.extend(_desired(stated))
        problems.extend(stated.problems)
    problems.extend(_shared_ports(desired))
    return desired, problems


@dataclass
class _Stated:
    """One container of the plan file while it is read, with the problems found so far."""

    plan: PlanFile
    host: Host
    placed: PlacedContainer
    problems: list[Diagnostic] = field(default_factory=list)

    @property
    def container(self) -> ContainerSection:
        return self.placed.container

    def report(self, key: str, summary: str, detail: str, fix: str = "", severity: Severity = Severity.ERROR) -> None:
        address = f"{self.host.name}/container/{self.placed.name}"
        where = self.plan.where(*self.placed.path, *key.split("."))
        self.problems.append(Diagnostic(summary, detail, fix, where, address, severity))


def _desired(stated: _Stated) -> Iterator[Desired]:
    node, name = stated.host.name, stated.placed.name
    spec = _spec(stated)
    if any(problem.severity is Severity.ERROR for problem in stated.problems):
        return
    needs = [Address(node, "gpu", part) for part in spec.gpus]
    if spec.mounts_repository:
        needs.append(Address(node, "repository", name))
    yield Desired(Address(node, "container", name), to_json(spec), tuple(needs), stated.plan.where(*stated.placed.path))


def _spec(stated: _Stated) -> ContainerSpec:
    container = stated.container
    image = stated_image(container, stated.plan.path, stated.report)
    completion = _completion(stated)
    _check(stated)
    fields = dict(read_fields(Reading(container, stated.report)))
    return ContainerSpec(
        **{**fields, **_of_model_server(stated, fields, image, completion[0])},
        image=image,
        archive=container.archive or "",
        archived=archived_image(container, image, stated.plan.path, stated.report),
        platform=container.platform or "",
        pull=container.pull,
        gpus=container.gpus,
        env=_env(stated),
        drain=drain_seconds(container),
        start_first=container.update == "start-first",
        adopt=container.adopt,
        ready=readiness_of(stated.plan, stated.host, stated.placed),
        own=container.triton is not None and starts_itself(container.triton.repository),
        triton=container.triton is not None,
        configs_say_all=completion == (False, True),
        config_lacks=_lacks(stated) if completion == (None, True) else "",
    )


def _check(stated: _Stated) -> None:
    """What Docker would refuse, or what could not be distinguished afterwards."""
    container = stated.container
    if len(stated.placed.name) < 2:
        detail = "Docker requires at least two characters."
        stated.report("", "Container name is too short", detail, "Give it another name.")
    probe = container.ready.http
    if probe and not (_HTTP.fullmatch(probe) and int(probe.partition("/")[0]) in range(1, 65536)):
        detail, fix = f"{probe!r} is not PORT/PATH.", "Write 8080/health: a port inside the container, and a path."
        stated.report("ready.http", "Readiness probe is not valid", detail, fix)
    for objection in replacement_issues(stated.plan, stated.placed):
        stated.report(objection.key, objection.summary, objection.detail, objection.fix, objection.severity)


def _env(stated: _Stated) -> Mapping[str, EnvValue]:
    container = stated.container
    if VISIBLE in container.env:
        detail = f"gpuplan sets {VISIBLE} from gpus, and to void if there are none."
        stated.report(f"env.{VISIBLE}", "GPUs cannot be given by an environment variable", detail, "Use gpus instead.")
    own = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if container.gpus else {VISIBLE: "void"}
    return own | {name: _env_value(value) for name, value in container.env.items()}


def _env_value(value: str | int | float | bool) -> EnvValue:
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    return {"secret": text} if is_secret_reference(text) else text


def _of_model_server(
    stated: _Stated, fields: Mapping[str, Any], image: str, completion: bool | None
) -> Mapping[str, Any]:
    """The fields that a model server does not choose: its command, and where its repository is mounted."""
    triton = stated.container.triton
    if triton is None:
        return {}
    if starts_itself(triton.repository):
        for objection in own_command_issues(triton, fields.get("command")):
            stated.report(objection.key, objection.summary, objection.detail, objection.fix)
        return {}
    given = repository_mounts(triton.repository)
    for key in ("volumes", "tmpfs"):
        for place in (REPOSITORY, *given):
            if any(f"{path}/".startswith(f"{place}/") for path in fields.get(key, {})):
                detail = f"The model repository of a model server is mounted at {place}."
                stated.report(key, "Path is taken", detail, "Mount it at another path.")
    command = _command(stated, triton, image, completion)
    return {"command": command, "entrypoint": None, "volumes": {**fields.get("volumes", {}), **given}}


def _command(stated: _Stated, triton: TritonSection, image: str, completion: bool | None) -> tuple[str, ...]:
    for key in ("command", "entrypoint"):
        if getattr(stated.container, key) is not None:
            detail = f"gpuplan renders the command of a container with triton; it cannot have its own {key}."
            stated.report(
                key, "Model server cannot have its own command", detail, "State flags under triton.flags instead."
            )
    release = release_of(image)
    for fault in check_flags(triton.flags, triton.cache, release):
        severity = Severity.ERROR if fault.fatal else Severity.WARNING
        summary = _about(fault)
        stated.report(f"triton.flags.{fault.flag}", summary, f"--{fault.flag}: {fault.why}.", fault.fix, severity)
    return command_line(triton.flags, triton.cache, release, triton.repository, completion)


def _completion(stated: _Stated) -> tuple[bool | None, bool]:
    """Whether a model server completes configs, None for its own default; and whether gpuplan decided that.

    It is off if the configs of all its models are complete; a server without models keeps it for later ones.
    """
    triton = stated.container.triton
    if triton is None:
        return None, False
    if flag := decides_completion(triton.flags):
        if triton.auto_complete is not None:
            detail = f"--{flag} and auto_complete set the same thing."
            stated.report(f"triton.flags.{flag}", "Auto-completion is stated twice", detail, "Keep auto_complete.")
        return None, False
    if triton.auto_complete is not None:
        return triton.auto_complete, False
    if is_remote(triton.repository):
        return None, False
    models = sources_on(stated.plan, stated.host, stated.placed.name)[0]
    return (False if models and not any(source.lacking for source in models) else None), True


def _lacks(stated: _Stated) -> str:
    """What the first incomplete config of its models leaves out."""
    for source in sources_on(stated.plan, stated.host, stated.placed.name)[0]:
        if source.lacking:
            return f"the config of {source.model} leaves out {', '.join(source.lacking)}"
    return ""


def _about(fault: FlagIssue) -> str:
    if fault.fatal:
        return "This Triton release does not accept a flag"
    return "Triton flag is deprecated" if "deprecated" in fault.why else "Triton flag has no effect"


def _shared_ports(desired: Sequence[Desired]) -> Iterator[Diagnostic]:
    """Two containers of one node that publish the same host port."""
    taken: list[tuple[str, Desired]] = []
    for container in desired:
        for port in host_ports(from_json(container.spec).ports):
            for other, holder in taken:
                if holder is not container and clashes(port, other):
                    address = container.address
                    detail = f"Both {holder.address.name} and {address.name} publish {port} on {address.node}."
                    fix = "Give one of them another port; with each, add a step."
                    yield Diagnostic("Two containers publish one port", detail, fix, container.where, str(address))
            taken.append((port, container))
