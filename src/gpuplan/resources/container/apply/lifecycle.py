"""Lifecycle: makes, replaces, starts and removes one container; the one before is kept until the new one serves."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace

from gpuplan.resources.container.apply.engine import (
    EngineApi,
    explain_engine_errors,
    find_container,
    own_containers,
    post_update,
    remove_container,
    rename_container,
    stop_container,
    unpause_container,
)
from gpuplan.resources.container.apply.gpu_access import by_cdi, check_gpu_access, devices_now
from gpuplan.resources.container.apply.readiness import wait_ready
from gpuplan.resources.container.create_body import Owner, create_body
from gpuplan.resources.container.fields.conversion import discarded_fields, update_body
from gpuplan.resources.container.read import FAILED_SUFFIX, PREVIOUS_SUFFIX, is_leftover
from gpuplan.resources.container.secret_digests import secret_digests_label
from gpuplan.resources.container.spec import ContainerSpec, EnvValue
from gpuplan.resources.kind import ApplyContext
from gpuplan.resources.snapshot.devices import read_gpus, requested
from gpuplan.resources.snapshot.docker import Live, live
from gpuplan.resources.snapshot.raw import mapping, mappings, texts, whole
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import ConnectionLost, Diagnostic, Problem, Severity
from gpuplan.types.value import Json, JsonObject


def join_networks(container: str, spec: ContainerSpec, address: Address, context: ApplyContext) -> None:
    """Attach a container that was just created to every network but the first, on which it was created.

    Raises:
        Problem: the engine refused.
    """
    for name in list(spec.networks)[1:]:
        with explain_engine_errors(str(address), f"attaching {address.name} to the network {name}"):
            aliases = list(spec.networks[name])
            context.docker().connect_container_to_network(container, name, aliases=aliases or None)
        context.say(f"attached {address.name} to {name}")


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
        body = update_body(spec)
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
    body = create_body(spec, owner, devices, env, repository)
    if making.by_cdi and devices:
        body = by_cdi(body, devices, address, context)
    with explain_engine_errors(str(address), f"creating {name}"):
        engine: EngineApi = context.docker()
        created = engine.create_container_from_config(body, name)
        container = str(created["Id"])
        if warnings := texts(created.get("Warnings")):
            _check_discarded(making, container, warnings)
    context.say(f"created {name}")
    join_networks(container, spec, address, context)
    return container


def _check_discarded(making: ContainerContext, container: str, warnings: Sequence[str]) -> None:
    """Remove a container of which the engine dropped a field that its kernel does not support.

    Raises:
        Problem: it did; the container would differ from the plan file forever.
    """
    engine = making.context.docker()
    dropped = discarded_fields(making.spec, live(mapping(engine.inspect_container(container))))
    if dropped:
        engine.remove_container(container, v=True)
        detail = f"{making.name} states {', '.join(dropped)}. The engine's warning: {' '.join(warnings)}"
        fix = f"Remove {', '.join(dropped)} from the plan file."
        raise Problem(Diagnostic("Node does not support a field", detail, fix, address=str(making.address)))


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


_NEVER: JsonObject = {"RestartPolicy": {"Name": "no", "MaximumRetryCount": 0}}


def current_container(address: Address, context: ApplyContext, adopts: str = "") -> Live | None:
    """The container of ours that stands under a name, and that a new one is to take the place of.

    The one with the id `adopts` counts as ours.

    What an interrupted run left counts as well: of two, the one that runs stands, else the older one.

    Raises:
        Problem: the name is somebody else's.
    """
    current = find_container(address.name, address, context)
    if current is not None and current.plan != context.plan and current.id != adopts:
        raise Problem(_taken(current, address))
    ours = {each.name: each for each in own_containers(address, context, adopts)}
    if (old := ours.get(address.name + PREVIOUS_SUFFIX)) is not None and (current is None or not current.busy):
        return old
    return current or next((each for each in ours.values() if not is_leftover(each)), None)


def stop_previous(before: Live | None, address: Address, context: ApplyContext, adopts: str = "") -> None:
    """Stop the container that stands and keep it under another name; whatever else of ours has the name goes."""
    for each in own_containers(address, context, adopts):
        if before is not None and each.id == before.id:
            stop_container(each, address, context)
        else:
            remove_container(each, address, context)
    if before is not None and before.name != address.name + PREVIOUS_SUFFIX:
        rename_container(before, address.name + PREVIOUS_SUFFIX, address, context)


@contextmanager
def rollback_on_failure(before: Live | None, address: Address, context: ApplyContext) -> Iterator[None]:
    """Within it another container takes the place of `before`; whatever fails, `before` comes back.

    Raises:
        Problem: what failed, with what became of the container before.
    """
    try:
        yield
    except ConnectionLost:
        raise
    except Problem as problem:
        raise Problem((*problem.diagnostics, *_come_back(before, address, context))) from problem
    except Exception:
        for each in _come_back(before, address, context):
            context.say(f"{each.summary}: {each.detail}")
        raise


def _come_back(before: Live | None, address: Address, context: ApplyContext) -> tuple[Diagnostic, ...]:
    """The new one goes aside, stopped; the one before comes back where it still can run, whatever became of that."""

    def aside() -> tuple[Diagnostic, ...]:
        new = find_container(address.name, address, context)
        same = before is not None and new is not None and new.id == before.id
        return () if same else keep_failed(new, address, context)

    said: list[Diagnostic] = []
    for act in (aside, lambda: _restore(before, address, context) if before else ()):
        try:
            said.extend(act())
        except Problem as problem:
            said.extend(problem.diagnostics)
    return tuple(said)


def keep_failed(new: Live | None, address: Address, context: ApplyContext) -> tuple[Diagnostic, ...]:
    """Keep a container that did not come up, stopped, for its log; one that never started goes.

    Raises:
        Problem: the engine refused.
    """
    if new is None or new.plan != context.plan:
        return ()
    if new.status == "created":
        remove_container(new, address, context)
        return ()
    stop_container(new, address, context)
    with (
        suppress(Problem),
        explain_engine_errors(str(address), f"setting {new.name} aside"),
    ):  # what counts is that the name is free
        post_update(context.docker(), new.id, _NEVER)
    older = find_container(address.name + FAILED_SUFFIX, address, context)
    if older is not None and older.plan == context.plan:
        remove_container(older, address, context)
    rename_container(new, address.name + FAILED_SUFFIX, address, context)
    return (
        Diagnostic(
            "The container that failed was kept",
            f"It is stopped and called {address.name}{FAILED_SUFFIX}; it goes once a new {address.name} is ready.",
            f"docker logs {address.name}{FAILED_SUFFIX}",
            address=str(address),
            severity=Severity.WARNING,
        ),
    )


def _restore(before: Live, address: Address, context: ApplyContext) -> tuple[Diagnostic, ...]:
    old = find_container(before.id, address, context)
    if old is None:
        return ()
    if old.name != address.name:
        rename_container(old, address.name, address, context)
    gpus = read_gpus(context.look("gpu"))
    lost = sorted(requested(old.config, old.host_config, "runc", gpus) - gpus.uuids) if gpus.known else []
    if lost:
        detail = f"It stays stopped, since {', '.join(lost)} is not on the node any more."
        return (_back("The container before was put back, stopped", detail, address),)
    with explain_engine_errors(str(address), f"starting {address.name} as it was before"):
        context.docker().start(old.id)
    context.say(f"{address.name} runs again as it was before")
    return (_back("The container before was put back", "It runs again as it did before.", address),)


def _back(summary: str, detail: str, address: Address) -> Diagnostic:
    return Diagnostic(summary, detail, address=str(address), severity=Severity.WARNING)


def _taken(holder: Live, address: Address) -> Diagnostic:
    owner = f"the plan file {holder.plan}" if holder.plan else "somebody else"
    return Diagnostic(
        "The container's name is taken",
        f"A container called {address.name} ({holder.image}, {holder.status}) was made by {owner}.",
        "Rename or remove it, or choose another name in the plan file.",
        address=str(address),
    )
