"""The main job on real parts: bare nodes to a served ensemble, through drift and repair, back to bare nodes."""

import json
import shutil
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpuplan.cli import main

HERE = Path(__file__).parent
MODELS = HERE.parents[1] / "plans" / "models"

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

DESTROY_SLICE = """
import pynvml as n
n.nvmlInit()
gpu = n.nvmlDeviceGetHandleByIndex(1)
device = n.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 1)
instance = n.nvmlDeviceGetGpuInstanceById(gpu, n.nvmlDeviceGetGpuInstanceId(device))
compute = n.nvmlGpuInstanceGetComputeInstanceById(instance, n.nvmlDeviceGetComputeInstanceId(device))
n.nvmlComputeInstanceDestroy(compute)
n.nvmlGpuInstanceDestroy(instance)
"""


@pytest.fixture
def gpuplan(lab, tmp_path, monkeypatch, capsys) -> Iterator[Callable[..., tuple[int, str]]]:
    """The command on the story's plan file: `gpuplan("plan", "--json")` → exit code and what it printed."""
    for node in lab.hosts:
        lab.wipe(node)
    shutil.copy(HERE / "story.yaml", tmp_path)
    shutil.copytree(MODELS, tmp_path / "models")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "triton.tar").symlink_to(lab.archive)

    told: list[str] = []

    def run(verb: str, *more: str) -> tuple[int, str]:
        code = main([verb, "story.yaml", "-i", str(lab.inventory), *more])
        printed = capsys.readouterr()
        told.append(f"$ gpuplan {verb} {' '.join(more)} → {code}\n{printed.out}{printed.err}")
        return code, printed.out

    yield run
    print("\n".join(told))


def sentiment(address: str, text: str) -> str:
    """What the ensemble on a server says of a text."""
    tensor = {"name": "TEXT", "shape": [1, 1], "datatype": "BYTES", "data": [[text]]}
    request = urllib.request.Request(
        f"http://{address}/v2/models/sentiment/infer", json.dumps({"inputs": [tensor]}).encode()
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        return str(json.load(answer)["outputs"][0]["data"][0])


def serves(lab) -> None:
    """Every ensemble of the story gives the right answers."""
    for node in ("gpu-a1", "gpu-h1", "gpu-t1"):
        address = f"{lab.hosts[node].address}:8000"
        assert sentiment(address, "I love this, it is great") == "positive"
        assert sentiment(address, "awful and bad, but good") == "negative"
        assert sentiment(address, "it is there") == "neutral"


def break_things(lab) -> None:
    """What an operator may do by hand, one act for each room, and a container of somebody else."""
    lab.run("gpu-h1", ["docker", "stop", "triton-second"])
    unload = "import urllib.request as u; u.urlopen(u.Request('{}', b'{{}}'))"
    url = "http://127.0.0.1:8010/v2/repository/models/tokenizer/unload"
    lab.run("gpu-a1", ["python3", "-c", unload.format(url)])
    lab.run("gpu-a1", ["docker", "stop", "per-slice-1"])
    lab.run("gpu-a1", ["python3", "-c", DESTROY_SLICE])
    model = "/var/lib/gpuplan/plans/story/triton/triton-half/models/tokenizer/1/model.py"
    lab.run("gpu-t1", ["sh", "-c", f"echo '# edited by hand' >> {model}"])
    lab.run("gpu-a1", ["docker", "run", "-d", "--name", "foreign", "lab/pause:1"])


def found(report: str) -> tuple[set[str], set[str]]:
    """(addresses of drift, addresses of what is not managed) in a drift report."""
    nodes = json.loads(report)["nodes"]
    drift = {each["change"]["address"] for node in nodes for each in node["drift"]}
    return drift, {each["address"] for node in nodes for each in node["unmanaged"]}


def state_of(lab) -> dict[str, tuple[str, ...]]:
    """What must be the same before the first apply and after the destroy, on each node."""
    look = (
        "cat /var/lib/nvmlsim/state | grep -E '^(gpu|gi|ci) ' | sort; docker ps -a --format '{{.Names}}' | sort; "
        "docker images --format '{{.Repository}}:{{.Tag}}' | sort; find /var/lib/gpuplan -type f 2>/dev/null | "
        "grep -v -e /lock$ -e cache | sort"
    )
    return {node: tuple(lab.run(node, ["sh", "-c", look]).stdout.splitlines()) for node in lab.hosts}


def test_the_whole_story(lab, gpuplan) -> None:
    bare = state_of(lab)
    assert gpuplan("plan", "--detailed-exitcode")[0] == 2
    assert gpuplan("apply", "--auto-approve")[0] == 0
    serves(lab)
    assert gpuplan("plan", "--detailed-exitcode")[0] == 0
    assert gpuplan("drift-check") == (0, "")

    break_things(lab)
    code, report = gpuplan("drift-check", "--json")
    assert code == 2
    assert found(report) == (
        {
            "gpu-h1/container/triton-second",
            "gpu-a1/model/triton-rest/tokenizer",
            "gpu-a1/gpu/a100-1",
            "gpu-t1/repository/triton-half",
        },
        {"gpu-a1/container/foreign"},
    )

    assert gpuplan("apply", "--auto-approve")[0] == 0
    serves(lab)
    assert gpuplan("plan", "--detailed-exitcode")[0] == 0
    assert gpuplan("drift-check") == (0, "")

    assert gpuplan("destroy", "--auto-approve")[0] == 0
    assert lab.run("gpu-a1", ["docker", "inspect", "-f", "{{.State.Status}}", "foreign"]).stdout.strip() == "running"
    lab.run("gpu-a1", ["docker", "rm", "-f", "foreign"])
    assert state_of(lab) == bare
