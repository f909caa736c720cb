"""A loaded model as a spec states it, in types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuplan.planfile.repositories import starts_itself
from gpuplan.resources.model.budget import Budget, budget_from
from gpuplan.types.value import JsonObject, as_list, as_object


@dataclass(frozen=True)
class Wanted:
    """One model that one server should have loaded."""

    container: str
    model: str
    content: str
    """Digest of its files and config, which the server repeats for what it has loaded. Of a model that the server reads
    from a repository of its own it is the digest of what is laid over its config; empty where nothing is."""
    versions: tuple[int, ...]
    """The versions that should be READY, and no others; empty where a repository of the server's own decides."""
    load_timeout: float
    """Seconds that a load may take."""
    repository: str = ""
    """The repository of the server's own that it is read from; empty where its files are brought."""
    overlay: tuple[JsonObject, ...] = ()
    """What a load lays over the config that such a repository has, layer by layer."""
    budget: Budget | None = None
    """The GPU memory that it takes, where the plan file says."""
    abreast: int = 0
    """How many loads its server bears at once, where the plan file gives it few threads; else 0."""

    def json(self) -> JsonObject:
        """The ModelSpec."""
        remote: JsonObject = {"repository": self.repository, "overlay": list(self.overlay)} if self.repository else {}
        return {
            "container": self.container,
            "model": self.model,
            "content": self.content,
            "versions": list(self.versions),
            "load_timeout": self.load_timeout,
            **remote,
            **({"budget": self.budget.json()} if self.budget else {}),
            **({"abreast": self.abreast} if self.abreast else {}),
        }

    @property
    def own(self) -> bool:
        """True where the server's own command says what it loads at its start."""
        return starts_itself(self.repository)

    def met(self, ready: Sequence[int], content: str | None) -> bool:
        """True where a server has READY what is wanted."""
        return self.serves(ready) and (content or "") == self.content

    def serves(self, ready: Sequence[int]) -> bool:
        """True where the versions that are READY are those that are wanted."""
        return tuple(ready) == self.versions if self.versions else bool(ready)


def wanted_from(spec: JsonObject) -> Wanted:
    """The types of a ModelSpec, or of the arguments of a step, which hold one."""
    versions, patience = as_list(spec["versions"]), spec["load_timeout"]
    if not isinstance(patience, int | float):
        raise TypeError(f"expected seconds, found {patience!r}")
    budget = spec.get("budget")
    return Wanted(
        container=str(spec["container"]),
        model=str(spec["model"]),
        content=str(spec["content"]),
        versions=tuple(version for version in versions if isinstance(version, int)),
        load_timeout=float(patience),
        repository=str(spec.get("repository") or ""),
        overlay=tuple(map(as_object, as_list(spec.get("overlay") or ()))),
        budget=None if budget is None else budget_from(as_object(budget)),
        abreast=int(str(spec.get("abreast", 0))),
    )


def lays_all_anew(overlay: Sequence[JsonObject], before: Sequence[JsonObject]) -> bool:
    """True where an overlay states every field that another one states, so that nothing of that can remain."""
    return _paths(before) <= _paths(overlay)


def _paths(overlay: Sequence[JsonObject]) -> frozenset[str]:
    return frozenset(path for layer in overlay for path in _leaves(layer, ""))


def _leaves(stated: JsonObject, above: str) -> Sequence[str]:
    found: list[str] = []
    for name, value in stated.items():
        path = f"{above}/{name}"
        found.extend(_leaves(value, path) if isinstance(value, dict) and value else [path])
    return found
