"""Standing: what of ours stands under a name, and how it steps aside and comes back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from gpuplan.resources.container.apply.faults import EngineApi, explain_engine_errors, post_update
from gpuplan.resources.container.read import FAILED_SUFFIX, PREVIOUS_SUFFIX, is_leftover
from gpuplan.resources.container.replacing import EXIT_TIMEOUT, MARGIN
from gpuplan.resources.kind import ApplyContext
from gpuplan.resources.snapshot.devices import read_gpus, requested
from gpuplan.resources.snapshot.docker import Live, is_copy, live
from gpuplan.resources.snapshot.labels import NAME, PLAN, TRITON
from gpuplan.resources.snapshot.raw import mapping
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import ConnectionLost, Diagnostic, Problem, Severity
from gpuplan.types.value import JsonObject

ENGINE_STOPS = 10
"""Seconds between stop signal and kill where a container does not say (Docker's own default)."""
SERVER_STOPS = EXIT_TIMEOUT + MARGIN
"""The same for a model server, which waits for requests in flight."""
_NEVER: JsonObject = {"RestartPolicy": {"Name": "no", "MaximumRetryCount": 0}}


def own_containers(address: Address, context: ApplyContext, adopts: str = "") -> tuple[Live, ...]:
    """All containers of this plan file with this name, leftovers included, and the one with the id `adopts`."""
    engine = context.docker()
    filters = {"label": [f"{PLAN}={context.plan}", f"{NAME}={address.name}"]}
    with explain_engine_errors(str(address), "listing containers"):
        listed = engine.containers(all=True, filters=filters)
        found = [live(mapping(engine.inspect_container(each["Id"]))) for each in listed]
    ours = tuple(each for each in found if not _copied(each, address, context))
    other = find_container(adopts, address, context) if adopts else None
    return (*ours, *([other] if other is not None and not other.plan else []))


def find_container(name: str, address: Address, context: ApplyContext) -> Live | None:
    """The container of that name or id, whoever made it."""
    from docker.errors import NotFound

    with explain_engine_errors(str(address), f"looking for {name}"):
        try:
            return live(mapping(context.docker().inspect_container(name)))
        except NotFound:
            return None


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


def stop_container(container: Live, address: Address, context: ApplyContext) -> None:
    """Stop a container, within its own stop timeout."""
    if not container.busy:
        return
    if container.status == "paused":
        unpause_container(container, address, context)
    timeout = container.config.get("StopTimeout")
    patience = SERVER_STOPS if TRITON in container.labels else ENGINE_STOPS
    with explain_engine_errors(str(address), f"stopping {container.name}"):
        context.docker().stop(container.id, timeout=timeout if isinstance(timeout, int) else patience)
    context.say(f"stopped {container.name}")


def unpause_container(container: Live, address: Address, context: ApplyContext) -> None:
    """Let a paused container go on."""
    with explain_engine_errors(str(address), f"continuing {container.name}"):
        context.docker().unpause(container.id)
    context.say(f"continued {container.name}")


def remove_container(container: Live, address: Address, context: ApplyContext) -> None:
    """Stop and remove a container with its unnamed volumes."""
    stop_container(container, address, context)
    with explain_engine_errors(str(address), f"removing {container.name}"):
        context.docker().remove_container(container.id, v=True, force=True)
    context.say(f"removed {container.name}")


def rename_container(container: Live, name: str, address: Address, context: ApplyContext) -> None:
    """Give a container another name."""
    with explain_engine_errors(str(address), f"renaming {container.name} to {name}"):
        context.docker().rename(container.id, name)


def _copied(found: Live, address: Address, context: ApplyContext) -> bool:
    """True for what somebody made of an image of a container of ours; what has a name of ours is not asked about."""
    from docker.errors import ImageNotFound

    if found.name == address.name or is_leftover(found):
        return False
    with explain_engine_errors(str(address), f"looking at the image of {found.name}"):
        engine: EngineApi = context.docker()
        try:
            image = mapping(engine.inspect_image(found.image_id)["Config"])
            return is_copy(found.name, found.labels, mapping(image.get("Labels")))
        except ImageNotFound:
            return False


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
