"""The labels and marks that others have to repeat, since they travel alone or lie below the rooms, are the same."""

from __future__ import annotations

from gpuplan.agent import triton
from gpuplan.planfile.sources import config
from gpuplan.resources.snapshot import containers


def test_the_agent_finds_a_server_by_the_label_that_the_container_room_writes() -> None:
    assert containers.TRITON == triton.LABEL


def test_a_config_is_rendered_with_the_mark_that_the_rooms_look_for() -> None:
    assert {config.MARK} == {containers.CONTENT}
