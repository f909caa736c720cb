"""What a server answers over HTTP, and its errors."""

from __future__ import annotations

import base64
import json
import re
from math import prod
from typing import NamedTuple

from gpuplan.simulator.state import Document, SimulatedMemoryRegion, SimulatedTriton, items, mapping, text
from gpuplan.simulator.triton.load import Serving


class TritonAnswer(NamedTuple):
    """One HTTP response."""

    status: int
    body: bytes
    head: int | None = None
    """Bytes of JSON before binary tensors (Inference-Header-Content-Length); None where all of it is JSON."""


class Refusal(Exception):
    """A request that the server does not take, with what it answers."""

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        self.text = text
        super().__init__(text)


def as_error(status: int, text: str) -> TritonAnswer:
    """Triton's form of an error."""
    return TritonAnswer(status, json.dumps({"error": text}, separators=(",", ":")).encode())


def as_json(value: object) -> TritonAnswer:
    """A document."""
    return TritonAnswer(200, json.dumps(value, separators=(",", ":")).encode())


# --- Tensors as JSON and as bytes (KServe v2 protocol, Triton's binary extension) ---

SIZES = {"BOOL": 1, "UINT8": 1, "UINT16": 2, "UINT32": 4, "UINT64": 8, "INT8": 1, "INT16": 2, "INT32": 4, "INT64": 8,
         "FP16": 2, "BF16": 2, "FP32": 4, "FP64": 8}  # fmt: skip
"""Bytes of one element; those of BYTES have their length before them, in four bytes."""


def datatype(stated: Document) -> str:
    """The datatype of a config's tensor as requests write it."""
    plain = text(stated.get("data_type")).removeprefix("TYPE_")
    return "BYTES" if plain == "STRING" else plain


def declared(config: Document, stated: Document) -> list[int]:
    """The shape of a config's tensor in a request; -1 is any size."""
    dims = whole(stated.get("dims"))
    return [-1, *dims] if config.get("max_batch_size") else dims


def whole(value: object) -> list[int]:
    """The numbers of a list."""
    return [item for item in items(value) if isinstance(item, int)]


def zeros(kind: str, shape: list[int]) -> tuple[bytes, list[object]]:
    """A tensor of nothing but zeros, or of empty texts: as bytes and as JSON."""
    count = prod(shape)
    if kind == "BYTES":
        return bytes(4 * count), [""] * count
    nothing: object = False if kind == "BOOL" else 0.0 if kind.startswith(("FP", "BF")) else 0
    return bytes(SIZES[kind] * count), [nothing] * count


def size_of(tensor: Document) -> int | None:
    """Bytes that a tensor of this shape takes; None where its elements have lengths of their own."""
    size = SIZES.get(text(tensor.get("datatype")))
    return None if size is None else size * prod(whole(tensor.get("shape")))


def parameters(tensor: Document) -> Document:
    """What is said of how a tensor travels."""
    return mapping(tensor.get("parameters"))


# --- Shared memory regions. A simulated container has no CUDA driver. ---

PATH = re.compile(r"/v2/(system|cuda)sharedmemory(?:/region/([^/]+))?/(status|register|unregister)")


def on_regions(serving: Serving, kind: str, name: str, act: str, body: bytes) -> TritonAnswer:
    """Answer one request about regions."""
    regions = serving.server.regions
    if act == "status":
        found = {one: item for one, item in regions.items() if kind == "system" and (not name or one == name)}
        return as_json([{"name": one, **_region_document(item)} for one, item in found.items()])
    if act == "unregister":
        for one in [name] if name else list(regions):
            regions.pop(one, None)
        return TritonAnswer(200, b"")
    try:
        stated = mapping(json.loads(body or b"{}"))
    except ValueError as error:
        return as_error(500, f"failed to parse the request JSON buffer: {error}")
    if kind == "cuda":
        return as_error(400, "failed to register shared memory region: invalid args")  # as a server without a GPU says
    return _register(serving, name, stated)


def find_region(server: SimulatedTriton, name: str) -> SimulatedMemoryRegion:
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


def _register(serving: Serving, name: str, stated: dict[str, object]) -> TritonAnswer:
    key, size, offset = text(stated.get("key")), stated.get("byte_size"), stated.get("offset")
    if name in serving.server.regions:
        return as_error(400, f"shared memory region '{name}' already in manager")
    if key.lstrip("/") not in serving.container.memory:
        return as_error(500, f"Unable to open shared memory region: '{key}'")
    serving.server.regions[name] = SimulatedMemoryRegion(
        key.lstrip("/"), offset if isinstance(offset, int) else 0, size if isinstance(size, int) else 0
    )
    return TritonAnswer(200, b"")


def _region_document(region: SimulatedMemoryRegion) -> dict[str, object]:
    return {"key": f"/{region.key}", "offset": region.offset, "byte_size": region.size}
