"""Seen: one digest for all that was observed of a container and that a change set rests on."""

from __future__ import annotations

from gpuplan.kinds.container.canonical import live_fields
from gpuplan.kinds.container.devices import environment, requested
from gpuplan.kinds.container.images import find
from gpuplan.kinds.container.read import Live, Observed
from gpuplan.kinds.container.shape import ContainerSpec
from gpuplan.model.value import Json, digest


def digest_of(name: str, spec: ContainerSpec | None, observed: Observed) -> str:
    """Digest of each container that has a name, as its own or by label, and of the image that is wanted for it.

    Nothing that changes by itself takes part, and no value of a secret.
    """
    secret = {key for key, value in spec.env.items() if not isinstance(value, str)} if spec else set()
    image = find(spec.image, observed.images) if spec else None
    return digest(
        {
            "containers": [
                _seen(live, secret, observed) for live in observed.containers if name in (live.name, live.role)
            ],
            "image": image.id if image else None,
        }
    )


def _seen(live: Live, secret: set[str], observed: Observed) -> Json:
    env = environment(live.config)
    return {
        "id": live.id,
        "name": live.name,
        "status": live.status,
        "image": live.image_id,
        "fields": dict(live_fields(live, None)),
        "env": {key: None if key in secret else value for key, value in env.items()},
        "gpus": sorted(requested(live.config, live.host_config, observed.default_runtime, observed.gpus)),
    }
