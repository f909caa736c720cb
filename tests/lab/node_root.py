"""The root file system that all nodes share: Debian with sshd, sudo, Python, Docker, and the simulated driver."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

from tests.lab.cache import cached, digest, digest_files
from tests.lab.commands import LabError, call
from tests.lab.nvml.boards import CATALOG
from tests.lab.nvml.build import build
from tests.lab.packages import closure, copy_packages, versions
from tests.lab.place import Place

HERE = Path(__file__).resolve().parent
PACKAGES = (
    "openssh-server", "sudo", "docker.io", "python3", "tini", "iptables", "iproute2", "bash", "coreutils", "util-linux",
    "mount", "passwd", "login", "procps", "findutils", "grep", "sed", "mawk", "tar", "gzip", "hostname", "base-files",
    "base-passwd", "netbase", "libpam-modules", "libpam-runtime", "dash", "libc-bin", "ca-certificates",
)  # fmt: skip

TEXTS = {
    "etc/passwd": """\
root:x:0:0:root:/root:/bin/bash
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
sshd:x:101:65534::/run/sshd:/usr/sbin/nologin
ops:x:1000:1000:may do everything:/home/ops:/bin/bash
guest:x:1001:1001:may do nothing:/home/guest:/bin/bash
""",
    "etc/group": """\
root:x:0:
daemon:x:1:
tty:x:5:
sudo:x:27:ops
shadow:x:42:
docker:x:990:ops
nogroup:x:65534:
ops:x:1000:
guest:x:1001:
""",
    "etc/shadow": "".join(f"{name}:*:19000:0:99999:7:::\n" for name in ("root", "daemon", "nobody", "ops", "guest"))
    + "sshd:!:19000::::::\n",
    "etc/sudoers.d/ops": "ops ALL=(ALL) NOPASSWD:ALL\n",
    "etc/profile": "PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin\nPS1='\\u@\\h:\\w\\$ '\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n",
}
EMPTY = (
    "dev", "proc", "sys", "tmp", "run", "root", "mnt", "srv", "opt", "var/tmp", "var/log", "var/cache",
    "var/lib/docker", "var/lib/nvmlsim", "etc/alternatives", "usr/local/bin", "usr/local/sbin",
)  # fmt: skip


def node_root(place: Place) -> Path:
    """The shared root file system, from the cache where nothing it is made of has changed."""
    packages = closure(PACKAGES)
    ours = [*HERE.glob("node/*"), *HERE.glob("nvml/*.[ch]"), HERE / "nvml/boards.py", HERE / "nvml/build.py"]
    ours += [Path(__file__), HERE / "packages.py", CATALOG]
    key = digest(
        versions(packages), digest_files([*ours, _pynvml()]), place.private_key.with_suffix(".pub").read_bytes()
    )

    def make(target: Path) -> None:
        copy_packages(packages, target)
        for name in EMPTY:
            (target / name).mkdir(parents=True, exist_ok=True)
        _users(target, place.private_key.with_suffix(".pub"))
        _links(target)
        _own_files(target)
        call("chroot", str(target), "ldconfig")

    return cached(place, "node-root", key, make)


def _users(target: Path, public_key: Path) -> None:
    for name, text in TEXTS.items():
        (target / name).write_text(text, encoding="utf-8")
    (target / "etc/shadow").chmod(0o640)
    (target / "etc/sudoers.d/ops").chmod(0o440)
    for name in ("tmp", "var/tmp"):
        (target / name).chmod(0o1777)
    (target / "root").chmod(0o700)
    for user in ("ops", "guest"):
        keys = target / "home" / user / ".ssh"
        keys.mkdir(parents=True)
        keys.chmod(0o700)
        shutil.copy(public_key, keys / "authorized_keys")
        (keys / "authorized_keys").chmod(0o600)
        number = TEXTS["etc/passwd"].split(f"{user}:x:")[1].split(":")[0]
        call("chown", "-R", f"{number}:{number}", str(keys.parent))


def _links(target: Path) -> None:
    """What package scripts, which did not run here, would have linked."""
    links = {"var/run": "/run", "var/lock": "/run/lock", "usr/bin/awk": "mawk"}
    for name in ("iptables", "ip6tables"):
        links[f"usr/sbin/{name}"] = f"{name}-nft"
        links |= {f"usr/sbin/{name}-{act}": f"{name}-nft-{act}" for act in ("save", "restore")}
    for name, points_to in links.items():
        (target / name).unlink(missing_ok=True)
        (target / name).symlink_to(points_to)
    for found in Path("/etc/pam.d").glob("common-*"):
        shutil.copy(found, target / "etc/pam.d")


def _own_files(target: Path) -> None:
    files = {
        "init": "usr/local/sbin/node-init",
        "hook": "usr/bin/nvidia-container-runtime-hook",
        "nvidia-ctk": "usr/bin/nvidia-ctk",
        "systemctl": "usr/bin/systemctl",
    }
    for name, where in files.items():
        shutil.copy(HERE / "node" / name, target / where)
        (target / where).chmod(0o755)
    for name in ("nvidia-container-runtime", "nvidia-cdi-hook"):  # what the toolkit brings beside it
        (target / "usr/bin" / name).symlink_to("nvidia-container-runtime-hook")
    shutil.copy(HERE / "node/sshd_config", target / "etc/ssh/sshd_config")
    built = target / "tmp/nvml"
    build(built)
    libraries = next((target / "usr/lib").glob("*-linux-gnu"))
    shutil.copy(built / "libnvidia-ml.so.1", libraries)
    for name in ("nvmlsim", "nvidia-smi"):
        shutil.copy(built / name, target / "usr/bin" / name)
    shutil.rmtree(built)
    (target / "opt/lab").mkdir()
    shutil.copy(_pynvml(), target / "opt/lab")


def _pynvml() -> Path:
    """The real pynvml, for tests that act by hand on a node; out of sight of gpuplan, which brings its own."""
    found = find_spec("pynvml")
    if found is None or found.origin is None:
        raise LabError("pynvml is not installed for this Python. Run ./scripts/setup, then tests/lab/lab.")
    return Path(found.origin)
