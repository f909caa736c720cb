"""From what a plan file states of one tensor to its elements: words, numbers, texts, lists, files."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from io import BytesIO
from math import prod
from typing import TYPE_CHECKING

from gpuplan.resources.model.smoke.datatypes import Datatype, Holds, from_bytes, numpy_type
from gpuplan.resources.model.smoke.fault import Unfit
from gpuplan.resources.model.smoke.form import Shape, words
from gpuplan.types.value import Json

if TYPE_CHECKING:
    from gpuplan.resources.model.smoke.datatypes import Array

ReadFile = Callable[[str], bytes]
"""The content of a file beside the plan file; raises Problem where it cannot be read."""
WORDS = ("zeros", "ones", "random")
WORD = "gpuplan"
"""A text where any will do."""
NPY = b"\x93NUMPY"
"""What a file of numpy begins with."""


def own_shape(value: Json, read: ReadFile) -> Shape | None:
    """The shape that a value has by itself; None for one that fills any shape.

    Raises:
        Unfit: a list of lists of several lengths, or a file of numpy that is none.
        Problem: the file cannot be read.
    """
    if isinstance(value, Mapping):
        content = read(str(value["file"]))
        return tuple(map(int, _npy(content).shape)) if content.startswith(NPY) else None
    return _list_shape(value) if isinstance(value, list | tuple) else None


def elements(value: Json, datatype: Datatype, shape: Shape, seed: str, read: ReadFile) -> Array:
    """The tensor. What fills any shape fills this one, and the rest must have as many elements.

    Raises:
        Unfit: the datatype cannot hold it, or it has another number of elements.
        Problem: the file cannot be read.
    """
    import numpy as np

    if value is None or (isinstance(value, str) and value in WORDS):
        return generated(value or "", datatype, shape, seed)
    if isinstance(value, Mapping):
        return _of_file(read(str(value["file"])), datatype, shape)
    for leaf in leaves(value):
        if why := datatype.takes(leaf):
            raise Unfit(why)
    stated = [leaf.encode() if isinstance(leaf, str) else leaf for leaf in leaves(value)]
    if not isinstance(value, list | tuple):
        return np.full(shape, stated[0], dtype=numpy_type(datatype))
    made = np.empty(len(stated), dtype=numpy_type(datatype))
    made[:] = stated
    return _shaped(made, shape)


def generated(word: str, datatype: Datatype, shape: Shape, seed: str) -> Array:
    """zeros, ones, random, or where nothing is said what most models can take: zeros, and a word as text.

    What is random is the same at each run; whole numbers are 0 to 9, others are below 1.
    """
    import numpy as np

    dtype = numpy_type(datatype)
    if datatype.holds is Holds.TEXTS:
        texts = {"zeros": b"", "ones": b"1", "": WORD.encode()}
        if word != "random":
            return np.full(shape, texts[word], dtype=dtype)
        letters = np.random.default_rng(zlib.crc32(seed.encode())).integers(97, 123, (*shape, 8), dtype=np.uint8)
        spelt = np.empty(shape, dtype=dtype)
        for index in np.ndindex(*shape):
            spelt[index] = letters[index].tobytes()
        return spelt
    if word == "ones":
        return np.ones(shape, dtype=dtype)
    if word != "random":
        return np.zeros(shape, dtype=dtype)
    chance = np.random.default_rng(zlib.crc32(seed.encode()))
    if datatype.holds is Holds.NUMBERS:
        return chance.random(shape).astype(dtype)
    return chance.integers(0, 2 if datatype.holds is Holds.BOOLEANS else 10, shape).astype(dtype)


def leaves(value: Json) -> list[Json]:
    """The elements of nested lists in their order; a value that is no list is one element."""
    if not isinstance(value, list | tuple):
        return [value]
    return [leaf for each in value for leaf in leaves(each)]


def _list_shape(value: Json) -> Shape:
    if not isinstance(value, list | tuple):
        return ()
    below = {_list_shape(each) for each in value}
    if len(below) > 1 or len({isinstance(each, list | tuple) for each in value}) > 1:
        raise Unfit("its lists have several lengths")
    return (len(value), *(below.pop() if below else ()))


def _of_file(content: bytes, datatype: Datatype, shape: Shape) -> Array:
    if content.startswith(NPY):
        held = _npy(content)
        made: Array = held.astype(numpy_type(datatype))
        if datatype.holds is Holds.TEXTS:
            made = _as_bytes(made)
        elif not (held.astype(made.dtype) == held).all() and datatype.holds is not Holds.NUMBERS:
            raise Unfit(f"the file holds {held.dtype}, which {datatype.name} cannot hold")
        return _shaped(made, shape)
    if datatype.holds is Holds.TEXTS:
        import numpy as np

        return np.full(shape, content, dtype=numpy_type(datatype))
    try:
        return from_bytes(datatype, content, shape)
    except ValueError:
        wanted = datatype.size * prod(shape)
        raise Unfit(f"the file has {len(content)} bytes, and {datatype.name} {words(shape)} takes {wanted}") from None


def _npy(content: bytes) -> Array:
    import numpy as np

    try:
        found: Array = np.load(BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError, SyntaxError):
        raise Unfit("the file cannot be read as numpy's") from None
    return found


def _as_bytes(array: Array) -> Array:
    """Texts of numpy as Triton takes them."""
    import numpy as np

    made = np.empty(array.size, dtype=object)
    made[:] = [each.encode() if isinstance(each, str) else bytes(each) for each in array.ravel().tolist()]
    return made.reshape(array.shape)


def _shaped(array: Array, shape: Shape) -> Array:
    if array.size != prod(shape):
        raise Unfit(f"it has {array.size} elements, and {words(shape)} takes {prod(shape)}")
    return array.reshape(shape)
