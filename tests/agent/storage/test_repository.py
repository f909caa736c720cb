"""Repositories: switching gives what the probe then tells, and nothing leaves its directory."""

import contextlib
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuplan.agent.failure import Failure
from gpuplan.agent.storage.files import checked_file
from tests.agent.support import AgentCaller, FakeNode

NAMES = st.text(
    st.characters(codec="utf-8", exclude_characters="/\x7f", min_codepoint=32), min_size=1, max_size=12
).filter(lambda name: name not in (".", ".."))
FILES = st.dictionaries(NAMES, st.binary(max_size=30), min_size=1, max_size=4)


def manifest(agent: AgentCaller, model: str = "m") -> dict[str, object]:
    return agent.value("repository")["repositories"]["triton"]["models"][model]


def repository(agent: AgentCaller) -> Path:
    return Path(agent.node.root, "plans/prod/triton/triton")


@settings(max_examples=40, deadline=None)
@given(first=FILES, second=FILES)
def test_what_was_switched_is_what_is_told(
    tmp_path_factory: object, first: dict[str, bytes], second: dict[str, bytes]
) -> None:
    agent = AgentCaller(FakeNode(tmp_path_factory.mktemp("repository")))
    for files in (first, {f"1/{name}": data for name, data in second.items()}):
        digests = {path: agent.put(data) for path, data in files.items()}
        agent.ok("repository.switch", plan="prod", container="triton", model="m", content="d" * 64, files=digests)
        told = manifest(agent)
        assert told["content"] == "d" * 64
        assert {path: file["sha256"] for path, file in told["files"].items()} == digests


def test_the_new_directory_takes_the_place_of_the_old_one(agent: AgentCaller) -> None:
    agent.switch("m", {"1/model.py": b"one", "2/": b""}, content="1" * 64)
    agent.switch("m", {"1/model.py": b"two"}, content="2" * 64)
    here = repository(agent)
    assert os.readlink(here / "models/m") == "../versions/m.222222222222.2"
    assert (here / "models/m/1/model.py").read_bytes() == b"two"
    assert (here / "previous/m/1/model.py").read_bytes() == b"one"
    agent.ok("repository.settle", plan="prod", container="triton", model="m")
    assert sorted(os.listdir(here / "versions")) == ["m.222222222222.2", "m.222222222222.2.content"]
    assert os.listdir(here / "previous") == []


def test_a_server_under_any_user_can_read_it(agent: AgentCaller) -> None:
    before = os.umask(0o077)
    try:
        agent.switch("m", {"1/model.py": b"one"})
    finally:
        os.umask(before)
    here = repository(agent)
    for path in (here, here / "models", here / "models/m/", here / "models/m/1"):
        assert os.stat(path).st_mode & 0o777 == 0o755
    assert os.stat(here / "models/m/1/model.py").st_mode & 0o777 == 0o644
    assert os.stat(agent.node.root).st_mode & 0o777 == 0o700


def test_an_empty_directory_is_told(agent: AgentCaller) -> None:
    agent.switch("ensemble", {"config.pbtxt": b"x", "1/": b""})
    assert manifest(agent, "ensemble")["files"]["1/"] == {"size": 0, "sha256": ""}


def test_a_missing_blob_changes_nothing(agent: AgentCaller) -> None:
    agent.switch("m", {"a": b"one"})
    before = manifest(agent)
    arguments = {"plan": "prod", "container": "triton", "model": "m", "content": "e" * 64}
    assert agent.refused("repository.switch", files={"a": "f" * 64}, **arguments) == "not_found"
    assert manifest(agent) == before


def test_a_hand_edit_is_seen_and_repaired_though_it_went_through_the_hard_link(agent: AgentCaller) -> None:
    agent.switch("m", {"1/model.py": b"right"})
    before = manifest(agent)
    edited = repository(agent) / "models/m/1/model.py"
    edited.write_bytes(b"wrong")
    assert manifest(agent)["files"]["1/model.py"] != before["files"]["1/model.py"]
    digest = before["files"]["1/model.py"]["sha256"]
    arguments = {"plan": "prod", "container": "triton", "model": "m", "content": "c" * 64}
    assert agent.refused("repository.switch", files={"1/model.py": digest}, **arguments) == "not_found"
    agent.switch("m", {"1/model.py": b"right"})
    assert manifest(agent) == before


def test_what_was_put_there_by_hand_is_told_and_not_followed(agent: AgentCaller) -> None:
    agent.switch("m", {"a": b"one"})
    (repository(agent) / "models/m/out").symlink_to("/etc")
    os.mkfifo(repository(agent) / "models/m/pipe")
    assert manifest(agent)["files"]["out"] == {"link": "/etc"}
    assert manifest(agent)["files"]["pipe"] == {"odd": "pipe"}
    (repository(agent) / "models/foreign").mkdir()
    assert manifest(agent, "foreign") == {"content": None, "files": {}}


def test_a_directory_in_the_place_of_the_link_gives_way(agent: AgentCaller) -> None:
    agent.switch("m", {"a": b"one"})
    link = repository(agent) / "models/m"
    link.unlink()
    link.mkdir()
    (link / "by-hand").write_text("x")
    agent.switch("m", {"a": b"one"})
    assert list(manifest(agent)["files"]) == ["a"]


def test_nothing_is_made_to_take_a_model_from_a_list_that_is_not_there(agent: AgentCaller) -> None:
    told = agent.ok("repository.load_at_start", plan="prod", container="gone", model="m", wanted=False)
    assert told == {"load_models": []}
    assert agent.value("repository") == {"repositories": {}}


def test_load_at_start_is_one_line_for_each_model(agent: AgentCaller) -> None:
    agent.ok("repository.prepare", plan="prod", container="triton")
    common = {"plan": "prod", "container": "triton"}
    agent.ok("repository.load_at_start", model="b", wanted=True, **common)
    agent.ok("repository.load_at_start", model="a", wanted=True, **common)
    told = agent.ok("repository.load_at_start", model="a", wanted=True, **common)
    assert told == {"load_models": ["a", "b"]}
    assert (repository(agent) / "load-models").read_text() == "--load-model=a\n--load-model=b\n"
    agent.ok("repository.load_at_start", model="b", wanted=False, **common)
    assert agent.value("repository")["repositories"]["triton"]["load_models"] == ["a"]


def test_remove_takes_one_model_or_everything(agent: AgentCaller) -> None:
    agent.switch("m", {"a": b"one"})
    agent.switch("m.0123456789ab", {"a": b"two"})
    agent.ok("repository.load_at_start", plan="prod", container="triton", model="m", wanted=True)
    agent.ok("repository.remove", plan="prod", container="triton", model="m")
    told = agent.value("repository")["repositories"]["triton"]
    assert list(told["models"]) == ["m.0123456789ab"]
    assert told["load_models"] == []
    assert told["models"]["m.0123456789ab"]["files"]["a"]["size"] == 3
    agent.ok("repository.remove", plan="prod", container="triton", model=None)
    assert agent.value("repository") == {"repositories": {}}
    agent.ok("repository.remove", plan="prod", container="triton", model=None)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "/x", "a b", "a\n", "-x", "$(id)", ".hidden", "a" * 129]
)
def test_names_that_could_leave_are_refused(agent: AgentCaller, name: str) -> None:
    for arguments in (("prod", "triton", name), ("prod", name, "m"), (name, "triton", "m")):
        common = dict(zip(("plan", "container", "model"), arguments, strict=True))
        assert agent.refused("repository.switch", content="a" * 64, files={}, **common) == "invalid"
        assert agent.refused("repository.load_at_start", wanted=True, **common) == "invalid"
    assert not os.path.exists(agent.node.root)


@given(path=st.lists(st.sampled_from(["..", ".", "", "a", "b", "\0"]), max_size=5).map("/".join))
def test_a_path_that_is_let_through_stays_inside(path: str) -> None:
    with contextlib.suppress(Failure):
        checked_file(path)
        inside = os.path.normpath(os.path.join("/model", path))
        assert inside.startswith("/model/")
        assert inside == "/model/" + path.rstrip("/")


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "..",
        "../a",
        "a/../../b",
        "/etc/passwd",
        "a//b",
        "./a",
        "a/..",
        "a\0b",
        "a/" + "b" * 256,
        "a\nb",
        "\x1b[2J",
        "\udcff",
    ],
)
def test_a_path_that_escapes_is_refused(path: str) -> None:
    with pytest.raises(Failure, match="not a valid path"):
        checked_file(path)


def test_a_path_that_is_too_long_for_the_system_is_refused() -> None:
    with pytest.raises(Failure, match="not a valid path"):
        checked_file("/".join(["a" * 200] * 20))


def test_a_file_that_is_also_a_directory_is_refused_and_leaves_nothing(agent: AgentCaller) -> None:
    digest = agent.put(b"x")
    arguments = {"plan": "prod", "container": "triton", "model": "m", "content": "a" * 64}
    assert agent.refused("repository.switch", files={"a": digest, "a/b": digest}, **arguments) == "invalid"
    assert os.listdir(repository(agent) / "versions") == []


def test_a_models_config_is_told_as_text(agent: AgentCaller) -> None:
    agent.switch("m", {"config.pbtxt": 'name: "ü"\r\n'.encode(), "1/config.pbtxt": b"other"})
    told = manifest(agent)["files"]
    assert told["config.pbtxt"]["text"] == 'name: "ü"\r\n'
    assert "text" not in told["1/config.pbtxt"]
    for content in (b"\xff", b"x" * 65537):
        agent.switch("m", {"config.pbtxt": content})
        assert "text" not in manifest(agent)["files"]["config.pbtxt"]


def test_a_switch_is_newer_than_what_was_there(agent: AgentCaller) -> None:
    agent.switch("m", {"a": b"one"})
    before = os.stat(repository(agent) / "models/m/").st_mtime_ns
    agent.switch("m", {"a": b"one"})
    assert os.stat(repository(agent) / "models/m/").st_mtime_ns > before


@pytest.mark.parametrize("unreadable", ["models/m", "models/m/1", "models/m/1/deep", "models"])
def test_a_directory_that_cannot_be_listed_is_not_empty_and_hides_no_other(
    agent: AgentCaller, monkeypatch: pytest.MonkeyPatch, unreadable: str
) -> None:
    agent.switch("m", {"1/deep/a": b"one"})
    agent.switch("n", {"1/deep/a": b"one"})
    damaged = os.path.realpath(repository(agent) / unreadable)

    def failing(kind: str) -> None:
        real = getattr(os, kind)

        def look(path: str) -> object:
            if os.path.realpath(path) == damaged:
                raise OSError(5, "Input/output error", path)
            return real(path)

        monkeypatch.setattr(os, kind, look)

    failing("scandir")
    failing("listdir")
    if unreadable == "models":
        error = agent.probe("repository")["error"]
    else:
        error = manifest(agent)["error"]
        assert list(manifest(agent, "n")["files"]) == ["1/deep/a"]
    assert error["code"] == "unexpected"
    assert "Input/output error" in error["text"]


def test_blobs_that_cannot_be_listed_are_not_said_to_be_collected(
    agent: AgentCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert agent.ok("blob.collect") == {"removed": 0, "bytes": 0}

    def damaged(path: str) -> None:
        raise OSError(5, "Input/output error", path)

    monkeypatch.setattr(os, "scandir", damaged)
    assert agent.refused("blob.collect") == "unexpected"


def test_a_link_that_leads_nowhere_of_ours_has_no_files(agent: AgentCaller) -> None:
    agent.switch("m", {"a": b"one"})
    for name in ("lost", "file", "elsewhere"):
        (repository(agent) / "models" / name).symlink_to(f"../{name}")
    (repository(agent) / "file").write_text("x")
    (repository(agent) / "elsewhere").mkdir()
    (repository(agent) / "elsewhere/secret").write_text("x")
    for name in ("lost", "file", "elsewhere"):
        assert manifest(agent, name) == {"content": None, "files": {}}
