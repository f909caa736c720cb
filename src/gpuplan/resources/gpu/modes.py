"""What has to happen to a GPU as a whole, and what it takes: nothing, a reset of that GPU, or a reboot of its node."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from gpuplan.nvidia.boards import Traits, traits_of
from gpuplan.resources.gpu.observed import Gpu
from gpuplan.resources.gpu.settings import Settings, differing


class Need(enum.Enum):
    """What a change takes to come into effect; the value is said in a step's title."""

    NOTHING = ""
    RESET = "resets the GPU"
    REBOOT = "needs a reboot of the node"


@dataclass(frozen=True)
class Way:
    """From a GPU as it is to what is wanted of it as a whole; everything empty = it is so."""

    ecc: bool | None = None
    """ECC mode to be set; it pends until the reset."""
    reset: Need = Need.NOTHING
    """A reset of its own, with which everything that pends comes into effect; before `mode`."""
    mode: bool | None = None
    """MIG mode to be set."""
    mode_needs: Need = Need.NOTHING
    settings: Settings = field(default_factory=Settings)
    """To be set once the GPU stays as it is; a reset takes them back."""
    left: tuple[str, ...] = ()
    """Services that an earlier run stopped and did not start again."""

    @property
    def needs(self) -> frozenset[Need]:
        """Everything that it takes."""
        return frozenset({self.reset, self.mode_needs} - {Need.NOTHING})

    takes_back: bool = False
    """MIG mode is as it is to be; only a change that pends is taken back, which nobody notices."""

    @property
    def disrupts(self) -> bool:
        """Whoever uses the GPU notices."""
        return bool(self.needs) or (self.mode is not None and not self.takes_back)

    @property
    def clears(self) -> bool:
        """No slice outlives it."""
        return self.reset is not Need.NOTHING


def way(gpu: Gpu, mig: bool | None, settings: Settings, left: tuple[str, ...] = ()) -> Way:
    """How a GPU comes to this MIG mode and these settings; None leaves MIG mode alone."""
    traits, resets = traits_of(gpu.name, gpu.architecture), Need.RESET if gpu.resettable else Need.REBOOT
    wants = mig if gpu.supported else None
    ecc_differs = settings.ecc is not None and gpu.ecc is not None and settings.ecc != gpu.ecc.current
    mode_pends = wants is not None and gpu.current != wants == gpu.pending and traits.needs_reset_for_mode
    reset = resets if ecc_differs or mode_pends else Need.NOTHING
    current, pending = (gpu.current, gpu.pending) if reset is Need.NOTHING else _after_reset(gpu, traits)
    takes_effect = wants is not None and current != wants
    mode = wants if wants is not None and (takes_effect or pending != wants) else None
    return Way(
        ecc=settings.ecc if ecc_differs and gpu.ecc is not None and gpu.ecc.pending != settings.ecc else None,
        reset=reset,
        mode=mode,
        mode_needs=resets if takes_effect and traits.needs_reset_for_mode else Need.NOTHING,
        settings=_to_be_set(gpu, settings, lost=reset is not Need.NOTHING or takes_effect),
        left=left,
        takes_back=mode is not None and not takes_effect and reset is Need.NOTHING,
    )


def _after_reset(gpu: Gpu, traits: Traits) -> tuple[bool, bool]:
    kept = gpu.pending and traits.mode_survives_reboot
    return kept, kept


def _to_be_set(gpu: Gpu, wanted: Settings, lost: bool) -> Settings:
    at_once = Settings(wanted.persistence_mode, wanted.power_limit_mw, wanted.compute_mode)
    return at_once if lost or differing(at_once, gpu) else Settings()
