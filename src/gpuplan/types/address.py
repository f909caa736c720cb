"""Addresses: the only identity of a resource, and of its parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic_core import CoreSchema


@dataclass(frozen=True, order=True)
class Address:
    """`node/kind/name`, for example ``gpu-a1/container/triton-cls``.

    A name may go on with slashes to a *part* of the resource: ``gpu-a1/gpu/a100-0/cls-a`` is the slice
    ``cls-a`` of the GPU ``a100-0``, ``gpu-a1/repository/triton-cls/tokenizer`` the files of one model. Of a name that
    stands for several, ``gpu-a1/gpu/a100[1]`` is one.
    """

    node: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.node}/{self.kind}/{self.name}"

    def part(self, name: str) -> Address:
        """The part of this resource that is called `name`."""
        return Address(self.node, self.kind, f"{self.name}/{name}")

    def covers(self, other: Address) -> bool:
        """True for the same address, for each part of it, and for each ``NAME[0]``, ``NAME[1]``, … of several."""
        return (self.node, self.kind) == (other.node, other.kind) and (
            other.name == self.name or other.name.startswith((f"{self.name}/", f"{self.name}["))
        )

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> CoreSchema:
        """Let pydantic write an address as text in saved specs and payloads, and read it back."""
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            lambda value: value if isinstance(value, cls) else parse_address(str(value)),
            serialization=core_schema.to_string_ser_schema(),
        )


def parse_address(text: str) -> Address:
    """Read ``node/kind/name[/part]``.

    Raises:
        ValueError: the text has fewer than three parts, or an empty one.
    """
    node, _, rest = text.partition("/")
    kind, _, name = rest.partition("/")
    if not (node and kind and name) or "" in name.split("/"):
        raise ValueError(f"not an address (node/kind/name): {text!r}")
    return Address(node, kind, name)
