"""Names of MIG devices, taken apart: ``[Nc.]Ng.Mgb[+attribute,…|-attribute,…]``."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FORM = re.compile(r"(?:([1-9]\d*)c\.)?([1-9]\d*)g\.([1-9]\d*)gb(?:([+-])(.*))?\Z", re.ASCII)
_ATTRIBUTE = re.compile(r"[A-Za-z](?:[A-Za-z0-9.]*[A-Za-z0-9])?\Z", re.ASCII)


@dataclass(frozen=True)
class MigDeviceName:
    """A name as NVIDIA's tools write it (MIG User Guide, “MIG device names”; go-nvlib, pkg/nvlib/device)."""

    compute: int
    """Compute slices of the compute instance; as many as `slices` where the name does not say."""
    slices: int
    """Compute slices of the GPU instance."""
    gigabytes: int
    """A rounded figure for people: memory is what the node reports, never this."""
    attributes: tuple[str, ...] = ()
    """As written with their signs: ``+me``, ``+me.all``, ``+gfx``, ``-me``."""

    @property
    def whole(self) -> bool:
        """The compute instance takes all of the GPU instance."""
        return self.compute == self.slices

    @property
    def instance(self) -> str:
        """The name of the GPU instance's own profile: ``3g.40gb`` of ``1c.3g.40gb``."""
        return str(MigDeviceName(self.slices, self.slices, self.gigabytes, self.attributes))

    def __str__(self) -> str:
        compute = "" if self.whole else f"{self.compute}c."
        sign = self.attributes[0][0] if self.attributes else ""
        return f"{compute}{self.slices}g.{self.gigabytes}gb{sign}{','.join(each[1:] for each in self.attributes)}"


def parse_device_name(text: str) -> MigDeviceName:
    """Take a name apart.

    Raises:
        ValueError: it is none; says why, as a sentence that goes on after the name.
    """
    found = _FORM.match(text)
    if found is None:
        raise ValueError("is not written [Nc.]Ng.Mgb[+ATTRIBUTE or -ATTRIBUTE], such as 3g.40gb or 1g.10gb+me")
    compute, slices, gigabytes, sign, attributes = found.groups()
    name = MigDeviceName(int(compute or slices), int(slices), int(gigabytes), _attributes(sign, attributes))
    if name.compute > name.slices:
        raise ValueError(f"has a compute instance of {name.compute} slices in a GPU instance of {name.slices}")
    return name


def _attributes(sign: str | None, text: str | None) -> tuple[str, ...]:
    if sign is None or text is None:
        return ()
    if "+" in text or "-" in text:
        raise ValueError("has + and - attributes, or several signs; all of them stand behind one sign, with commas")
    names = text.split(",")
    if not all(_ATTRIBUTE.match(name) for name in names):
        raise ValueError("has an attribute that is not a word of letters, digits and dots")
    if len(set(names)) < len(names):
        raise ValueError("names an attribute twice")
    return tuple(f"{sign}{name}" for name in names)


# How a plan file names a MIG profile: by NVIDIA's name, ``2c.3g.40gb``, or by slices alone, ``1g``, ``2g+me``.

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
