"""The way back from a load that failed: the files that proved themselves before are the model's again, and serve."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpuplan.resources.model.apply.loading import Loading
from gpuplan.resources.model.apply.unloading import take_out
from gpuplan.resources.model.read import Server
from gpuplan.types.address import Address
from gpuplan.types.change import Verb
from gpuplan.types.diagnostic import ConnectionLost, Problem, Refused
from gpuplan.types.value import JsonObject


def settle(loading: Loading) -> None:
    """The files have proved themselves, and those before them may go."""
    if not loading.wanted.repository:
        _agent(loading, "repository.settle")


def go_back(loading: Loading, dependents: Sequence[Loading], problem: Problem) -> Problem:
    """Bring back what served before; the problem, with what has become of that.

    A load that goes on in the server is left alone: nothing may change under it, and the next apply waits for its end.
    What is composed of the model, or calls it, is seen to serve again with it.
    """
    if loading.wanted.repository or isinstance(problem, ConnectionLost):
        return problem
    try:
        said = _left_under_way(loading) if loading.under_way else _restored(loading, dependents)
    except ConnectionLost as lost:
        return ConnectionLost((*problem.diagnostics, *lost.diagnostics), lost.exit_code)
    except Problem as fault:
        why = fault.diagnostics[0]
        said = f"Going back to what served before failed as well: {why.summary}: {why.detail.rstrip('.')}."
    first, *others = problem.diagnostics
    told = replace(first, detail=f"{first.detail} {said}".rstrip())
    return Problem((told, *others), problem.exit_code)


def _left_under_way(loading: Loading) -> str:
    """Of a load that may still end well nothing is taken back."""
    return "" if loading.triton.look(loading.wanted.model).ready(loading.wanted.model) else _unlisted(loading)


def _restored(loading: Loading, dependents: Sequence[Loading]) -> str:
    try:
        content = str(_agent(loading, "repository.restore")["content"])
    except Refused as refusal:
        if refusal.code != "not_found":
            raise
        return _nothing_before(loading)
    files = Address(loading.context.node, "repository", loading.wanted.container).part(loading.wanted.model)
    loading.context.went_back(files)
    loading.context.say("the files of before are back; loading them")
    return " ".join((_loaded_again(loading, content), *_still_out(dependents)))


def _nothing_before(loading: Loading) -> str:
    """A model that loads and does not prove itself neither stays nor comes with the server's next start.

    One that does not load is left on the list if it is there: it proved itself with these very files once, and what
    keeps it out now, such as a GPU that is not back yet after a reboot, may have passed at the next start.
    """
    model = loading.wanted.model
    if loading.step.verb is not Verb.CREATE or not loading.triton.look(model).ready(model):
        return ""
    take_out(loading.step, loading.context, loading.triton, model)
    _unlisted(loading)
    return "It was unloaded again."


def _still_out(dependents: Sequence[Loading]) -> Iterator[str]:
    for each in dependents:
        try:
            each.run()
        except ConnectionLost:
            raise
        except Problem as problem:
            yield problem.diagnostics[0].detail


def _unlisted(loading: Loading) -> str:
    """A model that never served is not one that a start should load, or wait for without end."""
    _agent(loading, "repository.load_at_start", wanted=False)
    return ""


def _loaded_again(loading: Loading, content: str) -> str:
    model, before = loading.wanted.model, "Its files of before are back on the node"
    try:
        refusal = loading.triton.load(model, loading.wanted.load_timeout, lambda: None)
    except TimeoutError:
        return f"{before}, and the server does not end loading them."
    found = loading.triton.look(model)
    if found.ready(model) and found.contents.get(model) == content:
        loading.context.say(f"{model} serves as before")
        return f"{before} and serve again ({_versions(found, model)})."
    why = " ".join((refusal or found.reason(model) or "it gives no reason").split()).rstrip(" ;.")
    return f"{before}, and the server does not load them: {why}."


def _versions(found: Server, model: str) -> str:
    ready = found.ready(model)
    return f"{'version' if len(ready) == 1 else 'versions'} {', '.join(map(str, ready))}"


def _agent(loading: Loading, operation: str, **more: object) -> JsonObject:
    wanted, context = loading.wanted, loading.context
    return context.agent(operation, plan=context.plan, container=wanted.container, model=wanted.model, **more)
