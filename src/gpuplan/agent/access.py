"""The access probe: whether the containers of a plan file may still open the GPU device files that they were given."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from .engine import containers
from .world import World

LABEL = "gpuplan.plan"
"""Says which plan file made a container."""


def probe(world: World, plan: str) -> dict[str, object]:
    """The value of the probe `access`: the plan's running containers that have GPUs; the others are not asked."""
    if not plan:
        return {"containers": {}}
    listing = "/containers/json?filters=" + quote(json.dumps({"label": ["{}={}".format(LABEL, plan)]}))
    running = {each["Id"]: each["State"]["Pid"] for each in containers(world, listing) if has_gpus(each)}
    return {"containers": world.device_access(running) if running else {}}


def has_gpus(container: Mapping[str, Any]) -> bool:
    """True for a running container that may have been given GPUs, in whatever way; a paused one tells nothing."""
    if container["State"].get("Status") != "running" or not container["State"].get("Pid"):
        return False
    host = container["HostConfig"]
    devices = [str(each.get("PathOnHost") or "") for each in host.get("Devices") or ()]
    asked = host.get("DeviceRequests") or [each for each in devices if "nvidia" in each]
    return bool(asked) or str(host.get("Runtime") or "").startswith("nvidia")
