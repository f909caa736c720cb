"""What the operator is told when a model does not come up or does not go away."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpuplan.resources.model.read import Server
from gpuplan.resources.model.wanted import Wanted
from gpuplan.types.change import Step
from gpuplan.types.diagnostic import Diagnostic
from gpuplan.types.value import as_list

_NO_MEMORY = re.compile(
    r"out of memory|cuda_?malloc|OUT_OF_MEMORY|memory ?allocation (?:failed|failure)|failed to allocate|bad_alloc|"
    r"ALLOC_FAILED|ResourceExhausted|OOM when allocating",
    re.IGNORECASE,
)
"""What CUDA and the frameworks say where the memory of a GPU is not enough."""
_PREFIX = re.compile(r"^load failed for model '[^']*': ")


def failed(step: Step, wanted: Wanted, found: Server, refusal: str, log: Sequence[str]) -> Diagnostic:
    """The load ended, and the index does not show what was wanted."""
    model = wanted.model
    if model not in found.index and wanted.repository:
        return _not_there(step, wanted, log)
    if model not in found.index:
        return Diagnostic(
            "A model server does not see a model's files",
            f"{model} lies in the repository on the node, and {wanted.container} does not list it{_said(log)}.",
            "Its mount may be of a repository that was removed since: remove the container, then plan and apply.",
            address=str(step.address),
        )
    serving = found.ready(model)
    kept = f" What was loaded before still serves (version {', '.join(map(str, serving))})." if serving else ""
    reason = _cause(refusal, log) or found.reason(model) or _short(wanted, found)
    gone = [str(name) for name in as_list(step.arguments.get("unloaded") or ())]
    if gone and _NO_MEMORY.search(reason):
        kept += f" {', '.join(gone)} had just been unloaded from it: what a framework allocated does not come back."
        fix = f"Restart its container, which loads the others by itself, then apply again:\n    {_restart(wanted)}"
    elif _NO_MEMORY.search(reason):
        fix = "Take models or instances away from its GPU; with memory: on each model a plan tells what does not fit."
    else:
        fix = "Correct the model's files or its config, then plan and apply again."
    detail = f"{model} did not load on {wanted.container}: {reason}.{kept}"
    return Diagnostic("A model did not load", detail, fix, address=str(step.address))


def _restart(wanted: Wanted) -> str:
    return f"docker restart {wanted.container}"


def _not_there(step: Step, wanted: Wanted, log: Sequence[str]) -> Diagnostic:
    where = "on the node" if wanted.repository.startswith("/") else "as the server sees it"
    return Diagnostic(
        "A model is not in the repository",
        f"{wanted.model} is not in {wanted.repository} {where}{_said(log)}.",
        f"Put it there as {wanted.model}/1/…, then apply again; or take it out of the plan file.",
        address=str(step.address),
    )


def hung(step: Step, wanted: Wanted, log: Sequence[str]) -> Diagnostic:
    """The load did not end in time."""
    return Diagnostic(
        "A model load did not end",
        f"{wanted.model} is still loading on {wanted.container} after {wanted.load_timeout:g} s{_said(log)}.",
        f"Look at docker logs {wanted.container}. If it only takes longer, raise load_timeout; if it hangs, "
        f"correct the model and restart the container (docker restart {wanted.container}), then plan and apply.",
        address=str(step.address),
    )


def stays(step: Step, model: str, found: Server, refusal: str) -> Diagnostic:
    """The model is still loaded."""
    why = refusal or f"it is still {found.state(model)}; requests may be in flight"
    fix = "Stop what sends requests to it, then plan and apply again."
    return Diagnostic("A model did not unload", f"{model}: {why}.", fix, address=str(step.address))


def goes_on(step: Step, model: str) -> Diagnostic:
    """The model cannot be unloaded, since it is still being loaded."""
    container = step.arguments["container"]
    return Diagnostic(
        "A model did not unload",
        f"{model} is still loading on {container}, and as long as that goes on the server unloads it for nobody.",
        f"Look at docker logs {container}. If the load hangs, restart the container, which loads the others by itself "
        f"(docker restart {container}), then plan and apply; if it only takes long, apply again when it has ended.",
        address=str(step.address),
    )


def no_server(step: Step, container: str, why: str) -> Diagnostic:
    """There is nobody to ask."""
    return Diagnostic(
        "A model server does not answer",
        f"The server in {container} cannot be asked: {why}.",
        f"Look at its log: docker logs {container}",
        address=str(step.address),
    )


def had_no_effect(step: Step, container: str) -> Diagnostic:
    """The agent answered, and the list is not so."""
    return Diagnostic(
        "A step had no effect",
        f"The list of models that {container} loads when it starts is not as it was just written.",
        "Somebody else may be changing the node at the same time; run gpuplan plan to see what it has now.",
        address=str(step.address),
    )


def hides_cause(refusal: str) -> bool:
    """True for a refusal that says nothing of why; the log does."""
    return "failed to poll" in refusal


def _cause(refusal: str, log: Sequence[str]) -> str:
    """The server's refusal in one line; for one that hides its cause, the log's lines stand in its place."""
    if hides_cause(refusal) and log:
        return "; ".join(_one_line(line) for line in log)
    return _one_line(_PREFIX.sub("", refusal))


def _said(log: Sequence[str]) -> str:
    return f"; its log says: {'; '.join(_one_line(line) for line in log)}" if log else ""


def _one_line(text: str) -> str:
    return " ".join(text.split()).rstrip(" ;.")


def _short(wanted: Wanted, found: Server) -> str:
    ready = ", ".join(map(str, found.ready(wanted.model))) or "none"
    if found.ready(wanted.model) == wanted.versions:
        return "the server reports success and keeps the content that it had"
    if wanted.repository:
        return "the server reports success, and neither its versions nor its config are as they were asked for"
    return f"of the versions {', '.join(map(str, wanted.versions))} that should be READY, {ready} are"
