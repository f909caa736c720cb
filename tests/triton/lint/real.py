"""A real Triton of the lab whose repository tests write into: what it says of a model, and of its own flags."""

from __future__ import annotations

import http.client
import json
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.lab.fixtures import Lab
from tests.lab.place import TRITON
from tests.triton.lint.case import DIES, HANGS, LOADS, REFUSES
from tests.triton.lint.tree import write

NODE = "gpu-a1"
PATIENCE = 20.0


@dataclass(frozen=True)
class Answer:
    """What a load call gave: the HTTP status (0 for none), the error's text, and the log meanwhile."""

    status: int
    error: str
    log: str

    @property
    def did(self) -> str:
        """What the server did, in the word of the cases."""
        return LOADS if self.status == 200 else REFUSES if self.status else self.error


class RealTriton:
    """One container; its repository is a plain directory of the node."""

    def __init__(self, lab: Lab, name: str, flags: Sequence[str] = (), shm_size: int = 1 << 30) -> None:
        self._lab = lab
        self.name = name
        self.address = lab.hosts[NODE].address
        self.models = lab.root(NODE) / "srv" / name
        self.models.mkdir(parents=True, exist_ok=True)
        options = ["-d", "--name", name, f"--shm-size={shm_size}", "-p", "8000:8000", "-v", f"/srv/{name}:/models:ro"]
        command = [
            "tritonserver",
            "--model-repository=/models",
            "--model-control-mode=explicit",
            "--exit-on-error=false",
        ]
        lab.run(NODE, ["docker", "run", *options, TRITON, *command, *flags])

    def live(self) -> bool:
        """Wait until it serves; False where it exited instead."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                if self._ask("GET", "/v2/health/live")[0] == 200:
                    return True
            except (OSError, http.client.HTTPException):
                pass
            state = self._lab.run(NODE, ["docker", "inspect", "-f", "{{.State.Running}}", self.name]).stdout
            if state.strip() == "false":
                return False
            time.sleep(0.05)
        raise AssertionError(f"the server neither serves nor exits: {self.log()[-600:]}")

    def load(self, model: str, repository: Mapping[str, Any], timeout: float = PATIENCE) -> Answer:
        """Make the repository hold just these models, each a map of files, and load one of them."""
        for old in self.models.iterdir():
            shutil.rmtree(old)
        write(self.models, repository)
        before = len(self.log())
        try:
            status, error = self._ask("POST", f"/v2/repository/models/{model}/load", timeout)
        except TimeoutError:
            status, error = 0, HANGS
        except (OSError, http.client.HTTPException):
            status, error = 0, DIES
        return Answer(status, error, self.log()[before:])

    def restart(self) -> None:
        """A fresh process, after one that hangs or died."""
        self._lab.run(NODE, ["docker", "kill", self.name], check=False)
        self._lab.run(NODE, ["docker", "start", self.name])
        assert self.live()

    def forget(self, model: str, answer: Answer) -> None:
        """Let the next test find a server that knows nothing of the model: unloaded with its parts, or begun anew."""
        if not answer.status:
            self.restart()
            return
        body = json.dumps({"parameters": {"unload_dependents": True}})
        self._ask("POST", f"/v2/repository/models/{model}/unload", PATIENCE, body)

    def log(self) -> str:
        """Everything that it has printed."""
        done = self._lab.run(NODE, ["docker", "logs", self.name])
        return done.stdout + done.stderr

    def remove(self) -> None:
        """Remove it."""
        self._lab.run(NODE, ["docker", "rm", "-f", "-v", self.name])
        shutil.rmtree(self.models, ignore_errors=True)

    def _ask(self, method: str, path: str, timeout: float = 5.0, body: str = "") -> tuple[int, str]:
        connection = http.client.HTTPConnection(self.address, 8000, timeout=timeout)
        try:
            connection.request(method, path, body)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        return answer.status, str(json.loads(text).get("error", "")) if text.startswith("{") else text
