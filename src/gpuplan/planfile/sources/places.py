"""Where a field of a final config is stated: in the source's config.pbtxt, or in what the plan file lays over it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gpuplan.planfile.sources.render import Layer
from gpuplan.triton.model_config_text import ConfigText
from gpuplan.types.diagnostic import Location
from gpuplan.types.value import Json


@dataclass(frozen=True)
class Places:
    """Answers `where(*path)` for one model: the last layer that states a field is where it comes from."""

    file: str
    """The source's config.pbtxt."""
    reading: ConfigText
    layers: Sequence[Layer]
    otherwise: Callable[[], Location]
    """The place of what is stated nowhere."""

    def __call__(self, *path: str | int) -> Location:
        """The place of a field, or of the nearest thing around it."""
        for layer in reversed(self.layers):
            if path and _states(layer.stated, path):
                return layer.where(*path)
        if found := self.reading.place(path):
            return Location(self.file, *found)
        return self.otherwise()


def _states(stated: Mapping[str, Json], path: Sequence[str | int]) -> bool:
    """True where a layer states the field itself, or a list or scalar around it, which replaces as a whole."""
    value: Json = stated
    for name in path:
        if not isinstance(value, Mapping):
            return True
        if name not in value:
            return False
        value = value[str(name)]
    return True
