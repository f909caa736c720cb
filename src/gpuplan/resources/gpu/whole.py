"""What becomes of a GPU as a whole, in words and steps: its modes, its settings, a reset, and who stands in the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gpuplan.resources.gpu import settings
from gpuplan.resources.gpu.modes import Need, Way
from gpuplan.resources.gpu.units import Unit
from gpuplan.resources.gpu.users import Users
from gpuplan.resources.gpu.words import listed
from gpuplan.types.address import Address
from gpuplan.types.change import FieldChange, Unmanaged
from gpuplan.types.value import Json


@dataclass(frozen=True)
class Act:
    """One step on a GPU as a whole."""

    name: str
    title: str
    act: str
    payload: Mapping[str, Json] = field(default_factory=dict)
    turns: bool = False
    """Nothing may use the GPU meanwhile, and no slice outlives it or is made before it."""


def acts(unit: Unit, turning: Way) -> Iterator[Act]:
    """Every step, in order: what was left undone, the turn, and the settings that it leaves to be set."""
    if turning.left:
        again = f"start {listed(turning.left)} again, which an earlier run stopped"
        yield Act("services", again, "services")
    if turning.disrupts or turning.mode is not None:
        yield Act(
            "mode" if turning.mode is not None else "reset",
            _title(unit, turning),
            "turn",
            {
                "ecc": turning.ecc,
                "reset": turning.reset.name,
                "enabled": turning.mode,
                "needs": turning.mode_needs.name,
                "stop_services": list(unit.spec.stop_services) if Need.RESET in turning.needs else [],
            },
            turns=True,
        )
    if stated := turning.settings.stated:
        what = listed(settings.said(name, value) for name, value in stated.items())
        yield Act("settings", f"set {what}{_which(unit)}", "settings", {"settings": turning.settings.to_json()})


def fields(unit: Unit, turning: Way) -> Iterator[FieldChange]:
    """MIG mode and settings, as they are and as they will be."""
    gpu, prefix = unit.gpu, unit.prefix
    now, then = _mig(gpu.current, gpu.pending), _word(_mig_after(unit, turning))
    if _mig_changes(unit, turning) and now != then:
        yield FieldChange(f"{prefix}mig", now, then)
    wanted = {**turning.settings.stated, **({} if (ecc := _ecc_after(unit, turning)) is None else {"ecc": ecc})}
    there = settings.observed(gpu).stated
    for name, value in wanted.items():
        if there.get(name) != value:
            before, after = settings.shown(name, there.get(name)), settings.shown(name, value)
            yield FieldChange(f"{prefix}{settings.path(name)}", before, after)
    for service in turning.left:
        yield FieldChange(f"{prefix}services.{service}", "stopped", "running")


def reasons(unit: Unit, turning: Way) -> Iterator[str]:
    """What it takes, and why."""
    gpu = unit.gpu
    if gpu.supported and gpu.current != gpu.pending and _mig_changes(unit, turning):
        yield f"MIG mode was set to {_on(gpu.pending)}, which has not come into effect"
    if turning.clears and gpu.current:
        yield "no slice outlives a reset of its GPU"
    if turning.left:
        yield f"an earlier run stopped {listed(turning.left)} and was cut off before it could start them again"
    if Need.RESET in turning.needs:
        yield f"it takes a reset of {gpu.uuid}, and of no other GPU"
    if Need.REBOOT in turning.needs:
        yield f"{unit.address.name} is passed through to a virtual machine, where no guest can reset it"


def interrupts(unit: Unit, turning: Way, gpu_users: Users) -> Iterator[str]:
    """What stops serving."""
    if turning.disrupts and gpu_users.all:
        yield f"{_changes(unit, turning)}: {listed(gpu_users.all)}"
    if Need.RESET in turning.needs and unit.spec.stop_services:
        yield f"where they run, these services are stopped meanwhile: {listed(unit.spec.stop_services)}"
    if Need.REBOOT in turning.needs:
        yield "the node has to be rebooted: everything on it"


def disturbs(unit: Unit, turning: Way) -> Mapping[Address, str]:
    """The GPU itself, which whatever uses it as a whole has to let go."""
    return {unit.address: _changes(unit, turning)} if turning.disrupts else {}


def in_the_way(unit: Unit, turning: Way, gpu_users: Users) -> Iterator[Unmanaged]:
    """Strangers who use the GPU, who holds it so that it cannot be reset, and the reboot that nobody asked for."""
    called = f"{unit.address.name} ({unit.gpu.uuid})"
    if turning.disrupts and gpu_users.strangers:
        yield Unmanaged(unit.address, f"{called} is used by {listed(gpu_users.strangers)}", unit.address, "busy-gpu")
    if Need.RESET in turning.needs and gpu_users.holders:
        what = f"{called} has to be reset and is held by {listed(gpu_users.holders)}"
        yield Unmanaged(unit.address, what, unit.address, "gpu-reset")
    if Need.REBOOT in turning.needs:
        what = f"{_changes(unit, turning)} only with a reboot of the node, since {called} cannot be reset there"
        yield Unmanaged(unit.address, what, unit.address, "gpu-reboot")


def _title(unit: Unit, turning: Way) -> str:
    turns = [*_turns(unit, turning)]
    effects = [each.value for each in Need if each in turning.needs]
    if turning.takes_back:
        title = f"keep MIG mode{_which(unit)} {_on(unit.gpu.current)}, and take back the change that pends"
    elif not turns:
        begin = "reset the GPU" if turning.reset is Need.RESET else "wait for a reboot of the node"
        title = f"{begin}{_which(unit)}, so that {listed(_comes(unit))}"
    else:
        title = f"turn {listed(turns)}" + (f" ({', '.join(effects)})" if effects else "")
    if Need.RESET in turning.needs and unit.spec.stop_services:
        verb = "is" if len(unit.spec.stop_services) == 1 else "are"
        title += f"; meanwhile {listed(unit.spec.stop_services)} {verb} stopped where running"
    return title


def _turns(unit: Unit, turning: Way) -> Iterator[str]:
    which = _which(unit)
    if turning.ecc is not None:
        yield f"ECC{which} {_on(turning.ecc)}"
    if turning.mode is not None:
        again = " again" if turning.clears and unit.gpu.current else ""
        yield f"MIG mode{which} {_on(turning.mode)}{again}"


def _comes(unit: Unit) -> Iterator[str]:
    if unit.gpu.ecc is not None and unit.gpu.ecc.current != unit.gpu.ecc.pending:
        yield f"ECC goes {_on(unit.gpu.ecc.pending)}"
    if unit.gpu.current != unit.gpu.pending:
        yield f"MIG mode goes {_on(unit.gpu.pending)}"


def _which(unit: Unit) -> str:
    return f" of {unit.address.name}" if unit.prefix else ""


def _mig_changes(unit: Unit, turning: Way) -> bool:
    gpu = unit.gpu
    return turning.mode is not None or (turning.clears and gpu.current != gpu.pending)


def _mig_after(unit: Unit, turning: Way) -> bool:
    return unit.gpu.pending if turning.mode is None else turning.mode


def _ecc_after(unit: Unit, turning: Way) -> bool | None:
    ecc = unit.gpu.ecc
    if ecc is None or not turning.clears:
        return None
    return ecc.pending if turning.ecc is None else turning.ecc


def _changes(unit: Unit, turning: Way) -> str:
    if turning.mode is not None and unit.gpu.current != turning.mode:
        return f"MIG mode of {unit.address.name} changes"
    if _mig_changes(unit, turning) and unit.gpu.current != unit.gpu.pending:
        return f"MIG mode of {unit.address.name} changes"
    return f"ECC of {unit.address.name} changes"


def _mig(current: bool, pending: bool) -> str:
    return _word(current) if current == pending else f"{_word(current)}, {_word(pending)} pends"


def _word(on: bool) -> str:
    return "enabled" if on else "disabled"


def _on(on: bool) -> str:
    return "on" if on else "off"
