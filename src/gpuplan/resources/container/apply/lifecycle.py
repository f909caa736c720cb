"""Lifecycle: makes, replaces, starts and removes one container; the one before is kept until the new one serves."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from gpuplan.resources.container.apply.cdi import by_cdi
from gpuplan.resources.container.apply.faults import EngineApi, explain_engine_errors, post_update
from gpuplan.resources.container.apply.lookup import devices_now
from gpuplan.resources.container.apply.networks import join_networks
from gpuplan.resources.container.apply.reach import check_gpu_access
from gpuplan.resources.container.apply.ready import wait_ready
from gpuplan.resources.container.apply.standing import (
    current_container,
    find_container,
    own_containers,
    remove_container,
    rename_container,
    rollback_on_failure,
    stop_container,
    stop_previous,
    unpause_container,
)
from gpuplan.resources.container.payload import Owner, limits, payload, restart_policy
from gpuplan.resources.container.read import PREVIOUS_SUFFIX
from gpuplan.resources.container.seals import secret_digests_label
from gpuplan.resources.container.shape import ContainerSpec, EnvValue
from gpuplan.resources.kind import ApplyContext
from gpuplan.resources.snapshot.docker import live
from gpuplan.resources.snapshot.raw import mapping, mappings, whole
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic, Problem
from gpuplan.types.value import Json


@dataclass(frozen=True)
class ContainerContext:
    """What it takes to make one container."""

    address: Address
    spec: ContainerSpec
    digest: str
    gpus: Mapping[str, Json]
    context: ApplyContext
    adopts: str = ""
    """Id of the container of somebody else's whose place it takes."""
    by_cdi: bool = False
    """Its devices are asked for by the names of CDI."""

    @property
    def name(self) -> str:
        """Its name on the node."""
        return self.address.name


def replace_stop_first(making: ContainerContext) -> None:
    """Create, start and wait; whatever of ours has the name steps aside until then, and comes back on failure.

    Raises:
        Problem: it did not come up; says what became of the one before.
    """
    address, context = making.address, making.context
    devices = devices_now(making.gpus, address, context)
    before = current_container(address, context, making.adopts)
    with rollback_on_failure(before, address, context):
        stop_previous(before, address, context, making.adopts)
        container = create(making, devices, address.name)
        start_created(making, container)
        wait_ready(container, address, making.spec, context, takes_over=before is not None)
    tidy(address, context, making.adopts)


def start(making: ContainerContext) -> None:
    """Start the container that is there.

    Raises:
        Problem: it did not come up; where a replacement was interrupted, the one before is back.
    """
    address, context = making.address, making.context
    found = find_container(making.name, address, context)
    if found is None:
        raise Problem(_gone(making))
    before = find_container(making.name + PREVIOUS_SUFFIX, address, context)
    with rollback_on_failure(before, address, context) if before is not None else nullcontext():
        if found.status == "paused":
            unpause_container(found, address, context)
        else:
            stop_container(found, address, context)
            if before is not None:
                stop_container(
                    before, address, context
                )  # a restart of the engine may have brought it back, with its ports
            start_created(making, found.id)
        wait_ready(found.id, address, making.spec, context)


def prove(making: ContainerContext) -> None:
    """Wait until the container that stands serves, where a run was cut off that would have waited for that.

    One that runs beside the one before had every model READY when it was given the name.

    Raises:
        Problem: it does not; the one before is back.
    """
    address, context = making.address, making.context
    stands, before = (find_container(name, address, context) for name in (making.name, making.name + PREVIOUS_SUFFIX))
    if stands is not None and before is not None:
        with rollback_on_failure(before, address, context):
            wait_ready(stands.id, address, making.spec, context, takes_over=not before.busy)


def update(container: str, making: ContainerContext) -> None:
    """Rename, and set what the engine can set on a container that runs.

    Raises:
        Problem: the engine refused.
    """
    engine = making.context.docker()
    spec = making.spec
    with explain_engine_errors(str(making.address), f"updating {making.name}"):
        current = live(mapping(engine.inspect_container(container)))
        if current.name != making.name:
            rename_container(current, making.name, making.address, making.context)
        policy = {"RestartPolicy": restart_policy(spec.restart)} if spec.restart is not None else {}
        body = {**limits(spec), **policy}
        done = not body or post_update(engine, container, body)
    if not done:
        raise Problem(_fixed(making))


def _fixed(making: ContainerContext) -> Diagnostic:
    detail = f"{making.name}: the engine has no call to change limits or the restart policy of a container that exists."
    fix = f"Replace it, with gpuplan apply PLAN -i INVENTORY --replace {making.address}; Podman can from version 5 on."
    return Diagnostic("The engine cannot change a container in place", detail, fix, address=str(making.address))


def remove(address: Address, context: ApplyContext) -> None:
    """Stop and remove everything of ours with this name.

    Raises:
        Problem: the engine refused, or a second look still finds it.
    """
    for each in own_containers(address, context):
        remove_container(each, address, context)
    if left := own_containers(address, context):
        names = ", ".join(each.name for each in left)
        raise Problem(Diagnostic("A container was not removed", f"{names} is still there.", address=str(address)))


def tidy(address: Address, context: ApplyContext, adopts: str = "") -> None:
    """Remove what replacements left beside the container that stands."""
    for each in own_containers(address, context, adopts):
        if each.name != address.name:
            remove_container(each, address, context)


def create(making: ContainerContext, devices: Sequence[str], name: str) -> str:
    """Create the container under a name; its id.

    Raises:
        Problem: the engine refused.
    """
    context, spec, address = making.context, making.spec, making.address
    repository = ""
    if spec.triton and not spec.own:
        repository = str(context.agent("repository.prepare", plan=context.plan, container=address.name)["path"])
    env = {name: _revealed(value, context) for name, value in spec.env.items()}
    secrets = {name: env[name] for name, value in spec.env.items() if not isinstance(value, str)}
    owner = Owner(context.plan, address.name, making.digest, secret_digests_label(address.name, secrets, context.seal))
    body = payload(spec, owner, devices, env, repository)
    if making.by_cdi and devices:
        body = by_cdi(body, devices, address, context)
    with explain_engine_errors(str(address), f"creating {name}"):
        engine: EngineApi = context.docker()
        created = engine.create_container_from_config(body, name)
    context.say(f"created {name}")
    join_networks(str(created["Id"]), spec, address, context)
    return str(created["Id"])


def _revealed(value: EnvValue, context: ApplyContext) -> str:
    return value if isinstance(value, str) else context.secret(value["secret"])


def start_created(making: ContainerContext, container: str) -> None:
    """Start a container that was created.

    Raises:
        Problem: the engine refused; names who holds a port that it publishes. Or it runs and does not reach its GPUs.
    """
    try:
        with explain_engine_errors(str(making.address), f"starting {making.name}"):
            making.context.docker().start(container)
    except Problem as problem:
        raise Problem([_with_holder(each, making) for each in problem.diagnostics]) from problem
    making.context.say(f"started {making.name}")
    if making.gpus:
        check_gpu_access(container, making.address, making.context)


def _with_holder(diagnostic: Diagnostic, making: ContainerContext) -> Diagnostic:
    """The same, naming the container that holds the port which could not be bound."""
    match = re.search(r":(\d+) failed: port is already allocated", diagnostic.detail)
    if match is None:
        return diagnostic
    with explain_engine_errors(str(making.address), "looking for the holder of the port"):
        listed = making.context.docker().containers()
    holders = [each["Names"][0].strip("/") for each in listed if int(match[1]) in _public(each)]
    who = (
        f"{', '.join(holders)} publishes it" if holders else "no container publishes it, so it is a process of the node"
    )
    return replace(diagnostic, detail=f"Host port {match[1]} for {making.name} is taken: {who}.")


def _public(listed: Mapping[str, Json]) -> set[int]:
    return {whole(port.get("PublicPort")) for port in mappings(listed.get("Ports"))}


def _gone(making: ContainerContext) -> Diagnostic:
    return Diagnostic(
        "A container went away",
        f"{making.name} was there when the change set was made, and is not any more.",
        "Run gpuplan plan again.",
        address=str(making.address),
    )
