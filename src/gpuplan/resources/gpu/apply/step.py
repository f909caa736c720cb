"""A running step of a GPU: looking at the node, one operation of the agent, and why a step cannot be done."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeAlias

from gpuplan.resources.gpu.observed import GpuInstance, ObservedGpu, ObservedGpus, cannot_read, cannot_read_containers
from gpuplan.resources.gpu.read import read
from gpuplan.resources.gpu.users import current_users, holders_of
from gpuplan.resources.kind import ApplyContext
from gpuplan.types.address import Address
from gpuplan.types.change import Step
from gpuplan.types.diagnostic import Diagnostic, Problem, Refused, join_words
from gpuplan.types.snapshot import ProbeError
from gpuplan.types.value import JsonObject

Fact: TypeAlias = tuple[Address, JsonObject | None]
"""An entry of the node's record; None removes it."""

_FIXES = {
    "in_use": "Stop what uses the GPU (also monitors such as DCGM, or nvidia-persistenced), then apply again.",
    "insufficient_resources": "Another user or tool created slices meanwhile. Run gpuplan plan again to place the"
    " slices around them.",
    "no_permission": "Let gpuplan become root on the node: ansible_become: true.",
    "not_supported": "The driver does not allow this on this GPU. In a virtual machine, the host may have to allow it.",
    "no_tool": "Install nvidia-smi, which comes with the driver, or reboot the node.",
    "not_found": "It no longer exists: run gpuplan plan again.",
}
_DEFAULT_FIX = "Check the kernel log (dmesg) on the node, then run gpuplan plan again."


@dataclass(frozen=True)
class RunningStep:
    """One step on one GPU while it is applied."""

    step: Step
    context: ApplyContext
    uuid: str

    def say(self, text: str) -> None:
        """Report progress."""
        self.context.say(text)

    def look(self) -> tuple[ObservedGpus, ObservedGpu]:
        """The node and the GPU as they are now, with containers, so that users have names.

        Raises:
            Problem: the GPU, its slices or its processes cannot be read, or it is gone.
        """
        observed, address = read(self.context.look("gpu", "docker", "host")), self.step.address
        if observed.error is not None:
            raise Problem(cannot_read(address, observed.error))
        gpu = observed.gpu(self.uuid)
        if gpu is None:
            missing = ProbeError("not_found", f"the GPU {self.uuid} is missing")
            raise Problem(cannot_read(address, observed.unreadable[0].error if observed.unreadable else missing))
        for part, what in ((gpu.instances, "slices"), (gpu.processes, "GPU processes")):
            if isinstance(part, ProbeError):
                raise Problem(cannot_read(address, part, what))
        return observed, gpu

    def look_at_gpu(self) -> ObservedGpu:
        """The GPU as it is now; raises as `look` does."""
        return self.look()[1]

    def agent(self, operation: str, **arguments: object) -> None:
        """One operation of the agent on the GPU.

        Raises:
            Problem: the node refused; with the reason, what holds the GPU, and what to do.
        """
        try:
            self.context.agent(operation, uuid=self.uuid, **arguments)
        except Refused as refusal:
            holders = holders_of(*self.look()) if refusal.code == "in_use" else ()
            held = f" The GPU is held by {join_words(holders)}." if holders else ""
            raise self.problem(
                "The node refused to change the GPU",
                f"“{self.step.title}” failed: {refusal.text} ({refusal.code}).{held}",
                _FIXES.get(refusal.code, _DEFAULT_FIX),
            ) from refusal

    def refuse_if_used(
        self, instance: GpuInstance | None, compute: int | None = None, allowed: Collection[str] = ()
    ) -> None:
        """Stop before a change while the instance, that compute instance of it, or anything of the GPU is in use.

        A container that has it counts even if it is idle, except those that are `allowed`: the plan shows them, and a
        guard was lifted for them.

        Raises:
            Problem: with the users, or with why they cannot be determined.
        """
        observed, gpu = self.look()
        if isinstance(observed.containers, ProbeError):
            raise Problem(cannot_read_containers(self.step.address, observed.containers))
        if users := current_users(observed, gpu, instance, compute, allowed):
            used = f"the slice {instance}" if instance is not None else f"the GPU {gpu.uuid}"
            verb = "uses" if len(users) == 1 else "use"
            detail = f"“{self.step.title}” was not started: {join_words(users)} {verb} {used}."
            raise self.problem("The GPU is in use", detail, _FIXES["in_use"])

    def not_converged(self, observed: str) -> Problem:
        """The operation reported success, and the second look shows otherwise."""
        return self.problem(
            "The GPU did not converge",
            f"“{self.step.title}” reported success, but {observed}.",
            "The host of a virtual machine may ignore such changes. Check the kernel log (dmesg) on the node, then run"
            " gpuplan plan again.",
        )

    def problem(self, summary: str, detail: str, fix: str) -> Problem:
        """A problem of this step."""
        return Problem(Diagnostic(summary, detail, fix, address=str(self.step.address)))
