"""Loads and unloads models; only the repository index tells whether that succeeded, never an answer of success."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gpuplan.resources.kind import ApplyContext, Facts
from gpuplan.resources.model.apply.failure import ServerLog, list_unchanged, server_unreachable
from gpuplan.resources.model.apply.load import ModelLoad, unload_model
from gpuplan.resources.model.apply.rollback import keep_new_files, roll_back
from gpuplan.resources.model.apply.server import find_server, look, restart_container, running_container
from gpuplan.resources.model.read import ModelServer, read
from gpuplan.resources.model.smoke.run import SmokeTarget, smoke_after_load
from gpuplan.resources.model.steps import LoadModel, RestartServer, UnloadModel, payload_of
from gpuplan.triton.client import TritonClient, forwarded, release_thread
from gpuplan.types.address import Address
from gpuplan.types.change import Step
from gpuplan.types.diagnostic import Problem
from gpuplan.types.snapshot import ProbeError

NOT_RUNNING = "its container is not running"


def apply_step(step: Step, context: ApplyContext) -> Facts:
    """Load or unload one model, or restart a server.

    Raises:
        Problem: the server refuses, does not answer, or its index does not show what was asked for.
        Refused: the agent could not keep the list of models that the server loads at startup.
    """
    try:
        match payload_of(step):
            case RestartServer(container):
                _restart(step, context, container)
            case UnloadModel() as payload:
                _unload(step, context, payload)
            case LoadModel() as payload:
                _load(step, context, payload)
    finally:
        release_thread()
    return ()


def _restart(step: Step, context: ApplyContext, name: str) -> None:
    container = running_container(step, read(context.look("docker")), context.plan, name)
    if container is None:
        raise Problem(server_unreachable(step, name, NOT_RUNNING))
    restart_container(step, context, container)


def _load(step: Step, context: ApplyContext, payload: LoadModel) -> None:
    spec = payload.spec
    running = find_server(step, context, spec.container, own_command=spec.own_command)
    if running is None:
        raise Problem(server_unreachable(step, spec.container, NOT_RUNNING))
    with _connect(context, running.server, spec.container) as triton:
        log = ServerLog(context.docker, running.container.id, running.looked_at)
        load = ModelLoad(step, context, payload, triton, log)
        dependents = [
            ModelLoad(step, context, LoadModel(dependent.spec, dependent.smoke), triton, log)
            for dependent in payload.dependents
        ]
        try:
            for each in (load, *dependents):
                each.run()
            target = SmokeTarget(context, running.container.id, spec.container, running.server.address)
            for each in (load, *dependents):
                _smoke(target, each)
        except Problem as problem:
            raise roll_back(load, dependents, problem) from problem
        if not spec.own_command:
            _list_at_start(step, context, spec.container, spec.model, listed=True)
        keep_new_files(load)


def _smoke(target: SmokeTarget, load: ModelLoad) -> None:
    spec, smoke = load.spec, load.payload.smoke
    if smoke is not None:
        address = Address(target.context.node, "model", f"{spec.container}/{spec.model}")
        smoke_after_load(target, address, look(load.triton, spec.model).ready(spec.model), smoke)


def _unload(step: Step, context: ApplyContext, payload: UnloadModel) -> None:
    if not payload.own_command:
        _list_at_start(step, context, payload.container, payload.model, listed=False)
    running = find_server(step, context, payload.container, own_command=payload.own_command)
    if running is None:
        context.say(f"{payload.container} is not running, so nothing is loaded")
        return
    with _connect(context, running.server, payload.container) as triton:
        unload_model(step, context, triton, payload)


@contextmanager
def _connect(context: ApplyContext, server: ModelServer, container: str) -> Iterator[TritonClient]:
    with forwarded(context.forward, server.address) as address, TritonClient(address, container) as triton:
        yield triton


def _list_at_start(step: Step, context: ApplyContext, container: str, model: str, *, listed: bool) -> None:
    """Add a model to the list of those that the server loads at startup or remove it, and verify that."""
    context.agent("repository.load_at_start", plan=context.plan, container=container, model=model, wanted=listed)
    at_start = read(context.look("repository")).at_start
    if isinstance(at_start, ProbeError) or (model in at_start.get(container, ())) is not listed:
        raise Problem(list_unchanged(step, container))
