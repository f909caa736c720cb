"""Labels and marks by which gpuplan knows on a node what it made (docs/architecture.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gpuplan.types.value import Json, JsonObject, as_list, as_object, integer, mapping, mappings

PLAN = "gpuplan.plan"
"""The plan file that made a container."""
NAME = "gpuplan.name"
"""A container's name in that plan file."""
DIGEST = "gpuplan.digest"
"""Digest of the spec that a container was made from."""
KEYED_DIGESTS = "gpuplan.secrets"
"""Keyed digests of the secrets that a container was made with, by the names of their variables."""
DEVICES = "gpuplan.devices"
"""UUIDs of the devices that a container was made with, where it asks for them by place."""
TRITON = "gpuplan.triton"
"""On model servers: Triton's HTTP port inside the container."""
CONTENT = "gpuplan_content"
"""The parameter of a rendered config.pbtxt by which a server tells what it has loaded."""
REPLACEMENT_MARK = ".gpuplan-"
"""Begins the ending of a name that a replacement gives a container next to the one that has the name itself."""

# The containers of an engine, as typed values of their inspect data.


@dataclass(frozen=True)
class EngineContainer:
    """One container of the node; `config` and `host_config` are as the engine says them."""

    id: str
    name: str
    image_id: str
    image: str
    """As it was named when the container was created."""
    status: str
    """created, running, paused, restarting, removing, exited or dead."""
    exit_code: int
    oom_killed: bool
    error: str
    restarts: int
    config: JsonObject = field(repr=False)
    host_config: JsonObject = field(repr=False)
    networks: JsonObject = field(repr=False, default_factory=dict)
    """By name, or by id where it was created so: as the engine says it in NetworkSettings."""
    started: str = ""
    """When it was last started, as the engine writes it; empty where it never was."""
    copied: bool = False
    """Its labels come from its image, which was committed from one of our containers, so they say nothing."""

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels, those of the image included."""
        return {name: str(value) for name, value in mapping(self.config.get("Labels")).items()}

    @property
    def plan(self) -> str:
        """The plan file that made it; empty = not of gpuplan, which writes both labels or none."""
        return self.labels.get(PLAN, "") if NAME in self.labels and not self.copied else ""

    @property
    def role(self) -> str:
        """Its name in the plan file; its own where no label says so."""
        return self.name if self.copied else self.labels.get(NAME) or self.name

    @property
    def digest(self) -> str:
        """Digest of the spec that it was made from; empty where no label says so."""
        return self.labels.get(DIGEST, "")

    @property
    def busy(self) -> bool:
        """True where its processes hold ports and devices, or will again in a moment."""
        return self.status in ("running", "paused", "restarting")


def containers(probe: Json) -> tuple[EngineContainer, ...]:
    """All containers of a docker probe's value, by name.

    Raises:
        KeyError, TypeError, ValueError: the value, or what identifies one container, has another form.
    """
    value = as_object(probe)
    found = (parse_container(as_object(each)) for each in as_list(value["containers"]))
    brought = image_labels(value)
    containers = (
        replace(each, copied=is_copy(each.name, each.labels, brought.get(each.image_id, {}))) for each in found
    )
    return tuple(sorted(containers, key=lambda each: each.name))


def image_labels(probe: JsonObject) -> Mapping[str, JsonObject]:
    """The labels of each image of a docker probe's value, by its id."""
    return {
        str(each.get("Id")): mapping(mapping(each.get("Config")).get("Labels"))
        for each in mappings(probe.get("images"))
    }


def is_copy(name: str, labels: Mapping[str, Json], brought: JsonObject) -> bool:
    """True for a container created from an image that was committed from one of our containers.

    Such an image passes the labels on (`brought`). A container of ours has those of its own spec, and a name of ours
    unless it was renamed.
    """
    role = brought.get(NAME)
    if not isinstance(role, str) or name == role or name.startswith(role + REPLACEMENT_MARK):
        return False
    return all(labels.get(label) == brought.get(label) for label in (PLAN, NAME, DIGEST))


def parse_container(raw: JsonObject) -> EngineContainer:
    """One container of its inspect data. What an engine writes oddly counts as not said, but for what identifies it.

    Raises:
        KeyError, TypeError, ValueError: id, name, image, state or config are missing or have another form.
    """
    state, config = as_object(raw["State"]), as_object(raw["Config"])
    return EngineContainer(
        id=_text(raw["Id"]),
        name=_text(raw["Name"]).removeprefix("/"),
        image_id=_text(raw["Image"]),
        image=str(config.get("Image") or ""),
        status=_text(state["Status"]),
        exit_code=integer(state.get("ExitCode")),
        oom_killed=state.get("OOMKilled") is True,
        error=str(state.get("Error") or ""),
        restarts=integer(raw.get("RestartCount")),
        config=config,
        host_config=mapping(raw.get("HostConfig")),
        networks=mapping(mapping(raw.get("NetworkSettings")).get("Networks")),
        started=str(state.get("StartedAt") or ""),
    )


def _text(value: Json) -> str:
    if not isinstance(value, str) or not value.strip("/"):
        raise ValueError(f"expected a text, found {value!r}")
    return value
