"""Describe: a GPU of the node as the section of a plan file that leaves it as it is; the way back of `spec`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpuplan.resources.gpu.observed import Gpu, Instance
from gpuplan.types.snapshot import ProbeError
from gpuplan.types.value import Json, JsonObject

_BRANDS = ("nvidia", "tesla", "geforce", "quadro", "graphics", "device")
"""Words of a product's name that say nothing of what it is."""


@dataclass(frozen=True)
class DescribedGpu:
    """One GPU as a plan file has it."""

    name: str
    """What it may be called: ``a100-0``."""
    section: JsonObject
    """Without `nodes`."""
    devices: Mapping[str, str]
    """UUID of each thing that a container can be given of it → its name below the GPU's; empty for the whole GPU."""
    unsaid: tuple[str, ...] = ()
    """Why a part of it is not in the section."""


def describe(gpu: Gpu) -> DescribedGpu:
    """Describe one GPU: how it is cut, and those settings that are not what such a GPU has anyway."""
    section: dict[str, Json] = {"select": {"index": gpu.index}}
    devices, unsaid = {gpu.uuid: ""}, []
    if gpu.current != gpu.pending:
        unsaid.append("its MIG mode is about to change with a reset, so it is left alone")
    elif isinstance(gpu.instances, ProbeError):
        unsaid.append(f"its slices could not be read: {gpu.instances.text}")
    elif gpu.supported and gpu.current:
        slices = sorted(gpu.instances, key=lambda each: each.start)
        section["mig"] = {_name(each): _slice(each, gpu) for each in slices if each.computes}
        devices |= {uuid: name for each in slices for uuid, name in _devices(each)}
        unsaid += [f"the slice {each} has no compute instance" for each in slices if not each.computes]
    elif gpu.supported:
        section["mig"] = "disabled"
    section |= dict(_settings(gpu))
    return DescribedGpu(f"{_model(gpu.name)}-{gpu.index}", section, devices, tuple(unsaid))


def _model(product: str) -> str:
    """``a100`` of NVIDIA A100-SXM4-80GB, ``rtx4090`` of NVIDIA GeForce RTX 4090."""
    words = [word for word in product.partition("-")[0].split() if word.lower() not in _BRANDS]
    end = next((number for number, word in enumerate(words, start=1) if re.search(r"\d", word)), 0)
    return re.sub(r"[^a-z0-9]", "", "".join(words[:end]).lower()) or "gpu"


def _name(instance: Instance) -> str:
    """``3g-4``: its slices, the suffix of its profile where it has one, and its start."""
    size, _, rest = instance.profile.partition(".")
    suffix = "".join(letter for letter in rest.partition("gb")[2] if letter.isalnum())
    return "-".join(filter(None, (size, suffix, str(instance.start))))


def _slice(instance: Instance, gpu: Gpu) -> JsonObject:
    profile = gpu.profile(instance.profile)
    sizes = [each.slices for each in instance.computes]
    whole = profile is not None and sizes == [profile.slices]
    inside: JsonObject = {} if whole else {"compute": [f"{size}c" for size in sizes]}
    return {"profile": instance.profile, "start": instance.start, **inside}


def _devices(instance: Instance) -> Iterator[tuple[str, str]]:
    name, several = _name(instance), len(instance.computes) > 1
    return ((each.uuid, f"{name}/{number}" if several else name) for number, each in enumerate(instance.computes))


def _settings(gpu: Gpu) -> Iterator[tuple[str, Json]]:
    if gpu.persistence:
        yield "persistence_mode", True
    if gpu.power is not None and gpu.power.known and gpu.power.limit_mw != gpu.power.default_mw:
        yield "power_limit", f"{gpu.power.limit_mw / 1000:g}W"
    if gpu.compute_mode not in (None, "default"):
        yield "compute_mode", gpu.compute_mode
