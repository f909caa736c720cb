"""Tensors: Triton's datatypes, the tensors that a model declares, and the elements that a plan file gives for them."""

from __future__ import annotations

import enum
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from math import prod
from typing import TYPE_CHECKING

from gpuplan.types.diagnostic import Diagnostic, Location
from gpuplan.types.value import Json, JsonObject, mapping, mappings, sequence

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.generic]

Shape = tuple[int, ...]
ReadFile = Callable[[str], bytes]
"""The content of a file next to the plan file; raises Problem if it cannot be read."""
GENERATORS = ("zeros", "ones", "random")
SAMPLE_TEXT = "gpuplan"
"""The text that is sent if none is given."""
NUMPY_MAGIC = b"\x93NUMPY"


@dataclass(frozen=True)
class SmokeIssue:
    """Something in a `smoke` section that does not fit the model."""

    path: tuple[str | int, ...]
    """Below `smoke`, such as ``("inputs", "input_ids")``."""
    detail: str
    """A full sentence."""
    fix: str = ""

    def diagnostic(self, where: Location | None, address: str = "") -> Diagnostic:
        """The issue as a diagnostic."""
        return Diagnostic("The smoke section does not fit the model", self.detail, self.fix, where, address)


class InvalidTensor(Exception):
    """A value cannot become the tensor that is asked for; the text says why."""


class ElementKind(enum.Enum):
    """What the elements of a datatype are; the value is shown in messages."""

    BOOL = "true or false"
    INT = "integers"
    FLOAT = "numbers"
    STRING = "strings"


@dataclass(frozen=True)
class Datatype:
    """One datatype (model_configuration.md of triton-inference-server/server, “Datatypes”)."""

    name: str
    kind: ElementKind
    size: int
    """Bytes of one element; 0 = variable length."""
    lowest: int = 0
    highest: int = 0
    """The range of integers."""

    def reject(self, value: Json) -> str:
        """Why this datatype cannot hold a value; empty if it can."""
        boolean = isinstance(value, bool)
        match self.kind:
            case ElementKind.STRING:
                fits = isinstance(value, str)
            case ElementKind.BOOL:
                fits = boolean
            case ElementKind.FLOAT:
                fits = isinstance(value, int | float) and not boolean
            case ElementKind.INT:
                fits = isinstance(value, int) and not boolean
                if fits and isinstance(value, int) and not self.lowest <= value <= self.highest:
                    return f"{value} is out of range for {self.name} ({self.lowest} to {self.highest})"
        return "" if fits else f"{self.name} takes {self.kind.value}, not {_abbreviate(value)}"


def _integers() -> Mapping[str, Datatype]:
    types: dict[str, Datatype] = {}
    for bits in (8, 16, 32, 64):
        size, half = bits // 8, 2 ** (bits - 1)
        types[f"UINT{bits}"] = Datatype(f"UINT{bits}", ElementKind.INT, size, 0, 2 * half - 1)
        types[f"INT{bits}"] = Datatype(f"INT{bits}", ElementKind.INT, size, -half, half - 1)
    return types


DATATYPES: Mapping[str, Datatype] = {
    "BOOL": Datatype("BOOL", ElementKind.BOOL, 1),
    **_integers(),
    "FP16": Datatype("FP16", ElementKind.FLOAT, 2),
    "FP32": Datatype("FP32", ElementKind.FLOAT, 4),
    "FP64": Datatype("FP64", ElementKind.FLOAT, 8),
    "BF16": Datatype("BF16", ElementKind.FLOAT, 2),
    "BYTES": Datatype("BYTES", ElementKind.STRING, 0),
}
"""By the name that inference requests use."""


@dataclass(frozen=True)
class TensorSpec:
    """One input or output that a model declares; -1 in `dims` is any size."""

    name: str
    datatype: Datatype
    dims: Shape
    optional: bool = False


@dataclass(frozen=True)
class ModelSignature:
    """The inputs and outputs of a model, and how it serves requests."""

    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]
    max_batch: int = 0
    """0 = its tensors have no batch dimension."""
    sequence: str = ""
    """How a sequence is identified: ``number`` or ``text``; empty if the model serves single requests."""
    decoupled: bool = False
    """It answers one request with any number of responses."""
    unsupported: tuple[str, ...] = ()
    """Tensors of a datatype that no request can hold."""

    def request_shape(self, tensor: TensorSpec, batch: int) -> Shape:
        """The shape of a tensor in a request: with the batch dimension if the model has one; -1 stays."""
        return (batch, *tensor.dims) if self.max_batch else tensor.dims

    def accepts(self, shape: Shape, tensor: TensorSpec) -> bool:
        """Whether a shape, with or without its batch dimension, is one of a tensor's."""
        return matches(shape, tensor.dims) or (self.max_batch > 0 and matches(shape, (-1, *tensor.dims)))


def signature_of(config: JsonObject) -> ModelSignature:
    """The signature that a model config states, as the plan renders it or as a server reports it."""
    inputs, unsupported_inputs = _tensors(config, "input")
    outputs, unsupported_outputs = _tensors(config, "output")
    max_batch = config.get("max_batch_size")
    return ModelSignature(
        inputs=inputs,
        outputs=outputs,
        max_batch=max_batch if isinstance(max_batch, int) and max_batch > 0 else 0,
        sequence=_sequence(config),
        decoupled=mapping(config.get("model_transaction_policy")).get("decoupled") is True,
        unsupported=(*unsupported_inputs, *unsupported_outputs),
    )


def matches(shape: Shape, dims: Shape) -> bool:
    """Whether a shape has the sizes of `dims`, in which -1 is any size."""
    return len(shape) == len(dims) and all(dim in (-1, size) for size, dim in zip(shape, dims, strict=True))


def format_shape(shape: Shape) -> str:
    """A shape as text: ``[1, 16]``."""
    return f"[{', '.join(map(str, shape))}]"


def numpy_type(datatype: Datatype) -> np.dtype[np.generic]:
    """The numpy type that tritonclient uses for a datatype; for BF16 it depends on the library's release."""
    import numpy as np
    from tritonclient.utils import triton_to_np_dtype

    dtype: np.dtype[np.generic] = np.dtype(triton_to_np_dtype(datatype.name))
    return dtype


def to_bytes(datatype: Datatype, array: Array) -> bytes:
    """The elements as they lie in shared memory."""
    import numpy as np
    from tritonclient.utils import serialize_byte_tensor

    if datatype.kind is ElementKind.STRING:
        packed = serialize_byte_tensor(array)
        return bytes(packed.item()) if packed.size else b""
    if datatype.name == "BF16" and array.dtype == np.float32:
        return (array.view(np.uint32) >> 16).astype(np.uint16).tobytes()
    return array.tobytes()


def from_bytes(datatype: Datatype, raw: bytes, shape: Shape) -> Array:
    """The tensor that lies in shared memory; raises ValueError if `raw` does not have the size of `shape`."""
    import numpy as np
    from tritonclient.utils import deserialize_bytes_tensor

    if datatype.kind is ElementKind.STRING:
        strings: Array = deserialize_bytes_tensor(raw)
        return strings.reshape(shape)
    if datatype.name == "BF16":
        wide = np.frombuffer(raw, dtype=np.uint16).astype(np.uint32) << 16
        return wide.view(np.float32).astype(numpy_type(datatype)).reshape(shape)
    return np.frombuffer(raw, dtype=numpy_type(datatype)).reshape(shape)


def shape_of(value: Json, read: ReadFile) -> Shape | None:
    """The shape that a stated value has by itself; None for one that fills any shape.

    Raises:
        InvalidTensor: nested lists of different lengths, or a damaged .npy file.
        Problem: the file cannot be read.
    """
    if isinstance(value, Mapping):
        content = read(str(value["file"]))
        return tuple(map(int, _load_npy(content).shape)) if content.startswith(NUMPY_MAGIC) else None
    return _list_shape(value) if isinstance(value, list | tuple) else None


def to_array(value: Json, datatype: Datatype, shape: Shape, seed: str, read: ReadFile) -> Array:
    """The tensor of a stated value: a generator's name, one value, nested lists, or ``{"file": PATH}``.

    Raises:
        InvalidTensor: the datatype cannot hold the value, or it has another number of elements than `shape`.
        Problem: the file cannot be read.
    """
    import numpy as np

    if value is None or (isinstance(value, str) and value in GENERATORS):
        return generate(value or "", datatype, shape, seed)
    if isinstance(value, Mapping):
        return _from_file(read(str(value["file"])), datatype, shape)
    for element in flatten(value):
        if why := datatype.reject(element):
            raise InvalidTensor(why)
    elements = [element.encode() if isinstance(element, str) else element for element in flatten(value)]
    if not isinstance(value, list | tuple):
        return np.full(shape, elements[0], dtype=numpy_type(datatype))
    array = np.empty(len(elements), dtype=numpy_type(datatype))
    array[:] = elements
    return _reshape(array, shape)


def generate(generator: str, datatype: Datatype, shape: Shape, seed: str) -> Array:
    """A tensor of zeros, ones or random values; without a generator zeros, or a sample text.

    Random values are the same in each run: integers from 0 to 9, floats below 1.
    """
    import numpy as np

    dtype = numpy_type(datatype)
    random = np.random.default_rng(zlib.crc32(seed.encode()))
    if datatype.kind is ElementKind.STRING:
        strings = {"zeros": b"", "ones": b"1", "": SAMPLE_TEXT.encode()}
        if generator != "random":
            return np.full(shape, strings[generator], dtype=dtype)
        letters = random.integers(97, 123, (*shape, 8), dtype=np.uint8)
        array = np.empty(shape, dtype=dtype)
        for index in np.ndindex(*shape):
            array[index] = letters[index].tobytes()
        return array
    if generator == "ones":
        return np.ones(shape, dtype=dtype)
    if generator != "random":
        return np.zeros(shape, dtype=dtype)
    if datatype.kind is ElementKind.FLOAT:
        return random.random(shape).astype(dtype)
    return random.integers(0, 2 if datatype.kind is ElementKind.BOOL else 10, shape).astype(dtype)


def flatten(value: Json) -> list[Json]:
    """The elements of nested lists in order; a value that is no list is one element."""
    if not isinstance(value, list | tuple):
        return [value]
    return [element for item in value for element in flatten(item)]


def _abbreviate(value: Json) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


def _tensors(config: JsonObject, section: str) -> tuple[Mapping[str, TensorSpec], tuple[str, ...]]:
    tensors: dict[str, TensorSpec] = {}
    unsupported: list[str] = []
    for stated in mappings(config.get(section)):
        name, type_name = str(stated.get("name", "")), str(stated.get("data_type", "")).removeprefix("TYPE_")
        datatype = DATATYPES.get("BYTES" if type_name == "STRING" else type_name)
        if datatype is None:
            unsupported.append(name)
        else:
            dims = tuple(dim for dim in sequence(stated.get("dims")) if isinstance(dim, int))
            tensors[name] = TensorSpec(name, datatype, dims, stated.get("optional") is True)
    return tensors, tuple(unsupported)


def _sequence(config: JsonObject) -> str:
    if "sequence_batching" not in config:
        return ""
    for control_input in mappings(mapping(config["sequence_batching"]).get("control_input")):
        for control in mappings(control_input.get("control")):
            if control.get("kind") == "CONTROL_SEQUENCE_CORRID" and control.get("data_type") == "TYPE_STRING":
                return "text"
    return "number"


def _list_shape(value: Json) -> Shape:
    if not isinstance(value, list | tuple):
        return ()
    shapes = {_list_shape(item) for item in value}
    if len(shapes) > 1 or len({isinstance(item, list | tuple) for item in value}) > 1:
        raise InvalidTensor("its nested lists have different lengths")
    return (len(value), *(shapes.pop() if shapes else ()))


def _from_file(content: bytes, datatype: Datatype, shape: Shape) -> Array:
    import numpy as np

    dtype = numpy_type(datatype)
    if content.startswith(NUMPY_MAGIC):
        stored = _load_npy(content)
        array: Array = stored.astype(dtype)
        if datatype.kind is ElementKind.STRING:
            array = np.empty(stored.size, dtype=object)
            array[:] = [item.encode() if isinstance(item, str) else bytes(item) for item in stored.ravel().tolist()]
        elif not (stored.astype(array.dtype) == stored).all() and datatype.kind is not ElementKind.FLOAT:
            raise InvalidTensor(f"the file holds {stored.dtype} values that {datatype.name} cannot represent")
        return _reshape(array, shape)
    if datatype.kind is ElementKind.STRING:
        return np.full(shape, content, dtype=dtype)
    try:
        return from_bytes(datatype, content, shape)
    except ValueError:
        size = datatype.size * prod(shape)
        detail = f"the file has {len(content)} bytes, but {datatype.name} {format_shape(shape)} needs {size}"
        raise InvalidTensor(detail) from None


def _load_npy(content: bytes) -> Array:
    import numpy as np

    try:
        array: Array = np.load(BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError, SyntaxError):
        raise InvalidTensor("the file is not a valid .npy file") from None
    return array


def _reshape(array: Array, shape: Shape) -> Array:
    if array.size != prod(shape):
        raise InvalidTensor(f"it has {array.size} elements, but {format_shape(shape)} needs {prod(shape)}")
    return array.reshape(shape)
