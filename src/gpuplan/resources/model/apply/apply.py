"""Loads and unloads models, and believes the repository index alone: never an answer of success."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gpuplan.planfile.repositories import starts_itself
from gpuplan.resources.kind import ApplyContext, Memory
from gpuplan.resources.model.apply.after_load import prove_loaded
from gpuplan.resources.model.apply.finding import find, running
from gpuplan.resources.model.apply.loading import Loading
from gpuplan.resources.model.apply.proving import Place
from gpuplan.resources.model.apply.unloading import take_out
from gpuplan.resources.model.apply.way_back import go_back, settle
from gpuplan.resources.model.failure import had_no_effect, no_server
from gpuplan.resources.model.log import Log
from gpuplan.resources.model.read import Server, read
from gpuplan.resources.model.renew import renew
from gpuplan.resources.model.server import TritonServer, leave_thread
from gpuplan.resources.model.wanted import Wanted, wanted_from
from gpuplan.types.change import Step, Verb
from gpuplan.types.diagnostic import Problem
from gpuplan.types.snapshot import ProbeError
from gpuplan.types.value import JsonObject, as_list, as_object


def apply_step(step: Step, context: ApplyContext) -> Memory:
    """Load or unload one model.

    Raises:
        Problem: the server refuses, does not answer, or its index does not show what was asked for.
        Refused: the agent could not keep the list of models that the server loads when it starts.
    """
    try:
        if step.name == "restart":
            _restart(step, context, str(step.arguments["container"]))
        elif step.verb is Verb.DELETE:
            _unload(step, context, str(step.arguments["container"]), str(step.arguments["model"]))
        else:
            _load(step, context, wanted_from(step.arguments))
    finally:
        leave_thread()
    return ()


def _restart(step: Step, context: ApplyContext, name: str) -> None:
    container = running(step, read(context.look("docker")), context.plan, name)
    if container is None:
        raise Problem(no_server(step, name, "its container does not run"))
    renew(step, context, container)


def _load(step: Step, context: ApplyContext, wanted: Wanted) -> None:
    found = find(step, context, wanted.container, own=wanted.own)
    if found is None:
        raise Problem(no_server(step, wanted.container, "its container does not run"))
    with _reach(context, found.server, wanted.container) as triton:
        log = Log(context.docker, found.container.id, found.at)
        again, anew = (step.arguments.get(name) is True for name in ("again", "anew"))
        loading = Loading(step, context, wanted, triton, log, again, anew)
        rest = [Loading(step, context, one, triton, log) for one in _dependents(step)]
        try:
            for each in (loading, *rest):
                each.run()
            place = Place(context, found.container.id, wanted.container, found.server.address)
            for stated in (step.arguments, *_verified(step)):
                prove_loaded(place, stated, triton.look(str(stated["model"])).ready(str(stated["model"])))
        except Problem as problem:
            raise go_back(loading, rest, problem) from problem
        _list_at_start(step, context, wanted.container, wanted.model, wanted=True)
        settle(loading)


def _dependents(step: Step) -> list[Wanted]:
    """The models that are composed of this one or call it, and of which this step has to see that they still serve."""
    return [wanted_from(each) for each in _verified(step)]


def _verified(step: Step) -> list[JsonObject]:
    return [as_object(each) for each in as_list(step.arguments.get("verify") or ())]


def _unload(step: Step, context: ApplyContext, container: str, model: str) -> None:
    own = _is_own(step)
    _list_at_start(step, context, container, model, wanted=False)
    found = find(step, context, container, own=own)
    if found is None:
        context.say(f"{container} does not run, so it has nothing loaded")
        return
    with _reach(context, found.server, container) as triton:
        take_out(step, context, triton, model)


def _is_own(step: Step) -> bool:
    return starts_itself(str(step.arguments.get("repository") or ""))


@contextmanager
def _reach(context: ApplyContext, server: Server, container: str) -> Iterator[TritonServer]:
    host, _, port = server.address.rpartition(":")
    with context.forward(int(port), host.strip("[]")) as address, TritonServer(address, container) as triton:
        yield triton


def _list_at_start(step: Step, context: ApplyContext, container: str, model: str, *, wanted: bool) -> None:
    """Keep the list of models that the server loads when it starts, and look whether it is kept."""
    if _is_own(step):
        return
    context.agent("repository.load_at_start", plan=context.plan, container=container, model=model, wanted=wanted)
    listed = read(context.look("repository")).at_start
    if isinstance(listed, ProbeError) or (model in listed.get(container, ())) is not wanted:
        raise Problem(had_no_effect(step, container))
