"""Lifecycle: creates, replaces, starts, updates and removes one container; a failed replacement is rolled back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace

from gpuplan.resources.container.apply.engine import EngineApi, EngineContext, post_update
from gpuplan.resources.container.apply.gpu_access import check_gpu_access, current_devices, request_by_cdi
from gpuplan.resources.container.apply.readiness import wait_ready
from gpuplan.resources.container.create_body import Owner, create_body
from gpuplan.resources.container.fields.conversion import discarded_fields, update_body
from gpuplan.resources.container.read import FAILED_SUFFIX, PREVIOUS_SUFFIX, is_leftover
from gpuplan.resources.container.secret_digests import secret_digests_label
from gpuplan.resources.container.spec import ContainerSpec, EnvValue
from gpuplan.resources.snapshot.containers import EngineContainer, parse_container
from gpuplan.resources.snapshot.devices import read_gpus, requested_devices
from gpuplan.types.diagnostic import ConnectionLost, Diagnostic, Problem, Severity
from gpuplan.types.value import Json, JsonObject, integer, mapping, mappings, texts

_NEVER_RESTART: JsonObject = {"RestartPolicy": {"Name": "no", "MaximumRetryCount": 0}}


@dataclass(frozen=True, kw_only=True)
class ContainerContext(EngineContext):
    """What is needed to create, start or update one container."""

    spec: ContainerSpec
    digest: str = ""
    """Digest of the spec, for the container's label."""
    gpus: Mapping[str, Json]
    """GPU or slice by its name in the plan file → UUID; None if it was not known when the change set was made."""
    by_cdi: bool = False
    """Devices are requested by their CDI names."""


def replace_stop_first(container: ContainerContext) -> None:
    """Stop the previous container if there is one, create and start the new one, and wait until it is ready.

    Raises:
        Problem: the new one is not ready; the previous one was restored.
    """
    devices = current_devices(container.gpus, container.address, container.apply)
    previous = current_container(container)
    with rollback_on_failure(previous, container):
        stop_previous(previous, container)
        created = create(container, devices, container.name)
        start_created(container, created)
        wait_ready(created, container, container.spec, replaces=previous is not None)
    remove_leftovers(container)


def start(container: ContainerContext) -> None:
    """Start the existing container.

    Raises:
        Problem: it is not ready; if a replacement was interrupted, the previous container was restored.
    """
    existing = container.find(container.name)
    if existing is None:
        raise Problem(_disappeared(container))
    previous = container.find(container.name + PREVIOUS_SUFFIX)
    with rollback_on_failure(previous, container) if previous is not None else nullcontext():
        if existing.status == "paused":
            container.unpause(existing)
        else:
            container.stop(existing)
            if previous is not None:
                container.stop(previous)  # an engine restart may have started it, and it holds the ports then
            start_created(container, existing.id)
        wait_ready(existing.id, container, container.spec)


def confirm_ready(container: ContainerContext) -> None:
    """Wait until the current container is ready, if an interrupted run left the previous one next to it.

    A container that still runs next to a running previous one was given the name only after all models were READY.

    Raises:
        Problem: it is not ready; the previous one was restored.
    """
    current, previous = (container.find(name) for name in (container.name, container.name + PREVIOUS_SUFFIX))
    if current is not None and previous is not None:
        with rollback_on_failure(previous, container):
            wait_ready(current.id, container, container.spec, replaces=not previous.busy)


def update(container_id: str, container: ContainerContext) -> None:
    """Set the name, limits and restart policy of an existing container.

    Raises:
        Problem: the engine refused.
    """
    with container.explain_errors(f"updating {container.name}"):
        current = parse_container(mapping(container.docker.inspect_container(container_id)))
        if current.name != container.name:
            container.rename(current, container.name)
        body = update_body(container.spec)
        updated = not body or post_update(container.docker, container_id, body)
    if not updated:
        raise Problem(
            Diagnostic(
                "Cannot update the container in place",
                f"{container.name}: this engine cannot change the limits or restart policy of an existing container.",
                f"Replace it: gpuplan apply PLAN -i INVENTORY --replace {container.address}. Podman 5 and later can "
                "update containers in place.",
                address=str(container.address),
            )
        )


def remove_all(container: EngineContext) -> None:
    """Stop and remove the container and what replacements left of it.

    Raises:
        Problem: the engine refused, or one of them still exists afterwards.
    """
    for own in container.own_containers():
        container.remove(own)
    if left := container.own_containers():
        detail = f"{', '.join(own.name for own in left)} still exists after its removal."
        raise Problem(Diagnostic("Container was not removed", detail, address=str(container.address)))


def remove_leftovers(container: EngineContext) -> None:
    """Remove what replacements left next to the current container."""
    for own in container.own_containers():
        if own.name != container.name:
            container.remove(own)


def create(container: ContainerContext, devices: Sequence[str], name: str) -> str:
    """Create the container with that name, attached to its networks; returns its id.

    Raises:
        Problem: the engine refused.
    """
    spec, apply = container.spec, container.apply
    repository = ""
    if spec.triton and not spec.own:
        repository = str(apply.agent("repository.prepare", plan=apply.plan, container=container.name)["path"])
    env = {key: _revealed(value, container) for key, value in spec.env.items()}
    secrets = {key: env[key] for key, value in spec.env.items() if not isinstance(value, str)}
    label = secret_digests_label(container.name, secrets, apply.seal)
    body = create_body(spec, Owner(apply.plan, container.name, container.digest, label), devices, env, repository)
    if container.by_cdi and devices:
        body = request_by_cdi(body, devices, container.address, apply)
    with container.explain_errors(f"creating {name}"):
        engine: EngineApi = container.docker
        created = engine.create_container_from_config(body, name)
        container_id = str(created["Id"])
        if warnings := texts(created.get("Warnings")):
            _raise_if_fields_dropped(container, container_id, warnings)
    container.say(f"created {name}")
    _attach_networks(container, container_id)
    return container_id


def start_created(container: ContainerContext, container_id: str) -> None:
    """Start a container and check that it can open its GPUs.

    Raises:
        Problem: the engine refused (the detail names what holds a port that it publishes), or its GPUs are denied.
    """
    try:
        with container.explain_errors(f"starting {container.name}"):
            container.docker.start(container_id)
    except Problem as problem:
        raise Problem([_with_port_holder(diagnostic, container) for diagnostic in problem.diagnostics]) from problem
    container.say(f"started {container.name}")
    if container.gpus:
        check_gpu_access(container_id, container.address, container.apply)


def current_container(container: EngineContext) -> EngineContainer | None:
    """The container that a new one will replace; after an interrupted run the running one, else the older one.

    Raises:
        Problem: the name belongs to a container that is neither this plan file's nor adopted.
    """
    current = container.find(container.name)
    if current is not None and current.plan != container.apply.plan and current.id != container.adopts:
        raise Problem(_name_taken(current, container))
    own = {each.name: each for each in container.own_containers()}
    previous = own.get(container.name + PREVIOUS_SUFFIX)
    if previous is not None and (current is None or not current.busy):
        return previous
    return current or next((each for each in own.values() if not is_leftover(each)), None)


def stop_previous(previous: EngineContainer | None, container: EngineContext) -> None:
    """Stop the previous container and rename it; remove every other container of this address."""
    for own in container.own_containers():
        if previous is not None and own.id == previous.id:
            container.stop(own)
        else:
            container.remove(own)
    if previous is not None and previous.name != container.name + PREVIOUS_SUFFIX:
        container.rename(previous, container.name + PREVIOUS_SUFFIX)


@contextmanager
def rollback_on_failure(previous: EngineContainer | None, container: EngineContext) -> Iterator[None]:
    """Restore the previous container if the body fails.

    Raises:
        Problem: the failure, with the result of the rollback.
    """
    try:
        yield
    except ConnectionLost:
        raise
    except Problem as problem:
        raise Problem((*problem.diagnostics, *_roll_back(previous, container))) from problem
    except Exception:
        for diagnostic in _roll_back(previous, container):
            container.say(f"{diagnostic.summary}: {diagnostic.detail}")
        raise


def keep_failed(new: EngineContainer | None, container: EngineContext) -> tuple[Diagnostic, ...]:
    """Stop and rename a container that failed, so that its log stays readable; remove it if it never started.

    Raises:
        Problem: the engine refused.
    """
    if new is None or new.plan != container.apply.plan:
        return ()
    if new.status == "created":
        container.remove(new)
        return ()
    container.stop(new)
    with suppress(Problem), container.explain_errors(f"disabling the restart of {new.name}"):
        post_update(container.docker, new.id, _NEVER_RESTART)  # best effort: freeing the name matters more
    name = container.name + FAILED_SUFFIX
    older = container.find(name)
    if older is not None and older.plan == container.apply.plan:
        container.remove(older)
    container.rename(new, name)
    return (
        Diagnostic(
            "Kept the failed container",
            f"It is stopped and renamed to {name}. gpuplan removes it when a new {container.name} is ready.",
            f"See its log on the node:\n    docker logs {name}",
            address=str(container.address),
            severity=Severity.WARNING,
        ),
    )


def _roll_back(previous: EngineContainer | None, container: EngineContext) -> tuple[Diagnostic, ...]:
    """Keep the failed container and restore the previous one; each is tried, whatever happened to the other."""

    def keep_new() -> tuple[Diagnostic, ...]:
        new = container.find(container.name)
        is_previous = previous is not None and new is not None and new.id == previous.id
        return () if is_previous else keep_failed(new, container)

    results: list[Diagnostic] = []
    for act in (keep_new, lambda: _restore(previous, container) if previous else ()):
        try:
            results.extend(act())
        except Problem as problem:
            results.extend(problem.diagnostics)
    return tuple(results)


def _restore(previous: EngineContainer, container: EngineContext) -> tuple[Diagnostic, ...]:
    old = container.find(previous.id)
    if old is None:
        return ()
    if old.name != container.name:
        container.rename(old, container.name)
    gpus = read_gpus(container.apply.look("gpu"))
    missing = sorted(requested_devices(old.config, old.host_config, "runc", gpus) - gpus.uuids) if gpus.known else []
    if missing:
        detail = f"{container.name} stays stopped because {', '.join(missing)} is no longer on the node."
        return (rolled_back("Rolled back: the previous container is stopped", detail, container),)
    with container.explain_errors(f"starting the previous {container.name}"):
        container.docker.start(old.id)
    container.say(f"started the previous {container.name}")
    detail = f"{container.name} runs with its previous configuration."
    return (rolled_back("Rolled back: the previous container was started again", detail, container),)


def rolled_back(summary: str, detail: str, container: EngineContext) -> Diagnostic:
    """What became of the previous container, as a warning next to the failure."""
    return Diagnostic(summary, detail, address=str(container.address), severity=Severity.WARNING)


def _raise_if_fields_dropped(container: ContainerContext, container_id: str, warnings: Sequence[str]) -> None:
    """Remove a container if the engine dropped a field that the node's kernel does not support.

    Raises:
        Problem: it did; the container would differ from the plan file forever.
    """
    dropped = discarded_fields(
        container.spec, parse_container(mapping(container.docker.inspect_container(container_id)))
    )
    if dropped:
        container.docker.remove_container(container_id, v=True)
        fields = ", ".join(dropped)
        detail = f"{container.name} states {fields}. The engine's warning: {' '.join(warnings)}"
        fix = f"Remove {fields} from the plan file."
        raise Problem(Diagnostic("Node does not support a field", detail, fix, address=str(container.address)))


def _attach_networks(container: ContainerContext, container_id: str) -> None:
    """Attach a created container to every network but the first, on which it was created."""
    for network in list(container.spec.networks)[1:]:
        aliases = list(container.spec.networks[network])
        with container.explain_errors(f"attaching {container.name} to the network {network}"):
            container.docker.connect_container_to_network(container_id, network, aliases=aliases or None)
        container.say(f"attached {container.name} to {network}")


def _revealed(value: EnvValue, container: EngineContext) -> str:
    return value if isinstance(value, str) else container.apply.secret(value["secret"])


def _with_port_holder(diagnostic: Diagnostic, container: EngineContext) -> Diagnostic:
    """The same, naming what holds the port that the container could not publish."""
    match = re.search(r":(\d+) failed: port is already allocated", diagnostic.detail)
    if match is None:
        return diagnostic
    with container.explain_errors("looking for the holder of the port"):
        listed = container.docker.containers()
    holders = [entry["Names"][0].strip("/") for entry in listed if int(match[1]) in _published(entry)]
    holder = f"published by {', '.join(holders)}" if holders else "a process outside containers listens on it"
    return replace(diagnostic, detail=f"Host port {match[1]} for {container.name} is already in use: {holder}.")


def _published(listed: Mapping[str, Json]) -> set[int]:
    return {integer(port.get("PublicPort")) for port in mappings(listed.get("Ports"))}


def _disappeared(container: EngineContext) -> Diagnostic:
    return Diagnostic(
        "Container no longer exists",
        f"{container.name} existed when the change set was made and is not on the node now.",
        "Run gpuplan plan again.",
        address=str(container.address),
    )


def _name_taken(holder: EngineContainer, container: EngineContext) -> Diagnostic:
    owner = f"managed by the plan file {holder.plan}" if holder.plan else "unmanaged"
    return Diagnostic(
        "Container name already in use",
        f"A container named {container.name} already exists ({holder.image}, {holder.status}, {owner}).",
        "Rename or remove it, or choose another name in the plan file.",
        address=str(container.address),
    )
