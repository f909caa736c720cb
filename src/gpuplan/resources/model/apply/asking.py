"""Asking a model server for one inference: what both protocols have in common."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from gpuplan.resources.model.smoke.answer import Answer
from gpuplan.resources.model.smoke.layout import Layout
from gpuplan.resources.model.smoke.request import Request

if TYPE_CHECKING:
    from tritonclient.http import InferInput, InferRequestedOutput

CONNECTING = 10.0
"""Seconds to connect, over a forwarded port."""


class Unanswered(Exception):
    """A request that was not answered with outputs; the text is what the server said, or why it said nothing."""

    def __init__(self, words: str, *, late: bool = False) -> None:
        self.late = late
        """No answer came in time: another request would only wait as long."""
        super().__init__(" ".join(words.split()).rstrip(" .;") or "it gave no reason")


@dataclass(frozen=True)
class Registered:
    """A region of shared memory that the server knows under a name."""

    name: str
    layout: Layout


class Asker(Protocol):
    """One connection to a server; not shared between threads."""

    def ask(self, request: Request, version: int, region: Registered | None) -> tuple[Answer, ...]:
        """One inference: its response, or all of them where the model is decoupled.

        Raises:
            Unanswered: the server refuses it, fails at it, or does not answer in time.
        """
        ...

    def close(self) -> None:
        """Hang up."""
        ...


def inputs_of(request: Request, kind: type[InferInput], region: Registered | None) -> list[InferInput]:
    """The inputs as the client library wants them; `kind` is its class for the protocol."""
    made: list[InferInput] = []
    for each in request.inputs:
        tensor = kind(each.tensor.name, list(each.shape), each.tensor.datatype.name)
        if region is None:
            tensor.set_data_from_numpy(each.array)
        else:
            slot = region.layout.inputs[each.tensor.name]
            tensor.set_shared_memory(region.name, slot.size, slot.offset)
        made.append(tensor)
    return made


def outputs_of(
    request: Request, kind: type[InferRequestedOutput], region: Registered | None
) -> list[InferRequestedOutput]:
    """The outputs that are asked for: each that the config declares."""
    made: list[InferRequestedOutput] = []
    for name in request.form.outputs:
        output = kind(name)
        if region is not None and name in region.layout.outputs:
            slot = region.layout.outputs[name]
            output.set_shared_memory(region.name, slot.size, slot.offset)
        made.append(output)
    return made


def sequence(request: Request) -> Mapping[str, int | str | bool]:
    """A sequence of this one request, under a number or a text of its own; nothing where there are no sequences."""
    match request.form.sequence:
        case "":
            return {}
        case "text":
            number: int | str = f"gpuplan-{secrets.token_hex(8)}"
        case _:
            number = secrets.randbelow(2**31 - 1) + 1
    return {"sequence_id": number, "sequence_start": True, "sequence_end": True}
