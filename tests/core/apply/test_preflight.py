"""An apply does not start on a node without disk space for everything that is to be copied."""

from __future__ import annotations

import pytest

from gpuplan.resources.repository import apply
from gpuplan.resources.repository.apply import DiskSpace
from gpuplan.types.diagnostic import Exit
from tests.core.conftest import World


@pytest.mark.parametrize("free", [DiskSpace(4096, 1000), DiskSpace(1 << 30, 3)])
def test_an_apply_for_which_the_disk_is_too_small_is_not_begun(
    world: World, monkeypatch: pytest.MonkeyPatch, free: DiskSpace
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(apply, "free_space", lambda _: free)
        (outcome,) = world.apply()
    assert outcome.exit_code == Exit.ERROR
    assert [each.summary for each in outcome.diagnostics] == ["Not enough disk space for the model files"]
    assert outcome.steps == ()
    (node,) = world.plan().nodes
    assert {change.address.kind for change in node.changes} == {"gpu", "repository", "image", "container", "model"}
    (outcome,) = world.apply()
    assert outcome.exit_code == Exit.DONE
