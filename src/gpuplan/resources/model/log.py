"""The lines of a model server's log that name the cause of a failed load, which its answer often hides."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from gpuplan.types.diagnostic import Problem

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
    """The log of one container since a moment, by the clock of its node: RFC 3339, in whole seconds.

    The engine is asked only where something failed: a connection to it costs more than the load of a small model.
    """

    def __init__(self, engine: Callable[[], docker.APIClient], container: str, since: str) -> None:
        self._engine = engine
        self._container = container
        self._since = _seconds(since)

    def errors(self, model: str, others: Sequence[str]) -> tuple[str, ...]:
        """What the server complained of since, without time stamps; the last few complaints, each once.

        Several models may load at a time, so what another one is named in is left out. A complaint that names none of
        them goes with the next one that does: what is wrong in a text is told before whose text it is.
        """
        complaints = [_text(line) for line in self._lines() if _ERROR.search(line)]
        return tuple(dict.fromkeys(_of(model, others, complaints)))[-MOST:]

    def _lines(self) -> Sequence[str]:
        from docker.errors import DockerException

        try:
            raw = self._engine().logs(self._container, tail=TAIL, since=self._since)
        except (DockerException, OSError, Problem):  # what hides a cause must not hide the failure
            return ()
        return [line for line in raw.decode("utf-8", "replace").splitlines() if line.strip()]


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


def _seconds(moment: str) -> int | None:
    """A UNIX time; None, which is all that there is, where it is none."""
    try:
        return int(datetime.fromisoformat(moment).timestamp())
    except ValueError:
        return None


def _text(line: str) -> str:
    match = _HEAD.match(line)
    return (match["text"] if match else line).strip().strip('"')
