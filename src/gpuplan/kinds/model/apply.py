"""Loads and unloads models, and believes the repository index alone: never an answer of success."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gpuplan.intent.repositories import starts_itself
from gpuplan.kinds.ground.docker import Live
from gpuplan.kinds.model.acts.after_load import prove_loaded
from gpuplan.kinds.model.acts.loading import Loading
from gpuplan.kinds.model.acts.proving import Place
from gpuplan.kinds.model.acts.unloading import take_out
from gpuplan.kinds.model.acts.way_back import go_back, settle
from gpuplan.kinds.model.failure import had_no_effect, no_server
from gpuplan.kinds.model.log import Log
from gpuplan.kinds.model.read import Observed, Server, read
from gpuplan.kinds.model.renew import renew
from gpuplan.kinds.model.server import TritonServer, leave_thread
from gpuplan.kinds.model.wanted import Wanted, wanted_from
from gpuplan.kinds.room import Hands, Memory
from gpuplan.model.change import Step, Verb
from gpuplan.model.diagnostic import Problem
from gpuplan.model.snapshot import ProbeError
from gpuplan.model.value import JsonObject, as_list, as_object


def apply(step: Step, hands: Hands) -> Memory:
    """Load or unload one model.

    Raises:
        Problem: the server refuses, does not answer, or its index does not show what was asked for.
        Refused: the agent could not keep the list of models that the server loads when it starts.
    """
    try:
        if step.name == "restart":
            _restart(step, hands, str(step.arguments["container"]))
        elif step.verb is Verb.DELETE:
            _unload(step, hands, str(step.arguments["container"]), str(step.arguments["model"]))
        else:
            _load(step, hands, wanted_from(step.arguments))
    finally:
        leave_thread()
    return ()


def _restart(step: Step, hands: Hands, name: str) -> None:
    container = _running(step, read(hands.look("docker")), hands.plan, name)
    if container is None:
        raise Problem(no_server(step, name, "its container does not run"))
    renew(step, hands, container)


def _load(step: Step, hands: Hands, wanted: Wanted) -> None:
    found = _find(step, hands, wanted.container, own=wanted.own)
    if found is None:
        raise Problem(no_server(step, wanted.container, "its container does not run"))
    with _reach(hands, found.server, wanted.container) as triton:
        log = Log(hands.docker, found.container.id, found.at)
        again, anew = (step.arguments.get(name) is True for name in ("again", "anew"))
        loading = Loading(step, hands, wanted, triton, log, again, anew)
        rest = [Loading(step, hands, one, triton, log) for one in _dependents(step)]
        try:
            for each in (loading, *rest):
                each.run()
            place = Place(hands, found.container.id, wanted.container, found.server.address)
            for stated in (step.arguments, *_verified(step)):
                prove_loaded(place, stated, triton.look(str(stated["model"])).ready(str(stated["model"])))
        except Problem as problem:
            raise go_back(loading, rest, problem) from problem
        _list_at_start(step, hands, wanted.container, wanted.model, wanted=True)
        settle(loading)


def _dependents(step: Step) -> list[Wanted]:
    """The models that are composed of this one or call it, and of which this step has to see that they still serve."""
    return [wanted_from(each) for each in _verified(step)]


def _verified(step: Step) -> list[JsonObject]:
    return [as_object(each) for each in as_list(step.arguments.get("verify") or ())]


def _unload(step: Step, hands: Hands, container: str, model: str) -> None:
    own = _is_own(step)
    _list_at_start(step, hands, container, model, wanted=False)
    found = _find(step, hands, container, own=own)
    if found is None:
        hands.say(f"{container} does not run, so it has nothing loaded")
        return
    with _reach(hands, found.server, container) as triton:
        take_out(step, hands, triton, model)


def _is_own(step: Step) -> bool:
    return starts_itself(str(step.arguments.get("repository") or ""))


@dataclass(frozen=True)
class _Found:
    """A container that runs, and the server in it."""

    container: Live
    server: Server
    at: str
    """When it was looked at, by the clock of the node."""


def _find(step: Step, hands: Hands, name: str, *, own: bool = False) -> _Found | None:
    """The container and its server; None where the container does not run."""
    snapshot = hands.look("docker", "triton")
    observed = read(snapshot)
    container = _running(step, observed, hands.plan, name, own=own)
    if container is None:
        return None
    if isinstance(observed.servers, ProbeError):
        raise Problem(no_server(step, name, observed.servers.text))
    server = observed.servers.get(container.id)
    if not isinstance(server, Server):
        raise Problem(no_server(step, name, server.text if server else "the node did not find it"))
    return _Found(container, server, snapshot.asked_at)


def _running(step: Step, observed: Observed, plan: str, name: str, *, own: bool = False) -> Live | None:
    if isinstance(observed.containers, ProbeError):
        raise Problem(no_server(step, name, observed.containers.text))
    container = observed.container(plan, name, own=own)
    return container if container is not None and container.busy else None


@contextmanager
def _reach(hands: Hands, server: Server, container: str) -> Iterator[TritonServer]:
    host, _, port = server.address.rpartition(":")
    with hands.forward(int(port), host.strip("[]")) as address, TritonServer(address, container) as triton:
        yield triton


def _list_at_start(step: Step, hands: Hands, container: str, model: str, *, wanted: bool) -> None:
    """Keep the list of models that the server loads when it starts, and look whether it is kept."""
    if _is_own(step):
        return
    hands.agent("repository.load_at_start", plan=hands.plan, container=container, model=model, wanted=wanted)
    listed = read(hands.look("repository")).at_start
    if isinstance(listed, ProbeError) or (model in listed.get(container, ())) is not wanted:
        raise Problem(had_no_effect(step, container))
