"""A node under contract: the same questions to the simulation and to a node of the lab."""

from __future__ import annotations

import hashlib
import http.client
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import tritonclient.http
from docker.errors import APIError
from tritonclient.utils import InferenceServerException

from gpuplan.transport.connect import connect
from gpuplan.transport.session import Question, Session
from gpuplan.types.inventory import Host
from tests.contents import bring, content_of

PLAN = "contract"
START = 'exec tritonserver "$@" $(cat /gpuplan/load-models)'
FLAGS = ("--model-repository=/gpuplan/models", "--model-control-mode=explicit", "--exit-on-error=false")
PATIENCE = 20.0
T = TypeVar("T")


@dataclass
class Node:
    """One node, bare at the beginning of each test, with one session open."""

    host: Host
    session: Session
    triton_image: str
    plain_image: str
    simulated: bool

    def ask(self, *probes: str) -> Mapping[str, Any]:
        """The values of the probes; none of them may have failed."""
        snapshot = self.session.ask(Question(PLAN, probes))
        assert {name: probe.error for name, probe in snapshot.probes.items()} == dict.fromkeys(probes)
        return {name: probe.value for name, probe in snapshot.probes.items()}

    def gpu(self) -> Mapping[str, Any]:
        """The first GPU as the snapshot has it."""
        return self.ask("gpu")["gpu"]["gpus"][0]

    def reopened(self) -> Session:
        """A second session to the same node."""
        return connect(self.host)

    def slice(self, profile_id: int, start: int, size: int) -> str:
        """Make a slice on the first GPU; its MIG UUID."""
        uuid = self.gpu()["uuid"]
        made = self.session.agent("mig.create", uuid=uuid, profile_id=profile_id, start=start, size=size)
        return str(made["mig_uuid"])

    def sleeper(self, name: str, **host_config: object) -> dict[str, Any]:
        """The body that creates a container which only sleeps."""
        return {"Image": self.plain_image, "Cmd": ["sleep", "1000000"], "HostConfig": host_config, "_name": name}

    def create(self, body: Mapping[str, Any]) -> str:
        """Create a container from the engine's own request body; its id."""
        stated = {key: value for key, value in body.items() if key != "_name"}
        return str(self.session.docker().create_container_from_config(stated, body["_name"])["Id"])

    def inspect(self, name: str) -> dict[str, Any]:
        """Raw inspect of a container."""
        return dict(self.session.docker().inspect_container(name))

    def write_model(self, model: str, files: Mapping[str, str], content: str = "0" * 64) -> None:
        """Bring a model's files into the repository of the container `triton`."""
        digests = {}
        for path, text in files.items():
            if path.endswith("/"):
                digests[path] = ""
                continue
            data = text.encode()
            digests[path] = hashlib.sha256(data).hexdigest()
            bring(self.session, content_of(data))
        self.session.agent(
            "repository.switch", plan=PLAN, container="triton", model=model, content=content, files=digests
        )

    def start_triton(self, *devices: str, flags: tuple[str, ...] = FLAGS) -> str:
        """A Triton with the repository of the container `triton`, live; its id."""
        path = self.session.agent("repository.prepare", plan=PLAN, container="triton")["path"]
        requests = [{"Driver": "", "Count": 0, "DeviceIDs": list(devices), "Capabilities": [["gpu"]], "Options": {}}]
        identity = self.create(
            {
                "_name": "triton",
                "Image": self.triton_image,
                "Cmd": ["sh", "-c", START, "tritonserver", *flags],
                "Labels": {"gpuplan.triton": "8000", "gpuplan.plan": PLAN, "gpuplan.name": "triton"},
                "ExposedPorts": {"8000/tcp": {}},
                "HostConfig": {
                    "Binds": [f"{path}:/gpuplan:ro"],
                    "PortBindings": {"8000/tcp": [{"HostPort": "8000"}]},
                    "ShmSize": 256 << 20,
                    "DeviceRequests": requests if devices else None,
                },
            }
        )
        self.session.docker().start(identity)
        self.until_live()
        return identity

    def until_live(self) -> None:
        """Wait for the server."""

        def live() -> bool:
            with self.triton() as client:
                return bool(client.is_server_live())

        until(live, (OSError, http.client.HTTPException, InferenceServerException))

    @contextmanager
    def triton(self) -> Iterator[tritonclient.http.InferenceServerClient]:
        """tritonclient over a forwarded port."""
        with self.session.forward(8000) as where:
            client = tritonclient.http.InferenceServerClient(where, connection_timeout=5, network_timeout=PATIENCE)
            try:
                yield client
            finally:
                client.close()

    def index(self) -> dict[str, tuple[str | None, str]]:
        """Model → state and reason, as the repository index has them once nothing moves."""

        def read() -> list[dict[str, tuple[str | None, str]]]:
            with self.triton() as client:
                found = client.get_model_repository_index()
            states = {one["name"]: (one.get("state"), one.get("reason", "")) for one in found}
            moving = any(state in ("LOADING", "UNLOADING") for state, _ in states.values())
            return [] if moving else [states]

        return until(read)[0]


def until(read: Callable[[], T | None], tolerated: tuple[type[Exception], ...] = ()) -> T:
    """What `read` gives once it gives something true; AssertionError where it does not within 20 s."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            if found := read():
                return found
        except tolerated:
            pass
        time.sleep(0.05)
    raise AssertionError(f"not within {PATIENCE:g} s")


def refused(act: Callable[[], object]) -> tuple[int, str]:
    """Status and words with which the engine refuses."""
    try:
        act()
    except APIError as error:
        return int(error.response.status_code), str(error.explanation)
    raise AssertionError("the engine did not refuse")


def failed(act: Callable[[], object]) -> tuple[str, str]:
    """Status and words with which Triton refuses."""
    try:
        act()
    except InferenceServerException as error:
        return str(error.status()), str(error.message())
    raise AssertionError("the server did not refuse")
