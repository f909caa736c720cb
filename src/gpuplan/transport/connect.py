"""Connecting to a node in the way that the inventory says."""

from __future__ import annotations

from gpuplan.transport.session import Session
from gpuplan.transport.sparing import SparingSession
from gpuplan.types.inventory import Connection, Host


def connect(host: Host) -> Session:
    """A session with the node; close it.

    Raises:
        Problem: the node could not be reached; says why and what to do.
    """
    session = _session(host)
    return SparingSession(session, host.unasked) if host.unasked else session


def _session(host: Host) -> Session:
    match host.connection:
        case Connection.SSH:
            from gpuplan.transport.node import NodeSession
            from gpuplan.transport.ssh import SshWay

            return NodeSession(host.name, SshWay(host))
        case Connection.LOCAL:
            from gpuplan.transport.local import LocalWay
            from gpuplan.transport.node import NodeSession

            return NodeSession(host.name, LocalWay(host))
        case Connection.SIMULATED:
            from gpuplan.simulator.session import SimulatedSession

            return SimulatedSession(host)
