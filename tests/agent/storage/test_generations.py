"""Switch, settle and restore: one directory stands by at most, and a cut leaves an old or a new one, whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.agent.support import AgentCaller, FakeNode
from tests.conftest import examples

MODEL = {"plan": "prod", "container": "triton", "model": "m"}


def here(agent: AgentCaller) -> Path:
    return Path(agent.node.root, "plans/prod/triton/triton")


def switch(agent: AgentCaller, letter: str) -> None:
    agent.switch("m", {"1/model.py": letter.encode() * 3, "config.pbtxt": letter.encode()}, content=letter * 64)


def text(agent: AgentCaller, place: str) -> str:
    """What a directory holds, which must be whole; empty where there is none."""
    directory = here(agent) / place / "m"
    if not directory.exists():
        return ""
    letter = (directory / "config.pbtxt").read_text()
    assert (directory / "1/model.py").read_text() == letter * 3
    return letter


def told(agent: AgentCaller) -> str:
    return agent.value("repository")["repositories"]["triton"]["models"]["m"]["content"][:1]


def test_the_previous_one_comes_back_in_place_of_one_that_did_not_prove_itself(agent: AgentCaller) -> None:
    switch(agent, "a")
    switch(agent, "b")
    before = os.stat(here(agent) / "previous/m/").st_mtime_ns
    assert agent.ok("repository.restore", **MODEL) == {"content": "a" * 64}
    assert (text(agent, "models"), text(agent, "previous"), told(agent)) == ("a", "", "a")
    assert os.stat(here(agent) / "models/m/").st_mtime_ns > before  # a server must see it as newer
    assert len(os.listdir(here(agent) / "versions")) == 2
    assert agent.refused("repository.restore", **MODEL) == "not_found"
    assert text(agent, "models") == "a"


def test_what_was_settled_does_not_come_back(agent: AgentCaller) -> None:
    switch(agent, "a")
    assert agent.refused("repository.restore", **MODEL) == "not_found"
    agent.ok("repository.settle", **MODEL)
    switch(agent, "b")
    agent.ok("repository.settle", **MODEL)
    assert agent.refused("repository.restore", **MODEL) == "not_found"
    assert text(agent, "models") == "b"


def test_the_same_content_again_makes_no_previous_one_and_loses_none(agent: AgentCaller) -> None:
    switch(agent, "a")
    switch(agent, "a")
    assert agent.refused("repository.restore", **MODEL) == "not_found"
    switch(agent, "b")
    switch(agent, "b")
    assert (text(agent, "models"), text(agent, "previous")) == ("b", "a")


def test_of_two_that_were_never_settled_the_older_one_stays(agent: AgentCaller) -> None:
    for letter in "abcd":
        switch(agent, letter)
    assert (text(agent, "models"), text(agent, "previous")) == ("d", "a")
    assert len(os.listdir(here(agent) / "versions")) == 4


def test_a_model_that_goes_takes_the_previous_one_along(agent: AgentCaller) -> None:
    switch(agent, "a")
    switch(agent, "b")
    agent.ok("repository.remove", **MODEL)
    for place in ("models", "previous", "versions"):
        assert os.listdir(here(agent) / place) == []
    assert agent.ok("blob.collect")["removed"] == 4


def test_nothing_is_settled_or_restored_where_nothing_is(agent: AgentCaller) -> None:
    agent.ok("repository.settle", **MODEL)
    assert agent.refused("repository.restore", **MODEL) == "not_found"
    for operation in ("repository.settle", "repository.restore"):
        assert agent.refused(operation, **{**MODEL, "model": "../m"}) == "invalid"


def test_a_previous_link_that_leads_elsewhere_is_not_followed(agent: AgentCaller, tmp_path: Path) -> None:
    switch(agent, "a")
    (tmp_path / "precious").mkdir()
    (here(agent) / "previous/m").symlink_to(tmp_path / "precious")
    assert agent.refused("repository.restore", **MODEL) == "not_found"
    agent.ok("repository.settle", **MODEL)
    assert (tmp_path / "precious").is_dir()
    assert text(agent, "models") == "a"


class Killed(BaseException):
    """What a kill looks like from inside."""


ACTS = ("mkdir", "link", "symlink", "rename", "replace", "unlink", "rmdir", "utime", "fsync")


def cut_after(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Let so many calls that write to the disk pass, and none after them."""
    left = [count]

    def guarded(real: object) -> object:
        def act(*arguments: object, **options: object) -> object:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return real(*arguments, **options)

        return act

    for name in ACTS:
        monkeypatch.setattr(os, name, guarded(getattr(os, name)))


@pytest.mark.faults
@settings(max_examples=examples(60), deadline=None)
@given(cut=st.integers(0, 60), settled=st.booleans(), operation=st.sampled_from(["switch", "restore", "settle"]))
def test_a_kill_at_any_point_leaves_the_old_or_the_new_directory_whole(
    tmp_path_factory: object, cut: int, settled: bool, operation: str
) -> None:
    agent = AgentCaller(FakeNode(tmp_path_factory.mktemp("cut")))
    switch(agent, "a")
    switch(agent, "b")
    if settled:
        agent.ok("repository.settle", **MODEL)
    files = {"1/model.py": agent.put(b"ccc"), "config.pbtxt": agent.put(b"c")}
    more = {"content": "c" * 64, "files": files} if operation == "switch" else {}
    with pytest.MonkeyPatch.context() as patch:
        cut_after(patch, cut)
        try:
            agent.agent.handle({"op": f"repository.{operation}", **MODEL, **more})
        except Killed:
            agent = AgentCaller(agent.node)
    possible = {"switch": "bc", "restore": "b" if settled else "ab", "settle": "b"}[operation]
    assert text(agent, "models") in possible
    assert text(agent, "previous") in ("", "a", "b")
    switch(agent, "d")
    agent.ok("repository.settle", **MODEL)
    assert (text(agent, "models"), text(agent, "previous")) == ("d", "")
    assert len(os.listdir(here(agent) / "versions")) == 2
