"""GPU settings besides MIG: one table, which the plan file, reading, comparison, titles, apply and discovery follow.

A new setting is one entry here, one field of the plan file's schema, and its NVML calls in `agent/settings.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from gpuplan.resources.gpu.observed import ObservedGpu, SettingValue
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic, Location
from gpuplan.types.value import Json, JsonObject, mapping


@dataclass(frozen=True)
class GpuSetting:
    """One setting."""

    name: str
    """In a spec, in the record, and in the agent's operation `gpu.set`."""
    key: str
    """In the plan file."""
    title: str
    read: Callable[[JsonObject], Json]
    """GPU of a snapshot → value in effect; None if this GPU does not have the setting."""
    usual: Callable[[ObservedGpu], SettingValue | None] = lambda _: None
    """What such a GPU has if it was never set, which discovery leaves out; None: discovery never writes the setting."""
    needs_reset: bool = False
    """A new value takes effect with a reset of the GPU."""
    shown: Callable[[SettingValue], Json] = lambda value: value

    def phrase(self, value: SettingValue) -> str:
        """For a step's title: “power limit to 350 W”, “persistence mode on”."""
        if isinstance(value, bool):
            return f"{self.title} {'on' if value else 'off'}"
        return f"{self.title} to {self.shown(value)}"


def watts(milliwatts: SettingValue) -> str:
    """“350 W”, “62.5 W”."""
    return f"{int(milliwatts) / 1000:g} W"


SETTINGS: tuple[GpuSetting, ...] = (
    GpuSetting("persistence_mode", "persistence_mode", "persistence mode",
               lambda gpu: gpu.get("persistence_mode"), usual=lambda _: False),
    GpuSetting("power_limit_mw", "power_limit", "power limit", lambda gpu: gpu.get("power_limit_mw"),
               usual=lambda gpu: gpu.power_limits.default_mw if gpu.power_limits else None, shown=watts),
    GpuSetting("compute_mode", "compute_mode", "compute mode",
               lambda gpu: gpu.get("compute_mode"), usual=lambda _: "default"),
    GpuSetting("ecc", "ecc", "ECC", lambda gpu: mapping(gpu.get("ecc")).get("current"), needs_reset=True),
)  # fmt: skip
BY_NAME: Mapping[str, GpuSetting] = {setting.name: setting for setting in SETTINGS}


def read_settings(gpu: JsonObject) -> Mapping[str, SettingValue]:
    """The settings of a GPU of a snapshot, by name, as they are in effect."""
    values = {setting.name: setting.read(gpu) for setting in SETTINGS}
    return {name: value for name, value in values.items() if isinstance(value, bool | int | str)}


def without_reset(desired: Mapping[str, SettingValue]) -> Mapping[str, SettingValue]:
    """Those that take effect at once."""
    return {name: value for name, value in desired.items() if not BY_NAME[name].needs_reset}


def differing(
    desired: Mapping[str, SettingValue], gpu: ObservedGpu
) -> Mapping[str, tuple[SettingValue | None, SettingValue]]:
    """Name → (observed, desired) of the settings that differ."""
    observed = gpu.settings
    return {name: (observed.get(name), value) for name, value in desired.items() if observed.get(name) != value}


def describe_settings(gpu: ObservedGpu) -> Iterator[tuple[str, Json]]:
    """(plan-file key, value) of each setting that differs from what such a GPU usually has."""
    for setting in SETTINGS:
        value, usual = gpu.settings.get(setting.name), setting.usual(gpu)
        if value is not None and usual is not None and value != usual:
            shown = setting.shown(value)
            yield setting.key, shown.replace(" ", "") if isinstance(shown, str) else shown


def setting_errors(
    address: Address, desired: Mapping[str, SettingValue], gpu: ObservedGpu, where: Location | None
) -> Iterator[Diagnostic]:
    """Settings that this GPU does not have, and a power limit that it does not accept."""
    for name in desired:
        key = BY_NAME[name].key
        if name not in gpu.settings:
            yield Diagnostic(
                "The GPU does not support this setting",
                f"The plan file sets {key} of {address.name}, which this {gpu.name} does not support.",
                f"Remove {key}, or select another GPU.",
                where,
                str(address),
            )
    limit, limits = desired.get("power_limit_mw"), gpu.power_limits
    if limits is not None and isinstance(limit, int) and not limits.lowest_mw <= limit <= limits.highest_mw:
        accepted = f"{watts(limits.lowest_mw)} to {watts(limits.highest_mw)}"
        yield Diagnostic(
            "The power limit is out of range",
            f"The power_limit of {address.name} is {watts(limit)}; this {gpu.name} accepts {accepted}"
            f" (default {watts(limits.default_mw)}).",
            f"Set a power_limit from {accepted}.",
            where,
            str(address),
        )
