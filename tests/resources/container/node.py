"""A node as its snapshot tells it: recorded inspect documents of a real engine, with what a case states laid over."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from gpuplan.types.snapshot import Probe, ProbeError, Snapshot

RECORDED = Path(__file__).parent / "recorded"
CONTAINER = json.loads((RECORDED / "container.json").read_text())
IMAGE = json.loads((RECORDED / "image.json").read_text())
GPUS = [
    {
        "index": 0,
        "uuid": "GPU-a",
        "pci": "00000000:07:00.0",
        "mig": {"supported": True, "current": True, "pending": True},
        "instances": [
            {"id": 1, "profile": "3g.40gb", "start": 0, "compute_instances": [{"id": 0, "uuid": "MIG-a1"}]},
            {"id": 2, "profile": "3g.40gb", "start": 4, "compute_instances": [{"id": 0, "uuid": "MIG-a2"}]},
        ],
    },
    {
        "index": 1,
        "uuid": "GPU-b",
        "pci": "00000000:0f:00.0",
        "mig": {"supported": True, "current": False, "pending": False},
        "instances": [],
    },
]
"""GPU 0 with two slices, GPU 1 whole."""
TOOLS = ("nvidia-container-runtime-hook", "nvidia-container-runtime", "nvidia-cdi-hook", "nvidia-ctk")
NOTHING: Mapping[str, Any] = {}


def checked(stated: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """The same; a key that nobody reads is an error."""
    assert not (unknown := set(stated) - set(keys)), f"nobody reads {unknown}"
    return dict(stated)


def an_id(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def image(stated: Mapping[str, Any]) -> Mapping[str, Any]:
    """An image: `tags`, `digests`, and `config` laid over the recorded one; `of` sets its id."""
    checked(stated, ("of", "tags", "digests", "config", "architecture"))
    raw = copy.deepcopy(IMAGE)
    raw["Id"] = f"sha256:{an_id(stated.get('of') or (stated['tags'] or stated['digests'])[0])}"
    raw["Architecture"] = stated.get("architecture", raw["Architecture"])
    raw["RepoTags"] = stated.get("tags", [])
    raw["RepoDigests"] = stated.get("digests", [])
    raw["Config"] |= stated.get("config", {})
    return raw


def container(stated: Mapping[str, Any], images: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """A container: what a case states, over the recorded one merged with its image, as the engine does at creation."""
    checked(
        stated,
        ("name", "of", "image", "plan", "role", "labels", "env", "state", "restarts", "config", "host", "networks"),
    )
    raw = copy.deepcopy(CONTAINER)
    named = stated.get("image", "lab/pause:1")
    made_of = next(
        (each for each in images if (stated.get("of") and each["Id"] == f"sha256:{an_id(stated['of'])}")),
        next((each for each in images if named in (*each["RepoTags"], *each["RepoDigests"])), None),
    )
    raw["Id"], raw["Name"] = an_id(stated["name"]), f"/{stated['name']}"
    raw["Image"] = made_of["Id"] if made_of else f"sha256:{an_id(stated.get('of', named))}"
    raw["RestartCount"] = stated.get("restarts", 0)
    raw["State"] |= stated.get("state", {})
    brought = made_of["Config"] if made_of else {"Env": [], "Cmd": [], "Labels": None}
    owner = {"gpuplan.plan": stated["plan"], "gpuplan.name": stated.get("role", stated["name"])}
    raw["Config"] |= {key: brought.get(key) for key in ("Cmd", "Entrypoint", "User", "WorkingDir")}
    raw["Config"] |= {"Image": named, "Labels": {**(brought.get("Labels") or {}), **stated.get("labels", {})}}
    raw["Config"]["Labels"] |= owner if stated["plan"] else {}
    overlay = dict(stated.get("env", {}))
    kept = [line for line in brought.get("Env") or [] if line.partition("=")[0] not in overlay]
    raw["Config"]["Env"] = [f"{name}={value}" for name, value in overlay.items()] + kept
    raw["Config"] |= stated.get("config", {})
    raw["HostConfig"] |= stated.get("host", {})
    if "networks" in stated:
        attached = {name: {"Aliases": aliases} for name, aliases in stated["networks"].items()}
        raw["NetworkSettings"] = {**raw["NetworkSettings"], "Networks": attached}
    return raw


def access(stated: Mapping[str, Any]) -> Probe:
    """The access probe: container by name → `nodes` and `denied`; or an `error` of the whole probe."""
    if "error" in stated:
        return Probe(error=ProbeError(**stated["error"]))
    return Probe({"containers": {an_id(name): told for name, told in stated.items()}})


def toolkit(stated: Mapping[str, Any]) -> Probe:
    """The toolkit probe: `tools` that are installed, `cdi` specifications, `char_links`; or an `error`."""
    checked(stated, ("tools", "cdi", "char_links", "error"))
    if "error" in stated:
        return Probe(error=ProbeError(**stated["error"]))
    tools = {name: f"/usr/bin/{name}" if name in stated.get("tools", ()) else None for name in TOOLS}
    return Probe({"tools": tools, "cdi": stated.get("cdi", []), "char_links": stated.get("char_links")})


def snapshot(
    containers: Iterable[Mapping[str, Any]],
    images: Iterable[Mapping[str, Any]],
    *,
    default_runtime: str = "runc",
    docker_error: Mapping[str, str] | None = None,
    gpu_error: Mapping[str, str] | None = None,
    told: Mapping[str, Any] = NOTHING,
) -> Snapshot:
    raw_images = [image(each) for each in images]
    raw_containers = [container(each, raw_images) for each in containers]
    docker = {
        "version": {
            "ApiVersion": "1.41",
            "Version": told.get("version", "20.10.24"),
            "Components": told.get("components", []),
        },
        "info": {"DefaultRuntime": default_runtime, **told.get("info", {})},
        "containers": raw_containers,
        "images": raw_images,
        "networks": [{"Name": name, "Id": identity} for name, identity in told.get("networks", {}).items()],
    }
    gpus = [{**gpu, "processes": told.get("processes", {}).get(gpu["index"], [])} for gpu in GPUS]
    return Snapshot(
        "n",
        {
            "docker": Probe(error=ProbeError(**docker_error)) if docker_error else Probe(docker),
            "gpu": Probe(error=ProbeError(**gpu_error)) if gpu_error else Probe({"gpus": gpus}),
            **({"host": Probe({"listening": told["listening"]})} if "listening" in told else {}),
            **({"access": access(told["access"])} if "access" in told else {}),
            **({"registry": Probe({"images": told["registry"]})} if "registry" in told else {}),
            **({"toolkit": toolkit(told["toolkit"])} if "toolkit" in told else {}),
        },
    )
