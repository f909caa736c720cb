"""Renders the config.pbtxt that goes to a node: the source's own, what the plan file lays over it, and our mark."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuplan.planfile.sources.overlay import lay_over
from gpuplan.triton import model_config
from gpuplan.types.diagnostic import Diagnostic, Location, Problem
from gpuplan.types.value import Json, JsonObject, as_list, as_object, digest

if TYPE_CHECKING:
    from google.protobuf.message import Message

MARK = "gpuplan_content"
"""The parameter that tells, through Triton's config endpoint, which content a server has loaded."""
LATEST = re.compile(r"^latest (\d{1,6})$")


@dataclass(frozen=True)
class Layer:
    """Fields that the plan file states, and where it states each."""

    stated: Mapping[str, Json]
    where: Callable[..., Location]


def with_layers(config: Message, layers: Sequence[Layer]) -> Message:
    """The config with every layer over it, in order.

    Raises:
        Problem: with the faults of all layers.
    """
    faults: list[Diagnostic] = []
    for layer in layers:
        try:
            config = lay_over(config, layer.stated, layer.where)
        except Problem as problem:
            faults.extend(problem.diagnostics)
    if faults:
        raise Problem(faults)
    return config


def policy(versions: str | Sequence[int] | None) -> JsonObject:
    """What `versions` of the plan file means as fields of a ModelConfig; nothing where it says nothing.

    Raises:
        ValueError: it is neither ``latest N`` nor ``all`` nor a list.
    """
    if versions is None:
        return {}
    if versions == "all":
        return {"version_policy": {"all": {}}}
    if not isinstance(versions, str):
        return {"version_policy": {"specific": {"versions": list(versions)}}}
    match = LATEST.match(versions)
    if match is None or int(match[1]) == 0:
        raise ValueError(f"versions cannot be {versions!r}")
    return {"version_policy": {"latest": {"num_versions": int(match[1])}}}


def wanted_versions(config: JsonObject, present: Sequence[int]) -> tuple[int, ...]:
    """Those of the version directories that Triton serves by the config's policy; its default is the latest one."""
    chosen = as_object(config.get("version_policy", {}))
    if "all" in chosen:
        return tuple(sorted(present))
    if "specific" in chosen:
        named = as_list(as_object(chosen["specific"]).get("versions", []))
        return tuple(version for version in sorted(present) if version in named)
    number = as_object(chosen.get("latest", {})).get("num_versions", 1)
    return tuple(sorted(present)[-number:]) if isinstance(number, int) else ()


def marked(config: Message, files: Mapping[str, str]) -> tuple[str, str]:
    """(content digest, rendered text) of a final config and the SHA-256 of each other file of the model.

    The digest covers the text without our mark, then becomes the mark.
    """
    here = Location("")
    plain = lay_over(config, {"parameters": {MARK: None}}, lambda *_: here)
    content = digest({"config": model_config.render(plain), "files": dict(files)})
    full = lay_over(plain, {"parameters": {MARK: {"string_value": content}}}, lambda *_: here)
    return content, model_config.render(full)
