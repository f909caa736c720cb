"""Which version of its API an engine is spoken to in: the newest whose answers are known, where it still has it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpuplan.types.diagnostic import Diagnostic, Exit, Problem

SPOKEN = (1, 44)
"""Docker 25; engines to 29 still speak it, and say nothing differently in it."""
LEAST = (1, 40)
"""Docker 19.03, the first with device requests: an older one gives containers no GPU by name."""
_VERSION = re.compile(r"(\d+)\.(\d+)")


def spoken(node: str, about: Mapping[str, object]) -> str:
    """The API version to use, from the engine's answer to GET /version.

    Raises:
        Problem: the engine is too old, or what answers is none.
    """
    has, least = (_VERSION.fullmatch(str(about.get(key) or "")) for key in ("ApiVersion", "MinAPIVersion"))
    if has is None:
        detail = "What listens on the engine's socket does not say which version of Docker's API it speaks."
        fix = "Name the socket of Docker, or the compatible one of Podman, in gpuplan_docker_socket."
        raise Problem(Diagnostic("This is no Docker engine", detail, fix, address=node), Exit.UNREAD)
    newest = (int(has[1]), int(has[2]))
    if newest < LEAST:
        detail = f"{about.get('Version')} speaks API {has[0]}; gpuplan needs {LEAST[0]}.{LEAST[1]}."
        fix = "Upgrade Docker there to 20.10 or later."
        raise Problem(Diagnostic("The Docker engine is too old", detail, fix, address=node), Exit.UNREAD)
    oldest = (int(least[1]), int(least[2])) if least else (0, 0)
    chosen = max(min(newest, SPOKEN), oldest)
    return f"{chosen[0]}.{chosen[1]}"
