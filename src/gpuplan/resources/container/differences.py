"""Everything in which one container differs from its spec, with the reasons in words.

Of an environment no secret is ever shown, and no value that gpuplan did not set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpuplan.resources.container.fields.conversion import (
    Fields,
    desired_fields,
    image_fields,
    observed_fields,
    show_value,
)
from gpuplan.resources.container.fields.field import Unstated
from gpuplan.resources.container.fields.networking import own_names, primary_network
from gpuplan.resources.container.fields.table import FIELDS
from gpuplan.resources.container.gpu_access import access_lost, compare_state
from gpuplan.resources.container.images import image_differs
from gpuplan.resources.container.read import ObservedContainers, ObservedImage, is_leftover
from gpuplan.resources.container.resolve import ResolvedDevices, compare_devices
from gpuplan.resources.container.secret_digests import SecretState, secret_reasons, secret_states
from gpuplan.resources.container.server import completion_flag
from gpuplan.resources.container.spec import VISIBLE, ContainerSpec, EnvValue
from gpuplan.resources.snapshot.containers import EngineContainer
from gpuplan.resources.snapshot.devices import environment
from gpuplan.types.change import FieldChange
from gpuplan.types.resource import DiffContext
from gpuplan.types.value import Json, integer, texts

UNLABELLED = "label=disable"
"""Security option that the engine gives a container in a namespace of the node, and a privileged one."""
_CGROUPNS = {"1": "host", "2": "private"}
"""Version of the node's control groups → the namespace of them that an engine gives by itself."""


@dataclass(frozen=True)
class Before:
    """A container as it was last applied."""

    spec: ContainerSpec
    digest: str
    """The digest in the label of a container that was created from it."""


@dataclass(frozen=True)
class Differences:
    """The differing fields, and the reasons of those that need one."""

    fields: tuple[FieldChange, ...]
    reasons: tuple[str, ...]
    rotated: frozenset[str] = frozenset()
    """Paths of secrets that changed where gpuplan runs, and not on the node."""

    @property
    def pending(self) -> bool:
        """True if only rotated secrets differ: the node is as it was last applied."""
        return bool(self.fields) and all(change.path in self.rotated for change in self.fields)


def differences(
    spec: ContainerSpec,
    before: Before | None,
    live: EngineContainer,
    bound: ResolvedDevices,
    observed: ObservedContainers,
    context: DiffContext,
) -> Differences:
    """Compare one container. Only what is stated now, or was when it was last applied, takes part."""
    image = observed.image(live.image_id)
    fields: list[FieldChange] = []
    reasons: list[str] = []
    for change, why in (
        _name(live),
        compare_state(live),
        image_differs(spec, live, observed),
        compare_devices(bound, live, observed),
        access_lost(live, observed.denied, observed.toolkit.systemd) if bound.devices else (None, ()),
    ):
        fields.extend([change] if change else [])
        reasons.extend(why)
    fields.extend(_compare_fields(spec, before.spec if before else None, live, observed))
    reasons.extend(_completion(spec, live))
    secrets = secret_states(spec.env, live, context.secrets, context.record.key)
    env = sorted(compare_env(spec.env, before, live, image, secrets), key=lambda change: change.path)
    fields.extend(env)
    reasons.extend(_unstated_variables(env, spec))
    rotated = frozenset(f"env.{name}" for name, verdict in secrets.items() if verdict.rotated)
    return Differences(tuple(fields), (*reasons, *secret_reasons(secrets)), rotated)


def compare_env(
    desired: Mapping[str, EnvValue],
    before: Before | None,
    live: EngineContainer,
    image: ObservedImage | None,
    secrets: Mapping[str, SecretState],
) -> Iterator[FieldChange]:
    """The differing variables. Those of the image are desired unless the plan file states another value.

    The variable that gives a container its GPUs is compared as devices, not here.
    """
    actual = environment(live.config)
    of_image = environment(image.config) if image else {}
    for name, value in desired.items():
        if not isinstance(value, str):
            if secrets[name].differs:
                yield FieldChange(f"env.{name}", None, None, sensitive=True)
        elif actual.get(name) != value:
            has = actual.get(name)
            public = has is None or has == of_image.get(name) or _plain_before(name, has, before, live)
            shown_before, shown_after = (has, value) if public else (None, None)
            yield FieldChange(f"env.{name}", shown_before, shown_after, sensitive=not public)
    by_devices = {VISIBLE} if VISIBLE not in desired else set()
    recorded = before.spec.env if before else {}
    for name in actual.keys() - desired.keys() - by_devices:
        if name in recorded or (image is not None and of_image.get(name) != actual[name]):
            yield FieldChange(f"env.{name}", None, None, sensitive=True)


def desired_env(desired: Mapping[str, EnvValue]) -> Iterator[FieldChange]:
    """The variables of a container that is yet to be created."""
    for name, value in desired.items():
        secret = not isinstance(value, str)
        yield FieldChange(f"env.{name}", None, None if secret else str(value), sensitive=secret)


def is_default(path: str, fields: Fields, live: EngineContainer, observed: ObservedContainers) -> bool:
    """True if a container has this of a field because nothing was stated: the engine gives it by itself."""
    name, value, engine = path.partition(".")[0], fields[path], observed.engine
    if value in FIELDS[name].empty:
        return True
    by_engine: Mapping[str, Json] = {
        "logging.driver": engine.log_driver,
        "runtime": observed.default_runtime,
        "cgroupns": _CGROUPNS.get(engine.cgroup_version, value),
        "memory_swap": 2 * integer(fields.get("memory")),
        "hostname": value if fields["network"] == "host" else live.id[:12],
    }
    return path in by_engine and value == by_engine[path]


def unconfined(fields: Fields) -> bool:
    """True if the engine adds the option `UNLABELLED` by itself."""
    return fields.get("privileged") is True or "host" in (fields.get("pid"), fields.get("ipc"))


def _unstated_variables(env: Sequence[FieldChange], spec: ContainerSpec) -> Iterator[str]:
    """Variables that are too many as reasons, since their values, which may be secrets, are not shown."""
    for name in (change.path.removeprefix("env.") for change in env):
        if name not in spec.env:
            yield f"it has a variable {name}, which the plan file does not state"


def _name(live: EngineContainer) -> tuple[FieldChange | None, tuple[str, ...]]:
    if live.name == live.role:
        return None, ()
    why = "a replacement was interrupted" if is_leftover(live) else "it was renamed"
    return FieldChange("name", live.name, live.role), (why,)


def _compare_fields(
    spec: ContainerSpec, recorded: ContainerSpec | None, live: EngineContainer, observed: ObservedContainers
) -> Iterator[FieldChange]:
    image = observed.image(live.image_id)
    given = image_fields(image.config, spec) if image else {}
    desired = {**given, **desired_fields(spec, observed.networks)}
    before = desired_fields(recorded, observed.networks) if recorded else {}
    actual = _compared(spec, observed_fields(live, observed.networks), live, observed)
    for path, stated in sorted(desired.items()):
        value = _without_own_names(path, stated, live)
        if actual.get(path) != value and not (path == "command" and _as_good(spec, actual[path], value)):
            yield FieldChange(path, show_value(path, actual.get(path)), show_value(path, value))
    for path in sorted(actual.keys() - desired.keys()):
        unstated = FIELDS[path.partition(".")[0]].unstated
        extra = unstated is Unstated.NOTHING or (unstated is Unstated.IMAGE and image is not None)
        dropped = actual[path] == before.get(path) and not is_default(path, actual, live, observed)
        if extra or dropped:
            yield FieldChange(path, show_value(path, actual[path]), None)


def _without_own_names(path: str, stated: Json, live: EngineContainer) -> Json:
    """Aliases on a network, without those that a container has anyway."""
    if not path.startswith("networks."):
        return stated
    own = own_names(live)
    return [alias for alias in texts(stated) if alias not in own]


def _as_good(spec: ContainerSpec, actual: Json, desired: Json) -> bool:
    """A server whose auto-completion is on although no config needs it is not replaced for that."""
    off = completion_flag(False, None)
    return (
        spec.configs_say_all and isinstance(desired, list) and actual == [word for word in desired if word not in off]
    )


def _completion(spec: ContainerSpec, live: EngineContainer) -> tuple[str, ...]:
    """Why a server with auto-completion off is replaced."""
    off = completion_flag(False, None)
    runs_without = any(word in off for word in texts(live.config.get("Cmd")))
    if not spec.config_lacks or not runs_without or set(off) & set(spec.command or ()):
        return ()
    return (f"it runs with {off[0]}, and {spec.config_lacks}; complete the config to keep the container",)


def _compared(spec: ContainerSpec, fields: Fields, live: EngineContainer, observed: ObservedContainers) -> Fields:
    """The fields of a container, without what is compared as another field and what the engine adds by itself.

    The network that a container was created on is one of its networks; and a container in a namespace of the node, or a
    privileged one, gets label=disable (moby, daemon/create.go).
    """
    twice = "network" if spec.networks else f"networks.{primary_network(live, observed.networks)}"
    left = {path: value for path, value in fields.items() if path != twice}
    if unconfined(fields):
        own = {UNLABELLED} - set(spec.security_opt)
        left["security_opt"] = [option for option in texts(fields.get("security_opt")) if option not in own]
    return {path: value for path, value in left.items() if path != "security_opt" or value}


def _plain_before(name: str, has: str, before: Before | None, live: EngineContainer) -> bool:
    """True if the value that a container has cannot be a secret.

    The record has to state the variable as plain text, and the container must not come from another spec: a run that
    was cut off may have given it a secret that is not in the record.
    """
    stated = before.spec.env.get(name) if before else None
    if before is None or not isinstance(stated, str):
        return False
    return stated == has or live.digest in ("", before.digest)
