"""The version in which an engine is spoken to, from Docker 19.03 to 29, on the operator's side and the node's."""

from __future__ import annotations

import pytest

from gpuplan.agent import docker
from gpuplan.transport.docker_client import api_version
from gpuplan.types.diagnostic import Exit, Problem


@pytest.mark.parametrize(
    ("newest", "oldest", "chosen"),
    [
        ("1.40", "1.12", "1.40"),
        ("1.41", "1.12", "1.41"),
        ("1.43", "1.12", "1.43"),
        ("1.44", "1.24", "1.44"),
        ("1.52", "1.44", "1.44"),
        ("1.60", "1.50", "1.50"),
        ("1.41", "1.24", "1.41"),
        ("1.47", None, "1.44"),
    ],
)
def test_the_newest_that_both_know(newest: str, oldest: str | None, chosen: str) -> None:
    about = {"Version": "x", "ApiVersion": newest, "MinAPIVersion": oldest}
    assert api_version("n", about) == chosen
    assert docker.api_prefix(about) == f"/v{chosen}"


@pytest.mark.parametrize("about", [{}, {"ApiVersion": None}, {"ApiVersion": "latest"}, {"ApiVersion": "1"}])
def test_what_says_no_version_is_no_docker_engine(about: dict[str, object]) -> None:
    with pytest.raises(Problem, match="Not a Docker engine") as caught:
        api_version("n", about)
    assert caught.value.exit_code is Exit.UNREAD
    assert docker.api_prefix(about) == ""


def test_an_engine_that_is_too_old_is_told_with_its_version() -> None:
    with pytest.raises(Problem, match=r"18\.09\.9 has API 1\.39; gpuplan needs 1\.40"):
        api_version("n", {"Version": "18.09.9", "ApiVersion": "1.39", "MinAPIVersion": "1.12"})
