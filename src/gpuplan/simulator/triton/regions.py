"""Regions of shared memory that a server is told of. There is no CUDA driver in a simulated container."""

from __future__ import annotations

import base64
import json
import re

from gpuplan.simulator.document import mapping, text
from gpuplan.simulator.state import Region, Server
from gpuplan.simulator.triton.answers import Answer, Refusal, as_error, as_json
from gpuplan.simulator.triton.load import Serving

PATH = re.compile(r"/v2/(system|cuda)sharedmemory(?:/region/([^/]+))?/(status|register|unregister)")


def on_regions(serving: Serving, kind: str, name: str, act: str, body: bytes) -> Answer:
    """Answer one request about regions."""
    regions = serving.server.regions
    if act == "status":
        found = {one: each for one, each in regions.items() if kind == "system" and (not name or one == name)}
        return as_json([{"name": one, **_told(each)} for one, each in found.items()])
    if act == "unregister":
        for one in [name] if name else list(regions):
            regions.pop(one, None)
        return Answer(200, b"")
    try:
        stated = mapping(json.loads(body or b"{}"))
    except ValueError as error:
        return as_error(500, f"failed to parse the request JSON buffer: {error}")
    if kind == "cuda":
        return as_error(400, "failed to register shared memory region: invalid args")  # as a server without a GPU says
    return _register(serving, name, stated)


def find_region(server: Server, name: str) -> Region:
    """The region of a name; raises Refusal where the server knows none."""
    if name not in server.regions:
        raise Refusal(404, f"Unable to find shared memory region: '{name}'")
    return server.regions[name]


def write_region(serving: Serving, name: str, offset: object, raw: bytes) -> None:
    """Put an output where the request wants it."""
    region = find_region(serving.server, name)
    start = region.offset + (offset if isinstance(offset, int) else 0)
    held = bytearray(base64.b64decode(serving.container.memory.get(region.key, "")))
    held[start : start + len(raw)] = raw
    serving.container.memory[region.key] = base64.b64encode(held).decode()


def _register(serving: Serving, name: str, stated: dict[str, object]) -> Answer:
    key, size, offset = text(stated.get("key")), stated.get("byte_size"), stated.get("offset")
    if name in serving.server.regions:
        return as_error(400, f"shared memory region '{name}' already in manager")
    if key.lstrip("/") not in serving.container.memory:
        return as_error(500, f"Unable to open shared memory region: '{key}'")
    serving.server.regions[name] = Region(
        key.lstrip("/"), offset if isinstance(offset, int) else 0, size if isinstance(size, int) else 0
    )
    return Answer(200, b"")


def _told(region: Region) -> dict[str, object]:
    return {"key": f"/{region.key}", "offset": region.offset, "byte_size": region.size}
