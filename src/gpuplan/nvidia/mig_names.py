"""Names of MIG devices (``[Nc.]Ng.Mgb[+attribute,…|-attribute,…]``) and of profiles in a plan file (also ``2g+me``)."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FORM = re.compile(r"(?:([1-9]\d*)c\.)?([1-9]\d*)g\.([1-9]\d*)gb(?:([+-])(.*))?\Z", re.ASCII)
_ATTRIBUTE = re.compile(r"[A-Za-z](?:[A-Za-z0-9.]*[A-Za-z0-9])?\Z", re.ASCII)


@dataclass(frozen=True)
class MigDeviceName:
    """A name as NVIDIA's tools write it (MIG User Guide, “MIG device names”; go-nvlib, pkg/nvlib/device)."""

    compute: int
    """Compute slices of the compute instance; as many as `slices` if the name does not state it."""
    slices: int
    """Compute slices of the GPU instance."""
    gigabytes: int
    """Rounded: for the memory size use what the node reports."""
    attributes: tuple[str, ...] = ()
    """As written with their signs: ``+me``, ``+me.all``, ``+gfx``, ``-me``."""

    @property
    def whole(self) -> bool:
        """The compute instance fills the GPU instance."""
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
    """Parse a name.

    Raises:
        ValueError: not a name; the message is the rest of a sentence that begins with the name.
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
        raise ValueError("has + and - attributes, or several signs; write all of them behind one sign, with commas")
    names = text.split(",")
    if not all(_ATTRIBUTE.match(name) for name in names):
        raise ValueError("has an attribute that is not a word of letters, digits and dots")
    if len(set(names)) < len(names):
        raise ValueError("names an attribute twice")
    return tuple(f"{sign}{name}" for name in names)


COMPUTE_SIZES = (1, 2, 3, 4, 6, 7, 8)
"""Slices that a compute instance can have (nvml.h, NVML_COMPUTE_INSTANCE_PROFILE_*)."""

_SIZE = re.compile(
    r"(?:([1-9]\d*)c\.)?([1-9]\d*)g((?:[+-][A-Za-z][A-Za-z0-9.]*(?:,[A-Za-z][A-Za-z0-9.]*)*)?)\Z", re.ASCII
)


@dataclass(frozen=True)
class ProfileName:
    """A MIG profile as a plan file writes it: NVIDIA's name, ``2c.3g.40gb``, or slices alone, ``1g``, ``2g+me``."""

    slices: int
    """Compute slices of the GPU instance."""
    compute: int | None = None
    """Compute slices of the compute instance, if it does not fill the GPU instance."""
    instance: str = ""
    """NVIDIA's name of the GPU instance profile; empty if the name has only its slices."""
    suffix: str = ""
    """``+me``, ``+me.all``, ``+gfx``, ``-me``, or nothing."""


def parse_profile(text: str) -> ProfileName | None:
    """The parts of a profile name in a plan file; None if it is not one."""
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
