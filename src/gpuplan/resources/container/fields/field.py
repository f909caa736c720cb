"""Container fields: what one entry of the table says of a field, and the plain kinds that most fields are of.

A field has four forms. *Stated* is what the plan file writes. The *value* in a `ContainerSpec` is the same in its one
normal form. *Raw* is what the engine's create call takes and its inspect call answers. *Parts* are what is compared and
shown: a map of keys to plain values, since of a map such as labels each key is compared by itself; the key is empty for
a field that is compared as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from gpuplan.resources.snapshot.containers import EngineContainer
from gpuplan.types.diagnostic import Severity
from gpuplan.types.value import Json, JsonObject, integer, mapping, texts

Parts = Mapping[str, Json]


class Report(Protocol):
    """Reports a problem of one container of the plan file."""

    def __call__(self, key: str, summary: str, detail: str, fix: str = "", severity: Severity = Severity.ERROR) -> None:
        """`key` is where the container states it, dotted."""


@dataclass(frozen=True)
class Reading:
    """One container of a plan file while its fields are read."""

    container: Any
    """Its section: an attribute for each key of the plan file."""
    report: Report
    key: str = ""
    """Name of the field that is being read."""

    def problem(
        self, summary: str, detail: str, fix: str = "", *, below: str = "", severity: Severity = Severity.ERROR
    ) -> None:
        """Report a problem of the field, or of the key `below` it."""
        self.report(f"{self.key}.{below}" if below else self.key, summary, detail, fix, severity)


class Unstated(Enum):
    """What a container may have of a field that the plan file does not state."""

    ENGINE = "left alone"
    """Anything: engines can be set up with defaults."""
    IMAGE = "from the image"
    """What the image gives."""
    NOTHING = "not allowed"
    """Nothing: no engine has a default."""


def unchanged(value: Any) -> Any:
    """The value itself."""
    return value


@dataclass(frozen=True)
class Field:
    """One field of a container; a value that is compared as a whole and that the engine keeps as it is."""

    engine: str
    """Where the create call and inspect keep it: ``HostConfig.ShmSize``."""
    description: str
    """For the schema and docs/plan-file.md."""
    unstated: Unstated = Unstated.ENGINE
    empty: tuple[Json, ...] = (None, "", 0)
    """Raw values that `discover` leaves out: the engine has them if nothing is stated."""
    normal: Callable[[Any], Any] = unchanged
    """One form for each value, the same for what is stated and what the engine has."""
    check: Callable[[Any, Reading], None] | None = None
    """Reports what no engine takes."""
    stated: Any = None
    """Type in the plan file's schema, if it is another than that of the value."""
    in_place: bool = False
    """``docker update`` can set it to a value that is not empty."""
    discarded: bool = False
    """The engine drops it with a warning if the kernel does not support it."""
    api: str = ""
    """Least version of the engine's API, if it is newer than 1.40, the oldest that gpuplan speaks."""

    compared = "exactly"

    def parse(self, stated: Any, reading: Reading) -> Any:
        """The value of what the plan file states, which is not None; reports what cannot be used."""
        value = self.normal(stated)
        if self.check is not None:
            self.check(value, reading)
        return value

    def parts(self, value: Any) -> Parts:
        """The parts of a value."""
        return {"": value}

    def send(self, value: Any) -> Mapping[str, Json]:
        """Place in the body of the create call → raw value."""
        return {self.engine: self.encode(value)}

    def encode(self, value: Any) -> Json:
        """The raw value."""
        return _plain(value)

    def read(self, live: EngineContainer, networks: Mapping[str, str]) -> Parts:
        """The parts of what a container has; `networks` are the names of the node's networks by id."""
        return self.decode(mapping(_documents(live).get(self._document)).get(self._key))

    def decode(self, raw: Json) -> Parts:
        """The parts of a raw value."""
        return {"": self.normal(raw)}

    def write(self, parts: Parts) -> Json:
        """What the plan file would state, for `discover`; None if nothing has to be stated."""
        value = parts.get("")
        return None if value in self.empty else value

    def show(self, key: str, value: Json) -> Json:
        """The value of a part as a change set shows it: as the plan file writes it."""
        return value

    def from_image(self, config: JsonObject) -> Parts:
        """The parts that an image's config gives."""
        return self.decode(config.get(self._key))

    @property
    def _document(self) -> str:
        return self.engine.partition(".")[0]

    @property
    def _key(self) -> str:
        return self.engine.partition(".")[2]


@dataclass(frozen=True)
class Text(Field):
    """A text; an empty one is the engine's default."""

    def parse(self, stated: Any, reading: Reading) -> Any:
        return super().parse(stated, reading) if stated else None

    def decode(self, raw: Json) -> Parts:
        return {"": self.normal(str(raw or ""))}


@dataclass(frozen=True)
class Flag(Field):
    """True or false; null is false."""

    empty: tuple[Json, ...] = (None, False)

    def decode(self, raw: Json) -> Parts:
        return {"": raw is True}


@dataclass(frozen=True)
class Number(Field):
    """A whole number; null is 0."""

    unlimited: bool = False
    """0 is no limit, and shown as no value."""

    def decode(self, raw: Json) -> Parts:
        return {"": self.normal(integer(raw))}

    def show(self, key: str, value: Json) -> Json:
        return None if self.unlimited and value == 0 else value


@dataclass(frozen=True)
class Size(Number):
    """Bytes."""

    def write(self, parts: Parts) -> Json:
        return None if parts.get("") in self.empty else size_text(integer(parts.get("")))

    def show(self, key: str, value: Json) -> Json:
        return None if self.unlimited and value == 0 else size_text(integer(value))


@dataclass(frozen=True)
class Texts(Field):
    """A list of texts whose order counts."""

    unstated: Unstated = Unstated.NOTHING
    empty: tuple[Json, ...] = (None, [])
    item: Callable[[str], str] = unchanged
    """One form for each item."""

    def parse(self, stated: Any, reading: Reading) -> Any:
        return super().parse(tuple(map(self.item, stated)), reading)

    def parts(self, value: Any) -> Parts:
        return {"": list(value)}

    def decode(self, raw: Json) -> Parts:
        return {"": list(self.normal(tuple(map(self.item, texts(raw)))))}

    def show(self, key: str, value: Json) -> Json:
        return ", ".join(texts(value))


def in_order(values: Sequence[str]) -> tuple[str, ...]:
    """Each once, sorted."""
    return tuple(sorted(set(values)))


@dataclass(frozen=True)
class TextSet(Texts):
    """A list of texts whose order does not count."""

    normal: Callable[[Any], Any] = in_order
    compared = "as a set"


@dataclass(frozen=True)
class TextMap(Field):
    """A map of texts. Each key is compared by itself; the plan file's keys have to be there."""

    empty: tuple[Json, ...] = (None, {})
    compared = "key by key"

    def parse(self, stated: Any, reading: Reading) -> Any:
        return super().parse(as_texts(stated), reading)

    def parts(self, value: Any) -> Parts:
        return dict(value)

    def decode(self, raw: Json) -> Parts:
        return as_texts(mapping(raw))

    def write(self, parts: Parts) -> Json:
        return dict(parts) or None


def as_texts(values: Mapping[str, Any]) -> Mapping[str, str]:
    """The values as texts, booleans as the engine writes them."""
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in values.items()}


def size_text(size: int) -> Json:
    """Bytes as the plan file writes them: ``64MiB``, or a number if no unit fits."""
    for unit, bytes_ in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size and size % bytes_ == 0:
            return f"{size // bytes_}{unit}"
    return size


def entry(kind: Field, default: Any = None) -> Any:
    """A field of the dataclass that is the table."""
    if default == {}:
        return field(default_factory=dict, metadata={"field": kind})
    return field(default=default, metadata={"field": kind})


def _documents(live: EngineContainer) -> JsonObject:
    return {"Config": live.config, "HostConfig": live.host_config}


def _plain(value: Any) -> Json:
    if isinstance(value, tuple):
        return list(value)
    plain: Json = dict(value) if isinstance(value, Mapping) else value
    return plain
