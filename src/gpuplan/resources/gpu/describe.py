"""Describe a GPU of the node as the plan-file section that leaves it as it is: the reverse of `desired.spec`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpuplan.resources.gpu.observed import GpuInstance, ObservedGpu
from gpuplan.resources.gpu.settings import describe_settings
from gpuplan.types.snapshot import ProbeError
from gpuplan.types.value import Json, JsonObject

_BRANDS = ("nvidia", "tesla", "geforce", "quadro", "graphics", "device")
"""Words of a product's name that do not tell it from others."""


@dataclass(frozen=True)
class DescribedGpu:
    """One GPU as a plan file has it."""

    name: str
    """A name for it: ``a100-0``."""
    section: JsonObject
    """Without `nodes`."""
    devices: Mapping[str, str]
    """UUID of each device that a container can be given → its name below the GPU's; empty for the whole GPU."""
    omitted: tuple[str, ...] = ()
    """Why a part of it is not in the section."""


def describe(gpu: ObservedGpu) -> DescribedGpu:
    """Describe one GPU: its MIG mode and slices, and the settings that differ from what such a GPU usually has."""
    section: dict[str, Json] = {"select": {"index": gpu.index}}
    devices, omitted = {gpu.uuid: ""}, []
    if gpu.mig_enabled != gpu.mig_pending:
        omitted.append("its MIG mode changes with the next reset, so it is left alone")
    elif isinstance(gpu.instances, ProbeError):
        omitted.append(f"cannot read its slices: {gpu.instances.text}")
    elif gpu.mig_supported and gpu.mig_enabled:
        instances = sorted(gpu.instances, key=lambda instance: instance.start)
        usable = [instance for instance in instances if instance.devices]
        section["mig"] = {_slice_name(instance): _slice_section(instance, gpu) for instance in usable}
        devices |= {uuid: name for instance in usable for uuid, name in _devices(instance)}
        omitted += [f"the slice {instance} has no compute instance" for instance in instances if not instance.devices]
    elif gpu.mig_supported:
        section["mig"] = "disabled"
    section |= dict(describe_settings(gpu))
    return DescribedGpu(f"{_board_name(gpu.name)}-{gpu.index}", section, devices, tuple(omitted))


def _board_name(product: str) -> str:
    """``a100`` of NVIDIA A100-SXM4-80GB, ``rtx4090`` of NVIDIA GeForce RTX 4090."""
    words = [word for word in product.partition("-")[0].split() if word.lower() not in _BRANDS]
    end = next((number for number, word in enumerate(words, start=1) if re.search(r"\d", word)), 0)
    return re.sub(r"[^a-z0-9]", "", "".join(words[:end]).lower()) or "gpu"


def _slice_name(instance: GpuInstance) -> str:
    """``3g-4``: its slices, the suffix of its profile if it has one, and its start."""
    size, _, rest = instance.profile.partition(".")
    suffix = "".join(letter for letter in rest.partition("gb")[2] if letter.isalnum())
    return "-".join(filter(None, (size, suffix, str(instance.start))))


def _slice_section(instance: GpuInstance, gpu: ObservedGpu) -> JsonObject:
    profile = gpu.profile(instance.profile)
    sizes = [compute.slices for compute in instance.compute_instances]
    one_fills_it = profile is not None and sizes == [profile.slices]
    compute: JsonObject = {} if one_fills_it else {"compute": [f"{size}c" for size in sizes]}
    return {"profile": instance.profile, "start": instance.start, **compute}


def _devices(instance: GpuInstance) -> Iterator[tuple[str, str]]:
    name, several = _slice_name(instance), len(instance.devices) > 1
    return ((uuid, f"{name}/{number}" if several else name) for number, uuid in enumerate(instance.devices))
