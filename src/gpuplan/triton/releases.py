"""Triton releases and the flags of `tritonserver`: which release an image is, and what that release accepts."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any

_TAG = re.compile(r"^(\d{2}\.\d{2})(?:[.-].*)?$")


@dataclass(frozen=True, order=True)
class TritonRelease:
    """One monthly release: ``24.10`` is Triton 2.51.0."""

    name: str
    """Year and month; names compare in order of time."""
    version: str
    """The server's version; empty for a release later than this catalog."""


@dataclass(frozen=True)
class Flag:
    """One option of `tritonserver`, named without its dashes."""

    name: str
    takes: str
    """``none``, ``text``, ``integer``, ``number`` or ``bool``."""
    since: str = ""
    """First release that has it; empty = older than all releases here."""
    last: str = ""
    """Last release that has it; empty = still there."""
    deprecated: str = ""
    """First release that calls it deprecated."""
    replacement: str = ""
    form: str = ""
    """The shape of its value, such as ``<string>:<integer>:<integer>``."""
    repeatable: bool = False
    values: tuple[str, ...] = ()
    """All values that it takes, where they are counted."""
    needs: str = ""
    """The flag without which it has no effect, as ``NAME=VALUE`` or ``NAME``."""


@dataclass(frozen=True)
class FlagError:
    """Why a release does not take a flag, or would rather have another; `fix` is empty where nothing is known."""

    why: str
    fix: str
    fatal: bool
    """False for what the release still accepts with a warning."""


def release_of(image: str) -> TritonRelease | None:
    """The release that an image's tag names (``tritonserver:24.10-py3``); None where the tag does not say."""
    name = image.partition("@")[0].rpartition("/")[2]
    match = _TAG.match(name.partition(":")[2])
    if match is None:
        return None
    return TritonRelease(match[1], str(_releases().get(match[1], {}).get("version", "")))


def flag_error(flag: str, release: TritonRelease | None) -> FlagError | None:
    """What speaks against a flag in a release; with an unknown release only what no release has is objected to."""
    known = flags().get(flag)
    if known is None:
        return FlagError("no release of tritonserver has this flag", _nearest(flag), fatal=True)
    if release is None:
        return None
    if known.last and release.name > known.last:
        return FlagError(f"it was removed after {known.last}", known.replacement, fatal=True)
    if known.since and release.name < known.since:
        return FlagError(f"it came with {known.since}, and the image is {release.name}", "", fatal=True)
    if known.deprecated and release.name >= known.deprecated:
        return FlagError(f"it is deprecated since {known.deprecated}", known.replacement, fatal=False)
    return None


def cache_flag(size: int, release: TritonRelease | None) -> str:
    """The flag that gives the response cache this many bytes; an unknown release is taken for a recent one."""
    if release is None or release.name >= flags()["cache-config"].since:
        return f"--cache-config=local,size={size}"
    return f"--response-cache-byte-size={size}"


def rejects(flag: Flag, value: str | int | float | bool) -> str:
    """Why a value is not of the flag's type, or an empty text (ParseOption in src/command_line_parser.cc)."""
    text = str(value).lower()
    if flag.takes in ("bool", "none") and text not in ("true", "on", "1", "false", "off", "0"):
        return "takes true or false"
    if flag.takes == "integer" and not re.fullmatch(r"-?\d+", text):
        return "takes a whole number"
    if flag.takes == "number" and not re.fullmatch(r"-?\d+(\.\d+)?", text):
        return "takes a number"
    return ""


@cache
def flags() -> dict[str, Flag]:
    """Every flag of every release, by its name."""
    raw = json.loads((files("gpuplan.triton") / "tritonserver_flags.json").read_text("utf-8"))
    return {name: Flag(name, **_tuples(entry)) for name, entry in raw["flags"].items()}


def _tuples(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()}


@cache
def _mistaken() -> dict[str, str]:
    """Names that are often taken for a flag → the flag that was meant."""
    raw = json.loads((files("gpuplan.triton") / "tritonserver_flags.json").read_text("utf-8"))
    return {str(name): str(meant) for name, meant in raw["mistaken"].items()}


def python_of(release: str) -> str:
    """The Python of a release's images, such as ``3.10``; empty for a release that is not known."""
    return str(_releases().get(release, {}).get("python", ""))


def tensorrt_of(release: str) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The TensorRT of a release: between which two versions it lies, or the same twice where a page names it.

    TensorRT only ever moves forward from release to release. None where no later or no earlier release is known.
    """
    known = {name: _numbers(entry["tensorrt"]) for name, entry in _releases().items() if "tensorrt" in entry}
    earlier = [version for name, version in known.items() if name <= release]
    later = [version for name, version in known.items() if name >= release]
    return (max(earlier), min(later)) if release and earlier and later else None


def python_region(release: str) -> int:
    """Bytes of shared memory that one instance of a Python model takes at its start; 0 for a release not known."""
    sizes: dict[str, int] = _facts()["python_region"]["sizes"]
    return sizes[max(first for first in sizes if first <= release)] if release else 0


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _releases() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = _facts()["releases"]
    return found


@cache
def _facts() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((files("gpuplan.triton") / "triton_releases.json").read_text("utf-8"))
    return found


def _nearest(flag: str) -> str:
    if meant := _mistaken().get(flag):
        return f"--{meant}"
    whole = [name for name in flags() if name.startswith(flag)]
    near = whole if len(whole) == 1 else get_close_matches(flag, flags(), n=1)
    return f"--{near[0]}" if near else ""


# Which backends Triton's images have, by release and kind of image.

BACKENDS = frozenset(
    {
        "python", "onnxruntime", "tensorrt", "pytorch", "tensorflow", "openvino", "dali", "fil", "identity", "repeat",
        "square", "vllm", "tensorrtllm", "ensemble", "armnn_tflite", "redis", "paddle", "huggingface",
    }
)  # fmt: skip
"""Backends that are built from a repository of triton-inference-server, or are widely used with it."""
_LAST = {"tensorflow": "25.02"}
"""The last release whose images have a backend."""
_FLAVOURS = {
    "vllm-python-py3": frozenset({"vllm", "python", "identity"}),
    "trtllm-python-py3": frozenset({"tensorrtllm", "python", "identity"}),
    "pyt-python-py3": frozenset({"pytorch", "python", "identity"}),
    "tf2-python-py3": frozenset({"tensorflow", "python", "identity"}),
    "py3-min": frozenset[str](),
}
"""Tag after the release → the backends of that image of NVIDIA's (customization_guide/compose.md, build.py)."""
_FULL = frozenset({"vllm", "tensorrtllm"})
"""Backends that the plain -py3 image does not have."""
_OFFICIAL = re.compile(r"^nvcr\.io/nvidia/tritonserver:\d\d\.\d\d-(?P<flavour>[\w-]+?)(?:@.*)?$")


def missing_in(image: str, release: str, backend: str) -> str | None:
    """Why one of NVIDIA's images does not have a backend; None if it has it, or if that is unknown.

    Only images of nvcr.io/nvidia are judged: others may hold anything under any tag.
    """
    match = _OFFICIAL.match(image)
    if match is None or backend not in BACKENDS:
        return None
    flavour = match["flavour"]
    if flavour in _FLAVOURS:
        here = _FLAVOURS[flavour]
        return None if backend in here else f"the image has {', '.join(sorted(here)) or 'no backend at all'}"
    if flavour != "py3":
        return None
    if (last := _LAST.get(backend)) and release > last:
        return f"{last} was the last release with it, and the image is {release}"
    if backend in _FULL:
        return f"it is in the image {release}-{'trtllm' if backend == 'tensorrtllm' else backend}-python-py3"
    return None
