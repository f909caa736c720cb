"""Model servers that their container's own command starts: what is rendered for them, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.planfile.schema import PlanFile
from gpuplan.resources.container.create_body import Owner, create_body
from gpuplan.resources.container.kind import CONTAINER
from gpuplan.resources.container.server import is_managed
from gpuplan.resources.container.spec import from_json
from gpuplan.resources.repository import REPOSITORY as REPOSITORIES
from gpuplan.types.inventory import Host

EXPLICIT = ("tritonserver", "--model-repository=/models", "--model-control-mode=explicit")


def plan(**stated: Any) -> PlanFile:
    whole = {
        "nodes": "all",
        "image": "nvcr.io/nvidia/tritonserver:24.10-py3",
        "triton": {"repository": "own"},
        **stated,
    }
    return PlanFile(version=1, name="own", containers={"tr": whole})


@pytest.mark.parametrize(
    ("words", "managed"),
    [
        (EXPLICIT, True),
        (("tritonserver", "--model-control-mode", "explicit", "--http-port", "8000"), True),
        (("sh", "-c", "exec tritonserver --model-control-mode=explicit"), True),
        (("tritonserver", "--model-repository=/models"), False),
        (("tritonserver", "--model-control-mode=poll"), False),
        (("tritonserver", "--model-control-mode"), False),
        ((*EXPLICIT, "--http-port=9000"), False),
        ((), False),
    ],
)
def test_which_commands_can_be_managed(words: tuple[str, ...], managed: bool) -> None:
    assert is_managed(words) is managed


def test_nothing_is_rendered_and_nothing_brought() -> None:
    found = plan(command=EXPLICIT, volumes=["/srv/models:/models"])
    (desired,), faults = CONTAINER.desired(found, Host("n"))
    assert (list(faults), desired.needs) == ([], ())
    body = create_body(from_json(desired.spec), Owner("own", "tr", "d"), [], {}, "/nowhere")
    assert body["Cmd"] == list(EXPLICIT)
    assert body["HostConfig"]["Binds"] == ["/srv/models:/models"]
    assert body["Labels"]["gpuplan.triton"] == "8000"
    assert list(REPOSITORIES.desired(found, Host("n"))[0]) == []


@pytest.mark.parametrize(
    ("stated", "summary"),
    [
        ({"command": ["tritonserver", "--model-repository=/m"]}, "Cannot manage the models of this server"),
        ({"command": EXPLICIT, "triton": {"repository": "own", "cache": "1MiB"}}, "Setting without effect"),
        ({"command": EXPLICIT, "triton": {"repository": "own", "flags": {}}}, "Setting without effect"),
    ],
)
def test_what_has_no_effect_is_refused(stated: dict[str, Any], summary: str) -> None:
    _, faults = CONTAINER.desired(plan(**stated), Host("n"))
    assert [each.summary for each in faults] == [summary]
