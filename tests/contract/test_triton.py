"""Triton's model control: the simulated server answers tritonclient as release 24.10 does."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import pytest

from tests.contract.models import CONFIG, RAISES, ensemble, python
from tests.contract.node import FLAGS, PLAN, Node, failed, until

READY = ("READY", "")
UNLOADED = ("UNAVAILABLE", "unloaded")
NEVER = (None, "")


def load(node: Node, model: str) -> None:
    with node.triton() as client:
        client.load_model(model)


def unload(node: Node, model: str, parts: bool = False) -> None:
    with node.triton() as client:
        client.unload_model(model, unload_dependents=parts)


def is_ready(node: Node) -> bool:
    with node.triton() as client:
        return bool(client.is_server_ready())


def test_an_empty_server(node: Node) -> None:
    node.start_triton()
    with node.triton() as client:
        assert (client.is_server_live(), client.is_server_ready()) == (True, True)
        metadata = client.get_server_metadata()
        assert (metadata["name"], metadata["version"]) == ("triton", "2.51.0")
        assert "model_repository" in metadata["extensions"]
        assert client.get_model_repository_index() == []
        assert failed(lambda: client.load_model("nosuch")) == (
            "500",
            "failed to load 'nosuch', failed to poll from model repository",
        )
        client.unload_model("nosuch")
        assert failed(lambda: client.get_model_metadata("nosuch")) == (
            "404",
            "Request for unknown model: 'nosuch' is not found",
        )
        assert client.is_model_ready("nosuch") is False
        assert failed(lambda: client.get_inference_statistics("nosuch")) == (
            "400",
            "requested model 'nosuch' is not available",
        )
        assert client.get_inference_statistics() == {"model_stats": []}


def test_load_and_unload(node: Node) -> None:
    node.start_triton()
    node.write_model("a", python())
    assert node.index() == {"a": NEVER}
    load(node, "a")
    assert node.index() == {"a": READY}
    with node.triton() as client:
        assert client.is_model_ready("a") is True
        assert client.get_model_config("a")["parameters"] == {"gpuplan_content": {"string_value": "CONTENT"}}
        assert client.get_model_metadata("a")["versions"] == ["1"]
        assert [one["name"] for one in client.get_inference_statistics()["model_stats"]] == ["a"]
    unload(node, "a")
    assert node.index() == {"a": UNLOADED}
    with node.triton() as client:
        assert client.is_model_ready("a") is False
        assert failed(lambda: client.get_model_config("a")) == (
            "404",
            "Request for unknown model: 'a' has no available versions",
        )
    assert is_ready(node)
    load(node, "a")
    assert node.index() == {"a": READY}


def test_the_config_that_the_server_tells(node: Node, kept: Callable[[str, object], None]) -> None:
    node.start_triton()
    node.write_model("a", python())
    node.write_model("both", ensemble("a", "a"))
    node.write_model("plain", python(config=CONFIG.replace("instance_group [ { kind: KIND_CPU } ]", "")))
    for model in ("both", "plain"):
        load(node, model)
    with node.triton() as client:
        kept("config", {model: client.get_model_config(model) for model in ("a", "both", "plain")})
        kept("metadata", {model: client.get_model_metadata(model) for model in ("a", "both")})
        kept("statistics", client.get_inference_statistics("a"))


def test_a_broken_model_fails_each_time(node: Node) -> None:
    node.start_triton()
    node.write_model("bad", python(RAISES))
    status, words = failed(lambda: load(node, "bad"))
    assert status == "400"
    assert words.startswith(
        "load failed for model 'bad': version 1 is at UNAVAILABLE state: "
        "Internal: RuntimeError: weights file /models/x.pt not found"
    )
    assert failed(lambda: load(node, "bad")) == (status, words)
    state, reason = node.index()["bad"]
    assert state == "UNAVAILABLE"
    assert reason.startswith("Internal: RuntimeError: weights file /models/x.pt not found")
    assert not is_ready(node)
    unload(node, "bad")
    assert not is_ready(node)
    node.write_model("bad", python())
    load(node, "bad")
    assert node.index() == {"bad": READY}
    assert is_ready(node)


VERSION = "load failed for model 'bad': version 1 is at UNAVAILABLE state:"
POLL = "failed to load 'bad', failed to poll from model repository"
WRONG: dict[str, tuple[Mapping[str, str], str, str, str | None]] = {
    "syntax": (
        python("def\n"),
        "400",
        f"{VERSION} Internal: SyntaxError: invalid syntax (model.py, line 1);",
        "UNAVAILABLE",
    ),
    "no class": (
        python("x = 1\n"),
        "400",
        f"{VERSION} Internal: AttributeError: module '1.model' has no attribute 'TritonPythonModel';",
        "UNAVAILABLE",
    ),
    "unknown backend": (
        python(config=CONFIG.replace('"python"', '"nothing"')),
        "400",
        f"{VERSION} Invalid argument: unable to find backend library for backend 'nothing', "
        "try specifying runtime on the model configuration.;",
        "UNAVAILABLE",
    ),
    "no GPU": (
        python(config=CONFIG.replace("KIND_CPU", "KIND_GPU")),
        "400",
        f"{VERSION} Invalid argument: instance group bad_0 of model bad has kind KIND_GPU but no GPUs are available;",
        "UNAVAILABLE",
    ),
    "a CPU with GPUs": (
        python(config=CONFIG.replace("KIND_CPU", "KIND_CPU gpus: [ 0 ]")),
        "400",
        f"{VERSION} Invalid argument: "
        "instance group bad_0 of model bad has kind KIND_CPU but specifies one or more GPUs;",
        "UNAVAILABLE",
    ),
    "no dims": (
        python(config=CONFIG.replace("TYPE_FP32 dims: [ 1 ]", "TYPE_FP32", 1)),
        "400",
        f"{VERSION} Invalid argument: model input 'IN' must specify 'dims' for bad;",
        "UNAVAILABLE",
    ),
    "no version": (
        {"config.pbtxt": CONFIG},
        "400",
        "load failed for model 'bad': at least one version must be available under the version policy of model 'bad'",
        "not listed",
    ),
    "unparsable": (python(config="max_batch_size: ["), "500", POLL, None),
    "another name": (python(config=f'name: "other"\n{CONFIG}'), "500", POLL, None),
    "negative batch": (python(config=CONFIG.replace("size: 4", "size: -1")), "500", POLL, None),
    "unknown field": (python(config=f"{CONFIG}rate_limiter {{ }}"), "500", POLL, None),
    "missing part": (
        ensemble("missing"),
        "400",
        "load failed for model 'bad': ensemble bad contains models that are not available or ambiguous: missing",
        None,
    ),
    "itself": (
        ensemble("bad"),
        "400",
        "load failed for model 'bad': circular dependency between ensembles: bad -> ... -> bad -> bad",
        None,
    ),
}
"""What is wrong → files, HTTP status, words, and the state that the index shows then."""


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_with_a_model(node: Node, wrong: str) -> None:
    files, status, words, state = WRONG[wrong]
    node.start_triton()
    node.write_model("bad", files)
    assert failed(lambda: load(node, "bad")) == (status, f"{words}\n" if status == "400" else words)
    assert node.index().get("bad", ("not listed", ""))[0] == state
    assert is_ready(node) is (state is None)


def test_a_missing_part_that_comes_later(node: Node) -> None:
    node.start_triton()
    node.write_model("both", ensemble("late"))
    assert failed(lambda: load(node, "both"))[0] == "400"
    assert failed(lambda: load(node, "both")) == ("500", POLL.replace("bad", "both"))
    node.write_model("late", python())
    load(node, "late")
    assert node.index() == {"late": READY, "both": READY}


def test_an_unchanged_model_is_not_loaded_again(node: Node) -> None:
    node.start_triton()
    node.write_model("a", python())
    load(node, "a")
    before = loads(node)
    load(node, "a")
    assert loads(node) == before
    node.write_model("a", python(), content="1" * 64)
    load(node, "a")
    assert loads(node) == before + 1


def loads(node: Node) -> int:
    return node.session.docker().logs("triton").decode().count("successfully loaded 'a'")


def test_a_reload_that_fails_keeps_the_old_version(node: Node) -> None:
    node.start_triton()
    node.write_model("a", python())
    load(node, "a")
    node.write_model("a", python(RAISES), content="1" * 64)
    assert failed(lambda: load(node, "a"))[0] == "400"
    assert node.index()["a"][0] == "READY"
    with node.triton() as client:
        assert client.is_model_ready("a") is True


def test_an_ensemble_brings_its_parts(node: Node) -> None:
    node.start_triton()
    for model in ("a", "b"):
        node.write_model(model, python())
    node.write_model("both", ensemble("a", "b"))
    load(node, "both")
    assert node.index() == {"a": READY, "b": READY, "both": READY}
    unload(node, "a")
    assert node.index() == {"a": UNLOADED, "b": READY, "both": UNLOADED}
    load(node, "a")
    assert node.index() == {"a": READY, "b": READY, "both": READY}
    unload(node, "both")
    assert node.index() == {"a": READY, "b": READY, "both": UNLOADED}


def test_an_ensemble_takes_its_parts_along_when_told(node: Node) -> None:
    node.start_triton()
    for model in ("a", "b"):
        node.write_model(model, python())
    node.write_model("both", ensemble("a", "b"))
    load(node, "a")
    load(node, "both")
    unload(node, "both", parts=True)
    assert node.index() == {"a": READY, "b": UNLOADED, "both": UNLOADED}


def test_an_ensemble_with_a_broken_part(node: Node) -> None:
    node.start_triton()
    node.write_model("a", python(RAISES))
    node.write_model("both", ensemble("a"))
    status, words = failed(lambda: load(node, "both"))
    assert status == "400"
    assert words.startswith("load failed for model 'both': ensemble 'both' depends on 'a' which has no loaded version")
    assert node.index()["a"][0] == "UNAVAILABLE"
    assert node.index()["both"] == NEVER


def test_a_python_model_without_its_file_hangs(node: Node) -> None:
    node.start_triton()
    node.write_model("stuck", {"1/other.py": "", "config.pbtxt": CONFIG})
    with node.session.forward(8000) as where:
        import http.client

        connection = http.client.HTTPConnection(where, timeout=1.0)
        connection.request("POST", "/v2/repository/models/stuck/load", body=b"{}")
        with pytest.raises(TimeoutError):
            connection.getresponse()
        connection.close()
    with node.triton() as client:
        assert client.get_model_repository_index() == [{"name": "stuck", "version": "1", "state": "LOADING"}]
        assert client.is_server_ready() is False
    words = "Python model file not found in '/gpuplan/models/stuck/1/model.py'"
    until(lambda: words in node.session.docker().logs("triton").decode())
    node.session.docker().stop("triton", timeout=1)
    assert node.inspect("triton")["State"]["ExitCode"] == 137


def test_a_restarted_server_comes_back_with_its_list(node: Node) -> None:
    node.start_triton()
    for model in ("a", "b"):
        node.write_model(model, python())
        load(node, model)
    arguments = {"plan": PLAN, "container": "triton", "model": "a", "wanted": True}
    assert node.session.agent("repository.load_at_start", **arguments) == {"load_models": ["a"]}
    node.session.docker().restart("triton", timeout=5)
    node.until_live()
    until(lambda: node.index()["a"] == READY)
    assert node.index() == {"a": READY, "b": NEVER}


def test_versions_of_a_policy(node: Node) -> None:
    node.start_triton()
    files = {**python(), "2/model.py": python()["1/model.py"], "10/model.py": python()["1/model.py"]}
    node.write_model("latest", files)
    node.write_model("all", {**files, "config.pbtxt": CONFIG + "version_policy { all { } }"})
    node.write_model("some", {**files, "config.pbtxt": CONFIG + "version_policy { specific { versions: [ 1, 9 ] } }"})
    for model in ("latest", "all", "some"):
        load(node, model)
    with node.triton() as client:
        ready = {model: client.get_model_metadata(model)["versions"] for model in ("latest", "all", "some")}
    assert {model: sorted(versions) for model, versions in ready.items()} == {
        "latest": ["10"],
        "all": ["1", "10", "2"],
        "some": ["1"],
    }


def test_a_config_that_a_load_gives_goes_with_an_unload(node: Node) -> None:
    node.start_triton()
    node.write_model("a", {**python(), "2/model.py": python()["1/model.py"]})
    load(node, "a")
    with node.triton() as client:
        told = client.get_model_config("a")
        given = json.dumps({**told, "max_batch_size": 2, "version_policy": {"all": {}}})
        for _ in range(2):
            client.load_model("a", config=given)
            assert client.get_model_config("a")["max_batch_size"] == 2
            assert node.index() == {"a": READY}
            assert [one["version"] for one in client.get_model_repository_index()] == ["1", "2"]
        client.load_model("a")
        assert client.get_model_config("a")["max_batch_size"] == 2
        assert failed(lambda: client.load_model("a", config='{"bogus": 1}')) == (
            "500",
            "failed to load 'a', failed to poll from model repository",
        )
        assert client.get_model_config("a")["max_batch_size"] == 2
    unload(node, "a")
    until(lambda: node.index() == {"a": UNLOADED})
    load(node, "a")
    with node.triton() as client:
        assert client.get_model_config("a") == told


def test_a_server_that_does_not_start(node: Node) -> None:
    client = node.session.docker()
    node.create({"_name": "triton", "Image": node.triton_image, "Cmd": ["tritonserver", "--model-repository=/nope"]})
    client.start("triton")
    assert client.wait("triton")["StatusCode"] == 1
    assert "failed to stat file /nope" in client.logs("triton").decode()
    node.create({"_name": "other", "Image": node.triton_image, "Cmd": ["tritonserver", "--rate-limiter=off"]})
    client.start("other")
    assert client.wait("other")["StatusCode"] == 1
    assert "unrecognized option '--rate-limiter=off'" in client.logs("other").decode()


def test_only_explicit_servers_load(node: Node) -> None:
    node.session.agent("repository.prepare", plan=PLAN, container="triton")
    node.write_model("a", python())
    node.start_triton(flags=FLAGS[:1])
    until(lambda: node.index()["a"] == READY)
    status, words = failed(lambda: load(node, "a"))
    assert (status, words) == ("503", "explicit model load / unload is not allowed if polling is enabled")
