"""Switch, settle and restore: one directory stands by at most, and a cut leaves an old or a new one, whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.transport.conftest import Asking, Node

MODEL = {"plan": "prod", "container": "triton", "model": "m"}


def here(asking: Asking) -> Path:
    return Path(asking.node.root, "plans/prod/triton/triton")


def switch(asking: Asking, letter: str) -> None:
    asking.switch("m", {"1/model.py": letter.encode() * 3, "config.pbtxt": letter.encode()}, content=letter * 64)


def text(asking: Asking, place: str) -> str:
    """What a directory holds, which must be whole; empty where there is none."""
    directory = here(asking) / place / "m"
    if not directory.exists():
        return ""
    letter = (directory / "config.pbtxt").read_text()
    assert (directory / "1/model.py").read_text() == letter * 3
    return letter


def told(asking: Asking) -> str:
    return asking.value("repository")["repositories"]["triton"]["models"]["m"]["content"][:1]


def test_the_previous_one_comes_back_in_place_of_one_that_did_not_prove_itself(asking: Asking) -> None:
    switch(asking, "a")
    switch(asking, "b")
    before = os.stat(here(asking) / "previous/m/").st_mtime_ns
    assert asking.ok("repository.restore", **MODEL) == {"content": "a" * 64}
    assert (text(asking, "models"), text(asking, "previous"), told(asking)) == ("a", "", "a")
    assert os.stat(here(asking) / "models/m/").st_mtime_ns > before  # a server must see it as newer
    assert len(os.listdir(here(asking) / "versions")) == 2
    assert asking.refused("repository.restore", **MODEL) == "not_found"
    assert text(asking, "models") == "a"


def test_what_was_settled_does_not_come_back(asking: Asking) -> None:
    switch(asking, "a")
    assert asking.refused("repository.restore", **MODEL) == "not_found"
    asking.ok("repository.settle", **MODEL)
    switch(asking, "b")
    asking.ok("repository.settle", **MODEL)
    assert asking.refused("repository.restore", **MODEL) == "not_found"
    assert text(asking, "models") == "b"


def test_the_same_content_again_makes_no_previous_one_and_loses_none(asking: Asking) -> None:
    switch(asking, "a")
    switch(asking, "a")
    assert asking.refused("repository.restore", **MODEL) == "not_found"
    switch(asking, "b")
    switch(asking, "b")
    assert (text(asking, "models"), text(asking, "previous")) == ("b", "a")


def test_of_two_that_were_never_settled_the_older_one_stays(asking: Asking) -> None:
    for letter in "abcd":
        switch(asking, letter)
    assert (text(asking, "models"), text(asking, "previous")) == ("d", "a")
    assert len(os.listdir(here(asking) / "versions")) == 4


def test_a_model_that_goes_takes_the_previous_one_along(asking: Asking) -> None:
    switch(asking, "a")
    switch(asking, "b")
    asking.ok("repository.remove", **MODEL)
    for place in ("models", "previous", "versions"):
        assert os.listdir(here(asking) / place) == []
    assert asking.ok("blob.collect")["removed"] == 4


def test_nothing_is_settled_or_restored_where_nothing_is(asking: Asking) -> None:
    asking.ok("repository.settle", **MODEL)
    assert asking.refused("repository.restore", **MODEL) == "not_found"
    for operation in ("repository.settle", "repository.restore"):
        assert asking.refused(operation, **{**MODEL, "model": "../m"}) == "invalid"


def test_a_previous_link_that_leads_elsewhere_is_not_followed(asking: Asking, tmp_path: Path) -> None:
    switch(asking, "a")
    (tmp_path / "precious").mkdir()
    (here(asking) / "previous/m").symlink_to(tmp_path / "precious")
    assert asking.refused("repository.restore", **MODEL) == "not_found"
    asking.ok("repository.settle", **MODEL)
    assert (tmp_path / "precious").is_dir()
    assert text(asking, "models") == "a"


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


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(0, 60), settled=st.booleans(), operation=st.sampled_from(["switch", "restore", "settle"]))
def test_a_kill_at_any_point_leaves_the_old_or_the_new_directory_whole(
    tmp_path_factory: object, cut: int, settled: bool, operation: str
) -> None:
    asking = Asking(Node(tmp_path_factory.mktemp("cut")))
    switch(asking, "a")
    switch(asking, "b")
    if settled:
        asking.ok("repository.settle", **MODEL)
    files = {"1/model.py": asking.put(b"ccc"), "config.pbtxt": asking.put(b"c")}
    more = {"content": "c" * 64, "files": files} if operation == "switch" else {}
    with pytest.MonkeyPatch.context() as patch:
        cut_after(patch, cut)
        try:
            asking.agent.handle({"op": f"repository.{operation}", **MODEL, **more})
        except Killed:
            asking = Asking(asking.node)
    possible = {"switch": "bc", "restore": "b" if settled else "ab", "settle": "b"}[operation]
    assert text(asking, "models") in possible
    assert text(asking, "previous") in ("", "a", "b")
    switch(asking, "d")
    asking.ok("repository.settle", **MODEL)
    assert (text(asking, "models"), text(asking, "previous")) == ("d", "")
    assert len(os.listdir(here(asking) / "versions")) == 2
