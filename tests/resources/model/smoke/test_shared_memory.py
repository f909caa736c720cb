"""CUDA shared memory in a real container with a fake driver: everything but the GPU and the server."""

from __future__ import annotations

import base64
import io
import subprocess
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gpuplan.resources.model.smoke.run import RequestLoad, run_smoke
from gpuplan.resources.model.smoke.shared_memory import ContainerShell, cuda_region
from gpuplan.resources.model.smoke.spec import SmokeSpec
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Problem
from tests.resources.model.smoke.test_run import target
from tests.resources.model.triton_node import SERVER, TritonNode

FAKE = Path(__file__).parent / "fake_cuda.c"


@dataclass
class Registrar:
    """The part of a server's client that knows CUDA regions."""

    regions: dict[str, tuple[bytes, int, int]] = field(default_factory=dict)

    def register_cuda_shared_memory(self, name: str, raw_handle: bytes, device_id: int, byte_size: int) -> None:
        self.regions[name] = (base64.b64decode(raw_handle), device_id, byte_size)

    def unregister_cuda_shared_memory(self, name: str) -> None:
        self.regions.pop(name, None)


@pytest.fixture
def driven(real: TritonNode, tmp_path: Path) -> TritonNode:
    """A server whose container has our libcuda.so.1."""
    library = tmp_path / "libcuda.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(FAKE)], check=True)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(library, "libcuda.so.1")
    real.session.docker().put_archive(SERVER, "/usr/lib/x86_64-linux-gnu", packed.getvalue())
    return real


def left(triton: TritonNode) -> bytes:
    engine = triton.session.docker()
    shown: bytes = engine.exec_start(engine.exec_create(SERVER, ["ls", "/dev/shm"])["Id"])
    return shown


@pytest.mark.lab
def test_a_region_is_registered_read_and_removed(driven: TritonNode) -> None:
    shell = ContainerShell(driven.session.docker(), SERVER, SERVER)
    registrar, content = Registrar(), bytes(range(256)) * 1000
    client: Any = registrar  # only this part of a client is used
    with cuda_region(shell, content, 20, client) as region:
        assert registrar.regions == {region.name: (bytes(range(64)), 0, len(content))}
        assert region.read() == b"\xff" + content[1:]
        assert registrar.regions == {}
    assert b"gpuplan-smoke" not in left(driven)


@pytest.mark.lab
def test_a_server_that_refuses_the_region_is_reported_and_nothing_is_left(driven: TritonNode) -> None:
    driven.write_model("a", answer=0)
    driven.apply(driven.plan(a={}))
    with pytest.raises(Problem) as caught:
        run_smoke(
            target(driven), Address("n", "model", f"{SERVER}/a"), (1,), SmokeSpec(shared_memory="cuda"), RequestLoad()
        )
    (issue,) = caught.value.diagnostics
    assert issue.summary == "The Triton server refuses shared memory"
    assert issue.detail.endswith("CUDA shared memory: failed to register shared memory region: invalid args.")
    assert b"gpuplan-smoke" not in left(driven)
