"""CUDA shared memory in a real container, with a driver that only pretends: all the way but the GPU and the server."""

from __future__ import annotations

import base64
import io
import subprocess
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpuplan.resources.model.smoke.run import RequestLoad, run_smoke
from gpuplan.resources.model.smoke.shared_memory import Inside, cuda_region
from gpuplan.resources.model.smoke.spec import SmokeSpec
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Problem
from tests.resources.model.bench import SERVER, Bench
from tests.resources.model.test_smoke import place

FAKE = Path(__file__).parent / "smoke" / "fake_cuda.c"


@dataclass
class Registrar:
    """The part of a server's client that knows CUDA regions."""

    regions: dict[str, tuple[bytes, int, int]] = field(default_factory=dict)

    def register_cuda_shared_memory(self, name: str, raw_handle: bytes, device_id: int, byte_size: int) -> None:
        self.regions[name] = (base64.b64decode(raw_handle), device_id, byte_size)

    def unregister_cuda_shared_memory(self, name: str) -> None:
        self.regions.pop(name, None)


@pytest.fixture
def driven(real: Bench, tmp_path: Path) -> Bench:
    """A server whose container has our libcuda.so.1."""
    library = tmp_path / "libcuda.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(FAKE)], check=True)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(library, "libcuda.so.1")
    real.session.docker().put_archive(SERVER, "/usr/lib/x86_64-linux-gnu", packed.getvalue())
    return real


def left(bench: Bench) -> bytes:
    engine = bench.session.docker()
    shown: bytes = engine.exec_start(engine.exec_create(SERVER, ["ls", "/dev/shm"])["Id"])
    return shown


@pytest.mark.lab
def test_a_region_is_lent_read_back_and_given_up(driven: Bench) -> None:
    inside, registrar, content = Inside(driven.session.docker(), SERVER, SERVER), Registrar(), bytes(range(256)) * 1000
    with cuda_region(inside, content, 20, registrar) as region:  # type: ignore[arg-type]  # a part of a client is enough
        assert registrar.regions == {region.name: (bytes(range(64)), 0, len(content))}
        assert region.read() == b"\xff" + content[1:]
        assert registrar.regions == {}
    assert b"gpuplan-smoke" not in left(driven)


@pytest.mark.lab
def test_a_server_that_refuses_the_region_is_told_and_nothing_stays(driven: Bench) -> None:
    driven.python("a", answer=0)
    driven.apply(driven.want(a={}))
    with pytest.raises(Problem) as caught:
        run_smoke(
            place(driven), Address("n", "model", f"{SERVER}/a"), (1,), SmokeSpec(shared_memory="cuda"), RequestLoad()
        )
    (found,) = caught.value.diagnostics
    assert found.summary == "A model server refuses shared memory"
    assert found.detail.endswith("CUDA shared memory: failed to register shared memory region: invalid args.")
    assert b"gpuplan-smoke" not in left(driven)
