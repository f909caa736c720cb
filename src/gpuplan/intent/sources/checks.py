"""First checks of a model: what Triton would refuse, hide in its log, or hang on, told before a node is touched."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpuplan.catalog import modelconfig
from gpuplan.intent.sources.render import place
from gpuplan.intent.sources.scan import Scan
from gpuplan.model.diagnostic import Diagnostic, Location
from gpuplan.model.value import JsonObject, as_list, as_object

MODEL_FILES: Mapping[str, tuple[str, ...]] = {
    "python": ("model.py",),
    "onnxruntime": ("model.onnx",),
    "tensorrt": ("model.plan",),
    "pytorch": ("model.pt",),
    "tensorflow": ("model.savedmodel", "model.graphdef"),
    "openvino": ("model.xml",),
    "dali": ("model.dali", "dali.py"),
    "vllm": ("model.json",),
}
"""What each backend looks for in a version directory (model_repository.md, and each backend's README)."""
PLATFORMS: Mapping[str, str] = {
    "onnxruntime_onnx": "onnxruntime",
    "tensorrt_plan": "tensorrt",
    "pytorch_libtorch": "pytorch",
    "tensorflow_savedmodel": "tensorflow",
    "tensorflow_graphdef": "tensorflow",
}


@dataclass(frozen=True)
class Subject:
    """One model about to be rendered."""

    name: str
    scan: Scan
    text: str
    """The source's own config.pbtxt; empty where there is none."""
    config: JsonObject
    """The final config."""
    versions: Sequence[int]
    """The versions that will be served."""
    others: Collection[str]
    """The models that the same container serves."""
    container: str
    release: str
    """The Triton release of the container's image, such as ``24.10``; empty where its tag does not say."""
    where: Callable[..., Location]
    """Where the plan file states something of this model."""

    @property
    def config_file(self) -> str:
        """Path of the source's config.pbtxt, for messages."""
        return str(self.scan.root / "config.pbtxt")

    @property
    def ensemble(self) -> bool:
        """True where the model is composed of others."""
        return "ensemble_scheduling" in self.config or self.config.get("platform") == "ensemble"


def check(subject: Subject) -> Iterator[Diagnostic]:
    """Everything wrong with one model."""
    yield from _name(subject)
    yield from _too_young(subject)
    yield from _version_directories(subject)
    if subject.ensemble:
        yield from _steps(subject)
    else:
        yield from _model_files(subject)


def parts_of(config: JsonObject) -> tuple[str, ...]:
    """The models that an ensemble is composed of, each once, in the order of its steps."""
    steps = as_list(as_object(config.get("ensemble_scheduling", {})).get("step", []))
    return tuple(dict.fromkeys(str(as_object(step).get("model_name", "")) for step in steps))


def _name(subject: Subject) -> Iterator[Diagnostic]:
    stated = subject.config.get("name", subject.name)
    if stated == subject.name:
        return
    found = re.search(rf'\bname\s*:\s*["\']{re.escape(str(stated))}["\']', subject.text)
    where = place(subject.text, found.start(), subject.config_file) if found else subject.where("config", "name")
    yield Diagnostic(
        "A model's config has another name",
        f"The config says {stated}, and the plan file calls the model {subject.name}; Triton wants them equal.",
        "Take the name out of the config; gpuplan writes it.",
        where,
    )


def _too_young(subject: Subject) -> Iterator[Diagnostic]:
    for path, first in modelconfig.younger(subject.config, subject.release) if subject.release else ():
        name = path.rpartition(".")[2]
        found = re.search(rf"\b{name}\b", subject.text)
        top = path.partition(".")[0]
        yield Diagnostic(
            "A field that this Triton does not know",
            f"{path} came with {first}, and {subject.container} runs {subject.release}, which would refuse the config.",
            "Take the field out, or use a later image.",
            place(subject.text, found.start(), subject.config_file) if found else subject.where("config", top),
        )


def _version_directories(subject: Subject) -> Iterator[Diagnostic]:
    root = subject.scan.root
    if not subject.scan.versions:
        marker = f"{root}/1/.gitkeep" if subject.ensemble else f"{root}/1/"
        yield Diagnostic(
            "A model has no version directory",
            f"{root} holds no directory whose name is a number; Triton serves versions"
            f"{', and wants an empty one for an ensemble too' if subject.ensemble else ''}.",
            f"Make one: {marker}",
            Location(str(root)),
        )
        return
    policy = as_object(as_object(subject.config.get("version_policy", {})).get("specific", {}))
    for version in as_list(policy.get("versions", [])):
        if version not in subject.scan.versions:
            present = ", ".join(map(str, subject.scan.versions))
            yield Diagnostic(
                "A wanted version is not there",
                f"Version {version} of {subject.name} is asked for, and {root} holds {present}.",
                "Add the directory, or ask for versions that are there.",
                subject.where("versions"),
            )


def _model_files(subject: Subject) -> Iterator[Diagnostic]:
    names = _expected(subject.config)
    for version in subject.versions:
        if names and not any(subject.scan.below(f"{version}/{name}") for name in names):
            backend = _backend(subject.config)
            what = f"the {backend} backend loads" if backend else "Triton knows a backend by"
            hangs = "; without it Triton never answers the load" if backend == "python" else ""
            yield Diagnostic(
                "A version has no model file",
                f"{subject.scan.root}/{version} holds none of what {what}: {', '.join(names)}{hangs}.",
                "Put the file there, or name it with default_model_filename.",
                Location(f"{subject.scan.root}/{version}"),
            )


def _expected(config: JsonObject) -> tuple[str, ...]:
    if named := config.get("default_model_filename"):
        return (str(named),)
    if by_device := as_object(config.get("cc_model_filenames", {})):
        return tuple(dict.fromkeys(map(str, by_device.values())))
    backend = _backend(config)
    if not backend:
        return tuple(name for names in MODEL_FILES.values() for name in names)
    return MODEL_FILES.get(backend, ())


def _backend(config: JsonObject) -> str:
    return str(config.get("backend") or PLATFORMS.get(str(config.get("platform", "")), config.get("platform", "")))


def _steps(subject: Subject) -> Iterator[Diagnostic]:
    for part in parts_of(subject.config):
        if part in subject.others and part != subject.name:
            continue
        found = re.search(rf'\bmodel_name\s*:\s*["\']{re.escape(part)}["\']', subject.text)
        where = place(subject.text, found.start(), subject.config_file) if found else subject.where("config")
        yield Diagnostic(
            "An ensemble names a model that is not served beside it",
            f"{subject.name} is composed of {part or 'a nameless model'}, which {subject.container} does not serve.",
            f"Add {subject.container} to the containers of that model, or correct the step.",
            where,
        )
