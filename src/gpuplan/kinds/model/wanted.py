"""A loaded model as a spec states it, in types."""

from __future__ import annotations

from dataclasses import dataclass

from gpuplan.model.value import JsonObject, as_list


@dataclass(frozen=True)
class Wanted:
    """One model that one server should have loaded."""

    container: str
    model: str
    content: str
    """Digest of its files and config, which the server repeats for what it has loaded."""
    versions: tuple[int, ...]
    """The versions that should be READY, and no others."""
    load_timeout: float
    """Seconds that a load may take."""

    def json(self) -> JsonObject:
        """The ModelSpec."""
        return {
            "container": self.container,
            "model": self.model,
            "content": self.content,
            "versions": list(self.versions),
            "load_timeout": self.load_timeout,
        }


def wanted_from(spec: JsonObject) -> Wanted:
    """The types of a ModelSpec, or of the arguments of a step, which hold one."""
    versions, patience = as_list(spec["versions"]), spec["load_timeout"]
    if not isinstance(patience, int | float):
        raise TypeError(f"expected seconds, found {patience!r}")
    return Wanted(
        container=str(spec["container"]),
        model=str(spec["model"]),
        content=str(spec["content"]),
        versions=tuple(version for version in versions if isinstance(version, int)),
        load_timeout=float(patience),
    )
