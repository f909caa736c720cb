"""The snapshot: everything one node said about itself, once, as raw JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuplan.types.value import Json


@dataclass(frozen=True)
class ProbeError:
    """Why a probe has no answer. `code` is one of the words of docs/snapshot.md; `text` is what the node said."""

    code: str
    text: str


@dataclass(frozen=True)
class Probe:
    """One probe's answer, or why there is none. Absent is not empty: `value` is only meaningful without `error`."""

    value: Json = None
    error: ProbeError | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class Snapshot:
    """One node's answer to one question. The JSON of each probe is described in docs/snapshot.md."""

    node: str
    probes: Mapping[str, Probe]
    asked_at: str = ""
    seconds: float = 0.0

    def probe(self, name: str) -> Probe:
        """The named probe; an error of code ``not_asked`` where the question did not hold it."""
        return self.probes.get(name) or Probe(error=ProbeError("not_asked", f"the {name} probe was not asked"))
