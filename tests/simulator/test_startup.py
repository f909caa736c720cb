"""Command lines of `tritonserver`, in a shell and without one."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gpuplan.simulator.session import SimulatedSession
from gpuplan.simulator.triton.model_files import NeverAnswers
from gpuplan.simulator.triton.startup import BadOption, parse_options
from gpuplan.triton.releases import release_of
from tests.contract.models import RAISES, python
from tests.contract.node import Node
from tests.simulator.conftest import Open, host

IMAGE = "nvcr.io/nvidia/tritonserver:24.10-py3"
RELEASE = release_of(IMAGE)


def node(session: SimulatedSession) -> Node:
    return Node(host(images=[IMAGE]), session, IMAGE, "busybox:1.36", simulated=True)


def serve(session: SimulatedSession, models: Mapping[str, Mapping[str, str]], *command: str) -> str:
    """Start a Triton with the models in /gpuplan/models; the container's status."""
    path = session.agent("repository.prepare", plan="contract", container="triton")["path"]
    for model, files in models.items():
        node(session).write_model(model, files)
    client = session.docker()
    binds = client.create_host_config(binds=[f"{path}:/gpuplan:ro"], port_bindings={8000: 8000})
    client.start(client.create_container(IMAGE, list(command), name="triton", ports=[8000], host_config=binds))
    return str(client.inspect_container("triton")["State"]["Status"])


def test_flags_in_both_forms() -> None:
    words = ["--model-repository", "/a", "--model-store=/b", "--model-control-mode=explicit", "--load-model=x"]
    options = parse_options([*words, "--load-model=y", "--disable-auto-complete-config", "--id=me"], RELEASE)
    assert (options.repositories, options.load) == (["/a", "/b"], ["x", "y"])
    assert options.flag("disable-auto-complete-config", default=False) is True
    assert options.flag("exit-on-error", default=True) is True
    assert options.text("id", "triton") == "me"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--rate-limiter=off"], "tritonserver: unrecognized option '--rate-limiter=off'"),
        (["--http-port=x"], "Invalid option value. Got x"),
        (["--model-control-mode=foo"], "invalid argument for --model-control-mode"),
        (["--load-model=x"], "Error: Use of '--load-model' requires setting '--model-control-mode=explicit' as well."),
        (["model"], "Unrecognized option"),
        (["--id"], "requires an argument"),
    ],
)
def test_flags_that_are_refused(flags: list[str], words: str) -> None:
    with pytest.raises(BadOption, match=words):
        parse_options(["--model-repository=/a", *flags], RELEASE)


def test_a_repository_must_be_named() -> None:
    with pytest.raises(BadOption, match="--model-repository must be specified"):
        parse_options([], RELEASE)


def test_all_models_are_loaded_without_explicit_mode(connected: Open) -> None:
    session = connected(host(images=[IMAGE]))
    status = serve(session, {"a": python()}, "tritonserver", "--model-repository=/gpuplan/models")
    assert status == "running"
    assert node(session).index() == {"a": ("READY", "")}


EXPLICIT = ("tritonserver", "--model-repository=/gpuplan/models", "--model-control-mode=explicit", "--load-model=*")


def test_a_broken_model_ends_the_start(connected: Open) -> None:
    session = connected(host(images=[IMAGE]))
    assert serve(session, {"bad": python(RAISES)}, *EXPLICIT) == "exited"
    assert "failed to load all models" in session.docker().logs("triton").decode()


def test_a_broken_model_is_borne_when_told(connected: Open) -> None:
    session = connected(host(images=[IMAGE]))
    models = {"bad": python(RAISES), "good": python()}
    assert serve(session, models, *EXPLICIT, "--exit-on-error=false") == "running"
    index = node(session).index()
    assert (index["good"][0], index["bad"][0]) == ("READY", "UNAVAILABLE")


def test_generation_is_not_simulated(connected: Open) -> None:
    session = connected(host(images=[IMAGE]))
    serve(session, {"a": python()}, *EXPLICIT)
    answer = session.reached("127.0.0.1", 8000, "POST", "/v2/models/a/generate", b"{}")
    assert (answer.status, answer.body) == (501, b'{"error":"a simulated server does not generate"}')


def test_inferences_fail_and_hang_as_they_are_told(connected: Open) -> None:
    faults = [{"infer": "bad", "says": "out of memory"}, {"infer": "slow", "hangs": True}]
    session = connected(host(images=[IMAGE], faults=faults))
    serve(session, {"a": python(), "bad": python(), "slow": python()}, *EXPLICIT)
    body = b'{"inputs":[{"name":"IN","shape":[1,1],"datatype":"FP32","data":[1]}]}'
    answer = session.reached("127.0.0.1", 8000, "POST", "/v2/models/bad/infer", body)
    assert (answer.status, answer.body) == (500, b'{"error":"out of memory"}')
    with pytest.raises(NeverAnswers):
        session.reached("127.0.0.1", 8000, "POST", "/v2/models/slow/versions/1/infer", body)
    assert session.reached("127.0.0.1", 8000, "POST", "/v2/models/a/infer", body).status == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v2/repository/index", 405),
        ("GET", "/v2/repository/models/a/load", 405),
        ("POST", "/v2/health/live", 405),
        ("GET", "/nothing", 404),
    ],
)
def test_wrong_requests(connected: Open, method: str, path: str, status: int) -> None:
    session = connected(host(images=[IMAGE]))
    serve(session, {}, *EXPLICIT)
    assert session.reached("127.0.0.1", 8000, method, path, b"")[0] == status


def test_two_clients_may_not_lose_a_model(connected: Open) -> None:
    """A second session sees what the first one loaded."""
    first, second = connected(host(images=[IMAGE])), connected(host(images=[IMAGE]))
    serve(first, {"a": python()}, *EXPLICIT[:3])
    with node(first).triton() as client:
        client.load_model("a")
    assert node(second).index() == {"a": ("READY", "")}
