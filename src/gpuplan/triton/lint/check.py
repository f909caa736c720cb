"""What a check is: an id, how bad its finding is, and what Triton does if it is ignored."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from gpuplan.types.diagnostic import Diagnostic, Location, Severity
from gpuplan.types.value import Json, JsonObject

# What is checked: the models of one server, each with its files and its config, and the server that they are for.

PLATFORMS: Mapping[str, str] = {
    "onnxruntime_onnx": "onnxruntime",
    "tensorrt_plan": "tensorrt",
    "pytorch_libtorch": "pytorch",
    "tensorflow_savedmodel": "tensorflow",
    "tensorflow_graphdef": "tensorflow",
}
"""Platform → the backend that it stands for (model_config_utils.cc of triton-inference-server/core)."""
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
_INFERRED = ("tensorflow", "tensorrt", "onnxruntime", "openvino", "pytorch", "python")
"""The backends that Triton knows by a file, in its order."""


@dataclass(frozen=True)
class VisibleGpu:
    """One GPU or slice that a server sees."""

    name: str
    capability: str = ""
    """CUDA compute capability such as ``8.0``; empty where it is not known."""


@dataclass(frozen=True)
class TargetServer:
    """The server that the models are for. What is None or empty is not known, and nothing is held against it."""

    name: str = "the server"
    release: str = ""
    """Triton's release, such as ``24.10``."""
    image: str = ""
    gpus: tuple[VisibleGpu, ...] | None = None
    shm_size: int | None = None
    """Bytes of /dev/shm."""
    flags: Mapping[str, tuple[str, ...]] | None = None
    """Options of `tritonserver` without their dashes → the values given."""
    flags_are_checked: bool = False
    """True if the flags are checked elsewhere."""
    completion_is_stated: bool = False
    """True where the operator decided whether the server fills in what a config leaves out."""
    where: Callable[..., Location] = lambda *_: Location("")
    """Where something of the server is stated: ``where("shm_size")``."""

    def flag(self, name: str) -> tuple[str, ...]:
        """The values of a flag; empty if it is not given or not known."""
        return (self.flags or {}).get(name, ())

    @property
    def completes_configs(self) -> bool:
        """True if the server completes configs, which is its default."""
        off = self.flag("disable-auto-complete-config") or self.flag("strict-model-config")[-1:] == ("true",)
        return not off and not (self.release and self.release < "22.07" and not self.flag("strict-model-config"))


@dataclass(frozen=True)
class LintedModel:
    """One model as the server will find it."""

    name: str
    root: Path
    files: Mapping[str, Path]
    """Path relative to the model's directory → where it lies; the operator's own files."""
    folders: Sequence[str]
    """Directories right below the model's."""
    versions: Sequence[int]
    """Those of the folders that are versions."""
    config: JsonObject
    """The final config."""
    wanted: Sequence[int]
    """The versions that will be served."""
    where: Callable[..., Location]
    """Where a field of the config is stated: ``where("instance_group", 0, "gpus")``."""
    stated_versions: Sequence[int] = ()
    """Versions that a plan file asks for by number."""
    misread: Mapping[str, int] = field(default_factory=dict)
    """Directories that are no versions → the version that Triton would take them for and serve, or fail to count."""

    @property
    def ensemble(self) -> bool:
        """True where the model is composed of others."""
        return "ensemble_scheduling" in self.config or self.config.get("platform") == "ensemble"

    @property
    def backend(self) -> str:
        """The backend that serves it, as Triton would find it out; empty where it could not."""
        named = text(self.config.get("backend")) or PLATFORMS.get(text(self.config.get("platform")), "")
        if named or self.ensemble or self.config.get("platform"):
            return named
        file = text(self.config.get("default_model_filename"))
        seen = {file} if file else {name for version in self.versions[:1] for name in self.below(str(version))}
        found = next((backend for backend in _INFERRED if seen & set(MODEL_FILES[backend])), "")
        return found or (self.name.rpartition(".")[2] if "." in self.name and not file else "")

    @property
    def model_files(self) -> tuple[str, ...]:
        """The names of which one must lie in each version; empty if unknown."""
        by_capability = objects(self.config, "cc_model_filenames")
        if by_capability and self.backend != "python":  # the Python backend does not read it
            named = [text(name) for name in by_capability.values()]
            return (*named, *filter(None, [text(self.config.get("default_model_filename"))]))
        if named_file := text(self.config.get("default_model_filename")):
            return (named_file,)
        platform = text(self.config.get("platform"))
        if platform in ("tensorflow_savedmodel", "tensorflow_graphdef"):
            return (f"model.{platform.removeprefix('tensorflow_')}",)
        return MODEL_FILES.get(self.backend, ())

    def below(self, folder: str) -> tuple[str, ...]:
        """The names of what lies right in a folder."""
        start = f"{folder}/"
        inside = (path[len(start) :].partition("/")[0] for path in self.files if path.startswith(start))
        return tuple(dict.fromkeys(inside))

    def holds(self, path: str) -> bool:
        """True where a file or a directory with files lies at the path."""
        return path in self.files or any(other.startswith(f"{path}/") for other in self.files)

    def parts(self) -> tuple[str, ...]:
        """The models that it is composed of, each once, in the order of its steps."""
        steps = listed(objects(self.config, "ensemble_scheduling"), "step")
        return tuple(dict.fromkeys(text(step.get("model_name")) for step in steps))


@dataclass(frozen=True)
class LintedRepository:
    """All models of one server."""

    server: TargetServer
    models: Mapping[str, LintedModel] = field(default_factory=dict)
    unread: frozenset[str] = frozenset()
    """Models that are there and whose configs could not be read; nothing is said of what they have or lack."""
    whole: bool = True
    """False where there may be models that are not in sight."""


def text(value: Json) -> str:
    """A text, or an empty one in place of anything else."""
    return value if isinstance(value, str) else ""


def number(value: Json, otherwise: int = 0) -> int:
    """A whole number, or another one in place of anything else."""
    return value if isinstance(value, int) else otherwise


def objects(config: JsonObject, name: str) -> JsonObject:
    """A field that is a message or a map; empty where it is not stated."""
    value = config.get(name)
    return value if isinstance(value, Mapping) else {}


def listed(config: JsonObject, name: str) -> tuple[JsonObject, ...]:
    """A field that is a list of messages; empty where it is not stated."""
    value = config.get(name)
    return tuple(each for each in value if isinstance(each, Mapping)) if isinstance(value, list | tuple) else ()


def plain(config: JsonObject, name: str) -> tuple[Json, ...]:
    """A field that is a list of numbers or texts; empty where it is not stated."""
    value = config.get(name)
    return tuple(value) if isinstance(value, list | tuple) else ()


class Effect(enum.Enum):
    """What Triton does with what a check finds."""

    REFUSED = "the load fails"
    HANGS = "the load never ends"
    KILLS = "the load ends the whole server"
    STOPS = "the server does not start"
    WRONG = "it loads, and serves wrong or fails when it is used"
    LATE = "it loads, later than it could"
    IGNORED = "it loads, and what was stated has no effect"


@dataclass(frozen=True)
class Check:
    """One thing that is looked for. Its id is a promise: plan files silence checks by it."""

    id: str
    summary: str
    """Holds no name of the operator's."""
    effect: Effect
    severity: Severity = Severity.ERROR
    fixed: bool = False
    """True for what cannot be silenced, since nothing can be made of a model that has it."""

    def at(self, where: Location, detail: str, fix: str = "", severity: Severity | None = None) -> Diagnostic:
        """The finding at one place."""
        return Diagnostic(self.summary, detail, fix, where, severity=severity or self.severity, check=self.id)


Findings: TypeAlias = Iterator[Diagnostic]
LintModel: TypeAlias = Callable[[LintedModel, LintedRepository], Findings]
"""Looks at one model, in sight of the others of its server."""
LintServer: TypeAlias = Callable[[LintedRepository], Findings]
"""Looks at all models of a server together."""


@dataclass(frozen=True)
class CheckGroup:
    """Checks of one subject matter, in one file."""

    checks: tuple[Check, ...]
    model_checks: tuple[LintModel, ...] = ()
    server_checks: tuple[LintServer, ...] = ()
