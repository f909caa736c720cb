"""Checks of what a model says it is: its name, its backend, and the release that knows its fields."""

from __future__ import annotations

from collections.abc import Iterator

from gpuplan.triton import model_config
from gpuplan.triton.lint.check import (
    PLATFORMS,
    Check,
    CheckGroup,
    Effect,
    Findings,
    LintedModel,
    LintedRepository,
    listed,
    number,
    objects,
    text,
)
from gpuplan.triton.lint.python import sources
from gpuplan.triton.lint.tensors import SELF_DESCRIBING
from gpuplan.triton.releases import BACKENDS, missing_in
from gpuplan.types.diagnostic import Diagnostic, Severity

NAME = Check("model-name", "Model name in config.pbtxt differs", Effect.REFUSED)
YOUNG = Check("field-release", "This Triton release does not know a field", Effect.REFUSED)
MISSING = Check("backend-missing", "A model has no backend", Effect.REFUSED)
PLATFORM = Check("platform", "Unknown platform", Effect.REFUSED)
PAIR = Check("platform-backend", "Platform and backend do not match", Effect.REFUSED)
UNKNOWN = Check("backend-unknown", "Unknown backend", Effect.REFUSED, Severity.WARNING)
ABSENT = Check("backend-not-in-image", "The image does not have the backend", Effect.REFUSED)
RUNTIME = Check("backend-runtime", "The backend does not have the runtime", Effect.REFUSED)
AGENT = Check("repository-agent", "A repository agent must be in the image", Effect.REFUSED, Severity.WARNING)

_STRICT = set(PLATFORMS.values())
"""Backends whose platform, where one is stated, must be theirs."""


_WRITTEN_IN_PYTHON = ("model.py",)
"""The runtime of backends that are Python code, such as vllm, and pytorch for PyTorch 2 (README of pytorch_backend)."""


def _name(model: LintedModel, _: LintedRepository) -> Findings:
    stated = text(model.config.get("name")) or model.name
    if stated != model.name:
        yield NAME.at(
            model.where("name"),
            f"The config says {stated}, and the model is called {model.name}; Triton requires them to be equal.",
            "Remove the name from the config: the directory's name is used.",
        )


def _young(model: LintedModel, repository: LintedRepository) -> Findings:
    server = repository.server
    for path, first in model_config.younger(model.config, server.release) if server.release else ():
        yield YOUNG.at(
            model.where(*path.split(".")),
            f"{path} came with {first}, and {server.name} runs {server.release}, which would refuse the config.",
            "Remove the field, or use a later image.",
        )


def _backend(model: LintedModel, repository: LintedRepository) -> Findings:
    platform, backend = text(model.config.get("platform")), text(model.config.get("backend"))
    if model.ensemble:
        return
    if not model.backend and platform:
        yield PLATFORM.at(
            model.where("platform"),
            f"{model.name} has the platform {platform}, and Triton knows {', '.join(PLATFORMS)} and ensemble.",
            f'Write backend: "{platform}"' if platform in BACKENDS else "State backend: instead.",
        )
    elif not model.backend:
        yield MISSING.at(
            model.where(),
            f"{model.name} states no backend, and no version of it holds a file by which Triton would know one.",
            'State backend: "python" (or another one) in config.pbtxt.',
        )
    elif platform and backend in _STRICT and PLATFORMS.get(platform) != backend:
        yield PAIR.at(
            model.where("platform"),
            f"{model.name} has the backend {backend} and the platform {platform}.",
            "Remove the platform; the backend is enough.",
        )
    if model.backend:
        yield from _in_image(model, repository)


def _in_image(model: LintedModel, repository: LintedRepository) -> Findings:
    server, backend = repository.server, model.backend
    where = model.where("backend")
    if (why := missing_in(server.image, server.release, backend)) is not None:
        yield ABSENT.at(where, f"{model.name} wants the backend {backend}: {why}.", "Use an image that has it.")
    own = f"libtriton_{backend}.so"
    runtime = text(model.config.get("runtime")) or own
    if _carries(model, runtime):
        return
    if backend in BACKENDS:
        if runtime not in (own, *_WRITTEN_IN_PYTHON) or (runtime != own and backend == "python"):
            yield _foreign(model, runtime, own)
        return
    near = model_config.nearest(backend, BACKENDS)
    yield UNKNOWN.at(
        where,
        f"{model.name} wants the backend {backend}, which none of Triton's images has{near}.",
        f"Correct the name, or bring {own} in the image or next to the model.",
        Severity.ERROR if near else None,
    )


def _carries(model: LintedModel, library: str) -> bool:
    """True where the library of a backend lies where Triton looks first: in a version, or next to the versions.

    It looks there for shared objects alone, not for the code of a backend that is written in Python.
    """
    return library.endswith(".so") and any(
        path in model.files for path in (library, *(f"{version}/{library}" for version in model.versions))
    )


def _foreign(model: LintedModel, runtime: str, own: str) -> Diagnostic:
    return RUNTIME.at(
        model.where("runtime"),
        f"{model.name} wants the library {runtime}, and the {model.backend} backend of Triton's images is {own}.",
        f"Remove runtime, or put {runtime} next to the model.",
    )


def _agents(model: LintedModel, _: LintedRepository) -> Findings:
    for index, agent in enumerate(listed(objects(model.config, "model_repository_agents"), "agents")):
        name = text(agent.get("name"))
        yield AGENT.at(
            model.where("model_repository_agents", "agents", index),
            f"{model.name} is only loaded where the image has libtritonrepoagent_{name}.so.",
            "Look in /opt/tritonserver/repoagents of the image.",
        )


# --- What a config leaves to the server. With auto-completion on, a server starts each Python model once more just to
# ask it for its config, which takes 1.2 s. ---

INCOMPLETE = Check("config-incomplete", "Incomplete config.pbtxt", Effect.LATE, Severity.WARNING)


def missing_config(model: LintedModel) -> tuple[str, ...]:
    """What a server would complete in the model's config, in words; nothing where the config says all.

    Of a backend that reads models by itself a `max_batch_size` of 0 may become another one (model_configuration.md,
    “Default Max Batch Size”).
    """
    return () if model.ensemble else tuple(_lacking(model))


def _lacking(model: LintedModel) -> Iterator[str]:
    if not text(model.config.get("backend")) and not text(model.config.get("platform")):
        yield "backend"
    for kind in ("input", "output"):
        stated = listed(model.config, kind)
        if not stated:
            yield kind
        for tensor in stated:
            absent = [name for name in ("data_type", "dims") if tensor.get(name) in (None, [], "TYPE_INVALID")]
            yield from (f"{name} of {kind} {text(tensor.get('name'))}" for name in absent)
    if model.backend in SELF_DESCRIBING and not number(model.config.get("max_batch_size")):
        yield "max_batch_size"
    if any(source.method("auto_complete_config") for source in sources(model)):
        yield "what auto_complete_config of its model.py adds"


def _incomplete(model: LintedModel, repository: LintedRepository) -> Findings:
    """Only if it costs something and the operator has not decided it. Unknown tensors are another check's finding."""
    server = repository.server
    absent = missing_config(model)
    python = [name for name, each in repository.models.items() if each.backend == "python"]
    own = "what auto_complete_config" in (absent[-1] if absent else "")
    if not absent or not python or not server.completes_configs or server.completion_is_stated:
        return
    if model.backend == "python" and not own:
        return
    slow = f"{len(python)} Python models" if len(python) > 1 else f"the Python model {python[0]}"
    yield INCOMPLETE.at(
        model.where(),
        f"{model.name} leaves out {', '.join(absent)}, so {server.name} keeps auto-completion on, and each load of "
        f"{slow} takes about a second longer.",
        "State it in config.pbtxt"
        + (", and take auto_complete_config out of model.py" if own else "")
        + "; or decide it for the whole server: triton: { auto_complete: false } takes every config as it stands.",
    )


CHECKS = CheckGroup(
    checks=(
        NAME,
        YOUNG,
        MISSING,
        PLATFORM,
        PAIR,
        UNKNOWN,
        ABSENT,
        RUNTIME,
        AGENT,
        INCOMPLETE,
    ),
    model_checks=(
        _name,
        _young,
        _backend,
        _agents,
        _incomplete,
    ),
)
