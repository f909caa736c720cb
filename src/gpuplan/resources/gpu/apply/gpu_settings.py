"""Acts on a GPU as a whole: its modes, a reset, its settings, services; each believed only after a second look."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from gpuplan.resources.gpu import settings, words
from gpuplan.resources.gpu.apply import refusals, services
from gpuplan.resources.gpu.apply.task import Fact, Task
from gpuplan.resources.gpu.modes import Need
from gpuplan.resources.gpu.read import Gpu
from gpuplan.types.diagnostic import Problem


def turn(task: Task) -> list[Fact]:
    """ECC and MIG mode, with the reset that they take; services that may be stopped for it run again afterwards.

    Raises:
        Problem: somebody uses or holds the GPU, the node refused, or a second look does not find it done.
    """
    _, gpu = task.look()
    if _is_turned(task, gpu):
        task.context.say("it is so already")
        return []
    with services.stopped(task):
        _refuse_if_used(task)
        _ecc(task)
        _reset(task)
        _mode(task)
    return []


def restart(task: Task) -> list[Fact]:
    """Services that an earlier run stopped run again."""
    services.start(task)
    return []


def put(task: Task) -> list[Fact]:
    """Settings that take effect at once.

    Raises:
        Problem: the node refused, or a second look does not find one of them set.
    """
    wanted = settings.read_settings(task.step.payload["settings"])
    _, gpu = task.look()
    for name, (_, value) in settings.differing(wanted, gpu).items():
        task.act("gpu.set", setting=name, value=value)
    _, gpu = task.look()
    for name, (now, value) in settings.differing(wanted, gpu).items():
        still = f"{settings.path(name)} of {gpu.uuid} is {settings.shown(name, now)} and not"
        raise Problem(refusals.did_not_converge(task.step, f"{still} {settings.shown(name, value)}"))
    task.context.say(words.listed(settings.said(name, value) for name, value in wanted.stated.items()))
    return []


def _is_turned(task: Task, gpu: Gpu) -> bool:
    on, ecc = task.flag("enabled"), task.flag("ecc")
    mode_is = on is None or gpu.current == on
    ecc_is = ecc is None or (gpu.ecc is not None and gpu.ecc.current == ecc)
    return mode_is and ecc_is and not _pends(gpu)


def _refuse_if_used(task: Task) -> None:
    observed, gpu = task.look()
    takes_back = task.flag("enabled") == gpu.current and task.need("reset") is Need.NOTHING
    if not takes_back:
        refusals.refuse_if_held(task.step, observed, gpu, None)


def _ecc(task: Task) -> None:
    ecc = task.flag("ecc")
    _, gpu = task.look()
    if ecc is None or gpu.ecc is None or gpu.ecc.pending == ecc:
        return
    task.act("gpu.set", setting="ecc", value=ecc)
    _, gpu = task.look()
    if gpu.ecc is None or gpu.ecc.pending != ecc:
        raise Problem(refusals.did_not_converge(task.step, f"ECC of {gpu.uuid} is to stay {_word(not ecc)}"))
    task.context.say(f"ECC goes {_word(ecc)} with the next reset")


def _reset(task: Task) -> None:
    need = task.need("reset")
    observed, gpu = task.look()
    if need is Need.NOTHING or not _pends(gpu):
        return
    if need is Need.REBOOT:
        raise Problem(words.needs_reboot(task.step.address, gpu))
    task.act("gpu.reset")
    observed, gpu = task.look()
    if _pends(gpu):
        raise Problem(refusals.reset_without_effect(task.step, observed, gpu))
    task.context.say(f"{gpu.uuid} was reset")


def _pends(gpu: Gpu) -> bool:
    return gpu.current != gpu.pending or (gpu.ecc is not None and gpu.ecc.current != gpu.ecc.pending)


def _mode(task: Task) -> None:
    on = task.flag("enabled")
    _, gpu = task.look()
    if on is None or gpu.current == gpu.pending == on:
        return
    if not (task.need("needs") is Need.REBOOT and gpu.pending == on):
        task.act("mig.set_mode", enabled=on)
    observed, gpu = task.look()
    if not gpu.current == gpu.pending == on:
        raise Problem(refusals.mode_did_not_change(task.step, observed, gpu, on))
    task.context.say(f"MIG mode is {_word(on)}")


def _word(on: bool) -> str:
    return "on" if on else "off"


ACTS: Mapping[str, Callable[[Task], list[Fact]]] = MappingProxyType(
    {"turn": turn, "services": restart, "settings": put}
)
"""The acts of this file by name."""
