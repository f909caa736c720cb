"""How a plan file names a MIG profile: by NVIDIA's name, ``2c.3g.40gb``, or by slices alone, ``1g``, ``2g+me``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuplan.nvidia.device_names import parse_device_name

COMPUTE_SIZES = (1, 2, 3, 4, 6, 7, 8)
"""Slices that a compute instance can have (nvml.h, NVML_COMPUTE_INSTANCE_PROFILE_*)."""

_SIZE = re.compile(
    r"(?:([1-9]\d*)c\.)?([1-9]\d*)g((?:[+-][A-Za-z][A-Za-z0-9.]*(?:,[A-Za-z][A-Za-z0-9.]*)*)?)\Z", re.ASCII
)


@dataclass(frozen=True)
class ProfileName:
    """The parts of one name."""

    slices: int
    """Compute slices of the GPU instance."""
    compute: int | None = None
    """Compute slices of the compute instance, where it does not fill the GPU instance."""
    instance: str = ""
    """NVIDIA's name of the GPU instance profile; empty where it is named by its slices alone."""
    suffix: str = ""
    """``+me``, ``+me.all``, ``+gfx``, ``-me``, or nothing."""


def parse_profile(text: str) -> ProfileName | None:
    """The parts of a name; None where it is none."""
    if match := _SIZE.match(text):
        compute, slices = int(match[1] or match[2]), int(match[2])
        if compute > slices:
            return None
        return ProfileName(slices, compute if compute < slices else None, "", match[3])
    try:
        name = parse_device_name(text)
    except ValueError:
        return None
    signs = name.attributes[0][0] if name.attributes else ""
    suffix = signs + ",".join(each[1:] for each in name.attributes)
    return ProfileName(name.slices, None if name.whole else name.compute, name.instance, suffix)
