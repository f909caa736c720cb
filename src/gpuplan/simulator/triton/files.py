"""A model as Triton finds it on disk: polled, its config parsed and checked, its versions chosen."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpuplan.simulator.triton.describe import full
from gpuplan.triton.model_config import Unparsable, empty, from_json, parse

if TYPE_CHECKING:
    from gpuplan.simulator.state import Document

_FILES = {"python": "model.py", "onnxruntime": "model.onnx", "tensorrt": "model.plan", "pytorch": "model.pt",
          "openvino": "model.xml", "tensorflow": "model.savedmodel", "fil": "xgboost.json",
          "dali": "model.dali"}  # fmt: skip
"""Backend → the file that it loads where the config names none (README of each backend)."""
_PLATFORMS = {"tensorrt_plan": "tensorrt", "onnxruntime_onnx": "onnxruntime", "pytorch_libtorch": "pytorch",
              "tensorflow_savedmodel": "tensorflow", "tensorflow_graphdef": "tensorflow"}  # fmt: skip


_VERSION = re.compile(r"^(?!0.) *([+-]?[0-9]+)")
"""How Triton reads the name of a directory as a version: by how it begins, and never with a leading zero."""


class PollFailed(Exception):
    """The model cannot be polled; the text goes to the server's log, the client is only told that it failed."""


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
    except (Unparsable, ValueError) as error:
        raise PollFailed(f"Invalid config override: {error}") from None


def _config(file: Path, shown: str, auto_complete: bool) -> object:
    if not file.is_file():
        if auto_complete:
            return empty()
        raise PollFailed(f"failed to open text file for read {shown}: No such file or directory")
    try:
        return parse(file.read_text("utf-8"))
    except (Unparsable, UnicodeDecodeError) as error:
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
