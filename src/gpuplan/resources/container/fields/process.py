"""Fields of what runs in a container, as whom and with which rights: command, user, health check, log, capabilities."""

from __future__ import annotations

import math
import posixpath
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from signal import Signals
from typing import Any

from pydantic import Field as Stating
from pydantic import model_validator

from gpuplan.planfile.scalars import Natural, Seconds, Section
from gpuplan.resources.container.fields.field import Field, Flag, Parts, Reading, Text, TextMap, as_texts
from gpuplan.types.value import Json, JsonObject, integer, mapping, texts

NO_NEW_PRIVILEGES = "no-new-privileges"
Scalar = str | int | float | bool
_DURATIONS = {"interval": "Interval", "timeout": "Timeout", "start_period": "StartPeriod"}
"""Durations of a health check: nanoseconds in the engine."""
_SHORTEST = 0.001
"""The shortest duration of a health check that the engine takes, in seconds."""
_SECURITY = ("apparmor", "label", "seccomp", NO_NEW_PRIVILEGES)
"""What the engine takes; its command line knows more, and sends it as other fields (moby, daemon/daemon_unix.go)."""
_CAPABILITIES = frozenset(
    """ALL AUDIT_CONTROL AUDIT_READ AUDIT_WRITE BLOCK_SUSPEND BPF CHECKPOINT_RESTORE CHOWN DAC_OVERRIDE DAC_READ_SEARCH
    FOWNER FSETID IPC_LOCK IPC_OWNER KILL LEASE LINUX_IMMUTABLE MAC_ADMIN MAC_OVERRIDE MKNOD NET_ADMIN NET_BIND_SERVICE
    NET_BROADCAST NET_RAW PERFMON SETFCAP SETGID SETPCAP SETUID SYSLOG SYS_ADMIN SYS_BOOT SYS_CHROOT SYS_MODULE SYS_NICE
    SYS_PACCT SYS_PTRACE SYS_RAWIO SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG WAKE_ALARM""".split()  # noqa: SIM905 - to read
)
"""Those of Linux 6.12 (include/uapi/linux/capability.h), and the engine's word for all."""
_REALTIME = re.compile(r"RTM(IN|AX)([+-]\d+)?")


class HealthcheckSection(Section):
    """The engine's own health check; what is not stated comes from the image."""

    test: tuple[str, ...] | str | None = Stating(
        default=None, description="[CMD, PROGRAM, …], [CMD-SHELL, TEXT], or one text for the container's shell"
    )
    interval: Seconds | None = None
    timeout: Seconds | None = None
    start_period: Seconds | None = None
    retries: Natural | None = None
    disable: bool = Stating(default=False, description="no health check, not even the image's")

    @model_validator(mode="after")
    def _disabled_alone(self) -> HealthcheckSection:
        settings = (self.test, self.interval, self.timeout, self.start_period, self.retries)
        if self.disable and any(setting is not None for setting in settings):
            raise ValueError("is disabled; state nothing else besides disable: true")
        return self


class LoggingSection(Section):
    """Where the engine puts the container's output."""

    driver: str | None = Stating(default=None, description="json-file, local, journald, …; the engine's if not stated")
    options: Mapping[str, Scalar] = Stating(default_factory=dict)


@dataclass(frozen=True)
class Healthcheck:
    """The engine's own check; what is None comes from the image. Durations are in seconds."""

    test: tuple[str, ...] | None = None
    """``NONE`` alone, or ``CMD`` or ``CMD-SHELL`` and what they run."""
    interval: float | None = None
    timeout: float | None = None
    start_period: float | None = None
    retries: int | None = None


@dataclass(frozen=True)
class Logging:
    """Where output goes; a driver of None is the one that the engine is set up with."""

    driver: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Words(Field):
    """A command: a list of words, or one text that is split as a shell does."""

    empty: tuple[Json, ...] = (None, [])

    def parse(self, stated: Any, reading: Reading) -> Any:
        try:
            words = tuple(shlex.split(stated)) if isinstance(stated, str) else stated
        except ValueError as error:
            reading.problem("Command is not valid", f"{stated!r}: {error}.", "Write it as a list of words.")
            return None
        return words if words or self._key == "Entrypoint" else None

    def parts(self, value: Any) -> Parts:
        return {"": list(value)}

    def encode(self, value: Any) -> Json:
        return list(value) or [""] if self._key == "Entrypoint" else list(value)

    def decode(self, raw: Json) -> Parts:
        return {"": list(texts(raw))}

    def show(self, key: str, value: Json) -> Json:
        return shlex.join(texts(value)) if isinstance(value, list | tuple) else value


@dataclass(frozen=True)
class Timeout(Field):
    """Whole seconds; the engine keeps null if nothing is stated."""

    def parse(self, stated: Any, reading: Reading) -> Any:
        return math.ceil(stated)


@dataclass(frozen=True)
class Privileged(Flag):
    """A privileged container has every device of the node, so the plan file must say that this includes the GPUs."""

    def parse(self, stated: Any, reading: Reading) -> Any:
        if stated is True:
            detail = "A privileged container sees every GPU and slice of the node, also those of other containers."
            fix = "State cap_add and devices instead, or write privileged: with-every-gpu if that is intended."
            reading.problem("Privileged container sees every GPU", detail, fix)
        return bool(stated)

    def write(self, parts: Parts) -> Json:
        return "with-every-gpu" if parts.get("") else None


@dataclass(frozen=True)
class Labels(TextMap):
    """Labels without gpuplan's own; what an image gives of those is of the container that it was made of."""

    def parse(self, stated: Any, reading: Reading) -> Any:
        for name in stated:
            if name.startswith("gpuplan."):
                detail = "Labels that begin with gpuplan. mark the containers that gpuplan created."
                reading.problem("Label is reserved", detail, "Choose another name.", below=name)
        return dict(stated)

    def decode(self, raw: Json) -> Parts:
        return {name: text for name, text in super().decode(raw).items() if not name.startswith("gpuplan.")}


@dataclass(frozen=True)
class Restart(Text):
    """A restart policy with its number of retries, if it has one."""

    def encode(self, value: Any) -> Json:
        name, _, count = value.partition(":")
        return {"Name": name, "MaximumRetryCount": int(count or 0)}

    def decode(self, raw: Json) -> Parts:
        policy = mapping(raw)
        return {"": restart_policy(f"{policy.get('Name') or ''}:{integer(policy.get('MaximumRetryCount'))}")}


@dataclass(frozen=True)
class Health(Field):
    """The health check, each of its settings compared by itself."""

    compared = "key by key"

    def parse(self, stated: Any, reading: Reading) -> Any:
        if stated.disable:
            return Healthcheck(("NONE",))
        for key in _DURATIONS:
            if 0 < (getattr(stated, key) or 0) < _SHORTEST:
                detail = "The engine takes 1ms and more."
                reading.problem("Duration is too short", detail, "Make it longer.", below=key)
        test = ("CMD-SHELL", stated.test) if isinstance(stated.test, str) else stated.test
        if test is not None and (not test or test[0] not in ("NONE", "CMD", "CMD-SHELL")):
            detail = f"{shlex.join(test)!r} does not begin with CMD, CMD-SHELL or NONE."
            fix = "Write [CMD, PROGRAM, ARGUMENT, …]."
            reading.problem("Health check is not valid", detail, fix, below="test")
        durations = (stated.interval or None, stated.timeout or None, stated.start_period or None)
        return Healthcheck(test, *durations, stated.retries or None)

    def parts(self, value: Any) -> Parts:
        return {name: setting for name, setting in self.decode(self.encode(value)).items() if setting is not None}

    def encode(self, value: Any) -> Json:
        stated: dict[str, Json] = {"Test": None if value.test is None else list(value.test), "Retries": value.retries}
        for name, key in _DURATIONS.items():
            seconds = getattr(value, name)
            stated[key] = None if seconds is None else round(seconds * 1e9)
        return {key: setting for key, setting in stated.items() if setting is not None}

    def decode(self, raw: Json) -> Parts:
        check = mapping(raw)
        durations = {name: integer(check.get(key)) or None for name, key in _DURATIONS.items()}
        return {
            "test": list(texts(check.get("Test"))) or None,
            **durations,
            "retries": integer(check.get("Retries")) or None,
        }

    def write(self, parts: Parts) -> Json:
        settings = {
            name: seconds_text(integer(setting)) if name in _DURATIONS else setting
            for name, setting in parts.items()
            if setting is not None
        }
        return {"disable": True} if settings.get("test") == ["NONE"] else settings or None

    def show(self, key: str, value: Json) -> Json:
        if key == "test":
            return shlex.join(texts(value))
        return seconds_text(integer(value)) if key in _DURATIONS else value


@dataclass(frozen=True)
class Log(Field):
    """Log driver and options, compared key by key."""

    compared = "key by key"

    def parse(self, stated: Any, reading: Reading) -> Any:
        return Logging(stated.driver or None, as_texts(stated.options))

    def parts(self, value: Any) -> Parts:
        driver: JsonObject = {"driver": value.driver} if value.driver else {}
        return {**driver, **{f"options.{name}": option for name, option in value.options.items()}}

    def encode(self, value: Any) -> Json:
        return {"Type": value.driver or "", "Config": dict(value.options)}

    def decode(self, raw: Json) -> Parts:
        return self.parts(Logging(str(mapping(raw).get("Type") or ""), as_texts(mapping(mapping(raw).get("Config")))))

    def write(self, parts: Parts) -> Json:
        options = {key.removeprefix("options."): value for key, value in parts.items() if key != "driver"}
        return {"driver": parts.get("driver"), **({"options": options} if options else {})}


def restart_policy(text: str) -> str:
    """``on-failure:0`` is ``on-failure``, and no policy is ``no``."""
    name, _, count = text.partition(":")
    return f"{name}:{count}" if name == "on-failure" and int(count or 0) else name or "no"


def user(text: str) -> str:
    """``root`` is user and group 0 in every image; what other names mean is only known inside."""
    return ":".join("0" if part == "root" else part for part in text.split(":"))


def workdir(text: str) -> str:
    """The path as the engine cleans it."""
    return posixpath.normpath(text) if text else ""


def check_workdir(value: str, reading: Reading) -> None:
    """It is absolute."""
    if not value.startswith("/"):
        detail = f"{value!r} is not an absolute path in the container."
        reading.problem("Working directory is not absolute", detail, "Begin it with /.")


def signal(text: str) -> str:
    """``15``, ``term`` and ``SIGTERM`` are the same."""
    name = text.upper().removeprefix("SIG")
    if name.isdecimal():
        return next((known.name for known in Signals if known.value == int(name)), text)
    return f"SIG{name}" if name else ""


def check_signal(value: str, reading: Reading) -> None:
    """Linux has it."""
    if value not in Signals.__members__ and not _REALTIME.fullmatch(value.removeprefix("SIG")):
        detail = f"{value} is not a signal of Linux."
        reading.problem("Stop signal is unknown", detail, "Write SIGTERM, SIGINT, SIGQUIT, …")


def capability(name: str) -> str:
    """``CAP_NET_ADMIN`` and ``net_admin`` are the same."""
    return name.upper().removeprefix("CAP_")


def check_capabilities(value: tuple[str, ...], reading: Reading) -> None:
    """Linux has them."""
    for name in value:
        if name not in _CAPABILITIES:
            detail = f"Linux has no capability called {name}."
            reading.problem("Capability is unknown", detail, "See capabilities(7) for their names.")


def security_options(options: tuple[str, ...]) -> tuple[str, ...]:
    """``name:value`` and ``name=value`` are the same, and so are ``no-new-privileges`` and the same with ``true``."""
    normal = set()
    for option in options:
        name, _, value = (option if "=" in option else option.replace(":", "=", 1)).partition("=")
        if name != NO_NEW_PRIVILEGES:
            normal.add(f"{name}={value}" if value else name)
        elif value.lower() in ("", "true", "1", "t"):
            normal.add(name)
    return tuple(sorted(normal))


def check_security(value: tuple[str, ...], reading: Reading) -> None:
    """A seccomp profile in a file cannot be given: the file is not on the node."""
    for option in value:
        name, _, setting = option.partition("=")
        if name not in _SECURITY:
            detail = f"{option} is none of {', '.join(_SECURITY)}, the only ones that the engine takes."
            reading.problem("Security option is unknown", detail, "Correct it.")
        elif name == "seccomp" and setting not in ("unconfined", "builtin"):
            detail = f"{option} names a profile in a file, and gpuplan does not copy profiles to nodes."
            fix = "Write seccomp=unconfined, or leave it out."
            reading.problem("Seccomp profiles in files are not supported", detail, fix)


def seconds_text(nanoseconds: int) -> str:
    """A duration as the plan file writes it."""
    minutes, rest = divmod(nanoseconds, 60 * 10**9)
    left = f"{rest / 1e9:g}s" if rest or not minutes else ""
    return f"{minutes}m{left}" if minutes else left
