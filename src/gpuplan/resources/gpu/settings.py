"""Settings of a GPU that a plan file may state beside MIG, and where they differ from what the GPU says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, TypeAlias

from gpuplan.types.diagnostic import Diagnostic, Location
from gpuplan.types.value import Json, JsonObject

if TYPE_CHECKING:
    from gpuplan.resources.gpu.observed import Gpu
    from gpuplan.types.address import Address

Value: TypeAlias = "bool | int | str"
_NAMES = {
    "persistence_mode": "persistence mode",
    "power_limit_mw": "the power limit",
    "compute_mode": "compute mode",
    "ecc": "ECC",
}


@dataclass(frozen=True)
class Settings:
    """What is to be; None is left alone."""

    persistence_mode: bool | None = None
    power_limit_mw: int | None = None
    compute_mode: str | None = None
    """As in a snapshot: ``default``, ``exclusive_process``, ``prohibited``."""
    ecc: bool | None = None
    """Takes effect with a reset of the GPU."""

    @property
    def stated(self) -> Mapping[str, Value]:
        """Name → value of those that are not left alone."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def at_once(self) -> Mapping[str, Value]:
        """Those of `stated` that take effect without a reset."""
        return {name: value for name, value in self.stated.items() if name != "ecc"}

    def to_json(self) -> JsonObject:
        """The form that is digested and recorded: only what is stated."""
        return dict(self.stated)


def read_settings(stated: Json) -> Settings:
    """The settings behind their JSON form; what is of another type is left alone."""
    value = stated if isinstance(stated, Mapping) else {}
    persistence, limit = value.get("persistence_mode"), value.get("power_limit_mw")
    mode, ecc = value.get("compute_mode"), value.get("ecc")
    return Settings(
        persistence if isinstance(persistence, bool) else None,
        limit if isinstance(limit, int) and not isinstance(limit, bool) else None,
        mode if isinstance(mode, str) else None,
        ecc if isinstance(ecc, bool) else None,
    )


def observed(gpu: Gpu) -> Settings:
    """What the GPU says now; None is what it does not have. ECC is what is in effect, not what pends."""
    limit = None if gpu.power is None else gpu.power.limit_mw
    return Settings(gpu.persistence, limit, gpu.compute_mode, None if gpu.ecc is None else gpu.ecc.current)


def differing(wanted: Settings, gpu: Gpu) -> Mapping[str, tuple[Value | None, Value]]:
    """Name → (as it is, as it is to be) of the stated settings that differ."""
    there = observed(gpu).stated
    return {name: (there.get(name), value) for name, value in wanted.stated.items() if there.get(name) != value}


def shown(name: str, value: Value | None) -> Json:
    """A value as the plan file writes it: ``350 W``, true, ``exclusive_process``."""
    if name == "power_limit_mw" and isinstance(value, int):
        return watts(value)
    return value


def path(name: str) -> str:
    """The key of the plan file."""
    return name.removesuffix("_mw")


def said(name: str, value: Value) -> str:
    """For a title: “the power limit to 350 W”, “persistence mode on”."""
    if isinstance(value, bool):
        return f"{_NAMES[name]} {'on' if value else 'off'}"
    return f"{_NAMES[name]} to {shown(name, value)}"


def watts(milliwatts: int) -> str:
    """“350 W”, “62.5 W”."""
    return f"{milliwatts / 1000:g} W"


def faults(address: Address, wanted: Settings, gpu: Gpu, where: Location | None) -> Iterator[Diagnostic]:
    """Settings that this GPU does not have, and a power limit that it does not allow."""
    there = observed(gpu).stated
    for name in wanted.stated:
        if name not in there:
            yield Diagnostic(
                "The GPU does not have this setting",
                f"{address.name} is to have {path(name)} set, which this {gpu.name} does not offer.",
                f"Leave {path(name)} out, or select another GPU.",
                where,
                str(address),
            )
    limit, power = wanted.power_limit_mw, gpu.power
    if limit is not None and power is not None and power.known and not power.lowest_mw <= limit <= power.highest_mw:
        yield Diagnostic(
            "The power limit is out of range",
            f"The power limit of {address.name} is to be {watts(limit)}; this {gpu.name} takes"
            f" {watts(power.lowest_mw)} to {watts(power.highest_mw)}, and {watts(power.default_mw)} by default.",
            f"Write a power_limit from {watts(power.lowest_mw)} to {watts(power.highest_mw)}.",
            where,
            str(address),
        )


def read_names(stated: Json) -> tuple[str, ...]:
    """Names of services in a spec or in a step's arguments."""
    return tuple(str(each) for each in stated) if isinstance(stated, list | tuple) else ()
