"""Seals: keyed digests on a container by which a secret that was rotated is told from one that was edited on the node.

The key lies in the node's record, which root alone can read: without it nobody can try values out against a label.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpuplan.resources.container.spec import EnvValue
from gpuplan.resources.snapshot.devices import environment
from gpuplan.resources.snapshot.docker import Live
from gpuplan.resources.snapshot.labels import SEALS
from gpuplan.types.value import Secret, canonical, keyed_digest

KEY_CHECK = "*"
"""Among the names of variables, none of which can be called so: the digest by which a key knows its own seals again. A
record that was lost has another key since, by which every secret would look edited."""


@dataclass(frozen=True)
class SecretState:
    """What became of one secret: neither flag is set where it is as it should be, or nothing can be said."""

    differs: bool = False
    rotated: bool = False
    """The container still has what gpuplan gave it, and what the reference stands for is another text now."""
    edited: bool = False
    """The container has another text than gpuplan gave it."""


def secret_digests_label(container: str, secrets: Mapping[str, str], seal: Callable[..., str]) -> Mapping[str, str]:
    """The label of a container that is made with these secrets, by the names of their variables; none without any."""
    digests = {name: digest for name, text in secrets.items() if (digest := seal(container, name, text))}
    return {SEALS: canonical({**digests, KEY_CHECK: seal(container, KEY_CHECK)})} if digests else {}


def secret_state(name: str, live: Live, known: Secret | None, key: str) -> SecretState:
    """Judge one secret of a container; with neither the secret nor its seal at hand nothing is said of it."""
    has = environment(live.config).get(name)
    if has is None:
        return SecretState(differs=True)
    if known is not None and known.reveal() == has:
        return SecretState()
    seals = _seals(live)
    sealed = seals.get(name, "") if key and seals.get(KEY_CHECK) == keyed_digest(key, live.role, KEY_CHECK) else ""
    if not sealed:
        return SecretState(differs=known is not None)
    if sealed != keyed_digest(key, live.role, name, has):
        return SecretState(differs=True, edited=True)
    return SecretState(differs=known is not None, rotated=known is not None)


def secret_states(
    env: Mapping[str, EnvValue], live: Live, secrets: Mapping[str, Secret], key: str
) -> Mapping[str, SecretState]:
    """Each secret variable of a spec with what became of it."""
    return {
        name: secret_state(name, live, secrets.get(value["secret"]), key)
        for name, value in env.items()
        if not isinstance(value, str)
    }


def secret_reasons(found: Mapping[str, SecretState]) -> tuple[str, ...]:
    """Why secrets differ, without a word of what they are."""
    edited = [
        f"{name} is not the secret that gpuplan gave the container" for name, each in found.items() if each.edited
    ]
    rotated = [f"{name} stands for another secret since the last apply" for name, each in found.items() if each.rotated]
    return (*edited, *rotated)


def _seals(live: Live) -> Mapping[str, str]:
    try:
        stated = json.loads(live.labels.get(SEALS, "{}"))
    except ValueError:
        return {}
    return {str(name): str(digest) for name, digest in stated.items()} if isinstance(stated, dict) else {}
