"""Turning a simulated node off and on: what a reboot takes away, and what comes back."""

from __future__ import annotations

import time
import uuid

from gpuplan.simulator.engine.lifecycle import boot
from gpuplan.simulator.hardware import board_of
from gpuplan.simulator.machine import Machine
from gpuplan.simulator.store import Store
from gpuplan.simulator.toolkit import refresh


def reboot(store: Store, node: str) -> None:
    """Reboot the node: MIG instances go everywhere, MIG mode stays only where the board keeps it (Ampere), and the
    engine brings back the containers whose restart policy says so.
    """
    with store.write() as state:
        state.boot_id = str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{node}/boot/{state.count()}"))
        state.booted = time.time()
        state.processes.clear()
        for service in state.services:
            service.active = True
        for gpu in state.gpus:
            gpu.instances.clear()
            gpu.mig = gpu.pending = gpu.pending and board_of(gpu).mode_survives_reboot
            gpu.ecc, gpu.power_limit_mw, gpu.compute_mode = gpu.ecc_pending, 0, 0
        refresh(state)
        boot(state, Machine(node, store.root))
