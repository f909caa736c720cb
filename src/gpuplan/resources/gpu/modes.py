"""MIG mode, ECC and settings of a GPU: how it gets from the observed to the desired ones, and what that interrupts."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gpuplan.nvidia.boards import MigTraits, traits_of
from gpuplan.resources.gpu.observed import ObservedGpu, SettingValue
from gpuplan.resources.gpu.resolve import LogicalGpu
from gpuplan.resources.gpu.settings import BY_NAME, differing, without_reset
from gpuplan.resources.gpu.users import Users
from gpuplan.types.address import Address
from gpuplan.types.change import FieldChange, Unmanaged
from gpuplan.types.diagnostic import join_words


class Requirement(enum.Enum):
    """What a change requires to take effect; the value is part of a step's title."""

    NOTHING = ""
    RESET = "resets the GPU"
    REBOOT = "requires a reboot of the node"


@dataclass(frozen=True)
class Transition:
    """What has to be done to a GPU as a whole; all fields empty if nothing differs."""

    ecc: bool | None = None
    """ECC mode to set; it is pending until the reset."""
    reset: Requirement = Requirement.NOTHING
    """A reset by itself, with which everything that is pending takes effect; before `mig`."""
    mig: bool | None = None
    """MIG mode to set."""
    mig_requires: Requirement = Requirement.NOTHING
    settings: Mapping[str, SettingValue] = field(default_factory=dict)
    """To be applied after all resets, which undo them."""
    stopped_services: tuple[str, ...] = ()
    """Services that an earlier apply stopped and did not start again."""
    only_cancels: bool = False
    """MIG mode is as desired; only a pending change is cancelled, which interrupts nothing."""

    @property
    def requirements(self) -> frozenset[Requirement]:
        """All that it requires."""
        return frozenset({self.reset, self.mig_requires} - {Requirement.NOTHING})

    @property
    def interrupts(self) -> bool:
        """What runs on the GPU is interrupted."""
        return bool(self.requirements) or (self.mig is not None and not self.only_cancels)

    @property
    def destroys_slices(self) -> bool:
        """No slice survives it."""
        return self.reset is not Requirement.NOTHING


def transition_to(
    gpu: ObservedGpu,
    mig: bool | None,
    settings: Mapping[str, SettingValue],
    stopped_services: tuple[str, ...] = (),
) -> Transition:
    """From the observed to these modes and settings; `mig` None leaves MIG mode alone."""
    traits = traits_of(gpu.name, gpu.architecture)
    reset_or_reboot = Requirement.RESET if gpu.resettable else Requirement.REBOOT
    desired_mig = mig if gpu.mig_supported else None
    desired_ecc, ecc = settings.get("ecc"), gpu.settings.get("ecc")
    ecc_differs = desired_ecc is not None and ecc is not None and desired_ecc != ecc
    mig_waits = desired_mig is not None and gpu.mig_enabled != desired_mig == gpu.mig_pending
    resets = ecc_differs or (mig_waits and traits.needs_reset_for_mode)
    reset = reset_or_reboot if resets else Requirement.NOTHING
    enabled, pending = _mig_after_reset(gpu, traits) if resets else (gpu.mig_enabled, gpu.mig_pending)
    takes_effect = desired_mig is not None and enabled != desired_mig
    sets_mig = takes_effect or (desired_mig is not None and pending != desired_mig)
    at_once = without_reset(settings)
    return Transition(
        ecc=bool(desired_ecc) if ecc_differs and gpu.ecc_pending != desired_ecc else None,
        reset=reset,
        mig=desired_mig if sets_mig else None,
        mig_requires=reset_or_reboot if takes_effect and traits.needs_reset_for_mode else Requirement.NOTHING,
        settings=at_once if resets or takes_effect or differing(at_once, gpu) else {},
        stopped_services=stopped_services,
        only_cancels=sets_mig and not takes_effect and not resets,
    )


def _mig_after_reset(gpu: ObservedGpu, traits: MigTraits) -> tuple[bool, bool]:
    survives = gpu.mig_pending and traits.mode_survives_reboot
    return survives, survives


def mode_fields(logical: LogicalGpu, transition: Transition) -> Iterator[FieldChange]:
    """MIG mode, ECC and settings, before and after."""
    gpu, prefix = logical.gpu, logical.prefix
    before, after = _mig_text(gpu), _enabled(_mig_after(gpu, transition))
    if _mig_changes(gpu, transition) and before != after:
        yield FieldChange(f"{prefix}mig", before, after)
    desired: dict[str, SettingValue] = dict(transition.settings)
    if transition.destroys_slices and gpu.ecc_pending is not None:
        desired["ecc"] = gpu.ecc_pending if transition.ecc is None else transition.ecc
    for name, (observed, value) in differing(desired, gpu).items():
        setting = BY_NAME[name]
        shown = None if observed is None else setting.shown(observed)
        yield FieldChange(f"{prefix}{setting.key}", shown, setting.shown(value))
    for service in transition.stopped_services:
        yield FieldChange(f"{prefix}services.{service}", "stopped", "running")


def mode_reasons(logical: LogicalGpu, transition: Transition) -> Iterator[str]:
    """What it requires, and why."""
    gpu = logical.gpu
    if gpu.mig_supported and gpu.mig_enabled != gpu.mig_pending and _mig_changes(gpu, transition):
        yield f"MIG mode was set to {_on(gpu.mig_pending)}, which has not taken effect yet"
    if transition.destroys_slices and gpu.mig_enabled:
        yield "a reset of the GPU destroys all its slices"
    if transition.stopped_services:
        services = join_words(transition.stopped_services)
        yield f"an earlier apply was interrupted after it stopped {services}"
    if Requirement.RESET in transition.requirements:
        yield f"requires a reset of {gpu.uuid}; other GPUs are not reset"
    if Requirement.REBOOT in transition.requirements:
        yield f"{logical.name} is passed through to a virtual machine, which cannot reset it"


def mode_interrupts(logical: LogicalGpu, transition: Transition, users: Users) -> Iterator[str]:
    """What stops serving."""
    if transition.interrupts and users.all:
        yield f"{_what_changes(logical, transition)}: {join_words(users.all)}"
    if Requirement.RESET in transition.requirements and logical.spec.stop_services:
        yield f"during the reset, these services are stopped if running: {join_words(logical.spec.stop_services)}"
    if Requirement.REBOOT in transition.requirements:
        yield "the node must be rebooted: everything on it"


def mode_disturbs(logical: LogicalGpu, transition: Transition) -> Mapping[Address, str]:
    """The GPU itself: everything that uses it as a whole must release it."""
    return {logical.address: _what_changes(logical, transition)} if transition.interrupts else {}


def mode_conflicts(logical: LogicalGpu, transition: Transition, users: Users) -> Iterator[Unmanaged]:
    """Unmanaged users of the GPU, what holds it so that it cannot be reset, and a required reboot; with the guard."""
    title, address = f"{logical.name} ({logical.gpu.uuid})", logical.address
    if transition.interrupts and users.others:
        yield Unmanaged(address, f"{title} is used by {join_words(users.others)}", address, "busy-gpu")
    if Requirement.RESET in transition.requirements and users.holders:
        what = f"{title} must be reset and is held by {join_words(users.holders)}"
        yield Unmanaged(address, what, address, "gpu-reset")
    if Requirement.REBOOT in transition.requirements:
        what = f"{_what_changes(logical, transition)} only with a reboot of the node: {title} cannot be reset"
        yield Unmanaged(address, what, address, "gpu-reboot")


def transition_title(logical: LogicalGpu, transition: Transition) -> str:
    """“turn MIG mode on (resets the GPU)”."""
    gpu, modes = logical.gpu, [*_mode_phrases(logical, transition)]
    required = [requirement.value for requirement in Requirement if requirement in transition.requirements]
    if transition.only_cancels:
        title = f"keep MIG mode{of_gpu(logical)} {_on(gpu.mig_enabled)} and cancel the pending change"
    elif not modes:
        begin = "reset the GPU" if transition.reset is Requirement.RESET else "wait for a reboot of the node"
        title = f"{begin}{of_gpu(logical)} to turn {join_words(_pending_phrases(gpu))}"
    else:
        title = f"turn {join_words(modes)}" + (f" ({', '.join(required)})" if required else "")
    services = logical.spec.stop_services
    if Requirement.RESET in transition.requirements and services:
        verb = "is" if len(services) == 1 else "are"
        title += f"; {join_words(services)} {verb} stopped meanwhile if running"
    return title


def of_gpu(logical: LogicalGpu) -> str:
    """“ of a100[1]”, if the resource has several GPUs."""
    return f" of {logical.name}" if logical.prefix else ""


def _mode_phrases(logical: LogicalGpu, transition: Transition) -> Iterator[str]:
    if transition.ecc is not None:
        yield f"ECC{of_gpu(logical)} {_on(transition.ecc)}"
    if transition.mig is not None:
        again = " again" if transition.destroys_slices and logical.gpu.mig_enabled else ""
        yield f"MIG mode{of_gpu(logical)} {_on(transition.mig)}{again}"


def _pending_phrases(gpu: ObservedGpu) -> Iterator[str]:
    if gpu.ecc_pending is not None and gpu.settings.get("ecc") != gpu.ecc_pending:
        yield f"ECC {_on(gpu.ecc_pending)}"
    if gpu.mig_enabled != gpu.mig_pending:
        yield f"MIG mode {_on(gpu.mig_pending)}"


def _mig_changes(gpu: ObservedGpu, transition: Transition) -> bool:
    return transition.mig is not None or (transition.destroys_slices and gpu.mig_enabled != gpu.mig_pending)


def _mig_after(gpu: ObservedGpu, transition: Transition) -> bool:
    return gpu.mig_pending if transition.mig is None else transition.mig


def _what_changes(logical: LogicalGpu, transition: Transition) -> str:
    gpu = logical.gpu
    sets_mig = transition.mig is not None and gpu.mig_enabled != transition.mig
    mig = sets_mig or (_mig_changes(gpu, transition) and gpu.mig_enabled != gpu.mig_pending)
    return f"{'MIG mode' if mig else 'ECC'} of {logical.name} changes"


def _mig_text(gpu: ObservedGpu) -> str:
    text = _enabled(gpu.mig_enabled)
    return text if gpu.mig_enabled == gpu.mig_pending else f"{text}, {_enabled(gpu.mig_pending)} pending"


def _enabled(on: bool) -> str:
    return "enabled" if on else "disabled"


def _on(on: bool) -> str:
    return "on" if on else "off"
