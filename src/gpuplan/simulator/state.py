"""The state of one simulated node: plain values that a JSON file holds between commands."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from gpuplan.nvidia.boards import Board, find_board

FORMAT = 1
"""Version of the state file; a file of another version is refused."""

_LOG_LINES = 2000
Document = dict[str, object]
"""JSON that passes through unread, such as a container's HostConfig."""


@dataclass
class SimulatedComputeInstance:
    """One compute instance; its MIG device has the UUID."""

    id: int
    profile_id: int
    slices: int
    uuid: str


@dataclass
class SimulatedGpuInstance:
    """One GPU instance; start and size are memory slices."""

    id: int
    profile_id: int
    start: int
    size: int
    computes: list[SimulatedComputeInstance] = field(default_factory=list)


@dataclass
class SimulatedGpu:
    """One GPU; `board` is its name in the catalog."""

    board: str
    uuid: str
    pci: str
    mig: bool = False
    pending: bool = False
    instances: list[SimulatedGpuInstance] = field(default_factory=list)
    persistence: bool = True
    power_limit_mw: int = 0
    """0 = the board's default."""
    compute_mode: int = 0
    ecc: bool = True
    ecc_pending: bool = True


@dataclass
class Service:
    """A service of the node that has every GPU open while it runs, such as a monitor."""

    name: str
    pid: int
    active: bool = True


@dataclass
class SimulatedProcess:
    """A process on a GPU that no container of the node runs; tests and demos put it there."""

    pid: int
    name: str
    gpu: int
    memory_mib: int
    instance: int | None = None
    compute: int | None = None


@dataclass
class SimulatedListener:
    """A process of the node that listens on a TCP port; tests and demos put it there."""

    pid: int
    name: str
    port: int
    address: str = "0.0.0.0"  # noqa: S104 - reported, not bound


@dataclass
class SimulatedImage:
    """One image of the engine."""

    id: str
    tags: list[str]
    digests: list[str]
    created: str
    size: int
    config: Document
    layers: list[str]
    programs: list[str] | None = None
    """Programs that it is known to have; None = any program is taken to be there."""


@dataclass
class Port:
    """A published port of a running container."""

    inside: str
    host_ip: str
    host_port: int


@dataclass
class LogLine:
    """One line that a container wrote; stream 1 is stdout, 2 is stderr."""

    stream: int
    at: float
    text: str


@dataclass
class Network:
    """A user-defined network."""

    id: str
    name: str
    driver: str
    created: float
    labels: dict[str, str] = field(default_factory=dict)


@dataclass
class SimulatedContainer:
    """One container. `config` and `host_config` are what inspect shows, defaults filled in."""

    id: str
    name: str
    created: float
    image: str
    config: Document
    host_config: Document
    status: str = "created"
    pid: int = 0
    exit_code: int = 0
    error: str = ""
    started: float = 0.0
    finished: float = 0.0
    restarts: int = 0
    address: str = ""
    endpoint: str = ""
    ports: list[Port] = field(default_factory=list)
    networks: dict[str, list[str]] = field(default_factory=dict)
    """Name of each network that it is on → further names for it there."""
    stopped_by_hand: bool = False
    cut_off: bool = False
    """Its control group lets it open no GPU device file any more."""
    ends_at: float | None = None
    """When its process ends by itself, or is tried again where the status is restarting."""
    ends_with: int = 0
    mounts: list[Document] = field(default_factory=list)
    log: list[LogLine] = field(default_factory=list)
    memory: dict[str, str] = field(default_factory=dict)
    """What lies in its /dev/shm, in base64; gone when it ends."""

    @property
    def running(self) -> bool:
        """True while its process is there."""
        return self.status in ("running", "paused")

    def write(self, stream: int, text: str) -> None:
        """It writes lines; of a long log the end is kept."""
        now = time.time()
        self.log = [*self.log, *(LogLine(stream, now, line) for line in text.splitlines())][-_LOG_LINES:]


@dataclass
class Execution:
    """One `docker exec`."""

    id: str
    container: str
    command: list[str]
    started: bool = False
    exit_code: int = 0
    reads: bool = False
    """Somebody writes to its input."""


@dataclass
class SimulatedModelVersion:
    """One version of a model in a server; `until` ends a state that passes by itself (UNLOADING)."""

    state: str
    reason: str = ""
    until: float | None = None
    inferences: int = 0
    """Answered inferences; a batch of n counts n times."""
    executions: int = 0
    failures: int = 0
    last: int = 0
    """When the last one was answered, milliseconds."""


@dataclass
class SimulatedMemoryRegion:
    """A region of a container's shared memory that a server has mapped."""

    key: str
    offset: int
    size: int


@dataclass
class SimulatedModel:
    """What a Triton server knows of one model."""

    modified: int
    """Newest modification time of the files that are loaded, nanoseconds; what serves and has not changed stays."""
    config: Document = field(default_factory=dict)
    versions: dict[str, SimulatedModelVersion] = field(default_factory=dict)
    steps: list[str] = field(default_factory=list)
    by_name: bool = True
    """It was loaded by its own name, not for an ensemble."""
    error: str = ""
    """Why the last load failed; empty after one that succeeded."""
    override: str = ""
    """The config that a load call gave in the place of the repository's; only an unload takes it away."""
    asked: bool = True
    """Not unloaded by its name: an ensemble comes up by itself once its parts are there."""


@dataclass
class SimulatedTriton:
    """A running Triton server."""

    repositories: list[str]
    mode: str
    http_port: int
    strict_readiness: bool = True
    auto_complete: bool = True
    version: str = ""
    release: str = ""
    identity: str = "triton"
    backends: list[str] = field(default_factory=list)
    models: dict[str, SimulatedModel] = field(default_factory=dict)
    regions: dict[str, SimulatedMemoryRegion] = field(default_factory=dict)


@dataclass
class NodeState:
    """Everything about one simulated node."""

    hardware: Document
    """What the inventory said when the node was made; another hardware is another node."""
    driver: str
    cuda: str
    boot_id: str
    booted: float
    format: int = FORMAT
    counter: int = 0
    """Source of every identity on the node, so that a demo gives the same UUIDs each time."""
    gpus: list[SimulatedGpu] = field(default_factory=list)
    processes: list[SimulatedProcess] = field(default_factory=list)
    listeners: list[SimulatedListener] = field(default_factory=list)
    services: list[Service] = field(default_factory=list)
    virtualization: str = "none"
    """As in a snapshot; a GPU that is passed through cannot be reset."""
    cdi: dict[str, list[str]] = field(default_factory=dict)
    """Path of a CDI specification → the device names that it lists."""
    modules: list[str] = field(default_factory=list)
    """Loaded kernel modules besides the usual ones."""
    images: list[SimulatedImage] = field(default_factory=list)
    networks: list[Network] = field(default_factory=list)
    """User-defined networks, besides the engine's own three."""
    containers: dict[str, SimulatedContainer] = field(default_factory=dict)
    executions: dict[str, Execution] = field(default_factory=dict)
    servers: dict[str, SimulatedTriton] = field(default_factory=dict)

    def count(self) -> int:
        """The next number of the counter."""
        self.counter += 1
        return self.counter


# Times as the Docker engine writes them.

NEVER = "0001-01-01T00:00:00Z"


def stamp(seconds: float) -> str:
    """RFC 3339 with nanoseconds, UTC; the engine's zero time for 0."""
    if not seconds:
        return NEVER
    whole = int(seconds)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{int((seconds - whole) * 1e9):09d}Z"


def ago(seconds: float) -> str:
    """How long ago, as `docker ps` says it."""
    age = max(0, int(time.time() - seconds))
    for size, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if age >= 2 * size:
            return f"{age // size} {name}"
    return f"{age} seconds" if age > 1 else "Less than a second"


def board_of(gpu: SimulatedGpu) -> Board:
    """The board of a GPU of the state, which was checked when the node was made."""
    board = find_board(gpu.board)
    if board is None:
        raise KeyError(gpu.board)
    return board


# Narrow readers of JSON that was not checked by a schema: what is of another type counts as absent.


def mapping(value: object) -> Document:
    """The object, or an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[object]:
    """The array, or an empty one."""
    return value if isinstance(value, list) else []


def texts(value: object) -> list[str]:
    """The texts of an array; one text counts as an array of it."""
    if isinstance(value, str):
        return [value]
    return [item for item in items(value) if isinstance(item, str)]


def text(value: object) -> str:
    """The text, or an empty one."""
    return value if isinstance(value, str) else ""


def number(value: object) -> int:
    """The whole number, or 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
