"""Bad days of a node from their beginning to their end, each as a file: stories/*.yaml."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.flow.conftest import World
from tests.flow.story import Stage, load

STORIES = sorted((Path(__file__).parent / "stories").glob("*.yaml"))


@pytest.mark.parametrize("file", STORIES, ids=lambda file: file.stem)
def test_a_story(file: Path, make_world: Callable[[], World], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuplan.kinds.container.acts.ready.STEADY", 0.0)
    story = load(file)
    stage = Stage(make_world(), story, monkeypatch)
    for run in story.runs:
        stage.play(run)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{ about: x, plan: {}, simulated: {}, run: [] }", r"bad.yaml: unknown keys \['run'\]"),
        ("{ about: x, plan: {}, simulated: {}, runs: [{ exit: done, tolt: [] }] }", r"run 1: unknown keys \['tolt'\]"),
        ("{ about: x, plan: {}, simulated: {}, runs: [] }", "a story without a run"),
    ],
)
def test_what_no_story_can_say_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text, "utf-8")
    with pytest.raises(ValueError, match=said):
        load(file)
