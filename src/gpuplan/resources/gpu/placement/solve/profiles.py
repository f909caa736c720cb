"""Profiles: which of the profiles that a GPU reports each wanted slice means, by name, by slices, or by memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpuplan.nvidia.profile_names import COMPUTE_SIZES, parse_profile
from gpuplan.resources.gpu import words
from gpuplan.resources.gpu.desired import SliceSpec
from gpuplan.resources.gpu.observed import Gpu, Profile
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic, Location

_MIB = 1024 * 1024


@dataclass(frozen=True)
class Settled:
    """The wanted slices of one GPU under the names that it has for their profiles, and what cannot be had."""

    slices: tuple[SliceSpec, ...]
    faults: tuple[Diagnostic, ...] = ()


def settle(slices: tuple[SliceSpec, ...], gpu: Gpu, address: Address, where: Location | None) -> Settled:
    """Each slice with the profile's full name and its compute instances, as this GPU has them."""
    found: list[SliceSpec] = []
    faults: list[Diagnostic] = []
    for each in slices:
        profile = _by_memory(each.memory, gpu) if each.memory is not None else _by_name(each.profile, gpu)
        if profile is None:
            faults.append(words.unknown_profile(address, each, gpu, where))
            found.append(each)
            continue
        settled = replace(each, profile=profile.name, memory=None, compute=_compute(each, profile))
        faults.extend(_faults(settled, profile, address, where))
        found.append(settled)
    return Settled(tuple(found), tuple(faults))


def _by_name(name: str, gpu: Gpu) -> Profile | None:
    """The profile of that name; by slices alone, the one with the same suffix and the least memory."""
    parts = parse_profile(name)
    if parts is None or parts.instance:
        return gpu.profile(parts.instance if parts is not None else name)
    return min(
        (each for each in gpu.profiles if each.slices == parts.slices and _suffix(each) == parts.suffix),
        key=lambda each: (each.memory_mib, each.name),
        default=None,
    )


def _by_memory(needed: int, gpu: Gpu) -> Profile | None:
    """The smallest that holds so many bytes by what the node reports; a plain one, and of two the fewer slices."""
    return min(
        (each for each in gpu.profiles if each.memory_mib * _MIB >= needed and not _suffix(each)),
        key=lambda each: (each.memory_mib, each.slices, each.name),
        default=None,
    )


def _suffix(profile: Profile) -> str:
    parts = parse_profile(profile.name)
    return parts.suffix if parts is not None else profile.name


def _compute(wanted: SliceSpec, profile: Profile) -> tuple[int, ...]:
    """Compute slices of each compute instance; none where one fills the slice."""
    parts = parse_profile(wanted.profile)
    stated = wanted.compute or ((parts.compute,) if parts is not None and parts.compute is not None else ())
    return () if stated == (profile.slices,) else stated


def _faults(settled: SliceSpec, profile: Profile, address: Address, where: Location | None) -> Iterator[Diagnostic]:
    total = sum(settled.compute)
    if total > profile.slices:
        yield Diagnostic(
            "Compute instances do not fit into their slice",
            f"The slice {settled.name} of {address.name} is to hold compute instances of {total} compute slices in all,"
            f" and {profile.name} has {profile.slices}.",
            "Write fewer or smaller ones, or a larger profile.",
            where,
            str(address),
        )
    for each in dict.fromkeys(one for one in settled.compute if one not in COMPUTE_SIZES):
        yield Diagnostic(
            "There is no compute instance of this size",
            f"The slice {settled.name} of {address.name} is to hold a compute instance of {each} slices.",
            f"Write one of {words.listed(f'{size}c' for size in COMPUTE_SIZES if size <= profile.slices)}.",
            where,
            str(address),
        )
