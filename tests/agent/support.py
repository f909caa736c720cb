"""A node made of a directory, a small NVML and scripted servers, with an agent on it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from gpuplan.agent.agent import Agent
from tests.agent.fake_nvml import FakeNvml


class FakeNode:
    """What a World is to the agent."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.gpus = FakeNvml()
        self.engine_answers: dict[str, object] = {}
        self.triton_answers: dict[str, object] = {}
        self.directories: dict[str, list[str] | Exception] = {}
        self.open_by: dict[int, list[int]] | Exception = {}
        self.ran: list[tuple[str, ...]] = []
        self.program: Callable[[tuple[str, ...]], tuple[int, str]] = lambda argv: (127, f"no {argv[0]}")

    def nvml(self) -> FakeNvml:
        return self.gpus

    def engine(self, method: str, path: str) -> tuple[int, bytes]:
        return _scripted(self.engine_answers, re.sub(r"^/v1\.\d+(?=/)", "", path))

    def triton(self, address: str, method: str, path: str, body: bytes | None, timeout: float) -> tuple[int, bytes]:
        return _scripted(self.triton_answers, f"{address} {method} {path}")

    def folders(self, path: str) -> list[str]:
        found = self.directories[path]
        if isinstance(found, Exception):
            raise found
        return found

    def host(self) -> dict[str, object]:
        return {"hostname": "here", "uid": 0}

    def process(self, pid: int) -> dict[str, str | None]:
        return {"name": f"process-{pid}", "container": None, "service": None}

    def holders(self) -> dict[int, list[int]]:
        if isinstance(self.open_by, Exception):
            raise self.open_by
        return self.open_by

    def run(self, argv: tuple[str, ...], seconds: float) -> tuple[int, str]:
        self.ran.append(argv)
        return self.program(argv)


def _scripted(answers: Mapping[str, object], question: str) -> tuple[int, bytes]:
    answer = answers.get(question, (404, {"message": f"no such thing: {question}"}))
    if isinstance(answer, Exception):
        raise answer
    if callable(answer):
        answer = answer()
    status, body = answer if isinstance(answer, tuple) else (200, answer)
    return status, json.dumps(body).encode()


class AgentCaller:
    """An agent whose answers are unwrapped."""

    def __init__(self, node: FakeNode) -> None:
        self.node = node
        self.agent = Agent(node)

    def ok(self, op: str, body: bytes | None = None, **arguments: object) -> dict[str, object]:
        answer = self.agent.handle({"op": op, **arguments}, body)
        assert "ok" in answer, answer
        return answer["ok"]

    def refused(self, op: str, body: bytes | None = None, **arguments: object) -> str:
        answer = self.agent.handle({"op": op, **arguments}, body)
        assert "error" in answer, answer
        assert answer["error"]["text"]
        return answer["error"]["code"]

    def probe(self, name: str, plan: str = "prod", deadline: float = 5.0) -> dict[str, object]:
        found = self.ok("ask", probes=[name], plan=plan, deadlines={name: deadline})
        return found["probes"][name]

    def value(self, name: str, plan: str = "prod") -> object:
        answer = self.probe(name, plan)
        assert "value" in answer, answer
        return answer["value"]

    def put(self, content: bytes) -> str:
        """Bring content to the node; its digest."""
        digest = hashlib.sha256(content).hexdigest()
        self.ok("blob.put", content, digest=digest, size=len(content), offset=0, last=True)
        return digest

    def switch(self, model: str, files: Mapping[str, bytes], content: str = "c" * 64) -> None:
        digests = {path: self.put(data) if not path.endswith("/") else "" for path, data in files.items()}
        self.ok("repository.switch", plan="prod", container="triton", model=model, content=content, files=digests)
