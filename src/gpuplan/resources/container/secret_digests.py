"""Secret digests: keyed digests on a container that tell a rotated secret from one that was edited on the node.

The key is in the node's record, which only root can read: without it values cannot be guessed from a label.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpuplan.resources.container.spec import EnvValue
from gpuplan.resources.snapshot.containers import KEYED_DIGESTS, EngineContainer
from gpuplan.resources.snapshot.devices import environment
from gpuplan.types.value import Secret, canonical, keyed_digest

KEY_CHECK = "*"
"""Beside the variables' names, none of which can be this: a digest by which a key recognises its own digests. A record
that was lost gets a new key, by which every secret would look edited."""


@dataclass(frozen=True)
class SecretState:
    """How one secret of a container compares with what its reference gives."""

    differs: bool = False
    rotated: bool = False
    """The container has what gpuplan gave it, and the reference gives another value now."""
    edited: bool = False
    """The container has another value than gpuplan gave it."""


def secret_digests_label(container: str, secrets: Mapping[str, str], seal: Callable[..., str]) -> Mapping[str, str]:
    """The label of a container that is created with these secrets, by variable; none without secrets."""
    digests = {name: digest for name, text in secrets.items() if (digest := seal(container, name, text))}
    return {KEYED_DIGESTS: canonical({**digests, KEY_CHECK: seal(container, KEY_CHECK)})} if digests else {}


def secret_states(
    env: Mapping[str, EnvValue], live: EngineContainer, secrets: Mapping[str, Secret], key: str
) -> Mapping[str, SecretState]:
    """The state of each secret variable of a spec."""
    return {
        name: _secret_state(name, live, secrets.get(value["secret"]), key)
        for name, value in env.items()
        if not isinstance(value, str)
    }


def secret_reasons(states: Mapping[str, SecretState]) -> tuple[str, ...]:
    """Why secrets differ, without their values."""
    edited = [f"{name} was changed on the node" for name, state in states.items() if state.edited]
    rotated = [
        f"the secret of {name} has changed since the last apply" for name, state in states.items() if state.rotated
    ]
    return (*edited, *rotated)


def _secret_state(name: str, live: EngineContainer, resolved: Secret | None, key: str) -> SecretState:
    """Nothing can be said with neither the secret nor a usable digest."""
    actual = environment(live.config).get(name)
    if actual is None:
        return SecretState(differs=True)
    if resolved is not None and resolved.reveal() == actual:
        return SecretState()
    digests = _digests(live)
    has_key = bool(key) and digests.get(KEY_CHECK) == keyed_digest(key, live.role, KEY_CHECK)
    given = digests.get(name, "") if has_key else ""
    if not given:
        return SecretState(differs=resolved is not None)
    if given != keyed_digest(key, live.role, name, actual):
        return SecretState(differs=True, edited=True)
    return SecretState(differs=resolved is not None, rotated=resolved is not None)


def _digests(live: EngineContainer) -> Mapping[str, str]:
    try:
        label = json.loads(live.labels.get(KEYED_DIGESTS, "{}"))
    except ValueError:
        return {}
    return {str(name): str(digest) for name, digest in label.items()} if isinstance(label, dict) else {}
