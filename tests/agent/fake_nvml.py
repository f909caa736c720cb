"""A small NVML with pynvml's API: A100-80GB boards with instances in a list, and faults that are told beforehand."""
# ruff: noqa: N802, N815 - the names are pynvml's

from __future__ import annotations

import ctypes
import itertools
import threading
from dataclasses import dataclass, field
from types import SimpleNamespace as Made

# NVML profile number → (id, name, compute slices, memory slices, most, starts); A100-SXM4-80GB
PROFILES = {
    0: (19, "MIG 1g.10gb", 1, 1, 7, [0, 1, 2, 3, 4, 5, 6]),
    1: (14, "MIG 2g.20gb", 2, 2, 3, [0, 2, 4]),
    2: (9, "MIG 3g.40gb", 3, 4, 2, [0, 4]),
    4: (0, "MIG 7g.80gb", 7, 8, 1, [0]),
}


class NVMLError(Exception):
    def __init__(self, value: int, text: str = "") -> None:
        super().__init__(text or f"NVML error {value}")
        self.value = value


@dataclass
class Instance:
    id: int
    profile: int
    start: int
    compute: list[int] = field(default_factory=list)


@dataclass
class Board:
    number: int
    mig: bool = False
    instances: list[Instance] = field(default_factory=list)
    processes: list[Made] = field(default_factory=list)
    persistence: int = 1
    compute_mode: int = 0
    ecc: list[int] = field(default_factory=lambda: [1, 1])
    power: int = 400000


@dataclass
class Handle:
    """A MIG device, or a compute instance."""

    board: Board
    instance: Instance
    compute: int


class FakeNvml:
    """Give it to a World as what nvml() returns."""

    NVMLError = NVMLError
    NVML_GPU_INSTANCE_PROFILE_COUNT = 18
    NVML_COMPUTE_INSTANCE_PROFILE_COUNT = 9
    NVML_ERROR_FUNCTION_NOT_FOUND = 13
    c_nvmlGpuInstance_t = ctypes.py_object
    c_nvmlComputeInstance_t = ctypes.py_object

    class c_nvmlGpuInstancePlacement_t(ctypes.Structure):  # noqa: N801 - pynvml's name
        _fields_ = [("start", ctypes.c_uint), ("size", ctypes.c_uint)]

    def __init__(self, boards: int = 1, encode: bool = False) -> None:
        self.boards = [Board(number) for number in range(boards)]
        self.faults: dict[str, int] = {}
        self.lost: set[int] = set()
        self.hanging: dict[int, threading.Event] = {}
        """GPUs whose name is not told before the event is set."""
        self.told: list[str] = []
        self.open = 0
        self._encode = encode

    def __getattribute__(self, name: str) -> object:
        if name.startswith("nvml") and name in object.__getattribute__(self, "faults"):
            code = self.faults[name]

            def fail(*_: object) -> None:
                raise NVMLError(code)

            return fail
        return object.__getattribute__(self, name)

    def text(self, value: str) -> str | bytes:
        return value.encode() if self._encode else value

    def nvmlInit(self) -> None:
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlSystemGetDriverVersion(self) -> str | bytes:
        return self.text("570.86.15")

    def nvmlSystemGetCudaDriverVersion(self) -> int:
        return 12080

    def nvmlDeviceGetCount(self) -> int:
        return len(self.boards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Board:
        if index in self.lost:
            raise NVMLError(15, "GPU is lost")
        return self.boards[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Board:
        for board in self.boards:
            if self.nvmlDeviceGetUUID(board) in (uuid, uuid.encode()):
                return board
        raise NVMLError(6, "Not Found")

    def nvmlDeviceGetUUID(self, handle: Board | Handle) -> str | bytes:
        if isinstance(handle, Handle):
            return self.text(f"MIG-{handle.board.number}-{handle.instance.id}-{handle.compute}")
        return self.text(f"GPU-{handle.number}")

    def nvmlDeviceGetName(self, board: Board) -> str | bytes:
        if board.number in self.hanging:
            self.hanging[board.number].wait()
        return self.text("NVIDIA A100-SXM4-80GB")

    def nvmlDeviceGetPciInfo(self, board: Board) -> Made:
        return Made(busId=self.text(f"00000000:0{board.number + 7}:00.0"))

    def nvmlDeviceGetMemoryInfo(self, board: Board) -> Made:
        return Made(total=80 << 30, used=1 << 30, free=79 << 30)

    def nvmlDeviceGetCudaComputeCapability(self, board: Board) -> tuple[int, int]:
        return 8, 0

    def nvmlDeviceGetMinorNumber(self, board: Board) -> int:
        return board.number

    def nvmlDeviceGetArchitecture(self, board: Board) -> int:
        return 7

    def nvmlDeviceGetVirtualizationMode(self, board: Board) -> int:
        return 0

    def nvmlDeviceGetPersistenceMode(self, board: Board) -> int:
        return board.persistence

    def nvmlDeviceSetPersistenceMode(self, board: Board, mode: int) -> None:
        board.persistence = mode
        self.told.append(f"persistence {mode}")

    def nvmlDeviceGetComputeMode(self, board: Board) -> int:
        return board.compute_mode

    def nvmlDeviceSetComputeMode(self, board: Board, mode: int) -> None:
        board.compute_mode = mode

    def nvmlDeviceGetEccMode(self, board: Board) -> list[int]:
        return list(board.ecc)

    def nvmlDeviceSetEccMode(self, board: Board, mode: int) -> None:
        board.ecc[1] = mode

    def nvmlDeviceGetPowerManagementLimit(self, board: Board) -> int:
        return board.power

    def nvmlDeviceSetPowerManagementLimit(self, board: Board, limit: int) -> None:
        if not 100000 <= limit <= 400000:
            raise NVMLError(2, "Invalid Argument")
        board.power = limit

    def nvmlDeviceGetPowerManagementDefaultLimit(self, board: Board) -> int:
        return 400000

    def nvmlDeviceGetPowerManagementLimitConstraints(self, board: Board) -> list[int]:
        return [100000, 400000]

    def nvmlDeviceGetComputeRunningProcesses(self, board: Board) -> list[Made]:
        return board.processes

    def nvmlDeviceGetGraphicsRunningProcesses(self, board: Board) -> list[Made]:
        raise NVMLError(3, "Not Supported")

    def nvmlDeviceGetMigMode(self, board: Board) -> list[int]:
        return [int(board.mig), int(board.mig)]

    def nvmlDeviceSetMigMode(self, board: Board, mode: int) -> int:
        board.mig = bool(mode)
        return 0

    def nvmlDeviceGetGpuInstanceProfileInfo(self, board: Board, number: int) -> Made:
        if number not in PROFILES:
            raise NVMLError(3 if number < 10 else 2, "Not Supported")
        id_, name, slices, size, most, _ = PROFILES[number]
        return Made(
            id=id_,
            name=self.text(name),
            sliceCount=slices,
            memorySizeMB=9856 * size,
            instanceCount=most,
            multiprocessorCount=14 * slices,
            copyEngineCount=slices,
            decoderCount=0,
            encoderCount=0,
            jpegCount=0,
            ofaCount=0,
        )

    def nvmlDeviceGetGpuInstancePossiblePlacements(self, board: Board, id_: int, array: object, count: object) -> None:
        *_, size, _, starts = self._profile(id_)
        count.contents.value = len(starts)
        if array is not None:
            for place, start in zip(array, starts, strict=True):
                place.start, place.size = start, size

    def nvmlDeviceCreateGpuInstanceWithPlacement(self, board: Board, id_: int, placement: object) -> Instance:
        start, size = placement.contents.start, placement.contents.size
        if any(start < each.start + self._size(each) and each.start < start + size for each in board.instances):
            raise NVMLError(23, "Insufficient Resources")
        taken = {each.id for each in board.instances}
        made = Instance(next(i for i in itertools.count(1) if i not in taken), id_, start)
        board.instances.append(made)
        return made

    def nvmlDeviceGetGpuInstances(self, board: Board, id_: int, array: object, count: object) -> None:
        found = [each for each in board.instances if each.profile == id_]
        array[: len(found)] = found
        count.contents.value = len(found)

    def nvmlDeviceGetGpuInstanceById(self, board: Board, number: int) -> Instance:
        for each in board.instances:
            if each.id == number:
                return each
        raise NVMLError(6, "Not Found")

    def nvmlGpuInstanceGetInfo(self, instance: Instance) -> Made:
        place = Made(start=instance.start, size=self._size(instance))
        return Made(id=instance.id, profileId=instance.profile, placement=place)

    def nvmlGpuInstanceDestroy(self, instance: Instance) -> None:
        if instance.compute:
            raise NVMLError(19, "In use by another client")
        self._board(instance).instances.remove(instance)

    def nvmlGpuInstanceGetComputeInstancePossiblePlacements(self, *_: object) -> None:
        raise NVMLError(13, "Function Not Found")

    def nvmlGpuInstanceGetComputeInstanceProfileInfo(self, instance: Instance, number: int, engine: int) -> Made:
        if number > 4:
            raise NVMLError(3, "Not Supported")
        return Made(id=number, sliceCount=(1, 2, 3, 4, 7)[number], instanceCount=7)

    def nvmlGpuInstanceGetComputeInstances(self, instance: Instance, id_: int, array: object, count: object) -> None:
        slices = self._profile(instance.profile)[2]
        found = [Handle(self._board(instance), instance, each) for each in instance.compute]
        found = found if (1, 2, 3, 4, 7)[id_] == slices else []
        array[: len(found)] = found
        count.contents.value = len(found)

    def nvmlGpuInstanceCreateComputeInstance(self, instance: Instance, id_: int) -> Handle:
        if (1, 2, 3, 4, 7)[id_] != self._profile(instance.profile)[2] or instance.compute:
            raise NVMLError(23, "Insufficient Resources")
        instance.compute.append(0)
        return Handle(self._board(instance), instance, 0)

    def nvmlComputeInstanceGetInfo(self, handle: Handle) -> Made:
        return Made(id=handle.compute, profileId=2)

    def nvmlComputeInstanceDestroy(self, handle: Handle) -> None:
        handle.instance.compute.remove(handle.compute)

    def nvmlDeviceGetMaxMigDeviceCount(self, board: Board) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, board: Board, index: int) -> Handle:
        devices = [Handle(board, each, compute) for each in board.instances for compute in each.compute]
        if index >= len(devices):
            raise NVMLError(6, "Not Found")
        return devices[index]

    def nvmlDeviceGetGpuInstanceId(self, handle: Handle) -> int:
        return handle.instance.id

    def nvmlDeviceGetComputeInstanceId(self, handle: Handle) -> int:
        return handle.compute

    def _profile(self, id_: int) -> tuple[int, str, int, int, int, list[int]]:
        return next(each for each in PROFILES.values() if each[0] == id_)

    def _size(self, instance: Instance) -> int:
        return self._profile(instance.profile)[3]

    def _board(self, instance: Instance) -> Board:
        return next(board for board in self.boards if any(each is instance for each in board.instances))
