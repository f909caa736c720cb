"""A container of the node as the section of a plan file that would create it, for `discover`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpuplan.resources.container.differences import UNLABELLED, is_default, unconfined
from gpuplan.resources.container.fields.conversion import below, image_fields, observed_fields
from gpuplan.resources.container.fields.table import FIELDS
from gpuplan.resources.container.images import find_image
from gpuplan.resources.container.read import ObservedContainers, ObservedImage, unnamed_volumes
from gpuplan.resources.container.spec import VISIBLE, ContainerSpec
from gpuplan.resources.snapshot.containers import EngineContainer
from gpuplan.resources.snapshot.devices import environment, requested_devices
from gpuplan.types.value import Json, JsonObject, texts

IsPrivate = Callable[[str, str], bool]
_NOT_DESCRIBED = {"Links": "links", "VolumesFrom": "volumes of another container"}
"""Settings of the engine that the plan file has no key for."""


@dataclass(frozen=True)
class Described:
    """One container as a plan file has it."""

    name: str
    section: JsonObject
    """Without `nodes`."""
    secrets: tuple[str, ...] = ()
    """Variables whose values look like secrets; the section refers to those of the same name where gpuplan runs."""
    unsaid: tuple[str, ...] = ()
    """What it has and a plan file cannot state; such settings are neither compared nor changed."""


def describe(
    live: EngineContainer, observed: ObservedContainers, devices: Mapping[str, str], private: IsPrivate
) -> Described:
    """Describe one container.

    `devices` are the plan file's names of GPUs and slices by UUID; `private` decides of a variable and its value
    whether it is a secret.
    """
    image = observed.image(live.image_id)
    given = requested_devices(live.config, live.host_config, observed.default_runtime, observed.gpus)
    env = dict(_env(live, image, bool(given)))
    secrets = tuple(name for name, value in env.items() if private(name, value))
    section: dict[str, Json] = {
        "image": _image_name(live, observed),
        "gpus": sorted(devices.get(uuid, uuid) for uuid in given),
        "env": {name: f"${{env:{name}}}" if name in secrets else _escaped(value) for name, value in env.items()},
        **{name: _escaped(value) for name, value in _fields(live, observed, image)},
    }
    stated = {key: value for key, value in section.items() if value not in ([], {}, None)}
    return Described(live.name, stated, secrets, tuple(_not_described(live, image)))


def _fields(
    live: EngineContainer, observed: ObservedContainers, image: ObservedImage | None
) -> Iterator[tuple[str, Json]]:
    """Each field that is neither the image's nor the engine's default, as the plan file writes it."""
    fields = dict(observed_fields(live, observed.networks))
    given = dict(image_fields(image.config, ContainerSpec(image=""))) if image else {}
    if fields["entrypoint"] != given.get("entrypoint", []):
        given["command"] = []
    if unconfined(fields):
        options = texts(fields.get("security_opt"))
        fields["security_opt"] = [option for option in options if option != UNLABELLED]
    networks = below("networks", fields)
    several = len(networks) > 1 or any(networks.values())
    own = {
        path: value
        for path, value in fields.items()
        if given.get(path) != value and not is_default(path, fields, live, observed)
    }
    if below("logging", own):
        own["logging.driver"] = fields["logging.driver"]  # options are those of a driver
    for name, field in FIELDS.items():
        parts = below(name, own)
        if name == "networks":
            parts = dict(sorted(parts.items(), key=lambda part: part[0] != fields["network"])) if several else {}
        if parts and not (name == "network" and several):
            yield name, field.write(parts)


def _image_name(live: EngineContainer, observed: ObservedContainers) -> str:
    """The name that it was created by, if that still means its image; else another one, or the id."""
    image = observed.image(live.image_id)
    names = (live.image, *(image.tags if image else ()), *(image.digests if image else ()))
    same = (name for name in names if (found := find_image(name, observed.images)) and found.id == live.image_id)
    return next(same, live.image_id)


def _env(live: EngineContainer, image: ObservedImage | None, gpus: bool) -> Iterator[tuple[str, str]]:
    """What differs from the image, without what a container with GPUs is given anyway."""
    of_image = environment(image.config) if image else {}
    given = ("CUDA_DEVICE_ORDER", "PCI_BUS_ID") if gpus else ()
    for name, value in sorted(environment(live.config).items()):
        if name != VISIBLE and of_image.get(name) != value and (name, value) != given:
            yield name, value


def _escaped(value: Json) -> Json:
    """The same value, in which nothing is taken for a reference."""
    if isinstance(value, str):
        return value.replace("${", "$${")
    if isinstance(value, Mapping):
        return {key: _escaped(item) for key, item in value.items()}
    return [_escaped(item) for item in value] if isinstance(value, Sequence) else value


def _not_described(live: EngineContainer, image: ObservedImage | None) -> Iterator[str]:
    for key, words in _NOT_DESCRIBED.items():
        if live.host_config.get(key):
            yield words
    if paths := unnamed_volumes(live, image):
        yield f"a volume without a name at {', '.join(paths)}"
