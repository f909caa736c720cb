"""Connecting to a node in the way that the inventory says."""

from __future__ import annotations

from gpuplan.model.inventory import Connection, Host
from gpuplan.reach.session import Session
from gpuplan.reach.sparing import SparingSession


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
            from gpuplan.reach.ssh import SshSession

            return SshSession(host)
        case Connection.LOCAL:
            from gpuplan.reach.local import LocalSession

            return LocalSession(host)
        case Connection.SIMULATED:
            from gpuplan.simulation.session import SimulatedSession

            return SimulatedSession(host)
