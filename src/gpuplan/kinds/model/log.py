"""The lines of a model server's log that name the cause of a failed load, which its answer often hides."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import docker

TAIL = 400
"""Lines that are looked at."""
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
        self._before = frozenset(self._lines())

    def errors(self) -> Sequence[str]:
        """What the server complained of since, without time stamps; the last few complaints, each once."""
        fresh = [line for line in self._lines() if line not in self._before]
        told = dict.fromkeys(_text(line) for line in fresh if _ERROR.search(line))
        return tuple(told)[-MOST:]

    def _lines(self) -> Sequence[str]:
        from docker.errors import DockerException

        try:
            raw = self._engine.logs(self._container, stdout=True, stderr=True, tail=TAIL)
        except (DockerException, OSError):  # a log that cannot be read hides a cause; it must not hide the failure
            return ()
        return [line for line in raw.decode("utf-8", "replace").splitlines() if line.strip()]


def _text(line: str) -> str:
    match = _HEAD.match(line)
    return (match["text"] if match else line).strip().strip('"')
