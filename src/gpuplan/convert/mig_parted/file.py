"""Reads files of NVIDIA mig-parted, version v1, as strictly as mig-parted does (api/spec/v1/spec.go)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    ValidationError,
    model_validator,
)

from gpuplan.nvidia.mig_names import parse_device_name
from gpuplan.planfile.scalars import Natural, refuse_boolean
from gpuplan.planfile.schema_errors import schema_errors, to_diagnostics
from gpuplan.planfile.yamlfile import Document, Where, by_place, dotted, read_document
from gpuplan.types.diagnostic import Diagnostic, Problem

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


_WHOLE = "The mig-parted file"


def read_mig_parted(path: str) -> MigPartedFile:
    """The file, checked as a whole; what mig-parted itself would refuse is refused.

    Raises:
        Problem: with every fault and its place.
    """
    document = read_document(path)
    if not isinstance(document.data, dict):
        detail = "A mig-parted file is a mapping that begins with 'version: v1' and has 'mig-configs'."
        raise Problem(Diagnostic("The file is not a mig-parted file", detail, where=document.at(())))
    problems = [*_misnamed(document)]
    read = None
    try:
        read = MigPartedFile.model_validate(document.data)
    except ValidationError as error:
        problems.extend(to_diagnostics(schema_errors(error, document.data), document, MigPartedFile, _WHOLE))
    else:
        problems.extend((*_empty(read, document), *_ambiguous(read, document)))
    if read is None or problems:
        raise Problem(sorted(problems, key=by_place))
    return read


def chosen(read: MigPartedFile, name: str, path: str) -> tuple[Sequence[Entry], str]:
    """The entries of the config of that name, and its name; where there is only one, none need be named.

    Raises:
        Problem: there are several and none is named, or none has that name.
    """
    names = list(read.mig_configs)
    if name in read.mig_configs:
        return read.mig_configs[name], name
    if not name and len(names) == 1:
        return read.mig_configs[names[0]], names[0]
    if name:
        summary, detail = "Unknown config", f"{path} has no config {name!r}."
    else:
        summary, detail = "Config not selected", f"{path} holds {len(names)} configs."
    raise Problem(Diagnostic(summary, detail, f"Name one with --config: {', '.join(names)}."))


def _misnamed(document: Document) -> Iterator[Diagnostic]:
    for path, where in document.keys.items():
        match path:
            case ("mig-configs", _, _, "mig-devices", str(name)):
                try:
                    parse_device_name(name)
                except ValueError as error:
                    fix = "Write it as `nvidia-smi mig -lgip` prints it, without MIG in front."
                    yield Diagnostic("Invalid MIG profile", f"{name!r} {error}.", fix, where)


def _empty(read: MigPartedFile, document: Document) -> Iterator[Diagnostic]:
    paths: list[Where] = [("mig-configs",)] if not read.mig_configs else []
    paths += [("mig-configs", name) for name, entries in read.mig_configs.items() if not entries]
    for path in paths:
        yield Diagnostic("Empty list", f"{dotted(path)} is empty.", "", document.at(path))


def _ambiguous(read: MigPartedFile, document: Document) -> Iterator[Diagnostic]:
    """mig-parted lets the last entry hold that means a GPU, and then finds the node different for ever."""
    for name, entries in read.mig_configs.items():
        for (_, first), (number, second) in combinations(enumerate(entries), 2):
            if _may_mean_the_same(first, second):
                where = document.at(("mig-configs", name, number))
                detail = f"The entry may match a GPU that another entry of {name} also matches."
                fix = "Change devices or device-filter so that each GPU matches one entry."
                yield Diagnostic("Two entries for one GPU", detail, fix, where)


def _may_mean_the_same(first: Entry, second: Entry) -> bool:
    some, others = ({each.casefold() for each in entry.filters} for entry in (first, second))
    if some and others and not some & others:
        return False
    if first.devices == "all" or second.devices == "all":
        return True
    return bool(set(first.devices) & set(second.devices))
