"""Joins standard input and output to the Docker engine's socket; runs on the node, under sudo where needed.

Not imported by anything: `bundle.py` sends its text. Its first line is `gpuplan-bridge 0` once it is
connected, or `gpuplan-bridge` and the number of the system's error.
"""

import os
import select
import socket


def bridge(path: str) -> None:
    """Carry bytes both ways until the engine is done or the other side has gone."""
    engine = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        engine.connect(os.environ.get("GPUPLAN_DOCKER_SOCKET") or path)
    except OSError as error:
        os.write(1, b"gpuplan-bridge %d\n" % (error.errno or 255))
        return
    os.write(1, b"gpuplan-bridge 0\n")
    try:
        carry(engine)
    except OSError:  # either side went in the middle; that ends the other as well
        return


def carry(engine: socket.socket) -> None:
    """Until the engine closes its side, or its output is no longer read."""
    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.register(1, 0)  # only reports when the reader is gone
    poll.register(engine, select.POLLIN)
    while True:
        ready = dict(poll.poll())
        if 1 in ready:
            return
        if 0 in ready:
            request = os.read(0, 65536)
            if request:
                engine.sendall(request)
            else:
                poll.unregister(0)
                engine.shutdown(socket.SHUT_WR)
        if engine.fileno() in ready:
            answer = engine.recv(65536)
            if not answer:
                return
            while answer:
                answer = answer[os.write(1, answer) :]
