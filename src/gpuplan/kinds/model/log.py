"""The lines of a model server's log that name the cause of a failed load, which its answer often hides."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import docker

TAIL = 20_000
"""Lines that are looked at; a verbose server writes many while it loads."""
MOST = 4
"""Lines that are told."""
_ERROR = re.compile(r"^E\d{4} |^\S+ E |libprotobuf ERROR|pb_stub\.cc|^(?:Poll f|F|f)ailed ")
"""Lines of level error in both of Triton's formats, and complaints that bear no level."""
_HEAD = re.compile(
    r"^(?:[EWI]\d{4} \S+ \d+|\S+ [EWI] \d+|\[libprotobuf ERROR) (?P<source>[\w./-]+:\d+)\] ?(?P<text>.*)$"
)


class Log:
    """The log of one container from now on."""

    def __init__(self, engine: docker.APIClient, container: str) -> None:
        self._engine = engine
        self._container = container
        newest = self._lines(tail=1)
        self._since = _seconds(newest[-1]) if newest else 0.0
        self._before = frozenset(newest)

    def errors(self, model: str, others: Sequence[str]) -> tuple[str, ...]:
        """What the server complained of since, without time stamps; the last few complaints, each once.

        Several models may load at a time, so what another one is named in is left out. A complaint that names none of
        them goes with the next one that does: what is wrong in a text is told before whose text it is.
        """
        fresh = [line for line in self._lines(tail=TAIL, since=self._since) if line not in self._before]
        complaints = [_text(line) for line in (each.partition(" ")[2] for each in fresh) if _ERROR.search(line)]
        return tuple(dict.fromkeys(_of(model, others, complaints)))[-MOST:]

    def _lines(self, tail: int, since: float = 0.0) -> Sequence[str]:
        """The newest lines, each with its time before it."""
        from docker.errors import DockerException

        try:
            raw = self._engine.logs(self._container, timestamps=True, tail=tail, since=since or None)
        except (DockerException, OSError):  # a log that cannot be read hides a cause; it must not hide the failure
            return ()
        return [line for line in raw.decode("utf-8", "replace").splitlines() if line.partition(" ")[2].strip()]


def _of(model: str, others: Sequence[str], complaints: Sequence[str]) -> Iterator[str]:
    """The complaints that are about one model, or that may be."""
    nameless: list[str] = []
    for each in complaints:
        if _names(each, [model]):
            yield from (*nameless, each)
        elif not _names(each, others):
            nameless.append(each)
            continue
        nameless = []
    yield from nameless


def _names(text: str, models: Sequence[str]) -> bool:
    """True where a text names one of the models, an instance of it (NAME_0_0), or a file of it."""
    alternatives = "|".join(map(re.escape, models))
    return bool(models) and re.search(rf"(?<![\w.-])(?:{alternatives})(?:_\d+)*(?![\w-]|\.\w)", text) is not None


def _seconds(line: str) -> float:
    """The time before a line, RFC 3339 with nanoseconds, as a UNIX time; 0 where it is none."""
    try:
        return datetime.fromisoformat(line.partition(" ")[0]).timestamp()
    except ValueError:
        return 0.0


def _text(line: str) -> str:
    match = _HEAD.match(line)
    return (match["text"] if match else line).strip().strip('"')
