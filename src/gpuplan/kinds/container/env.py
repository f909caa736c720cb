"""Environment: what a container has against what it should have; no secret and no stranger's value is ever told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuplan.kinds.container.devices import environment
from gpuplan.kinds.container.read import Image, Live
from gpuplan.kinds.container.shape import VISIBLE, EnvValue
from gpuplan.model.change import FieldChange
from gpuplan.model.value import Secret


def compare_env(
    wanted: Mapping[str, EnvValue],
    recorded: Mapping[str, EnvValue],
    live: Live,
    image: Image | None,
    secrets: Mapping[str, Secret],
) -> Iterator[FieldChange]:
    """The differing variables. What the image brings counts as wanted where the plan file does not overlay it.

    What gives a container its GPUs is compared as devices, not here.
    """
    has = environment(live.config)
    brought = environment(image.config) if image else {}
    for name, value in wanted.items():
        yield from _stated(
            name, value, has.get(name), secret_before=not isinstance(recorded.get(name, ""), str), secrets=secrets
        )
    by_devices = {VISIBLE} if VISIBLE not in wanted else set()
    for name in has.keys() - wanted.keys() - by_devices:
        if name in recorded or (image is not None and brought.get(name) != has[name]):
            yield FieldChange(f"env.{name}", None, None, sensitive=True)


def wanted_env(wanted: Mapping[str, EnvValue]) -> Iterator[FieldChange]:
    """The variables of a container that is yet to be made."""
    for name, value in wanted.items():
        secret = not isinstance(value, str)
        yield FieldChange(f"env.{name}", None, None if secret else str(value), sensitive=secret)


def _stated(
    name: str, value: EnvValue, has: str | None, *, secret_before: bool, secrets: Mapping[str, Secret]
) -> Iterator[FieldChange]:
    if isinstance(value, str):
        if has != value:
            yield (
                FieldChange(f"env.{name}", None, None, sensitive=True)
                if secret_before
                else FieldChange(f"env.{name}", has, value)
            )
        return
    known = secrets.get(value["secret"])
    if has is None or (known is not None and known.reveal() != has):
        yield FieldChange(f"env.{name}", None, None, sensitive=True)
