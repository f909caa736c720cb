"""A fault of a stated smoke inference, at its place below `smoke`."""

from __future__ import annotations

from dataclasses import dataclass

from gpuplan.types.diagnostic import Diagnostic, Location


@dataclass(frozen=True)
class Fault:
    """What does not fit the model."""

    path: tuple[str | int, ...]
    """Such as ``("inputs", "input_ids")``."""
    detail: str
    """A full sentence."""
    fix: str = ""

    def at(self, where: Location | None, address: str = "") -> Diagnostic:
        """The fault as the operator reads it."""
        return Diagnostic("A smoke inference does not fit its model", self.detail, self.fix, where, address)


class Unfit(Exception):
    """One value that does not fit; the text is what is wrong with it."""
