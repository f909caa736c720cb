"""Why a step on a GPU was not done: refused by the node, held by somebody, or done without effect."""

from __future__ import annotations

from dataclasses import replace

from gpuplan.resources.gpu import users, words
from gpuplan.resources.gpu.read import Gpu, Instance, ObservedGpus
from gpuplan.types.change import Step
from gpuplan.types.diagnostic import Diagnostic, Problem, Refused
from gpuplan.types.snapshot import ProbeError
from gpuplan.types.value import as_list

_REMEDIES = {
    "in_use": "Stop what holds it (also monitors such as DCGM, or nvidia-persistenced), then apply again.",
    "insufficient_resources": "Somebody else created slices meanwhile: plan again, which solves the places anew.",
    "no_permission": "Let gpuplan become root on the node: ansible_become: true.",
    "not_supported": "The driver does not allow this on this GPU; in a virtual machine ask whoever runs the host.",
    "moved": "Another slice stands there now: plan again.",
    "no_tool": "Install nvidia-smi, which comes with the driver, or reboot the node.",
    "not_found": "It is not there any more: plan again.",
}
_LAST_REMEDY = "Look at the kernel's log on the node, then plan again."


def readable(step: Step, observed: ObservedGpus, uuid: str) -> Gpu:
    """The GPU as it was just read.

    Raises:
        Problem: it was not read as a whole, or is not there.
    """
    gpu = observed.gpu(uuid)
    if observed.error is not None:
        raise Problem(words.unread(step.address, observed.error))
    if gpu is None:
        raise Problem(words.unread(step.address, _lost(observed, uuid)))
    for part, what in ((gpu.instances, "slices"), (gpu.processes, "GPU processes")):
        if isinstance(part, ProbeError):
            raise Problem(words.unread(step.address, part, what))
    return gpu


def refuse_if_held(
    step: Step, observed: ObservedGpus, gpu: Gpu, instance: Instance | None, compute: int | None = None
) -> None:
    """Stop before the act while somebody uses the instance or that compute instance of it, or anything of the GPU.

    A container that was given it counts even where it computes nothing, except those that the change set already
    named (`seen` in the step), whom a guard was lifted for.

    Raises:
        Problem: naming who runs there, or why nobody knows.
    """
    if isinstance(observed.containers, ProbeError):
        raise Problem(words.unread_containers(step.address, observed.containers))
    seen = {str(each) for each in as_list(step.payload.get("seen", []))}
    given = [each for each in users.given(observed, gpu, instance, compute) if each not in seen]
    if running := dict.fromkeys((*users.running(observed, gpu, instance, compute), *given)):
        what = f"slice {instance}" if instance is not None else f"GPU {gpu.uuid}"
        detail = f"“{step.title}” was not begun: {words.listed(running)} still runs on the {what}."
        raise Problem(Diagnostic("The GPU is in use", detail, _REMEDIES["in_use"], address=str(step.address)))


def refused(step: Step, refusal: Refused, observed: ObservedGpus, gpu: Gpu) -> Diagnostic:
    """What the node answered to an act, with everybody who has the GPU open."""
    holding = users.holding(observed, gpu)
    held = f" The GPU is held by {words.listed(holding)}." if holding and refusal.code == "in_use" else ""
    return Diagnostic(
        "The node refused to change the GPU",
        f"“{step.title}” failed: {refusal.text} ({refusal.code}).{held}",
        _REMEDIES.get(refusal.code, _LAST_REMEDY),
        address=str(step.address),
    )


def mode_did_not_change(step: Step, observed: ObservedGpus, gpu: Gpu, on: bool) -> Diagnostic:
    """MIG mode was set without an error and is still as it was."""
    if gpu.pending == on and not gpu.resettable:
        return words.needs_reboot(step.address, gpu)
    if gpu.pending == on:
        return words.needs_reset(step.address, gpu, users.holding(observed, gpu))
    return did_not_converge(step, f"MIG mode of {gpu.uuid} is still {'off' if on else 'on'}")


def reset_without_effect(step: Step, observed: ObservedGpus, gpu: Gpu) -> Diagnostic:
    """The reset reported success, and what pended still does."""
    waits = words.needs_reset(step.address, gpu, users.holding(observed, gpu))
    undone = did_not_converge(step, f"{gpu.uuid} was not reset")
    return replace(undone, detail=f"{undone.detail} {waits.detail}")


def did_not_converge(step: Step, still: str) -> Diagnostic:
    """The act reported success, and the second look finds it undone."""
    return Diagnostic(
        "The GPU did not converge",
        f"“{step.title}” did not converge: a second look says that {still}.",
        "A virtual machine's host may refuse this silently. Look at the kernel's log on the node, then plan again.",
        address=str(step.address),
    )


def another_stands_there(step: Step, instance: Instance) -> Diagnostic:
    """The slice was made anew by somebody else since the change set."""
    return Diagnostic(
        "Another slice stands there now",
        f"“{step.title}” was not done: the {instance} was made anew since the change set was made.",
        _REMEDIES["moved"],
        address=str(step.address),
    )


def no_place(step: Step, gpu: Gpu) -> Diagnostic:
    """The node's own table of placements has no place for the slice."""
    there = [str(each) for each in gpu.instances] if isinstance(gpu.instances, tuple) else []
    return Diagnostic(
        "There is no place for the slice",
        f"“{step.title}” was not done: the placements of this {gpu.name} leave none beside {words.listed(there)}.",
        "Plan again, now that the node has named its placements.",
        address=str(step.address),
    )


def _lost(observed: ObservedGpus, uuid: str) -> ProbeError:
    return observed.lost[0].error if observed.lost else ProbeError("not_found", f"the GPU {uuid} is not there any more")
