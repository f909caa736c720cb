"""The images of the lab: the real Triton 2.51.0 (release 24.10) for CPUs, and one that only waits."""

from __future__ import annotations

import compileall
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.lab.archive import Image, write_archive
from tests.lab.cache import cached, digest, digest_files
from tests.lab.commands import call
from tests.lab.packages import closure, copy_packages, versions
from tests.lab.place import PAUSE, TRITON, Place

HERE = Path(__file__).resolve().parent
WHEEL = "nvidia-pytriton==0.7.0"
"""Carries tritonserver 2.51.0, its Python backend with a stub for each Python, and the libraries of both."""

PACKAGES = (
    "libc6", "libc-bin", "bash", "coreutils", "procps", "base-files", "netbase", "libstdc++6", "libgcc-s1", "zlib1g",
    "libexpat1", "python3", "python3-numpy", "libblas3", "liblapack3",
)  # fmt: skip

TRITON_IMAGE = Image(
    tag=TRITON,
    entrypoint=("/opt/nvidia/nvidia_entrypoint.sh",),
    cmd=("tritonserver", "--model-repository=/models"),
    env=(
        "PATH=/opt/tritonserver/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "TRITON_SERVER_VERSION=2.51.0",
        "NVIDIA_TRITON_SERVER_VERSION=24.10",
        "NVIDIA_VISIBLE_DEVICES=all",
        "NVIDIA_DRIVER_CAPABILITIES=compute,utility,video",
    ),
    working_directory="/opt/tritonserver",
    labels={"com.nvidia.tritonserver.version": "2.51.0"},
)
PAUSE_IMAGE = Image(tag=PAUSE, cmd=("sleep", "1000000"))


def triton_archive(place: Place) -> Path:
    """The archive of the Triton image; the wheel is downloaded on the first run."""
    packages = closure((*PACKAGES, f"lib{_python()}"))
    ours = digest_files([Path(__file__), HERE / "archive.py", HERE / "packages.py"])

    def make(target: Path) -> None:
        root = target / "root"
        copy_packages(packages, root)
        _system(root)
        _triton(root, _wheel(target / "wheel"))
        write_archive(root, TRITON_IMAGE, target / "triton.tar")
        shutil.rmtree(root)
        shutil.rmtree(target / "wheel")

    return cached(place, "triton", digest(versions(packages), ours, WHEEL), make) / "triton.tar"


def pause_archive(place: Place) -> Path:
    """The archive of an image with nothing in it but busybox."""
    packages = closure(("busybox-static",))
    ours = digest_files([Path(__file__), HERE / "archive.py"])

    def make(target: Path) -> None:
        binaries = target / "root/bin"
        binaries.mkdir(parents=True)
        shutil.copy("/bin/busybox", binaries)
        for name in ("sh", "sleep", "httpd", "cat", "env", "true", "false", "ls", "wget"):
            (binaries / name).symlink_to("busybox")
        write_archive(target / "root", PAUSE_IMAGE, target / "pause.tar")
        shutil.rmtree(target / "root")

    return cached(place, "pause", digest(versions(packages), ours), make) / "pause.tar"


def _python() -> str:
    """`python3.11`: the Python of this Debian, which the image's models run on."""
    return Path("/usr/bin/python3").resolve().name


def _wheel(target: Path) -> Path:
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:")
    call(*pip, "--dest", str(target), WHEEL)
    (wheel,) = target.glob("*.whl")
    with zipfile.ZipFile(wheel) as content:
        content.extractall(target)
    return target


def _system(root: Path) -> None:
    """What package scripts would have done, and what Triton's own image has."""
    for name in ("tmp", "models", "root", "proc", "sys", "dev", "run", "var/tmp", "etc/ld.so.conf.d", "opt/nvidia"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)
    libraries = next((root / "usr/lib").glob("*-linux-gnu"))
    links = {
        root / "usr/bin/sh": "bash",
        libraries / "libblas.so.3": "blas/libblas.so.3",
        libraries / "liblapack.so.3": "lapack/liblapack.so.3",
    }
    for link, points_to in links.items():
        link.unlink(missing_ok=True)
        link.symlink_to(points_to)
    users = ("root:x:0:0:root:/root:/bin/bash", "triton-server:x:1000:1000::/home/triton-server:/bin/bash")
    (root / "etc/passwd").write_text("\n".join(users) + "\n", encoding="utf-8")
    (root / "etc/group").write_text("root:x:0:\ntriton-server:x:1000:\n", encoding="utf-8")
    entrypoint = root / "opt/nvidia/nvidia_entrypoint.sh"
    entrypoint.write_text('#!/bin/bash\nexec "$@"\n', encoding="utf-8")
    entrypoint.chmod(0o755)


def _triton(root: Path, wheel: Path) -> None:
    """Lay out /opt/tritonserver. Its libraries look for their own kind in /nvidia_pytriton.libs, as in the wheel."""
    home, server = root / "opt/tritonserver", wheel / "pytriton/tritonserver"
    stub = server / "python_backend_stubs" / _python().removeprefix("python") / "triton_python_backend_stub"
    files = {
        server / "bin/tritonserver": "bin",
        server / "backends/python/libtriton_python.so": "backends/python",
        server / "backends/python/triton_python_backend_utils.py": "backends/python",
        stub: "backends/python",
        server / "caches/local/libtritoncache_local.so": "caches/local",
    }
    files |= {path: "lib" for path in (wheel / "nvidia_pytriton.libs").iterdir() if "libpython" not in path.name}
    for path, where in files.items():
        (home / where).mkdir(parents=True, exist_ok=True)
        shutil.copy(path, home / where)
    (home / "repoagents").mkdir()
    for program in (home / "bin/tritonserver", home / "backends/python/triton_python_backend_stub"):
        program.chmod(0o755)
    subprocess.run(["strip", *(str(path) for path in home.rglob("*") if _is_elf(path))], check=True)
    compileall.compile_dir(home / "backends/python", quiet=2)
    (root / "nvidia_pytriton.libs").symlink_to("opt/tritonserver/lib")
    (root / "etc/ld.so.conf.d/triton.conf").write_text("/opt/tritonserver/lib\n", encoding="utf-8")
    # The server makes the stub executable by itself, and so must own it where it runs as user 1000.
    call("chown", "-R", "1000:1000", str(home))
    call("chmod", "-R", "a+rX,go-w", str(home))
    call("chroot", str(root), "ldconfig")


def _is_elf(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and path.read_bytes()[:4] == b"\x7fELF"
