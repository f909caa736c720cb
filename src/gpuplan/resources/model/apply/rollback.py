"""Rolls back a failed load: the model's previous files, which were verified, are restored and loaded again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpuplan.resources.model.apply.load import ModelLoad, unload_model
from gpuplan.resources.model.read import ModelServer
from gpuplan.resources.model.steps import UnloadModel
from gpuplan.types.address import Address
from gpuplan.types.change import Verb
from gpuplan.types.diagnostic import ConnectionLost, Problem, Refused
from gpuplan.types.value import JsonObject


def keep_new_files(load: ModelLoad) -> None:
    """The new files are verified: delete the previous ones."""
    if not load.spec.repository:
        _agent(load, "repository.settle")


def roll_back(load: ModelLoad, dependents: Sequence[ModelLoad], problem: Problem) -> Problem:
    """Restore what was served before, dependents included; the problem with the outcome of that added.

    A load that is still in progress is left alone: its files must not change, and the next apply waits for its end.
    """
    if load.spec.repository or isinstance(problem, ConnectionLost):
        return problem
    try:
        outcome = _leave_in_progress(load) if load.in_progress else _restore(load, dependents)
    except ConnectionLost as lost:
        return ConnectionLost((*problem.diagnostics, *lost.diagnostics), lost.exit_code)
    except Problem as failure:
        why = failure.diagnostics[0]
        outcome = f"The rollback failed, too: {why.summary}: {why.detail.rstrip('.')}."
    first, *others = problem.diagnostics
    return Problem((replace(first, detail=f"{first.detail} {outcome}".rstrip()), *others), problem.exit_code)


def _leave_in_progress(load: ModelLoad) -> str:
    if not load.look().ready(load.spec.model):
        _unlist(load)
    return ""


def _restore(load: ModelLoad, dependents: Sequence[ModelLoad]) -> str:
    try:
        content = str(_agent(load, "repository.restore")["content"])
    except Refused as refusal:
        if refusal.code != "not_found":
            raise
        return _unload_new(load)
    files = Address(load.context.node, "repository", load.spec.container).part(load.spec.model)
    load.context.rolled_back(files)
    load.context.say("restored the previous files; loading them")
    return " ".join((_load_restored(load, content), *_reload_dependents(dependents)))


def _unload_new(load: ModelLoad) -> str:
    """Without previous files: unload a new model that loaded but failed its smoke test, and do not load it at startup.

    A model that does not load and is listed stays listed: it was verified with these very files, and what prevents it
    now, such as a GPU that is not ready after a reboot, may be over at the next startup.
    """
    model = load.spec.model
    if load.step.verb is not Verb.CREATE or not load.look().ready(model):
        return ""
    unload_model(load.step, load.context, load.triton, UnloadModel(load.spec.container, model))
    _unlist(load)
    return "It was unloaded again."


def _reload_dependents(dependents: Sequence[ModelLoad]) -> Iterator[str]:
    """What is wrong with the dependents, after the rollback."""
    for dependent in dependents:
        try:
            dependent.run()
        except ConnectionLost:
            raise
        except Problem as problem:
            yield problem.diagnostics[0].detail


def _unlist(load: ModelLoad) -> None:
    """A startup must not load a model that was never served, or wait for it forever."""
    _agent(load, "repository.load_at_start", wanted=False)


def _load_restored(load: ModelLoad, content: str) -> str:
    model, restored = load.spec.model, "Rolled back: its previous files are restored"
    try:
        error = load.triton.load(model, load.spec.load_timeout, lambda: None)
    except TimeoutError:
        return f"{restored}, but the server has not loaded them in time."
    server = load.look()
    if server.ready(model) and server.contents.get(model) == content:
        load.context.say(f"{model} is served as before")
        return f"{restored} and served again ({_versions(server, model)})."
    why = " ".join((error or server.reason(model) or "the server gave no reason").split()).rstrip(" ;.")
    return f"{restored}, but the server does not load them: {why}."


def _versions(server: ModelServer, model: str) -> str:
    ready = server.ready(model)
    return f"{'version' if len(ready) == 1 else 'versions'} {', '.join(map(str, ready))}"


def _agent(load: ModelLoad, operation: str, **arguments: object) -> JsonObject:
    spec, context = load.spec, load.context
    return context.agent(operation, plan=context.plan, container=spec.container, model=spec.model, **arguments)
