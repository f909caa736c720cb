"""Units that restore a node at boot: its slices before the engine comes up, its containers and models after it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

MARK = "# Written by gpuplan boot-unit."
"""First line of every unit that may be overwritten."""
ENVIRONMENT = "/etc/default/gpuplan"
_WORD = re.compile(r"[A-Za-z0-9_.+@:/-]+\Z", re.ASCII)


@dataclass(frozen=True)
class BootUnit:
    """One unit. It only orders itself, and requires nothing: what it waits for may be absent, and who waits goes on."""

    name: str
    description: str
    after: Sequence[str]
    arguments: Sequence[str]
    timeout: str
    """Bounds the boot where a GPU or the engine hangs."""
    before: Sequence[str] = field(default=())

    def text(self, program: Sequence[str]) -> str:
        """The unit file; `program` is the command line of gpuplan on this node.

        It fails visibly: no dash in front of the command, and what it did stays known after it has ended.

        Raises:
            ValueError: the program is no absolute path, or a word of it would have to be quoted.
        """
        if not program or not program[0].startswith("/") or not all(_WORD.match(word) for word in program):
            raise ValueError("a unit starts a program by its absolute path, of letters, digits and ./_+@:- alone")
        before = [f"Before={' '.join(self.before)}"] if self.before else []
        return "\n".join(
            [
                MARK,
                "[Unit]",
                f"Description={self.description}",
                f"After={' '.join(self.after)}",
                *before,
                "",
                "[Service]",
                "Type=oneshot",
                "RemainAfterExit=yes",
                f"EnvironmentFile=-{ENVIRONMENT}",
                f"ExecStart={' '.join([*program, *self.arguments])}",
                f"TimeoutStartSec={self.timeout}",
                "",
                "[Install]",
                "WantedBy=multi-user.target",
                "",
            ]
        )


UNITS: Mapping[str, BootUnit] = {
    "gpus": BootUnit(
        "gpuplan-gpus.service",
        "Restore the MIG slices that gpuplan made",
        after=("systemd-modules-load.service", "nvidia-persistenced.service", "nvidia-fabricmanager.service"),
        before=("docker.service",),
        arguments=("apply", "--local", "--only", "gpu", "--auto-approve"),
        timeout="5min",
    ),
    "containers": BootUnit(
        "gpuplan-containers.service",
        "Restore the containers and models that gpuplan made",
        after=("gpuplan-gpus.service", "docker.service"),
        arguments=("apply", "--local", "--auto-approve"),
        timeout="30min",
    ),
}
"""The units by what they restore."""
