"""All fields at once: from the plan file to a spec, from a spec to the engine, and both to what is compared.

What is compared is flat: ``shm_size`` → a value, and ``labels.tier`` → a value for each key of a map.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from gpuplan.resources.container.fields.field import Field, Parts, Reading, Unstated
from gpuplan.resources.container.fields.mounts import RENDERED, REPOSITORY
from gpuplan.resources.container.fields.networking import network_name
from gpuplan.resources.container.fields.table import FIELDS, ContainerFields
from gpuplan.resources.container.spec import ContainerSpec
from gpuplan.resources.snapshot.containers import EngineContainer
from gpuplan.types.value import Json, JsonObject

Fields = Mapping[str, Json]
"""Path of a field, or of one key of a field that is a map → its value."""
IN_PLACE = frozenset(name for name, field in FIELDS.items() if field.in_place)
"""Fields that the engine can change on a container that exists (POST /containers/ID/update).

It takes empty values for "leave it as it is", so a limit is removed by a new container.
"""
_UNSTATED = ContainerFields()


def read_fields(reading: Reading) -> Mapping[str, Any]:
    """The values of the fields that a container of the plan file states; problems are reported."""
    stated = {name: getattr(reading.container, name) for name in FIELDS}
    values = {
        name: FIELDS[name].parse(value, replace(reading, key=name))
        for name, value in stated.items()
        if value is not None and value not in ((), {})
    }
    return {name: value for name, value in values.items() if value is not None}


def desired_fields(spec: ContainerSpec, networks: Mapping[str, str] | None = None) -> Fields:
    """What a spec states. `networks` are the names of the node's networks by id."""
    names = networks or {}
    found: dict[str, Json] = {}
    for name, field, value in _stated(spec):
        parts = field.parts(value)
        if name == "network":
            parts = {"": network_name(names.get(value, value))}
        elif name == "networks":
            parts = {names.get(network, network): aliases for network, aliases in parts.items()}
        found |= _flat(name, parts)
    if spec.mounts_repository:
        found[f"volumes.{REPOSITORY}"] = RENDERED
    return found


def observed_fields(live: EngineContainer, networks: Mapping[str, str] | None = None) -> Fields:
    """What a container has; of fields for which no engine has a default only what is not empty."""
    found: dict[str, Json] = {}
    for name, field in FIELDS.items():
        parts = field.read(live, networks or {})
        if field.unstated is Unstated.NOTHING:
            parts = {key: value for key, value in parts.items() if key or value}
        found |= _flat(name, parts)
    return found


def image_fields(config: JsonObject, spec: ContainerFields) -> Fields:
    """What the config of an image gives; an entrypoint in the spec takes the image's command away."""
    found: dict[str, Json] = {}
    for name, field in FIELDS.items():
        if field.unstated is Unstated.IMAGE:
            found |= _flat(name, field.from_image(config))
    return found if spec.entrypoint is None else {**found, "command": []}


def create_fields(spec: ContainerFields) -> Mapping[str, dict[str, Json]]:
    """The parts of the create call's body: ``Config``, ``HostConfig`` and ``NetworkingConfig``."""
    body: dict[str, dict[str, Json]] = {"Config": {}, "HostConfig": {}, "NetworkingConfig": {}}
    for _, field, value in _stated(spec):
        for place, raw in field.send(value).items():
            document, _, key = place.partition(".")
            body[document] |= {key: raw} if key else dict(_object(raw))
    return body


def update_body(spec: ContainerFields) -> JsonObject:
    """The body of the update call: everything stated that it can change.

    An update of the memory limit has to state the swap limit too; it is the one that creation gives by itself.
    """
    places = {
        place: raw for _, field, value in _stated(spec) if field.in_place for place, raw in field.send(value).items()
    }
    body = {place.removeprefix("HostConfig."): raw for place, raw in places.items()}
    return {"MemorySwap": 2 * spec.memory, **body} if spec.memory else body


def newer_fields(spec: ContainerFields, api: str) -> Iterator[tuple[str, str]]:
    """The stated fields that need a newer version of the API than the engine's, each with that version."""
    for name, field, _ in _stated(spec):
        if field.api and api and _version(field.api) > _version(api):
            yield name, field.api


def discarded_fields(spec: ContainerSpec, live: EngineContainer) -> tuple[str, ...]:
    """The stated fields that the engine dropped because its kernel does not support them."""
    names = {name for name, field, _ in _stated(spec) if field.discarded}
    actual = observed_fields(live)
    paths = (path for path, value in desired_fields(spec).items() if actual.get(path) != value)
    return tuple(sorted({path.partition(".")[0] for path in paths} & names))


def show_value(path: str, value: Json) -> Json:
    """A field's value as a change set shows it: as the plan file writes it."""
    name, _, key = path.partition(".")
    return value if value is None or name not in FIELDS else FIELDS[name].show(key, value)


def below(name: str, fields: Fields) -> Parts:
    """The parts of one field."""
    parts = {path.partition(".")[2]: value for path, value in fields.items() if path.partition(".")[0] == name}
    return dict(sorted(parts.items()))


def _stated(spec: ContainerFields) -> Iterator[tuple[str, Field, Any]]:
    for name, field in FIELDS.items():
        value = getattr(spec, name)
        if value != getattr(_UNSTATED, name):
            yield name, field, value


def _flat(name: str, parts: Parts) -> Fields:
    return {f"{name}.{key}" if key else name: value for key, value in parts.items()}


def _version(api: str) -> tuple[int, ...]:
    return tuple(int(part) for part in api.split(".") if part.isdecimal())


def _object(raw: Json) -> JsonObject:
    return raw if isinstance(raw, Mapping) else {}
