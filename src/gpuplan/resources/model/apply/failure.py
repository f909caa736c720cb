"""Why a model did not load or unload: diagnostics with the reason from the server's index, its answer, or its log."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from gpuplan.resources.model.read import ModelServer
from gpuplan.resources.model.spec import ModelSpec
from gpuplan.types.address import Address
from gpuplan.types.change import Step
from gpuplan.types.diagnostic import Diagnostic, Problem

if TYPE_CHECKING:
    import docker

LOG_LINES = 20_000
"""Last lines of a log that are read; a verbose server writes many while it loads."""
MAX_ERRORS = 4
"""Errors of a log that are shown."""
_NO_MEMORY = re.compile(
    r"out of memory|cuda_?malloc|OUT_OF_MEMORY|memory ?allocation (?:failed|failure)|failed to allocate|bad_alloc|"
    r"ALLOC_FAILED|ResourceExhausted|OOM when allocating",
    re.IGNORECASE,
)
"""What CUDA and the frameworks report if GPU memory does not suffice."""
_LOAD_FAILED = re.compile(r"^load failed for model '[^']*': ")
_ERROR_LINE = re.compile(r"^E\d{4} |^\S+ E |libprotobuf ERROR|pb_stub\.cc|^(?:Poll f|F|f)ailed ")
"""Lines of level error in both of Triton's formats, and errors without a level."""
_LOG_HEAD = re.compile(
    r"^(?:[EWI]\d{4} \S+ \d+|\S+ [EWI] \d+|\[libprotobuf ERROR) (?P<source>[\w./-]+:\d+)\] ?(?P<text>.*)$"
)


def not_loaded(
    step: Step, spec: ModelSpec, server: ModelServer, error: str, log: Sequence[str], unloaded: Sequence[str] = ()
) -> Diagnostic:
    """The load ended, and the index does not show the model as it should be.

    `unloaded` are models that the same change set unloaded from the server before.
    """
    model, container = spec.model, spec.container
    if model not in server.index:
        return _not_listed(step, spec, log)
    ready = ", ".join(map(str, server.ready(model)))
    serving = f" The previous content is still served (version {ready})." if ready else ""
    reason = _reason(error, log) or server.reason(model) or _mismatch(spec, server)
    if not _NO_MEMORY.search(reason):
        fix = "Correct the model's files or config, then run gpuplan apply again."
    elif unloaded:
        serving += f" {', '.join(unloaded)} had just been unloaded, but frameworks do not free all of their memory."
        fix = f"Restart the container, which loads its other models again, then apply:\n    docker restart {container}"
    else:
        fix = "Unload models or reduce instances on its GPU. With memory: on each model, gpuplan plan checks the sum."
    detail = f"{model} did not load on {container}: {reason}.{serving}"
    return Diagnostic("The model did not load", detail, fix, address=str(step.address))


def load_timed_out(step: Step, spec: ModelSpec, log: Sequence[str]) -> Diagnostic:
    """The load did not end in time."""
    return Diagnostic(
        "The model load timed out",
        f"{spec.model} is still loading on {spec.container} after {spec.load_timeout:g} s{_logged(log)}.",
        f"Check docker logs {spec.container}. If the load is slow, raise load_timeout; if it hangs, correct the model "
        f"and restart the container (docker restart {spec.container}), then run gpuplan apply again.",
        address=str(step.address),
    )


def not_unloaded(step: Step, model: str, server: ModelServer, error: str) -> Diagnostic:
    """The model is still loaded."""
    why = error or f"it is still {server.state(model)}; it may have requests in flight"
    fix = "Stop the clients that send requests to it, then run gpuplan apply again."
    return Diagnostic("The model did not unload", f"{model}: {why}.", fix, address=str(step.address))


def still_loading(step: Step, container: str, model: str) -> Diagnostic:
    """The model cannot be unloaded while it is being loaded."""
    return Diagnostic(
        "The model did not unload",
        f"{model} is still loading on {container}, and the server does not unload it before that ends.",
        f"Check docker logs {container}. If the load hangs, restart the container, which loads its other models again "
        f"(docker restart {container}), then run gpuplan apply again; if it is slow, apply again when it has ended.",
        address=str(step.address),
    )


def server_unreachable(step: Step, container: str, why: str) -> Diagnostic:
    """The server cannot be asked."""
    return Diagnostic(
        "The Triton server does not answer",
        f"Cannot reach the server in {container}: {why}.",
        f"Check its log: docker logs {container}",
        address=str(step.address),
    )


def list_unchanged(step: Step, container: str) -> Diagnostic:
    """The agent reported success, but the list for the startup is not as it was written."""
    return Diagnostic(
        "The step had no effect",
        f"The list of models that {container} loads at startup is not as it was just written.",
        "Another process may be changing the node. Run gpuplan plan to see its current state.",
        address=str(step.address),
    )


def hides_cause(error: str) -> bool:
    """Whether an error says nothing about its cause, which then is only in the log."""
    return "failed to poll" in error


class ServerLog:
    """The log of one container since a time of its node's clock (RFC 3339, in whole seconds).

    It is read only after a failure: a connection to the engine takes longer than the load of a small model.
    """

    def __init__(self, engine: Callable[[], docker.APIClient], container: str, since: str) -> None:
        self._engine = engine
        self._container = container
        self._since = _unix_time(since)

    def errors(self, model: str, others: Sequence[str]) -> tuple[str, ...]:
        """The last errors, each once and without time stamp.

        Models load in parallel, so errors that name one of the `others` are left out. An error that names no model
        belongs to the next one that does: Triton reports what is wrong in a text before it names the text's model.
        """
        errors = [_text(line) for line in self._lines() if _ERROR_LINE.search(line)]
        return tuple(dict.fromkeys(_about(model, others, errors)))[-MAX_ERRORS:]

    def _lines(self) -> Sequence[str]:
        from docker.errors import DockerException

        try:
            raw = self._engine().logs(self._container, tail=LOG_LINES, since=self._since)
        except (DockerException, OSError, Problem):  # an unreadable log must not hide the failure
            return ()
        return [line for line in raw.decode("utf-8", "replace").splitlines() if line.strip()]


def _not_listed(step: Step, spec: ModelSpec, log: Sequence[str]) -> Diagnostic:
    if spec.repository:
        seen_by = "on the node" if spec.repository.startswith("/") else "as the server reads it"
        return Diagnostic(
            "The model is not in the repository",
            f"{spec.model} is not in {spec.repository} {seen_by}{_logged(log)}.",
            f"Add it as {spec.model}/1/…, then run gpuplan apply again; or remove it from the plan file.",
            address=str(step.address),
        )
    return Diagnostic(
        "The Triton server does not find the model's files",
        f"{spec.model} is in the repository on the node, but {spec.container} does not list it{_logged(log)}.",
        "Its mount may be of a deleted directory. Replace the container: gpuplan apply --replace "
        f"'{Address(step.address.node, 'container', spec.container)}'",
        address=str(step.address),
    )


def _reason(error: str, log: Sequence[str]) -> str:
    """The server's error in one line, or the log's lines if it hides its cause."""
    if hides_cause(error) and log:
        return "; ".join(map(_one_line, log))
    return _one_line(_LOAD_FAILED.sub("", error))


def _mismatch(spec: ModelSpec, server: ModelServer) -> str:
    ready = server.ready(spec.model)
    if ready == spec.versions:
        return "the server reports success, but still has the previous content"
    if spec.repository:
        return "the server reports success, but its versions or config are not the requested ones"
    versions = ", ".join(map(str, spec.versions))
    return f"versions {versions} should be READY, but only {', '.join(map(str, ready)) or 'none'} is"


def _logged(log: Sequence[str]) -> str:
    return f"; its log says: {'; '.join(map(_one_line, log))}" if log else ""


def _one_line(text: str) -> str:
    return " ".join(text.split()).rstrip(" ;.")


def _about(model: str, others: Sequence[str], errors: Sequence[str]) -> Iterator[str]:
    """The errors that are, or may be, about one model."""
    unnamed: list[str] = []
    for error in errors:
        if _names(error, [model]):
            yield from (*unnamed, error)
        elif not _names(error, others):
            unnamed.append(error)
            continue
        unnamed = []
    yield from unnamed


def _names(text: str, models: Sequence[str]) -> bool:
    """Whether a text names one of the models, an instance of it (NAME_0_0), or a file of it."""
    alternatives = "|".join(map(re.escape, models))
    return bool(models) and re.search(rf"(?<![\w.-])(?:{alternatives})(?:_\d+)*(?![\w-]|\.\w)", text) is not None


def _unix_time(timestamp: str) -> int | None:
    """None, for the whole log, if it is no timestamp."""
    try:
        return int(datetime.fromisoformat(timestamp).timestamp())
    except ValueError:
        return None


def _text(line: str) -> str:
    match = _LOG_HEAD.match(line)
    return (match["text"] if match else line).strip().strip('"')
