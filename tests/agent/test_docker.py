"""The docker and triton probes: raw answers, and which of the ways to have no answer it is."""

import pytest

from tests.agent.support import AgentCaller

ID = "a" * 64
FOUND = {
    "Id": ID,
    "Name": "/triton-cls",
    "Path": "sh",
    "Args": ["-c", "exec tritonserver --http-port=9000"],
    "Config": {"Labels": {"gpuplan.triton": "8000"}},
    "HostConfig": {"NetworkMode": "bridge"},
    "NetworkSettings": {"Ports": {"8000/tcp": [{"HostIp": "0.0.0.0", "HostPort": "8100"}]}, "Networks": {}},
}
HEALTHY = {
    "GET /v2/health/live": {},
    "GET /v2/health/ready": (400, {}),
    "POST /v2/repository/index": [{"name": "m", "version": "1", "state": "READY"}, {"name": "n"}],
    "GET /v2": {"name": "triton"},
    "GET /v2/models/m/config": {"name": "m"},
    "GET /v2/models/stats": {"model_stats": []},
}


@pytest.fixture
def running(agent: AgentCaller) -> AgentCaller:
    listed = [{"Id": ID}, {"Id": "b" * 64}]
    agent.node.engine_answers.update(
        {
            "/version": {"ApiVersion": "1.41"},
            "/info": {"Driver": "overlay2"},
            "/containers/json?all=1": listed,
            "/containers/json": listed,
            f"/containers/{ID}/json": FOUND,
            "/images/json": [{"Id": "sha256:1"}],
            "/networks": [{"Id": "n1", "Name": "bridge"}],
            "/images/sha256:1/json": {"Id": "sha256:1", "RepoTags": ["x"]},
        }
    )
    agent.node.triton_answers.update({f"127.0.0.1:8100 {question}": answer for question, answer in HEALTHY.items()})
    return agent


def test_everything_is_as_the_engine_says_it(running: AgentCaller) -> None:
    value = running.value("docker")
    assert value == {
        "version": {"ApiVersion": "1.41"},
        "info": {"Driver": "overlay2"},
        "containers": [FOUND],  # the other one went away between the list and the look
        "images": [{"Id": "sha256:1", "RepoTags": ["x"]}],
        "networks": [{"Id": "n1", "Name": "bridge"}],
    }


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (FileNotFoundError(2, "No such file"), "no_docker"),
        (ConnectionRefusedError(111, "refused"), "docker_refused"),
        (TimeoutError("slow"), "docker_refused"),
        (PermissionError(13, "denied"), "no_permission"),
        ((500, {"message": "layer does not exist"}), "docker_error"),
    ],
)
def test_each_way_to_have_no_engine_has_its_code(agent: AgentCaller, answer: object, code: str) -> None:
    agent.node.engine_answers["/version"] = answer
    assert agent.probe("docker")["error"]["code"] == code


def test_the_engines_own_words_are_kept(agent: AgentCaller) -> None:
    agent.node.engine_answers["/version"] = (500, {"message": "layer does not exist"})
    assert "layer does not exist" in agent.probe("docker")["error"]["text"]


@pytest.mark.parametrize("path", ["/version", "/info", "/containers/json?all=1", "/images/json"])
def test_what_is_always_there_and_is_not_found_is_an_error(running: AgentCaller, path: str) -> None:
    running.node.engine_answers[path] = (404, {"message": "page not found"})
    error = running.probe("docker")["error"]
    assert error["code"] == "docker_error"
    assert "page not found" in error["text"]


def test_a_list_that_is_not_found_is_no_empty_list_of_servers(running: AgentCaller) -> None:
    running.node.engine_answers["/containers/json"] = (404, {"message": "page not found"})
    assert running.probe("triton")["error"]["code"] == "docker_error"


def test_a_server_tells_its_models(running: AgentCaller) -> None:
    assert running.value("triton")["servers"] == [
        {
            "container": ID,
            "name": "triton-cls",
            "address": "127.0.0.1:8100",
            "live": True,
            "ready": False,
            "metadata": {"name": "triton"},
            "index": HEALTHY["POST /v2/repository/index"],
            "configs": {"m": {"name": "m"}},
            "statistics": {"model_stats": []},
        }
    ]


def served(agent: AgentCaller, **more: object) -> dict[str, object]:
    """The server's entry where it serves a directory of the node."""
    found = {**FOUND, "Mounts": [{"Source": "/mnt/models", "Destination": "/repository"}], **more}
    agent.node.engine_answers[f"/containers/{ID}/json"] = found
    (server,) = agent.value("triton")["servers"]
    return dict(server)


def test_a_directory_that_it_serves_is_listed(running: AgentCaller) -> None:
    running.node.directories["/mnt/models"] = ["a", "b"]
    assert served(running)["repository"] == {"path": "/mnt/models", "models": ["a", "b"]}
    assert "repository" not in served(running, Config={"Labels": {}})


def test_a_directory_that_cannot_be_listed_hides_nothing_else(running: AgentCaller) -> None:
    running.node.directories["/mnt/models"] = PermissionError(13, "Permission denied")
    server = served(running)
    assert server["repository"] == {
        "path": "/mnt/models",
        "error": {"code": "no_permission", "text": "[Errno 13] Permission denied"},
    }
    assert server["index"] == HEALTHY["POST /v2/repository/index"]


def test_a_long_complaint_is_told_in_part(running: AgentCaller) -> None:
    running.node.engine_answers["/info"] = (500, {"message": "x" * 100_000})
    running.node.triton_answers["127.0.0.1:8100 GET /v2"] = (500, {"error": "x" * 100_000})
    assert 1000 < len(running.probe("docker")["error"]["text"]) < 3000
    (server,) = running.value("triton")["servers"]
    assert 1000 < len(server["error"]["text"]) < 3000


def test_a_server_that_does_not_answer_is_told_by_name(running: AgentCaller) -> None:
    running.node.triton_answers["127.0.0.1:8100 GET /v2/health/live"] = ConnectionRefusedError(111, "refused")
    (server,) = running.value("triton")["servers"]
    assert server["name"] == "triton-cls"
    assert server["error"]["code"] == "unreachable"


def test_a_server_that_refuses_its_index_is_not_empty(running: AgentCaller) -> None:
    running.node.triton_answers["127.0.0.1:8100 POST /v2/repository/index"] = (403, {"error": "restricted"})
    (server,) = running.value("triton")["servers"]
    assert "index" not in server
    assert "restricted" in server["error"]["text"]


@pytest.mark.parametrize(
    ("change", "address"),
    [
        ({"HostConfig": {"NetworkMode": "host"}}, "127.0.0.1:8000"),
        (
            {"NetworkSettings": {"Ports": {"8000/tcp": None}, "Networks": {"n": {"IPAddress": "172.17.0.2"}}}},
            "172.17.0.2:8000",
        ),
        ({"NetworkSettings": {"Ports": {"8000/tcp": [{"HostIp": "::", "HostPort": "81"}]}}}, "[::1]:81"),
        ({"NetworkSettings": {"Ports": {"8000/tcp": [{"HostIp": "10.0.0.4", "HostPort": "81"}]}}}, "10.0.0.4:81"),
        (
            {"Config": {"Labels": None}, "NetworkSettings": {"Networks": {"n": {"IPAddress": "172.17.0.2"}}}},
            "172.17.0.2:9000",
        ),
    ],
)
def test_where_a_server_answers(running: AgentCaller, change: dict[str, object], address: str) -> None:
    running.node.engine_answers[f"/containers/{ID}/json"] = {**FOUND, **change}
    (server,) = running.value("triton")["servers"]
    assert server["address"] == address


@pytest.mark.parametrize(
    ("arguments", "is_server"),
    [
        (["tritonserver", "--model-repository=/m"], True),
        (["sh", "-c", "sleep 1; exec /opt/tritonserver/bin/tritonserver --http-port 1"], True),
        (["ls", "/opt/tritonserver/bin"], False),
        (["my-tritonserver-exporter"], False),
    ],
)
def test_a_server_is_known_by_its_command_too(running: AgentCaller, arguments: list[str], is_server: bool) -> None:
    found = {**FOUND, "Path": arguments[0], "Args": arguments[1:], "Config": {"Labels": {}}}
    running.node.engine_answers[f"/containers/{ID}/json"] = found
    assert bool(running.value("triton")["servers"]) is is_server
