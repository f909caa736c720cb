"""The form of a mig-parted file, version v1 (NVIDIA/mig-parted, api/spec/v1/spec.go): named configs of entries."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, model_validator

from gpuplan.planfile.quantity import refuse_boolean
from gpuplan.planfile.stated import Natural

_DEVICE_ID = re.compile(r"0[xX][0-9A-Fa-f]{1,8}(:0[xX][0-9A-Fa-f]{1,8})?\Z")


def _device_id(text: str) -> str:
    if not _DEVICE_ID.match(text):
        raise ValueError("is not a PCI device id; write device and vendor as one number, such as 0x20B210DE")
    return text


DeviceId = Annotated[str, AfterValidator(_device_id)]
MOST = 7
"""No board holds more instances of anything."""
Count = Annotated[int, Field(ge=1, le=MOST), BeforeValidator(refuse_boolean)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Entry(_Section):
    """What some GPUs of a node are to be. Several entries of a config are for several GPUs, or several boards."""

    device_filter: DeviceId | tuple[DeviceId, ...] = Field(default=(), alias="device-filter")
    devices: Literal["all"] | tuple[Natural, ...]
    """Indices in the order of the PCI bus."""
    mig_enabled: StrictBool = Field(alias="mig-enabled")
    mig_devices: Mapping[str, Count] | None = Field(default=None, alias="mig-devices")
    """Profile → how many."""

    @property
    def filters(self) -> tuple[str, ...]:
        """The device ids that it is for; empty = every board."""
        return (self.device_filter,) if isinstance(self.device_filter, str) else self.device_filter

    @property
    def slices(self) -> Mapping[str, int]:
        """Profile → how many, in the order written."""
        return self.mig_devices or {}

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Entry:
        if self.mig_enabled and self.mig_devices is None:
            raise ValueError("enables MIG without mig-devices; write `mig-devices: {}` for MIG without slices")
        if not self.mig_enabled and self.mig_devices:
            raise ValueError("disables MIG and states mig-devices; only one can hold")
        return self


class MigPartedFile(_Section):
    """A whole file."""

    version: Literal["v1"]
    mig_configs: Mapping[str, tuple[Entry, ...]] = Field(alias="mig-configs")
