"""One node: starting it, looking at it, stopping it."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from pathlib import Path

from tests.lab import cgroups, network
from tests.lab.commands import LabError, attempt, call
from tests.lab.engine import Engine
from tests.lab.nvml.build import bare_state
from tests.lab.place import NODES, Node, Place

HERE = Path(__file__).resolve().parent
READY_SECONDS = 30.0
NAMESPACES = ("--cgroup", "--mount", "--uts", "--ipc", "--pid")


def lab_group(place: Place) -> str:
    """Name of the lab's control group."""
    return f"gplab-{place.mark}"


def furnish(place: Place, node: Node, template: Path | None) -> None:
    """Lay out what the node writes to: a bare one, whose engine has the template's images."""
    directory = place.node(node)
    for name in ("upper/etc/ssh", "upper/var/lib/nvmlsim", "work", "root", "docker"):
        (directory / name).mkdir(parents=True)
    etc = directory / "upper/etc"
    shutil.copy(place.keys / f"{node.name}_host", etc / "ssh/ssh_host_ed25519_key")
    (etc / "ssh/ssh_host_ed25519_key").chmod(0o600)
    (etc / "hostname").write_text(f"{node.name}\n", encoding="ascii")
    hosts = ["127.0.0.1 localhost", *(f"{place.address(other)} {other.name}" for other in NODES)]
    (etc / "hosts").write_text("\n".join(hosts) + "\n", encoding="ascii")
    state = directory / "upper/var/lib/nvmlsim/state"
    state.write_text(bare_state(node.name, node.boards), encoding="ascii")
    if template:
        call("cp", "-a", str(template / "image"), str(directory / "docker"))
        call("cp", "-al", str(template / "overlay2"), str(directory / "docker"))  # layers are never written to


def start(place: Place, node: Node, lower: Path) -> None:
    """Switch the node on; it is ready a second later."""
    directory = place.node(node)
    network.lay_cable(place, node)
    groups = [str(path) for path in cgroups.enter_paths(lab_group(place), node.name)]
    env = {"LOWER": lower, "DIRECTORY": directory, "NAME": node.name, "CGROUPS": " ".join(cgroups.hierarchies())}
    namespace = f"--net=/run/netns/{place.namespace(node)}"
    argv = [HERE / "node/launch", *groups, "--", "nsenter", namespace, "unshare", *NAMESPACES, "--fork"]
    argv += ["--kill-child=KILL", HERE / "node/enter"]
    with (directory / "console.log").open("ab") as console:
        process = subprocess.Popen(
            [str(word) for word in argv],
            stdin=subprocess.DEVNULL, stdout=console, stderr=console, start_new_session=True,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"} | {name: str(value) for name, value in env.items()},
        )  # fmt: skip
    (directory / "pid").write_text(str(process.pid), encoding="ascii")
    deadline = time.monotonic() + READY_SECONDS
    while first_process(place, node) is None and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    cgroups.step_outside(lab_group(place), process.pid)


def first_process(place: Place, node: Node) -> int | None:
    """The node's process 1, by its number on this machine; None where the node is off."""
    try:
        outer = (place.node(node) / "pid").read_text(encoding="ascii")
        children = Path(f"/proc/{outer}/task/{outer}/children").read_text(encoding="ascii").split()
    except OSError:
        return None
    return int(children[0]) if children else None


def engine(place: Place, node: Node) -> Engine:
    """The node's Docker engine; LabError where the node is off."""
    pid = first_process(place, node)
    if pid is None:
        raise LabError(f"{node.name} is off. Run make lab-up.")
    return Engine(pid)


def is_ready(place: Place, node: Node) -> bool:
    """Whether sshd greets and the engine answers."""
    pid = first_process(place, node)
    return pid is not None and _greets(place.address(node)) and Engine(pid).answers()


def wait_ready(place: Place, node: Node) -> None:
    """Until sshd and the engine are up; LabError with the node's own words where they do not come."""
    deadline = time.monotonic() + READY_SECONDS
    while not is_ready(place, node):
        if time.monotonic() > deadline:
            raise LabError(f"{node.name} did not come up in {READY_SECONDS:.0f} s.\n{_last_words(place, node)}")
        time.sleep(0.02)


def stop(place: Place, node: Node) -> None:
    """Cut the power: every process ends at once, what was written stays."""
    cgroups.kill(lab_group(place), node.name)
    network.remove_cable(place, node)


def run_as_root(pid: int, *argv: str) -> list[str]:
    """The command line that runs a program as root in the node whose first process is `pid`; Python finds pynvml."""
    path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    clean = ("env", "-i", path, "HOME=/root", "TERM=xterm", "PYTHONPATH=/opt/lab")
    inside = ("--root", "--wd", "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup")
    return ["nsenter", "--target", str(pid), *inside, *clean, *argv]


def can_stack(directory: Path) -> bool:
    """Whether this directory's file system can carry an overlay's upper layer; an overlay itself cannot."""
    probe = directory / "probe"
    for name in ("lower", "upper", "work", "merged"):
        (probe / name).mkdir(parents=True, exist_ok=True)
    options = f"lowerdir={probe}/lower,upperdir={probe}/upper,workdir={probe}/work"
    try:
        return attempt("unshare", "--mount", "mount", "-t", "overlay", "overlay", "-o", options, f"{probe}/merged")
    finally:
        shutil.rmtree(probe)


def _greets(address: str) -> bool:
    try:
        with socket.create_connection((address, 22), timeout=1) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def _last_words(place: Place, node: Node) -> str:
    logs = [place.node(node) / "console.log", *(place.node(node) / "upper/var/log").glob("*d.log")]
    return "\n".join(f"--- {log.name}\n{log.read_text(errors='replace')[-1500:]}" for log in logs if log.exists())
