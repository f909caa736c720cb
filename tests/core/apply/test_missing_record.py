"""A node without a record: lost where containers of the plan file are there, and not where only a copy of one is."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.core.apply.record import missing_record_warning
from gpuplan.types.resource import Record
from tests.resources.container.node import snapshot

OURS = {"gpuplan.plan": "prod", "gpuplan.name": "web", "gpuplan.digest": "d1"}
IMAGES: list[dict[str, Any]] = [{"tags": ["lab/pause:1"]}, {"tags": ["debug:1"], "config": {"Labels": OURS}}]


@pytest.mark.parametrize(
    ("container", "lost"),
    [
        ({"name": "web", "plan": "prod"}, True),
        ({"name": "web", "plan": "other"}, False),
        ({"name": "look", "image": "debug:1", "plan": ""}, False),
    ],
)
def test_whose_containers_tell_of_a_record(container: dict[str, Any], lost: bool) -> None:
    told = missing_record_warning(snapshot([container], IMAGES), Record("prod"))
    assert (told is not None) is lost
