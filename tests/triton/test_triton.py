"""Triton releases by image tag, and what each takes on its command line."""

from __future__ import annotations

import pytest

from gpuplan.triton.releases import TritonRelease, cache_flag, flag_error, flags, rejects, release_of


@pytest.mark.parametrize(
    ("image", "release"),
    [
        ("nvcr.io/nvidia/tritonserver:24.10-py3", TritonRelease("24.10", "2.51.0")),
        ("lab/tritonserver:24.10-py3", TritonRelease("24.10", "2.51.0")),
        ("localhost:5000/tritonserver:25.02-vllm-python-py3@sha256:ab", TritonRelease("25.02", "2.55.0")),
        ("nvcr.io/nvidia/tritonserver:25.02", TritonRelease("25.02", "2.55.0")),
        ("nvcr.io/nvidia/tritonserver:31.01-py3", TritonRelease("31.01", "")),
        ("nvcr.io/nvidia/tritonserver:24.1-py3", None),
        ("nvcr.io/nvidia/tritonserver:24.100", None),
        ("localhost:5000/tritonserver", None),
        ("tritonserver@sha256:24.10", None),
        ("tritonserver", None),
    ],
)
def test_the_release_of_an_image(image: str, release: TritonRelease | None) -> None:
    assert release_of(image) == release


def release(name: str) -> TritonRelease:
    found = release_of(f"tritonserver:{name}-py3")
    assert found
    return found


def test_a_flag_that_never_was_is_answered_with_the_nearest() -> None:
    objection = flag_error("rate-limiter", None)
    assert objection
    assert (objection.fatal, objection.fix) == (True, "--rate-limit")


def test_a_flag_that_came_later() -> None:
    objection = flag_error("cache-config", release("22.12"))
    assert objection
    assert (objection.fatal, objection.why) == (True, "it came with 23.03, and the image is 22.12")
    assert flag_error("cache-config", release("23.03")) is None


def test_a_flag_that_was_removed() -> None:
    objection = flag_error("api-version", release("24.10"))
    assert objection
    assert objection.fatal


def test_a_deprecated_flag_is_still_taken() -> None:
    objection = flag_error("response-cache-byte-size", release("24.10"))
    assert objection
    assert not objection.fatal
    assert "cache-config" in objection.fix
    assert flag_error("response-cache-byte-size", release("23.02")) is None


def test_nothing_is_held_against_a_known_flag_where_the_release_is_not_known() -> None:
    assert flag_error("response-cache-byte-size", None) is None


@pytest.mark.parametrize(
    ("name", "flag"),
    [
        ("23.02", "--response-cache-byte-size=1048576"),
        ("23.03", "--cache-config=local,size=1048576"),
        ("24.10", "--cache-config=local,size=1048576"),
    ],
)
def test_the_cache_has_the_flag_of_the_release(name: str, flag: str) -> None:
    assert cache_flag(1 << 20, release(name)) == flag


def test_values_have_the_type_of_their_flag() -> None:
    assert rejects(flags()["log-verbose"], 1) == ""
    assert rejects(flags()["log-verbose"], "x") == "takes a whole number"
    assert rejects(flags()["strict-readiness"], False) == ""
    assert rejects(flags()["strict-readiness"], "maybe") == "takes true or false"
    assert rejects(flags()["metrics-interval-ms"], "2.5") == ""
    assert rejects(flags()["rate-limit"], "execution_count") == ""


def test_every_flag_is_of_a_known_type() -> None:
    assert {flag.takes for flag in flags().values()} == {"none", "text", "integer", "number", "bool"}
