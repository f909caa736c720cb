"""The lab as tests see it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import join
from typing import Literal

import pytest
import yaml

from gpuplan.types.inventory import Connection, Host
from tests.lab import network, power, running
from tests.lab.commands import LabError
from tests.lab.keys import ssh
from tests.lab.place import NODES, Place, find_node, find_place
from tests.lab.wipe import wipe

User = Literal["root", "ops", "guest"]


class Lab:
    """Three running nodes, by name: gpu-a1 (two A100), gpu-h1 (one H100), gpu-t1 (one A30)."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.inventory: Path = place.inventory
        self.known_hosts: Path = place.known_hosts
        self.private_key: Path = place.private_key
        self.archive: Path = place.images / "triton.tar"
        """The Triton image as `docker load` takes it; the engine of gpu-t1 does not have it."""
        self.hosts: dict[str, Host] = {node.name: self._host(node.name) for node in NODES}

    def only(self, node: str, folder: Path) -> Path:
        """An inventory of one node, written into a folder: a verb asks all nodes that its inventory names."""
        groups = yaml.safe_load(self.inventory.read_text())
        kept = {name: group for name, group in groups.items() if name == "all" or node in group["hosts"]}
        file = folder / f"{node}.yaml"
        file.write_text(yaml.safe_dump(kept))
        return file

    def run(
        self, node: str, argv: Sequence[str], user: User = "root", *, check: bool = True, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """A program on a node: as root beside sshd, as ops or guest through it; AssertionError where it fails."""
        if user == "root":
            line = running.run_as_root(self._pid(node), *argv)
        else:
            line = [*ssh(self._place, find_node(node), user), join(argv)]
        done = subprocess.run(line, input=stdin, capture_output=True, text=True, check=False, timeout=120)
        assert not check or done.returncode == 0, f"{node}: {join(argv)}: {done.stderr.strip()}"
        return done

    def nvml(self, node: str, *order: str) -> str:
        """What is done to the simulated driver beside NVML: `nvmlsim`'s orders, such as "fault", "nvmlInit", "18"."""
        return self.run(node, ["nvmlsim", *order]).stdout

    def root(self, node: str) -> Path:
        """The node's file system, as seen from here."""
        return Path(f"/proc/{self._pid(node)}/root")

    def reboot(self, node: str) -> None:
        """Cut the power and switch on again; back when sshd and the engine answer."""
        power.reboot(self._place, find_node(node))

    def wipe(self, node: str) -> None:
        """Back to bare: no containers, MIG off, nothing of gpuplan; images stay."""
        wipe(self._place, find_node(node))

    def partition(self, node: str) -> None:
        """Pull the node's network cable."""
        network.pull_cable(self._place, find_node(node))

    def heal(self, node: str) -> None:
        """Plug it in again."""
        network.plug_in(self._place, find_node(node))

    @contextlib.contextmanager
    def frozen(self, node: str) -> Iterator[None]:
        """Meanwhile the node's sshd takes connections and says nothing."""
        (listener,) = self.run(node, ["pgrep", "-o", "-x", "sshd"]).stdout.split()
        self.run(node, ["kill", f"-{signal.SIGSTOP}", listener])
        try:
            yield
        finally:
            self.run(node, ["kill", f"-{signal.SIGCONT}", listener])

    def _pid(self, node: str) -> int:
        pid = running.first_process(self._place, find_node(node))
        if pid is None:
            raise LabError(f"{node} is off; lab.wipe or lab.reboot switches it on")
        return pid

    def _host(self, name: str) -> Host:
        node = find_node(name)
        return Host(
            name=name,
            connection=Connection.SSH,
            address=self._place.address(node),
            user="ops",
            private_key=str(self._place.private_key),
            ssh_arguments=f"-o UserKnownHostsFile={self._place.known_hosts} -o StrictHostKeyChecking=yes",
            python="/usr/bin/python3",
            become=True,
            groups=("all", node.group),
        )


@pytest.fixture(scope="session")
def lab() -> Lab:
    """The running lab, brought up where it is not; it stays up afterwards, for the next run and for people."""
    if os.geteuid() != 0:
        pytest.fail("the lab needs root; run these tests as root, or leave them out with -m 'not lab'", pytrace=False)
    place = find_place()
    try:
        power.up(place)
    except LabError as fault:
        pytest.fail(f"the lab does not come up: {fault}", pytrace=False)
    return Lab(place)
