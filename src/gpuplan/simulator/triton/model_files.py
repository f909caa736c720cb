"""A model as Triton finds it on disk: polled, its config parsed and checked, its versions chosen."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpuplan.simulator.state import Document, items, mapping, text
from gpuplan.simulator.triton.describe import full
from gpuplan.triton.model_config import ConfigSyntaxError, empty, from_json, parse

if TYPE_CHECKING:
    from gpuplan.simulator.state import Document

_FILES = {"python": "model.py", "onnxruntime": "model.onnx", "tensorrt": "model.plan", "pytorch": "model.pt",
          "openvino": "model.xml", "tensorflow": "model.savedmodel", "fil": "xgboost.json",
          "dali": "model.dali"}  # fmt: skip
"""Backend → the file that it loads if the config names none (README of each backend)."""
_PLATFORMS = {"tensorrt_plan": "tensorrt", "onnxruntime_onnx": "onnxruntime", "pytorch_libtorch": "pytorch",
              "tensorflow_savedmodel": "tensorflow", "tensorflow_graphdef": "tensorflow"}  # fmt: skip


_VERSION = re.compile(r"^(?!0.) *([+-]?[0-9]+)")
"""How Triton reads the name of a directory as a version: by how it begins, and never with a leading zero."""


class PollFailed(Exception):
    """The model cannot be polled; the reason goes to the server's log, the client only learns that it failed."""


@dataclass(frozen=True)
class Polled:
    """One model of the repository."""

    name: str
    directory: Path
    shown: str
    """The directory's path inside the container, for messages."""
    modified: int
    config: Document
    backend: str
    steps: tuple[str, ...]
    versions: tuple[str, ...]
    override: str = ""
    """The config that a load call gave, where one did."""

    @property
    def file(self) -> str:
        """Name of the file that the backend loads."""
        return str(self.config.get("default_model_filename") or "") or _FILES.get(self.backend, "")


def poll(directory: Path, shown: str, auto_complete: bool, release: str, override: str = "") -> Polled:
    """Read one model directory; `override` is the JSON of a config that takes the place of its own.

    Raises:
        PollFailed: with what the server's log says.
    """
    name = directory.name
    file = directory / "config.pbtxt"
    message = _given(override) if override else _config(file, f"{shown}/config.pbtxt", auto_complete)
    config = full(message, release)
    if not config["name"]:
        config["name"] = name
    if config["name"] != name:
        raise PollFailed(
            f"unexpected directory name '{name}' for model '{config['name']}', directory name must equal model name"
        )
    _check(name, config)
    steps = tuple(dict.fromkeys(_steps(config)))
    backend = str(config["backend"] or _PLATFORMS.get(str(config["platform"]), ""))
    if not backend and not steps and any(directory.glob("*/model.py")):
        backend = "python"
        config["backend"] = backend
    if not backend and not steps:
        raise PollFailed(
            f"Invalid model name: Could not determine backend for model '{name}' "
            "with no backend in model configuration. "
            "Expected model name of the form 'model.<backend_name>'."
        )
    versions = _versions(directory, config)
    polled = Polled(name, directory, shown, _modified(directory), config, backend, steps, versions, override)
    if not config["default_model_filename"] and not steps:
        config["default_model_filename"] = polled.file
    return polled


def _given(override: str) -> object:
    try:
        return from_json(json.loads(override))
    except (ConfigSyntaxError, ValueError) as error:
        raise PollFailed(f"Invalid config override: {error}") from None


def _config(file: Path, shown: str, auto_complete: bool) -> object:
    if not file.is_file():
        if auto_complete:
            return empty()
        raise PollFailed(f"failed to open text file for read {shown}: No such file or directory")
    try:
        return parse(file.read_text("utf-8"))
    except (ConfigSyntaxError, UnicodeDecodeError) as error:
        raise PollFailed(f"failed to read text proto from {shown}: {error}") from None


def _check(name: str, config: Document) -> None:
    size = config["max_batch_size"]
    if isinstance(size, int) and size < 0:
        raise PollFailed(f"'max_batch_size' must be non-negative value for {name}")
    if "ensemble_scheduling" in config and config["instance_group"]:
        raise PollFailed(f"instance group should not be specified for ensemble '{name}'")
    batching = config.get("dynamic_batching")
    if isinstance(batching, dict) and isinstance(size, int):
        preferred = batching.get("preferred_batch_size")
        if isinstance(preferred, list) and any(one > size for one in preferred):
            raise PollFailed(f"dynamic batching preferred size must be <= max batch size for {name}")


def _steps(config: Document) -> list[str]:
    scheduling = config.get("ensemble_scheduling")
    steps = scheduling.get("step") if isinstance(scheduling, dict) else None
    return [step["model_name"] for step in steps] if isinstance(steps, list) else []


def _modified(directory: Path) -> int:
    """Newest modification time of the directory and everything in it; links are followed."""
    newest = directory.stat().st_mtime_ns
    for entry in directory.iterdir():
        newest = max(newest, _modified(entry) if entry.is_dir() else entry.stat().st_mtime_ns)
    return newest


def _versions(directory: Path, config: Document) -> tuple[str, ...]:
    """Versions that the version policy makes available, oldest first."""
    names = (entry.name for entry in directory.iterdir() if entry.is_dir())
    numbers = {int(number[1]) for name in names if (number := _VERSION.match(name))}
    there = [str(number) for number in sorted(numbers)]
    policy = config.get("version_policy")
    policy = policy if isinstance(policy, dict) else {}
    if "all" in policy:
        return tuple(there)
    if "specific" in policy:
        return tuple(version for version in there if int(version) in policy["specific"]["versions"])
    most = policy.get("latest", {}).get("num_versions", 1)
    return tuple(there[-most:])


# --- Data types of an ensemble's tensors must agree between its models ---

_SIDES = (("input_map", "input"), ("output_map", "output"))


def misfit(name: str, config: Document, parts: Mapping[str, Document]) -> str:
    """Why the parts do not make this ensemble, in Triton's words; an empty text where they do."""
    seen: dict[str, tuple[str, str]] = {}
    for tensor, kind, model in _uses(name, config, parts):
        before, theirs = seen.setdefault(tensor, (kind, model))
        if kind != before:
            return (
                f"in ensemble {name}, ensemble tensor {tensor}: inconsistent data type: {kind} is inferred from model "
                f"{model} while {before} is inferred from model {theirs}"
            )
    return ""


def _uses(name: str, config: Document, parts: Mapping[str, Document]) -> Iterator[tuple[str, str, str]]:
    """Each tensor of the ensemble, its type, and the model that says so."""
    for _, side in _SIDES:
        yield from ((tensor, kind, name) for tensor, kind in _types(config, side).items())
    for step in map(mapping, items(mapping(config.get("ensemble_scheduling")).get("step"))):
        model = text(step.get("model_name"))
        for mapped, side in _SIDES:
            types = _types(parts.get(model, {}), side)
            for theirs, ours in mapping(step.get(mapped)).items():
                if theirs in types:
                    yield text(ours), types[theirs], model


def _types(config: Document, side: str) -> dict[str, str]:
    tensors = (mapping(item) for item in items(config.get(side)))
    return {text(item.get("name")): text(item.get("data_type")) for item in tensors}


# --- Why a backend refuses a model version, in Triton's words ---


class NeverAnswers(Exception):
    """A Python model without its model.py: Triton 2.51 loads it for ever."""


def refusal(polled: Polled, version: str, backends: Sequence[str], gpus: int) -> str:
    """Why this version cannot be loaded; an empty text where it can.

    Raises:
        NeverAnswers: the load would hang.
    """
    if polled.backend not in backends:
        return (
            f"Invalid argument: unable to find backend library for backend '{polled.backend}', "
            "try specifying runtime on the model configuration."
        )
    if why := _tensors(polled) or _groups(polled, gpus):
        return why
    file = polled.directory / version / polled.file
    if polled.backend == "python":
        if not file.is_file():
            raise NeverAnswers
        return _python(file.read_bytes(), f"{polled.shown}/{version}/{polled.file}")
    if polled.file and not file.exists():
        return f"Internal: unable to find '{polled.shown}/{version}/{polled.file}' for model '{polled.name}'"
    return ""


def _tensors(polled: Polled) -> str:
    for kind in ("input", "output"):
        for tensor in map(mapping, items(polled.config.get(kind))):
            said = f"Invalid argument: model {kind} '{text(tensor.get('name'))}' must specify"
            if not items(tensor.get("dims")):
                return f"{said} 'dims' for {polled.name}"
            if tensor.get("data_type") == "TYPE_INVALID":
                return f"{said} 'data_type' for {polled.name}"
    return ""


def _groups(polled: Polled, gpus: int) -> str:
    for number, group in enumerate(map(mapping, items(polled.config.get("instance_group")))):
        name = text(group.get("name")) or f"{polled.name}_{number}"
        said = f"Invalid argument: instance group {name} of model {polled.name}"
        named = [one for one in items(group.get("gpus")) if isinstance(one, int)]
        if group.get("kind") == "KIND_CPU" and named:
            return f"{said} has kind KIND_CPU but specifies one or more GPUs"
        if group.get("kind") == "KIND_GPU" and not gpus and not named:
            return f"{said} has kind KIND_GPU but no GPUs are available"
        if bad := [one for one in named if one >= gpus]:
            valid = ", ".join(map(str, range(gpus)))
            return (
                f"{said} specifies invalid or unsupported gpu id {bad[0]}. "
                f"GPUs with at least the minimum required CUDA compute compatibility of 6.000000 are: {valid}"
            )
    return ""


def _python(source: bytes, shown: str) -> str:
    """What of a model.py can be seen without running it: its syntax, its class, and what `initialize` surely raises."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", 1)
        return f"Internal: SyntaxError: {getattr(error, 'msg', error)} (model.py, line {line})"
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == "TritonPythonModel":
            return _raised(node, shown, "initialize")
    version = shown.rsplit("/", 2)[1]
    return f"Internal: AttributeError: module '{version}.model' has no attribute 'TritonPythonModel'"


def fails_to_execute(directory: Path, shown: str, model: str, version: str, config: Document) -> str:
    """Why a loaded model fails at each request; an empty text if it answers.

    Of a model.py it is seen where `execute` surely raises, or ends its process.
    """
    file = text(config.get("default_model_filename"))
    source = directory / version / file
    if config.get("backend") != "python" or not source.is_file():
        return ""
    tree = ast.parse(source.read_bytes())
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == "TritonPythonModel":
            if _ends(node):
                return f"Stub process '{model}_0_0' is not healthy."
            raised = _raised(node, f"{shown}/{version}/{file}", "execute").removeprefix("Internal: ")
            return f"Failed to process the request(s) for model '{model}_0_0', message: {raised}" if raised else ""
    return ""


def _ends(model: ast.ClassDef) -> bool:
    for node in model.body:
        if isinstance(node, ast.FunctionDef) and node.name == "execute":
            return any(
                isinstance(item, ast.Expr) and ast.unparse(item).startswith(("os._exit(", "os.abort("))
                for item in node.body
            )
    return False


def _raised(model: ast.ClassDef, shown: str, method: str) -> str:
    for node in model.body:
        if isinstance(node, ast.FunctionDef) and node.name == method:
            for statement in node.body:
                if isinstance(statement, ast.Raise) and isinstance(statement.exc, ast.Call):
                    kind, arguments = ast.unparse(statement.exc.func), statement.exc.args
                    said = str(arguments[0].value) if arguments and isinstance(arguments[0], ast.Constant) else ""
                    return f"Internal: {kind}: {said}\n\nAt:\n  {shown}({statement.lineno}): {method}\n"
    return ""
