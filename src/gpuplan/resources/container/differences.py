"""Differences: everything in which one container is not what its spec states, with the reasons in words.

No secret and no stranger's value is ever told of an environment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpuplan.resources.container.canonical import FROM_IMAGE, OWNED, Fields, image_fields, shown, wanted_fields
from gpuplan.resources.container.gpu_access import access_lost, compare_state
from gpuplan.resources.container.images import image_differs
from gpuplan.resources.container.livefields import live_fields, own_names, primary_network
from gpuplan.resources.container.read import ObservedContainers, ObservedImage, is_leftover
from gpuplan.resources.container.resolve import ResolvedDevices, compare_devices
from gpuplan.resources.container.secret_digests import SecretState, secret_reasons, secret_states
from gpuplan.resources.container.server import completion_flag
from gpuplan.resources.container.shape import VISIBLE, ContainerSpec, EnvValue
from gpuplan.resources.snapshot.devices import environment
from gpuplan.resources.snapshot.docker import Live
from gpuplan.resources.snapshot.raw import mapping, texts
from gpuplan.types.change import FieldChange
from gpuplan.types.resource import DiffContext
from gpuplan.types.value import Json

UNLABELLED = "label=disable"
"""The option that the engine gives a container in a namespace of the node, or a privileged one."""
_DEFAULTS: Mapping[str, Json] = {"restart": "no", "network": "bridge", "ipc": "private", "memory": 0}


@dataclass(frozen=True)
class Before:
    """A container as it was last applied."""

    spec: ContainerSpec
    digest: str
    """What the label of a container says that was made from it."""


@dataclass(frozen=True)
class Differences:
    """The differing fields, and why each that needs words differs."""

    fields: tuple[FieldChange, ...]
    reasons: tuple[str, ...]
    rotated: frozenset[str] = frozenset()
    """Paths of secrets that are others where gpuplan runs, and not on the node."""

    @property
    def pending(self) -> bool:
        """True where nothing differs but secrets that were rotated: the node is as it was last applied."""
        return bool(self.fields) and all(change.path in self.rotated for change in self.fields)


def differences(
    spec: ContainerSpec,
    before: Before | None,
    live: Live,
    bound: ResolvedDevices,
    observed: ObservedContainers,
    context: DiffContext,
) -> Differences:
    """Compare one container. Only what is stated now, or was when it was last applied, takes part."""
    image = observed.image(live.image_id)
    found: list[FieldChange] = []
    reasons: list[str] = []
    for change, why in (
        _name(live),
        compare_state(live),
        image_differs(spec, live, observed),
        compare_devices(bound, live, observed),
        access_lost(live, observed.denied, observed.toolkit.systemd) if bound.devices else (None, ()),
    ):
        found.extend([change] if change else [])
        reasons.extend(why)
    found.extend(_fields(spec, before.spec if before else None, live, observed))
    reasons.extend(_completion(spec, live))
    secrets = secret_states(spec.env, live, context.secrets, context.record.key)
    env = sorted(compare_env(spec.env, before, live, image, secrets), key=lambda change: change.path)
    found.extend(env)
    reasons.extend(_unstated(env, spec))
    rotated = frozenset(f"env.{name}" for name, each in secrets.items() if each.rotated)
    return Differences(tuple(found), (*reasons, *secret_reasons(secrets)), rotated)


def compare_env(
    wanted: Mapping[str, EnvValue],
    before: Before | None,
    live: Live,
    image: ObservedImage | None,
    secrets: Mapping[str, SecretState],
) -> Iterator[FieldChange]:
    """The differing variables. What the image brings counts as wanted where the plan file does not overlay it.

    What gives a container its GPUs is compared as devices, not here.
    """
    has = environment(live.config)
    brought = environment(image.config) if image else {}
    for name, value in wanted.items():
        if not isinstance(value, str):
            if secrets[name].differs:
                yield FieldChange(f"env.{name}", None, None, sensitive=True)
        elif has.get(name) != value:
            public = name not in has or has[name] == brought.get(name) or _plain_before(name, has[name], before, live)
            shown_before, shown_after = (has.get(name), value) if public else (None, None)
            yield FieldChange(f"env.{name}", shown_before, shown_after, sensitive=not public)
    by_devices = {VISIBLE} if VISIBLE not in wanted else set()
    recorded = before.spec.env if before else {}
    for name in has.keys() - wanted.keys() - by_devices:
        if name in recorded or (image is not None and brought.get(name) != has[name]):
            yield FieldChange(f"env.{name}", None, None, sensitive=True)


def wanted_env(wanted: Mapping[str, EnvValue]) -> Iterator[FieldChange]:
    """The variables of a container that is yet to be made."""
    for name, value in wanted.items():
        secret = not isinstance(value, str)
        yield FieldChange(f"env.{name}", None, None if secret else str(value), sensitive=secret)


def _unstated(env: Sequence[FieldChange], spec: ContainerSpec) -> Iterator[str]:
    """Variables that are too many, in words, since of a value that may be a secret nothing is shown."""
    for name in (change.path.removeprefix("env.") for change in env):
        if name not in spec.env:
            yield f"it has a variable {name}, which the plan file does not state"


def _name(live: Live) -> tuple[FieldChange | None, tuple[str, ...]]:
    if live.name == live.role:
        return None, ()
    why = "a replacement was interrupted" if is_leftover(live) else "it was renamed"
    return FieldChange("name", live.name, live.role), (why,)


def _fields(
    spec: ContainerSpec, recorded: ContainerSpec | None, live: Live, observed: ObservedContainers
) -> Iterator[FieldChange]:
    image = observed.image(live.image_id)
    wanted = {**(image_fields(image, spec) if image else {}), **wanted_fields(spec, observed.networks)}
    before = wanted_fields(recorded, observed.networks) if recorded else {}
    has = _compared(spec, live_fields(live, observed.networks), live, observed)
    wanted = {**(_brought_labels(image) if image else {}), **wanted}
    given = own_names(live)
    for path, stated in sorted(wanted.items()):
        further = [alias for alias in texts(stated) if alias not in given]
        value = further if path.startswith("networks.") else stated
        if has.get(path) != value and not (path == "command" and _as_good(spec, has[path], value)):
            yield FieldChange(path, shown(path, has.get(path)), shown(path, value))
    for path in sorted(has.keys() - wanted.keys()):
        owned = path.startswith(OWNED) and (image is not None or not path.startswith("labels."))
        dropped = path in before and has[path] == before[path] != _default(path, observed)
        if owned or (dropped and (image is None or path.partition(".")[0] not in FROM_IMAGE)):
            yield FieldChange(path, shown(path, has[path]), None)


def _brought_labels(image: ObservedImage) -> Fields:
    """The labels that an image gives; those of ours, which it has where it was made of a container, are not wanted."""
    brought = mapping(image.config.get("Labels")).items()
    return {f"labels.{name}": str(value) for name, value in brought if not name.startswith("gpuplan.")}


def _as_good(spec: ContainerSpec, has: Json, wanted: Json) -> bool:
    """A server that completes configs although none needs it is not replaced for that."""
    off = completion_flag(False, None)
    return spec.configs_say_all and isinstance(wanted, list) and has == [word for word in wanted if word not in off]


def _completion(spec: ContainerSpec, live: Live) -> tuple[str, ...]:
    """Why a server that takes configs as they stand must give way."""
    off = completion_flag(False, None)
    runs_without = any(word in off for word in texts(live.config.get("Cmd")))
    if not spec.config_lacks or not runs_without or set(off) & set(spec.command or ()):
        return ()
    return (f"it runs with {off[0]}, and {spec.config_lacks}: state that, and the container stays",)


def _compared(spec: ContainerSpec, fields: Fields, live: Live, observed: ObservedContainers) -> Fields:
    """Without what is said in another way, and what the engine adds by itself.

    The network that a container was created on is one of its networks; and a container in a namespace of the node, or a
    privileged one, gets label=disable (moby, daemon/create.go).
    """
    told = "network" if spec.networks else f"networks.{primary_network(live, observed.networks)}"
    left = {path: value for path, value in fields.items() if path != told}
    if unconfined(fields):
        own = {UNLABELLED} - set(spec.security_opt)
        left["security_opt"] = [each for each in texts(fields.get("security_opt")) if each not in own]
    return {path: value for path, value in left.items() if path != "security_opt" or value}


def unconfined(fields: Fields) -> bool:
    """True where the engine adds the option `UNLABELLED` by itself."""
    return fields.get("privileged") is True or "host" in (fields.get("pid"), fields.get("ipc"))


def _default(path: str, observed: ObservedContainers) -> Json:
    return observed.engine.log_driver if path == "logging.driver" else _DEFAULTS.get(path)


def _plain_before(name: str, has: str, before: Before | None, live: Live) -> bool:
    """True where the value that a container has can be no secret.

    The record has to state the variable as plain text, and the container must not come from another spec: a run that
    was cut off may have given it a secret that the record does not know.
    """
    stated = before.spec.env.get(name) if before else None
    if before is None or not isinstance(stated, str):
        return False
    return stated == has or live.digest in ("", before.digest)
