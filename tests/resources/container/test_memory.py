"""Whether a second container finds room beside one that computes already."""

from __future__ import annotations

import pytest

from gpuplan.resources.container.conflicts import why_no_room
from gpuplan.resources.container.read import read_device_memory
from gpuplan.types.snapshot import Probe, Snapshot

GIB = 1 << 30


def process(container: str, used: int | None, instance: int | None = None) -> dict[str, object]:
    return {"pid": 1, "container": container, "used_memory": used, "gpu_instance": instance, "compute_instance": None}


def snapshot(*processes: dict[str, object], mode: str = "default") -> Snapshot:
    used = sum(int(str(each["used_memory"] or 0)) for each in processes)
    gpu = {
        "uuid": "GPU-a",
        "memory": {"total": 40 * GIB, "used": used, "free": 40 * GIB - used},
        "compute_mode": mode,
        "profiles": [{"name": "3g.20gb", "memory_mib": 20 * 1024}],
        "instances": [
            {"id": 1, "profile": "3g.20gb", "compute_instances": [{"id": 0, "uuid": "MIG-1"}]},
            {"id": 2, "profile": "3g.20gb", "compute_instances": [{"id": 0, "uuid": "MIG-2"}]},
        ],
        "processes": list(processes),
    }
    return Snapshot("n", {"gpu": Probe({"gpus": [gpu, {"index": 1, "error": {"code": "timeout", "text": "late"}}]})})


@pytest.mark.parametrize(
    ("uuid", "processes", "told"),
    [
        ("GPU-a", [process("old", 15 * GIB)], []),
        ("GPU-a", [process("old", 25 * GIB)], ["the old one uses 25.0 GiB of GPU-a, and only 15.0 GiB are free"]),
        ("GPU-a", [process("old", 15 * GIB), process("other", 15 * GIB)], ["15.0 GiB of GPU-a, and only 10.0 GiB"]),
        ("GPU-a", [process("other", 39 * GIB)], []),
        ("GPU-a", [process("old", None)], []),
        ("MIG-1", [process("old", 9 * GIB, 1), process("other", 19 * GIB, 2)], []),
        ("MIG-1", [process("old", 11 * GIB, 1)], ["11.0 GiB of MIG-1, and only 9.0 GiB are free"]),
        ("MIG-2", [process("old", 11 * GIB, 1)], []),
        ("MIG-gone", [process("old", 11 * GIB, 1)], []),
    ],
)
def test_room_for_two(uuid: str, processes: list[dict[str, object]], told: list[str]) -> None:
    found = list(why_no_room("old", [uuid], read_device_memory(snapshot(*processes))))
    assert len(found) == len(told)
    assert all(part in why for part, why in zip(told, found, strict=True))


def test_exclusive() -> None:
    there = read_device_memory(snapshot(process("old", GIB), mode="exclusive_process"))
    assert ["exclusive_process" in why for why in why_no_room("old", ["GPU-a"], there)] == [True]
    assert list(why_no_room("another", ["GPU-a"], there)) == []
