"""Where a model server takes its models from: what is right, one spelling of it, and what a bucket needs."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplan.planfile.sources.repositories import canonical, is_remote, missing_variables, on_node, repository_problem

RIGHT = [
    "local",
    "/mnt/nfs/models",
    "s3://models/prod",
    "s3://https://minio.example:9000/models/prod",
    "s3://http://10.0.0.7:9000/models/prod",
    "s3://10.0.0.7:9000/models",
    "gs://models/prod-2",
    "as://account/box/prod",
]


@pytest.mark.parametrize("repository", RIGHT)
def test_what_triton_takes_is_right(repository: str) -> None:
    assert repository_problem(repository) is None


@pytest.mark.parametrize(
    "repository", ["/", "//", "/gpuplan/", "//gpuplan", "/var/lib/gpuplan", "//var/lib/gpuplan/blobs/00"]
)
def test_what_holds_no_models_or_is_gpuplan_s_own_is_refused(repository: str) -> None:
    told = repository_problem(repository)
    assert told is not None
    assert "cannot be a model repository" in told[0]


def test_one_directory_has_one_spelling() -> None:
    assert canonical("/mnt//models/") == canonical("//mnt/models") == "/mnt/models"
    assert canonical("s3://models/prod/") == "s3://models/prod"


@pytest.mark.parametrize(
    ("repository", "env", "missing"),
    [
        ("local", {}, ()),
        ("/mnt/models", {}, ()),
        ("s3://m", {}, ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION")),
        ("s3://m", {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}, ("AWS_DEFAULT_REGION",)),
        ("s3://m", {"AWS_PROFILE": "p", "AWS_DEFAULT_REGION": "r"}, ()),
        ("s3://m", {"TRITON_CLOUD_CREDENTIAL_PATH": "/c.json"}, ()),
        ("gs://m", {}, ("GOOGLE_APPLICATION_CREDENTIALS",)),
        ("as://account/m", {"AZURE_STORAGE_ACCOUNT": "a"}, ("AZURE_STORAGE_KEY",)),
    ],
)
def test_what_a_bucket_needs_is_named(repository: str, env: Mapping[str, str], missing: tuple[str, ...]) -> None:
    assert missing_variables(repository, env) == missing


@given(st.text(alphabet="/.:,a@s3g-_ \x00", max_size=20))
def test_nothing_leads_out_of_a_repository(text: str) -> None:
    for repository in (text, f"s3://{text}", f"gs://b{text}", f"as://account/{text}", f"/mnt{text}"):
        if repository_problem(repository) is None and is_remote(repository):
            assert ".." not in repository.split("/")
            assert "\x00" not in repository
            assert on_node(repository) or "@" not in repository.split("/")[2]
