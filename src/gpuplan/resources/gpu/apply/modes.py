"""Set modes and settings of a GPU as a whole; services that hold it are stopped during a reset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from gpuplan.resources.gpu.apply.step import RunningStep
from gpuplan.resources.gpu.modes import Requirement
from gpuplan.resources.gpu.observed import ObservedGpu
from gpuplan.resources.gpu.settings import BY_NAME, differing
from gpuplan.resources.gpu.steps import ApplySettings, SetModes
from gpuplan.resources.gpu.users import holders_of
from gpuplan.types.diagnostic import ConnectionLost, Diagnostic, Problem, Refused, join_words
from gpuplan.types.value import as_list


def set_modes(run: RunningStep, payload: SetModes) -> None:
    """Set ECC and MIG mode, with the reset that they require; stopped services are started again afterwards.

    Raises:
        Problem: the GPU is in use, the node refused, or a second look does not show the modes.
    """
    if _is_set(payload, run.look_at_gpu()):
        run.say("already set")
        return
    with _services_stopped(run, payload.stop_services):
        only_cancels = payload.mig == run.look_at_gpu().mig_enabled and payload.reset is Requirement.NOTHING
        if not only_cancels:
            run.refuse_if_used(None, allowed=payload.allowed_users)
        _set_ecc(run, payload)
        _reset(run, payload)
        _set_mig(run, payload)


def apply_settings(run: RunningStep, payload: ApplySettings) -> None:
    """Apply settings that take effect at once.

    Raises:
        Problem: the node refused, or a second look does not show one of them.
    """
    for name, (_, value) in differing(payload.settings, run.look_at_gpu()).items():
        run.agent("gpu.set", setting=name, value=value)
    for name, (observed, value) in differing(payload.settings, run.look_at_gpu()).items():
        setting = BY_NAME[name]
        shown = "not reported" if observed is None else setting.shown(observed)
        raise run.not_converged(f"{setting.key} of {run.uuid} is {shown}, not {setting.shown(value)}")
    phrases = join_words(BY_NAME[name].phrase(value) for name, value in payload.settings.items())
    run.say(f"set {phrases}")


def start_services(run: RunningStep) -> None:
    """Start what was stopped for this GPU and does not run yet.

    Raises:
        Problem: one does not start.
    """
    try:
        started = as_list(run.context.agent("service.start", uuid=run.uuid)["started"])
    except Refused as refusal:
        raise _service_problem(run, "start", refusal) from refusal
    if started:
        run.say(f"started {join_words(map(str, started))} again")


def _is_set(payload: SetModes, gpu: ObservedGpu) -> bool:
    mig_is_set = payload.mig is None or gpu.mig_enabled == payload.mig
    ecc_is_set = payload.ecc is None or gpu.settings.get("ecc") == payload.ecc
    return mig_is_set and ecc_is_set and not gpu.reset_pending


def _set_ecc(run: RunningStep, payload: SetModes) -> None:
    ecc, pending = payload.ecc, run.look_at_gpu().ecc_pending
    if ecc is None or pending is None or pending == ecc:
        return
    run.agent("gpu.set", setting="ecc", value=ecc)
    if run.look_at_gpu().ecc_pending != ecc:
        raise run.not_converged(f"ECC of {run.uuid} stays {_on(not ecc)}")
    run.say(f"ECC will be {_on(ecc)} after the next reset")


def _reset(run: RunningStep, payload: SetModes) -> None:
    gpu = run.look_at_gpu()
    if payload.reset is Requirement.NOTHING or not gpu.reset_pending:
        return
    if payload.reset is Requirement.REBOOT:
        raise _needs_reboot(run, gpu)
    run.agent("gpu.reset")
    gpu = run.look_at_gpu()
    if gpu.reset_pending:
        waiting = f"{run.uuid} was not reset. {_pending_text(run, gpu)} after a reset of the GPU{_held_by(run)}"
        raise run.not_converged(waiting)
    run.say(f"reset {run.uuid}")


def _set_mig(run: RunningStep, payload: SetModes) -> None:
    mig, gpu = payload.mig, run.look_at_gpu()
    if mig is None or gpu.mig_enabled == gpu.mig_pending == mig:
        return
    if not (payload.mig_requires is Requirement.REBOOT and gpu.mig_pending == mig):
        run.agent("mig.set_mode", enabled=mig)
    gpu = run.look_at_gpu()
    if gpu.mig_enabled == gpu.mig_pending == mig:
        run.say(f"MIG mode is {_on(mig)}")
    elif gpu.mig_pending != mig:
        raise run.not_converged(f"MIG mode of {gpu.uuid} is still {_on(not mig)}")
    else:
        raise _needs_reset(run, gpu) if gpu.resettable else _needs_reboot(run, gpu)


def _needs_reset(run: RunningStep, gpu: ObservedGpu) -> Problem:
    """A mode was set and has not taken effect."""
    return run.problem(
        "The GPU needs a reset",
        f"{_pending_text(run, gpu)} after a reset of the GPU{_held_by(run)}.",
        f"Stop what holds the GPU (also monitors such as DCGM), then run `nvidia-smi --gpu-reset -i {gpu.uuid}` on"
        " the node, or reboot it.",
    )


def _needs_reboot(run: RunningStep, gpu: ObservedGpu) -> Problem:
    """A mode was set on a GPU that cannot be reset from its node."""
    return run.problem(
        "The node needs a reboot",
        f"{_pending_text(run, gpu)} after a reboot of {run.step.address.node}: the GPU is passed through to a virtual"
        " machine, which cannot reset it.",
        "Reboot the node when convenient, then apply again; gpuplan never reboots a node.",
    )


def _held_by(run: RunningStep) -> str:
    holders = holders_of(*run.look())
    return f"; it is held by {join_words(holders)}" if holders else ""


def _pending_text(run: RunningStep, gpu: ObservedGpu) -> str:
    """“MIG mode of a100-0 (GPU-…) is off and will be on”."""
    mig_pends = gpu.mig_enabled != gpu.mig_pending
    mode, on = ("MIG mode", gpu.mig_enabled) if mig_pends else ("ECC", bool(gpu.settings.get("ecc")))
    return f"{mode} of {run.step.address.name} ({gpu.uuid}) is {_on(on)} and will be {_on(not on)}"


@contextmanager
def _services_stopped(run: RunningStep, names: Sequence[str]) -> Iterator[None]:
    """Stop those of the services that run, and start them again at the end.

    The agent notes them on the node before it stops the first one, so that the next apply starts them if this one is
    interrupted. If the connection is lost, the agent starts them itself as it ends.

    Raises:
        Problem: a service does not stop (nothing was done, and the others run again) or does not start again.
    """
    if not names:
        yield
        return
    _stop_services(run, names)
    try:
        yield
    except ConnectionLost:
        raise
    except Problem as problem:
        raise Problem((*problem.diagnostics, *_start_problems(run))) from problem
    except BaseException:
        _start_problems(run)
        raise
    if problems := _start_problems(run):
        raise Problem(problems)


def _stop_services(run: RunningStep, names: Sequence[str]) -> None:
    try:
        stopped = as_list(run.context.agent("service.stop", uuid=run.uuid, services=list(names))["stopped"])
    except Refused as refusal:
        raise _service_problem(run, "stop", refusal) from refusal
    run.say(f"stopped {join_words(map(str, stopped))}" if stopped else f"{join_words(names)}: not running")


def _start_problems(run: RunningStep) -> Sequence[Diagnostic]:
    try:
        start_services(run)
    except Problem as problem:
        return problem.diagnostics
    return ()


def _service_problem(run: RunningStep, verb: str, refusal: Refused) -> Problem:
    return run.problem(
        f"Cannot {verb} a service",
        f"“{run.step.title}”: {refusal.text} ({refusal.code}).",
        "Check `systemctl status` and `journalctl -u` for the service on the node; the next apply tries again.",
    )


def _on(on: bool) -> str:
    return "on" if on else "off"
