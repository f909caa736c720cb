"""Versions on the real server, under load all the time: one is added, one becomes the serving one, one goes away."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.commands import Operator, python_model
from tests.lab.fixtures import Lab
from tests.lab.place import TRITON

NODE = "gpu-h1"
PLAN = """
version: 1
name: versions
containers:
  triton:
    nodes: gpu-h1
    image: {image}
    pull: never
    shm_size: 256MiB
    ports: {{ http: 8000 }}
    triton: {{}}
models:
  a: {{ source: a, containers: [triton], versions: {versions} }}
"""

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]


class Load:
    """Somebody who asks the same all the time; what was answered, a number or a refusal, in order and each once."""

    def __init__(self, address: str, path: str) -> None:
        self.answers: list[float | str] = []
        self._address, self._path = address, path
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        body = json.dumps({"inputs": [{"name": "IN", "shape": [1, 1], "datatype": "FP32", "data": [1]}]})
        connection = http.client.HTTPConnection(self._address, 8000, timeout=10)
        while not self._stop.is_set():
            try:
                connection.request("POST", f"/v2/models/{self._path}/infer", body=body)
                answer = connection.getresponse()
                told = json.loads(answer.read())
                said = told["outputs"][0]["data"][0] if answer.status == 200 else str(told["error"])
            except (OSError, http.client.HTTPException) as fault:
                said = type(fault).__name__
                connection.close()
            if said not in self.answers[-1:]:
                self.answers.append(said)
            self._stop.wait(0.005)
        connection.close()


@pytest.fixture
def operator(lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Operator]:
    lab.wipe(NODE)
    yield Operator(tmp_path, lab.only(NODE, tmp_path), lambda: tuple(capsys.readouterr()))
    lab.wipe(NODE)


def test_a_version_is_added_becomes_the_one_and_goes_without_a_failed_request(lab: Lab, operator: Operator) -> None:
    def wanted(versions: str) -> None:
        operator.plan_file(PLAN.format(image=TRITON, versions=versions))

    python_model(operator.folder / "a", {1: 1})
    wanted("latest 1")
    operator.apply()
    address = lab.hosts[NODE].address
    with Load(address, "a") as anybody, Load(address, "a/versions/1") as by_number:
        python_model(operator.folder / "a", {2: 2})
        wanted("[1, 2]")
        assert operator.changes()["model/triton/a"]["interrupts"] == []
        operator.apply()
        assert by_number.answers == [1.0]
        wanted("latest 1")
        (told,) = operator.changes()["model/triton/a"]["interrupts"]
        assert told.startswith("version 1 of a on triton stops serving: requests for it are refused")
        operator.apply()
    assert anybody.answers == [1.0, 2.0]
    assert by_number.answers[0] == 1.0
    assert all(
        "version 1 is not at ready state" in str(each) or "not found" in str(each) for each in by_number.answers[1:]
    )
    operator.settled()
