"""Triton's datatypes: their names in configs and in requests, what they hold, and how they lie in memory."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuplan.types.value import Json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.generic]


class Holds(enum.Enum):
    """What the elements of a datatype are."""

    BOOLEANS = "true or false"
    WHOLE = "whole numbers"
    NUMBERS = "numbers"
    TEXTS = "texts"


@dataclass(frozen=True)
class Datatype:
    """One datatype (model_configuration.md of triton-inference-server/server, “Datatypes”)."""

    name: str
    holds: Holds
    size: int
    """Bytes of one element; 0 = each has its own length."""
    lowest: int = 0
    highest: int = 0
    """The range of whole numbers."""

    def takes(self, value: Json) -> str:
        """Why this datatype cannot hold a value; empty where it can."""
        boolean = isinstance(value, bool)
        match self.holds:
            case Holds.TEXTS:
                fits = isinstance(value, str)
            case Holds.BOOLEANS:
                fits = boolean
            case Holds.NUMBERS:
                fits = isinstance(value, int | float) and not boolean
            case Holds.WHOLE:
                fits = isinstance(value, int) and not boolean
                if fits and isinstance(value, int) and not self.lowest <= value <= self.highest:
                    return f"{value} is beyond {self.name}, which holds {self.lowest} to {self.highest}"
        return "" if fits else f"{self.name} holds {self.holds.value}, and {_shown(value)} is none"


def _integers() -> Mapping[str, Datatype]:
    found: dict[str, Datatype] = {}
    for bits in (8, 16, 32, 64):
        found[f"UINT{bits}"] = Datatype(f"UINT{bits}", Holds.WHOLE, bits // 8, 0, 2**bits - 1)
        found[f"INT{bits}"] = Datatype(f"INT{bits}", Holds.WHOLE, bits // 8, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return found


DATATYPES: Mapping[str, Datatype] = {
    "BOOL": Datatype("BOOL", Holds.BOOLEANS, 1),
    **_integers(),
    "FP16": Datatype("FP16", Holds.NUMBERS, 2),
    "FP32": Datatype("FP32", Holds.NUMBERS, 4),
    "FP64": Datatype("FP64", Holds.NUMBERS, 8),
    "BF16": Datatype("BF16", Holds.NUMBERS, 2),
    "BYTES": Datatype("BYTES", Holds.TEXTS, 0),
}
"""By the name that requests have."""


def of_config(name: str) -> Datatype | None:
    """The datatype of a config's name such as ``TYPE_FP32``; None for one that no request can hold."""
    plain = name.removeprefix("TYPE_")
    return DATATYPES.get("BYTES" if plain == "STRING" else plain)


def numpy_type(datatype: Datatype) -> np.dtype[np.generic]:
    """How tritonclient wants the elements: BF16 as its release of the library does."""
    import numpy as np
    from tritonclient.utils import triton_to_np_dtype

    found: np.dtype[np.generic] = np.dtype(triton_to_np_dtype(datatype.name))
    return found


def to_bytes(datatype: Datatype, array: Array) -> bytes:
    """The elements as they lie in shared memory."""
    import numpy as np
    from tritonclient.utils import serialize_byte_tensor

    if datatype.holds is Holds.TEXTS:
        packed = serialize_byte_tensor(array)
        return bytes(packed.item()) if packed.size else b""
    if datatype.name == "BF16" and array.dtype == np.float32:
        return (array.view(np.uint32) >> 16).astype(np.uint16).tobytes()
    return array.tobytes()


def from_bytes(datatype: Datatype, raw: bytes, shape: tuple[int, ...]) -> Array:
    """What lies in shared memory.

    Raises:
        ValueError: it is not as long as the shape says, or not texts.
    """
    import numpy as np
    from tritonclient.utils import deserialize_bytes_tensor

    if datatype.holds is Holds.TEXTS:
        texts: Array = deserialize_bytes_tensor(raw)
        return texts.reshape(shape)
    if datatype.name == "BF16":
        wide = np.frombuffer(raw, dtype=np.uint16).astype(np.uint32) << 16
        return wide.view(np.float32).astype(numpy_type(datatype)).reshape(shape)
    return np.frombuffer(raw, dtype=numpy_type(datatype)).reshape(shape)


def _shown(value: Json) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"
