"""Reads and lints the source directories of the models of one container."""

from __future__ import annotations

import hashlib
import os
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuplan.nvidia.boards import find_board
from gpuplan.planfile.expand import PlacedContainer, containers_on, models_on, patterns_of
from gpuplan.planfile.schema import ContainerSection, ModelSection, PlanFile, TritonSection
from gpuplan.planfile.sources.config import ConfigLayer, marked, with_layers
from gpuplan.planfile.sources.files import CONFIG, SourceScan, sha256_of
from gpuplan.planfile.sources.read import ModelDraft, ModelReader, unreadable
from gpuplan.planfile.sources.repositories import credential_warnings
from gpuplan.triton.lint import (
    LintedRepository,
    LintResult,
    SilencedCheck,
    TargetServer,
    VisibleGpu,
    lint,
    missing_config,
)
from gpuplan.triton.releases import cache_flag, flags, release_of
from gpuplan.types.diagnostic import Diagnostic, Location, Problem, Severity
from gpuplan.types.inventory import Host
from gpuplan.types.value import JsonObject

ENGINE_DEFAULT = 64 << 20
"""Bytes of /dev/shm that Docker gives a container that states none."""
_NUMBER = "["


def server_of(plan: PlanFile, placed: PlacedContainer) -> TargetServer:
    """What is known of one model server before any node is asked."""
    container = placed.container
    release = release_of(container.image or "")
    return TargetServer(
        name=placed.name,
        release=release.name if release else "",
        image=container.image or "",
        gpus=_gpus(plan, container),
        shm_size=_shared_memory(container),
        flags=_flags(container.triton or TritonSection(), container.image or ""),
        flags_are_checked=True,
        completion_is_stated=container.triton is not None and container.triton.auto_complete is not None,
        where=lambda *path: plan.where(*placed.path, *path),
    )


def _gpus(plan: PlanFile, container: ContainerSection) -> tuple[VisibleGpu, ...] | None:
    """The GPUs and slices in the order in which they are stated; None where `select: all` leaves their number open."""
    if any(_numbered_by_all(plan, reference) for reference in container.gpus):
        return None
    return tuple(VisibleGpu(reference, _capability(plan, reference)) for reference in container.gpus)


def _numbered_by_all(plan: PlanFile, reference: str) -> bool:
    gpu = plan.gpus.get(reference.partition("/")[0])
    return gpu is not None and gpu.select == "all"


def _capability(plan: PlanFile, reference: str) -> str:
    """The compute capability, where the plan file selects the GPU by a product name that the catalog has."""
    gpu = plan.gpus.get(reference.partition("/")[0].partition(_NUMBER)[0])
    if gpu is None or gpu.select == "all" or gpu.select.model is None:
        return ""
    board = find_board(gpu.select.model)
    return board.compute_capability if board else ""


def _shared_memory(container: ContainerSection) -> int | None:
    if container.ipc not in (None, "private", "shareable"):
        return None
    return ENGINE_DEFAULT if container.shm_size is None else container.shm_size


def _flags(triton: TritonSection, image: str) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for stated, value in triton.flags.items():
        name, words = stated.removeprefix("--"), tuple(_words(value))
        switched_off = name in flags() and flags()[name].takes == "none" and words == ("false",)
        if not switched_off:
            found[name] = words
    if triton.auto_complete is False:
        found.setdefault("disable-auto-complete-config", ("true",))
    if triton.cache is not None:
        name, _, size = cache_flag(triton.cache, release_of(image)).removeprefix("--").partition("=")
        found.setdefault(name, (size,))
    return found


def _words(value: object) -> Iterator[str]:
    for each in value if isinstance(value, tuple) else (value,):
        yield str(each).lower() if isinstance(each, bool) else str(each)


@dataclass(frozen=True)
class SourceFile:
    """One file of a model on the node: its content comes from a file next to the plan file, or is a text of ours.

    An empty directory, which is how an ensemble's version looks, is a file without content: its path ends with a slash.
    """

    sha256: str
    size: int
    origin: str | None = None
    """Path relative to the plan file's folder."""
    text: str | None = None

    def json(self) -> JsonObject:
        """The form that a spec keeps."""
        content = {"from": self.origin, "text": self.text}
        stated = {name: value for name, value in content.items() if value is not None}
        return {"sha256": self.sha256, "size": self.size, **stated}


@dataclass(frozen=True)
class ModelSource:
    """One model as one container will have it."""

    model: str
    content: str
    """Digest of its files and its config."""
    files: Mapping[str, SourceFile]
    versions: tuple[int, ...]
    """The versions that Triton will serve."""
    parts: tuple[str, ...]
    """The models that it is composed of."""
    config: JsonObject
    """Its final config."""
    backend: str
    """The backend that serves it; empty where that is not known."""
    lacking: tuple[str, ...] = ()
    """What its config leaves to the server, in words."""


@dataclass(frozen=True)
class _Told:
    """What was read for one container."""

    sources: tuple[ModelSource, ...]
    faults: tuple[Diagnostic, ...]
    silenced: int


def sources_on(plan: PlanFile, host: Host, container: str) -> tuple[tuple[ModelSource, ...], tuple[Diagnostic, ...]]:
    """The models of one container of this host, and all that the checks say; a model with an error is left out.

    A source is read once for each plan file that was loaded: all nodes of one run get the same files.
    """
    home = next((placed for placed in containers_on(plan, host) if placed.name == container), None)
    if home is None:
        return (), ()
    known = _read_before(plan)
    key = (str(home.path[1]), home.name, home.container.gpus)
    if key not in known:
        known[key] = _read(plan, home, models_on(plan, host, container))
    return known[key].sources, known[key].faults


def silenced_count(plan: PlanFile) -> int:
    """How many findings the plan file's `ignore_checks` held back, as far as its sources were read."""
    return sum(problems.silenced for problems in _read_before(plan).values())


Models = tuple[tuple[str, ModelSection], ...]
"""The models of one container, as the plan file states them."""
_Key = tuple[str, str, tuple[str, ...]]
"""A container's name in the plan file, its own on the node, and its GPUs."""
_KNOWN: dict[int, dict[_Key, _Told]] = {}


def _read_before(plan: PlanFile) -> dict[_Key, _Told]:
    """What was read for this plan file; forgotten with it."""
    if id(plan) not in _KNOWN:
        _KNOWN[id(plan)] = {}
        weakref.finalize(plan, _KNOWN.pop, id(plan))
    return _KNOWN[id(plan)]


@dataclass(frozen=True)
class _Judged:
    """The models of one container that could be read, and what was found."""

    drafts: Mapping[str, ModelDraft]
    unread: tuple[Diagnostic, ...]
    verdict: LintResult

    def of(self, name: str) -> tuple[Diagnostic, ...]:
        """What there is to say of one model."""
        return (*self.drafts[name].faults, *self.verdict.models.get(name, ()))


def lint_models_on(plan: PlanFile, host: Host, home: PlacedContainer) -> tuple[tuple[Diagnostic, ...], int]:
    """All that the checks say of the models of one container, and how much was silenced; no file is hashed."""
    found = _judge(plan, home, models_on(plan, host, home.name))
    said = (each for name in found.drafts for each in found.of(name))
    return (*found.unread, *said, *found.verdict.server), found.verdict.silenced


def _judge(plan: PlanFile, home: PlacedContainer, stated: Models) -> _Judged:
    """Of models without a source nothing is seen from here."""
    models = tuple((name, model) for name, model in stated if model.source is not None)
    drafts: dict[str, ModelDraft] = {}
    faults: list[Diagnostic] = [*credential_warnings(plan, home)]
    for name, model in models:
        try:
            drafts[name] = ModelReader(plan, name, model, home).read()
        except Problem as problem:
            faults.extend(problem.diagnostics)
    subjects = {name: draft.subject for name, draft in drafts.items()}
    unread = frozenset(name for name, _ in models if name not in drafts)
    verdict = lint(LintedRepository(server_of(plan, home), subjects, unread), _silences(plan, models))
    return _Judged(drafts, tuple(faults), verdict)


def _read(plan: PlanFile, home: PlacedContainer, models: Models) -> _Told:
    found = _judge(plan, home, models)
    sources: list[ModelSource] = []
    faults = [*found.unread]
    for name, draft in found.drafts.items():
        problems = [*found.of(name)]
        if not any(each.severity is Severity.ERROR for each in problems):
            try:
                sources.append(_source(plan, draft))
            except Problem as problem:
                problems.extend(problem.diagnostics)
        faults.extend(problems)
    return _Told(tuple(sources), (*faults, *found.verdict.server), found.verdict.silenced)


def _silences(plan: PlanFile, models: Models) -> list[SilencedCheck]:
    return [
        SilencedCheck(each.id, each.reason, name, plan.where("models", name, "ignore_checks", number))
        for name, model in models
        for number, each in enumerate(model.ignore_checks)
    ]


def _source(plan: PlanFile, draft: ModelDraft) -> ModelSource:
    here = Location("")
    named = with_layers(draft.config, [ConfigLayer({"name": draft.subject.name}, lambda *_: here)])
    files = _files(plan, draft.scan)
    content, rendered = marked(named, {path: file.sha256 for path, file in files.items()})
    files[CONFIG] = _of_text(rendered)
    subject = draft.subject
    return ModelSource(
        subject.name,
        content,
        dict(sorted(files.items())),
        tuple(subject.wanted),
        subject.parts(),
        subject.config,
        subject.backend,
        missing_config(subject),
    )


def _files(plan: PlanFile, found: SourceScan) -> dict[str, SourceFile]:
    base = Path(plan.path).parent
    files: dict[str, SourceFile] = {}
    for path, source in found.files.items():
        if path == CONFIG:
            continue
        try:
            sha256, size = sha256_of(source)
        except OSError as fault:
            raise Problem(unreadable(source, fault.strerror or str(fault))) from None
        files[path] = SourceFile(sha256, size, Path(os.path.relpath(source, base)).as_posix())
    for version in found.versions:
        if not found.below(str(version)):
            files[f"{version}/"] = SourceFile("", 0)
    return files


def _of_text(text: str) -> SourceFile:
    raw = text.encode("utf-8")
    return SourceFile(hashlib.sha256(raw).hexdigest(), len(raw), text=text)


def lint_models(plan: PlanFile) -> tuple[tuple[Diagnostic, ...], int]:
    """What the checks say of every model on every server, each thing once, and how much was silenced.

    A pattern stands for a node of that name. A server whose GPUs or `each` need the groups of an inventory is left out.
    """
    found: dict[Diagnostic, None] = {}
    silenced: dict[tuple[str, str], int] = {}
    for host, placed in servers_without_inventory(plan):
        problems, held = lint_models_on(plan, host, placed)
        found.update(dict.fromkeys(problems))
        silenced[str(placed.path[1]), placed.name] = held
    return tuple(found), sum(silenced.values())


def servers_without_inventory(plan: PlanFile) -> Iterator[tuple[Host, PlacedContainer]]:
    """Every model server, on the nodes made up."""
    stated = [container.nodes for container in plan.containers.values() if container.triton is not None]
    for pattern in dict.fromkeys(pattern for nodes in stated for pattern in patterns_of(nodes)):
        host = Host(pattern)
        yield from ((host, placed) for placed in containers_on(plan, host) if placed.container.triton is not None)
