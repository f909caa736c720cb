"""Tensors of a request and of its answer, as JSON and as bytes (KServe's v2 protocol, Triton's binary extension)."""

from __future__ import annotations

from math import prod

from gpuplan.simulator.document import items, mapping, text
from gpuplan.simulator.state import Document

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
    return [each for each in items(value) if isinstance(each, int)]


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
