"""Fields of what is mounted into a container and given to it of its node: volumes, tmpfs, devices."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from gpuplan.resources.container.fields.field import Parts, Reading, TextMap
from gpuplan.resources.snapshot.containers import EngineContainer
from gpuplan.resources.snapshot.devices import is_cdi
from gpuplan.types.value import Json, JsonObject, integer, mapping, mappings, texts

REPOSITORY = "/gpuplan"
"""Where a model server sees its repository directory."""
RENDERED = "model repository:ro"
"""Source of the repository directory's mount when it is compared, wherever on the node gpuplan has its root."""
_VOLUME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.-]+$")
_PROPAGATION = {"shared", "rshared", "slave", "rslave", "private", "rprivate"}
_OPTIONS = {"ro", "rw", "z", "Z", "nocopy", "cached", "delegated", "consistent"} | _PROPAGATION
_TMPFS_DEFAULTS = ("rw", "noexec", "nosuid", "nodev")
"""What the engine gives every tmpfs (moby, daemon/oci_linux.go)."""
_TMPFS_SIZE = re.compile(r"^(\d+)([kmg]?)$", re.IGNORECASE)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_PERMISSIONS = "rwm"
"""Permissions of a device if none are stated: read, write, make nodes."""
_DEVICE = re.compile(r"^(/[^:]+)(?::(/[^:]+))?(?::([rwm]{1,3}))?$")
_GIVES_GPUS = re.compile(r"^(/|/dev|/dev/char|/dev/nvidia[^:]*|/proc(/[^:]*)?|/sys(/[^:]*)?)$")
"""A device file of a GPU, or a directory: the engine gives every device below it, and so the GPUs'."""
_RULE = re.compile(r"^([abc]) (\d+|\*):(\d+|\*) ([rwm]{1,3})$", re.ASCII)
_NVIDIA_MAJOR = "195"
"""Number of NVIDIA's driver for device files (Linux, admin-guide/devices.txt)."""


@dataclass(frozen=True)
class Volumes(TextMap):
    """Path in the container → source and options: ``/srv/cache:ro``, or the name of a volume."""

    def parse(self, stated: Any, reading: Reading) -> Any:
        try:
            return mounts_of(stated)
        except ValueError as error:
            reading.problem("Volume is not valid", f"{error}.", 'Write "/srv/cache:/cache" or "name:/data:ro".')
            return {}

    def encode(self, value: Any) -> Json:
        return [_bind(target, source) for target, source in value.items()]

    def read(self, live: EngineContainer, networks: Mapping[str, str]) -> Parts:
        found: dict[str, Json] = {}
        for bind in texts(live.host_config.get("Binds")):
            source, colon, rest = bind.partition(":")
            target, _, options = rest.partition(":") if colon else (bind, "", "")
            found[target] = _source(source if colon else "", target, options.split(","), live)
        for mount in mappings(live.host_config.get("Mounts")):
            if mount.get("Type") != "tmpfs":
                target = str(mount.get("Target", ""))
                found[target] = _source(str(mount.get("Source") or ""), target, list(_options(mount)), live)
        return found

    def write(self, parts: Parts) -> Json:
        return [_bind(target, str(source)) for target, source in parts.items() if source] or None


@dataclass(frozen=True)
class Tmpfs(TextMap):
    """Path → options in their normal form."""

    def parse(self, stated: Any, reading: Reading) -> Any:
        value: dict[str, str] = {}
        mounted: set[str] = set()
        with suppress(ValueError):
            mounted.update(mounts_of(reading.container.volumes))
        for form in stated:
            path, _, options = form.partition(":")
            target = posixpath.normpath(path) if path else ""
            if not target.startswith("/") or target == "/":
                detail = f"{form!r} is not PATH or PATH:OPTIONS."
                reading.problem("tmpfs is not valid", detail, 'Write "/run:size=64m".')
            elif target in value or target in mounted:
                reading.problem("Two mounts at one path", f"{target} is mounted twice.", "Remove one of them.")
            else:
                value[target] = tmpfs_options(options.split(","))
        return value

    def read(self, live: EngineContainer, networks: Mapping[str, str]) -> Parts:
        tmpfs = mapping(live.host_config.get("Tmpfs"))
        found: dict[str, Json] = {path: tmpfs_options(str(options).split(",")) for path, options in tmpfs.items()}
        for mount in mappings(live.host_config.get("Mounts")):
            if mount.get("Type") == "tmpfs":
                stated = mapping(mount.get("TmpfsOptions"))
                size, mode = integer(stated.get("SizeBytes")), integer(stated.get("Mode"))
                options = [f"size={size}" if size else "", f"mode={mode:o}" if mode else ""]
                found[str(mount.get("Target", ""))] = tmpfs_options([*options, *_options(mount)])
        return found

    def write(self, parts: Parts) -> Json:
        return [":".join(filter(None, (path, str(options)))) for path, options in parts.items()] or None

    def show(self, key: str, value: Json) -> Json:
        return value or "mounted"


@dataclass(frozen=True)
class Devices(TextMap):
    """Path in the container → path on the node and, if not all of them, permissions: ``/dev/fuse:r``."""

    def parse(self, stated: Any, reading: Reading) -> Any:
        value: dict[str, str] = {}
        for form in stated:
            match = _DEVICE.match(form)
            on_node = path(match[1]) if match else ""
            if "=" in form or _GIVES_GPUS.match(on_node):
                detail = f"{form} would give the container a GPU that its gpus do not name."
                fix = "Use gpus for GPUs, and name other devices one by one."
                reading.problem("GPUs cannot be given as devices", detail, fix)
            elif match:
                value[path(match[2] or on_node)] = _device(on_node, match[3] or "")
            else:
                detail, fix = f"{form!r} is not PATH[:PATH][:rwm].", "Write /dev/fuse, or /dev/ttyS0:/dev/modem:rw."
                reading.problem("Device is not valid", detail, fix)
        return value

    def encode(self, value: Any) -> Json:
        return [_raw_device(inside, device) for inside, device in value.items()]

    def decode(self, raw: Json) -> Parts:
        """Without those that CDI names: they are GPUs, and compared as such."""
        found: dict[str, Json] = {}
        for device in mappings(raw):
            on_node = str(device.get("PathOnHost") or "")
            if not is_cdi(on_node):
                inside = str(device.get("PathInContainer") or on_node)
                found[inside] = _device(on_node, str(device.get("CgroupPermissions") or ""))
        return found

    def write(self, parts: Parts) -> Json:
        return [
            ":".join(map(str, _raw_device(inside, str(device)).values())) for inside, device in parts.items()
        ] or None


def check_rules(value: Iterable[str], reading: Reading) -> None:
    """They have the kernel's form, and give no GPU."""
    for rule in value:
        match = _RULE.match(rule)
        if match is None:
            detail, fix = f"{rule!r} is not TYPE MAJOR:MINOR PERMISSIONS.", 'Write "c 10:229 rwm".'
            reading.problem("Device rule is not valid", detail, fix)
        elif match[1] != "b" and match[2] in ("*", _NVIDIA_MAJOR):
            detail = f"{rule} would allow the container a GPU that its gpus do not name."
            reading.problem("GPUs cannot be given as devices", detail, "Use gpus for GPUs, and name other devices.")


def mounts_of(forms: Iterable[str]) -> Mapping[str, str]:
    """``/srv/cache:/models/cache:ro`` → {``/models/cache``: ``/srv/cache:ro``}.

    Raises:
        ValueError: a form is not SOURCE:TARGET[:OPTIONS], or two have the same target.
    """
    mounts: dict[str, str] = {}
    for form in forms:
        target, source = _mount(form)
        if target in mounts:
            raise ValueError(f"two volumes are mounted at {target}")
        mounts[target] = source
    return mounts


def mount_text(source: str, options: Iterable[str]) -> str:
    """The normal text of a mount's source: read-write and the propagation of binds are what Docker assumes."""
    path = posixpath.normpath(source) if source.startswith("/") else source
    stated = sorted({option for option in options if option and option not in ("rw", "rprivate")})
    return ":".join([path, *([",".join(stated)] if stated else [])])


def tmpfs_options(options: Iterable[str]) -> str:
    """Options in order, without those that the engine assumes; a size in its largest whole unit."""
    stated = {_tmpfs_option(option.strip()) for option in options if option.strip()}
    return ",".join(sorted(stated - set(_TMPFS_DEFAULTS)))


def path(text: str) -> str:
    """An absolute path without ``.``, ``..`` and needless slashes; two at its beginning are one on Linux."""
    return "/" + posixpath.normpath(text).lstrip("/")


def _mount(form: str) -> tuple[str, str]:
    parts = form.split(":")
    if len(parts) not in (2, 3) or not all(parts):
        raise ValueError(f"{form!r} is not SOURCE:TARGET or SOURCE:TARGET:OPTIONS")
    source, target = parts[0], parts[1]
    options = parts[2].split(",") if len(parts) == 3 else []
    if not (source.startswith("/") or _VOLUME.match(source)):
        raise ValueError(f"{source!r} is neither an absolute path on the node nor the name of a volume")
    if not target.startswith("/"):
        raise ValueError(f"{target!r} is not an absolute path in the container")
    if unknown := sorted(set(options) - _OPTIONS):
        raise ValueError(f"{', '.join(unknown)} is not an option of a volume")
    return posixpath.normpath(target), mount_text(source, options)


def _bind(target: str, source: str) -> str:
    path, _, options = source.partition(":")
    return f"{path}:{target}:{options}" if options else f"{path}:{target}"


def _options(mount: JsonObject) -> Iterator[str]:
    if mount.get("ReadOnly") is True:
        yield "ro"
    if mapping(mount.get("VolumeOptions")).get("NoCopy") is True:
        yield "nocopy"
    yield str(mapping(mount.get("BindOptions")).get("Propagation") or "")


def _source(source: str, target: str, options: list[str], live: EngineContainer) -> str:
    if target == REPOSITORY and source.endswith(f"/plans/{live.plan}/triton/{live.role}") and "ro" in options:
        return RENDERED
    return mount_text(source, options)


def _tmpfs_option(option: str) -> str:
    name, equals, value = option.partition("=")
    if name == "size" and (match := _TMPFS_SIZE.match(value)):
        size = int(match[1]) * _UNITS[match[2].lower()]
        unit = next((unit for unit in ("g", "m", "k") if size and size % _UNITS[unit] == 0), "")
        return f"size={size // _UNITS[unit]}{unit}"
    if name == "mode" and re.fullmatch(r"[0-7]+", value):
        return f"mode={int(value, 8):o}"
    return option if equals else name


def _device(on_node: str, permissions: str) -> str:
    """Path on the node, with the permissions if not all are given."""
    given = "".join(letter for letter in _PERMISSIONS if letter in permissions) if permissions else _PERMISSIONS
    clean = path(on_node) if on_node else ""
    return clean if given == _PERMISSIONS else f"{clean}:{given}"


def _raw_device(inside: str, device: str) -> JsonObject:
    on_node, _, rights = device.partition(":")
    return {"PathOnHost": on_node, "PathInContainer": inside, "CgroupPermissions": rights or _PERMISSIONS}
