"""A container's output, as `GET /containers/ID/logs` gives it."""

from __future__ import annotations

from gpuplan.simulator.clock import stamp
from gpuplan.simulator.engine.http import EngineError, Request, Response, frame
from gpuplan.simulator.state import Container


def logs(container: Container, request: Request) -> Response:
    """The lines that the request asks for, multiplexed unless the container has a terminal."""
    wanted = [channel for channel, name in ((1, "stdout"), (2, "stderr")) if request.flag(name)]
    if not wanted:
        raise EngineError(400, "Bad parameters: you must choose at least one stream")
    since = float(request.query.get("since") or 0)
    lines = [line for line in container.log if line.stream in wanted and line.at >= since]
    tail = request.query.get("tail", "all")
    if tail.isdigit():
        lines = lines[len(lines) - min(len(lines), int(tail)) :]
    shown = [
        (line.stream, f"{stamp(line.at)} {line.text}" if request.flag("timestamps") else line.text) for line in lines
    ]
    if container.config.get("Tty"):
        return Response(body="".join(f"{text}\r\n" for _, text in shown).encode(), kind="application/octet-stream")
    body = b"".join(frame(channel, f"{text}\n") for channel, text in shown)
    return Response(body=body, kind="application/vnd.docker.multiplexed-stream")
