"""Checks of what a model says it is: its name, its backend, and the release that knows its fields."""

from __future__ import annotations

from gpuplan.triton import model_config
from gpuplan.triton.backends import BACKENDS, missing_in
from gpuplan.triton.lint.check import Check, Effect, Family, Findings
from gpuplan.triton.lint.repository import PLATFORMS, Repository, Subject, listed, objects, text
from gpuplan.types.diagnostic import Diagnostic, Severity

NAME = Check("model-name", "A model's config has another name", Effect.REFUSED)
YOUNG = Check("field-release", "A field that this Triton does not know", Effect.REFUSED)
MISSING = Check("backend-missing", "A model has no backend", Effect.REFUSED)
PLATFORM = Check("platform", "A platform that is none", Effect.REFUSED)
PAIR = Check("platform-backend", "Platform and backend do not fit", Effect.REFUSED)
UNKNOWN = Check("backend-unknown", "A backend that is not known", Effect.REFUSED, Severity.WARNING)
ABSENT = Check("backend-not-in-image", "A backend that the image does not have", Effect.REFUSED)
RUNTIME = Check("backend-runtime", "A runtime that the backend does not have", Effect.REFUSED)
AGENT = Check("repository-agent", "A repository agent must be in the image", Effect.REFUSED, Severity.WARNING)

_STRICT = set(PLATFORMS.values())
"""Backends whose platform, where one is stated, must be theirs."""


_WRITTEN_IN_PYTHON = ("model.py",)
"""The runtime of backends that are Python code, such as vllm, and pytorch for PyTorch 2 (README of pytorch_backend)."""


def _name(subject: Subject, _: Repository) -> Findings:
    stated = text(subject.config.get("name")) or subject.name
    if stated != subject.name:
        yield NAME.at(
            subject.where("name"),
            f"The config says {stated}, and the model is called {subject.name}; Triton wants them equal.",
            "Take the name out of the config: it is that of the directory.",
        )


def _young(subject: Subject, repository: Repository) -> Findings:
    server = repository.server
    for path, first in model_config.younger(subject.config, server.release) if server.release else ():
        yield YOUNG.at(
            subject.where(*path.split(".")),
            f"{path} came with {first}, and {server.name} runs {server.release}, which would refuse the config.",
            "Take the field out, or use a later image.",
        )


def _backend(subject: Subject, repository: Repository) -> Findings:
    platform, backend = text(subject.config.get("platform")), text(subject.config.get("backend"))
    if subject.ensemble:
        return
    if not subject.backend and platform:
        yield PLATFORM.at(
            subject.where("platform"),
            f"{subject.name} has the platform {platform}, and Triton knows {', '.join(PLATFORMS)} and ensemble.",
            f'Write backend: "{platform}"' if platform in BACKENDS else "State backend: in its place.",
        )
    elif not subject.backend:
        yield MISSING.at(
            subject.where(),
            f"{subject.name} states no backend, and no version of it holds a file by which Triton would know one.",
            'State backend: "python" (or another one) in config.pbtxt.',
        )
    elif platform and backend in _STRICT and PLATFORMS.get(platform) != backend:
        yield PAIR.at(
            subject.where("platform"),
            f"{subject.name} has the backend {backend} and the platform {platform}.",
            "Take the platform out; the backend says it all.",
        )
    if subject.backend:
        yield from _in_image(subject, repository)


def _in_image(subject: Subject, repository: Repository) -> Findings:
    server, backend = repository.server, subject.backend
    where = subject.where("backend")
    if (why := missing_in(server.image, server.release, backend)) is not None:
        yield ABSENT.at(where, f"{subject.name} wants the backend {backend}: {why}.", "Use an image that has it.")
    own = f"libtriton_{backend}.so"
    runtime = text(subject.config.get("runtime")) or own
    if _carries(subject, runtime):
        return
    if backend in BACKENDS:
        if runtime not in (own, *_WRITTEN_IN_PYTHON) or (runtime != own and backend == "python"):
            yield _foreign(subject, runtime, own)
        return
    near = model_config.nearest(backend, BACKENDS)
    yield UNKNOWN.at(
        where,
        f"{subject.name} wants the backend {backend}, which none of Triton's images has{near}.",
        f"Correct the name, or bring {own} in the image or beside the model.",
        Severity.ERROR if near else None,
    )


def _carries(subject: Subject, library: str) -> bool:
    """True where the library of a backend lies where Triton looks first: in a version, or beside the versions.

    It looks there for shared objects alone, not for the code of a backend that is written in Python.
    """
    return library.endswith(".so") and any(
        path in subject.files for path in (library, *(f"{version}/{library}" for version in subject.versions))
    )


def _foreign(subject: Subject, runtime: str, own: str) -> Diagnostic:
    return RUNTIME.at(
        subject.where("runtime"),
        f"{subject.name} wants the library {runtime}, and the {subject.backend} backend of Triton's images is {own}.",
        f"Take runtime out, or bring {runtime} beside the model.",
    )


def _agents(subject: Subject, _: Repository) -> Findings:
    for number, agent in enumerate(listed(objects(subject.config, "model_repository_agents"), "agents")):
        name = text(agent.get("name"))
        yield AGENT.at(
            subject.where("model_repository_agents", "agents", number),
            f"{subject.name} is only loaded where the image has libtritonrepoagent_{name}.so.",
            "Look into /opt/tritonserver/repoagents of the image.",
        )


FAMILY = Family(
    (NAME, YOUNG, MISSING, PLATFORM, PAIR, UNKNOWN, ABSENT, RUNTIME, AGENT), (_name, _young, _backend, _agents)
)
