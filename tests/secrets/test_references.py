"""Secrets by reference."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuplan.secrets import references
from gpuplan.secrets.references import find_references, resolve, resolve_references, secret_warnings
from gpuplan.types.diagnostic import Problem, Severity
from tests.plan_files import PlanOf

PLAN = """
containers:
  c:
    nodes: a
    image: x
    env: { A: "key=${env:KEY};${file:token}", B: plain, C: "${env:KEY}", D: 5 }
  d: { nodes: a, image: x, env: { A: "${file:sub/none}", B: "${env:GONE}", C: "${env:GONE}" } }
"""


def test_references_are_found_where_they_stand(plan_of: PlanOf) -> None:
    found = find_references(plan_of(PLAN))
    assert [(raw, where.line) for raw, where in found] == [
        ("key=${env:KEY};${file:token}", 8),
        ("${env:KEY}", 8),
        ("${file:sub/none}", 9),
        ("${env:GONE}", 9),
        ("${env:GONE}", 9),
    ]


def test_texts_are_revealed_and_never_shown(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("ab$c\n\n")
    raw = "key=${env:KEY};${file:token}"
    secret = resolve_references([raw], {"KEY": "${env:x}"}, tmp_path)[raw]
    assert secret.reveal() == "key=${env:x};ab$c\n"
    assert "ab$c" not in repr(secret) + str(secret)


def test_everything_missing_is_told_with_its_place(plan_of: PlanOf, tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"\xff")
    with pytest.raises(Problem) as caught:
        resolve(plan_of(PLAN), {"KEY": "top"}, tmp_path)
    assert [(one.detail, one.where.line if one.where else 0) for one in caught.value.diagnostics] == [
        ("The file token is not UTF-8 text, or its name is none.", 8),
        ("The file sub/none cannot be read: No such file or directory.", 9),
        ("The environment variable GONE is not set.", 9),
    ]
    assert "top" not in str(caught.value)


def test_a_file_that_is_too_large_or_a_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * (1024 * 1024 + 1))
    (tmp_path / "nul").write_bytes(b"a\0b")
    with pytest.raises(Problem) as caught:
        resolve_references(["${file:large}", "${file:.}", "${file:nul}"], {}, tmp_path)
    assert [
        "larger" in one.detail or "directory" in one.detail or "NUL" in one.detail for one in caught.value.diagnostics
    ] == [True] * 3


def test_a_file_that_all_may_read_is_warned_of(plan_of: PlanOf, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("x")
    token.chmod(0o600)
    plan = plan_of(PLAN)
    assert secret_warnings(plan, tmp_path, {"KEY": "k"}) == ()
    token.chmod(0o644)
    (warning,) = secret_warnings(plan, tmp_path, {"KEY": "k"})
    assert (warning.severity, warning.fix) == (Severity.WARNING, "chmod o-rwx token")


@pytest.mark.parametrize("content", ["", "\n", " \n"])
def test_an_empty_secret_is_warned_of_once(plan_of: PlanOf, tmp_path: Path, content: str) -> None:
    (tmp_path / "token").write_text(content)
    (tmp_path / "token").chmod(0o600)
    warnings = secret_warnings(plan_of(PLAN), tmp_path, {"KEY": "", "GONE": "x"})
    assert [(each.severity, each.summary, each.detail) for each in warnings] == [
        (
            Severity.WARNING,
            "A secret is empty",
            f"The {what} holds nothing, and that is what the container would get.",
        )
        for what in ("environment variable KEY", "file token")
    ]


def reveal_one(reference: str, folder: Path) -> str:
    return resolve_references([reference], {"PATH": "/usr/bin:/bin"}, folder)[reference].reveal()


def test_a_command_runs_in_the_folder_of_the_plan_file_without_a_shell(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("tok-$(id)\n")
    assert reveal_one("Bearer ${cmd:cat token}", tmp_path) == "Bearer tok-$(id)"
    assert reveal_one("${cmd:echo 'a  b' ; id > x}", tmp_path) == "a  b ; id > x"
    assert not (tmp_path / "x").exists()


def test_a_command_runs_once(tmp_path: Path) -> None:
    reference = "${cmd:sh -c 'echo ran >> times; echo secret-of-it'}"
    texts = {reveal_one(each, tmp_path) for each in (reference, f"x{reference}", reference)}
    assert texts == {"secret-of-it", "xsecret-of-it"}
    assert (tmp_path / "times").read_text() == "ran\n"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("sh -c 'echo s3cret; echo s3cret >&2; exit 3'", "ended with exit code 3"),
        ("no-such-program", "cannot be run: No such file or directory"),
        ("true", "wrote nothing"),
        ("sh -c 'kill $$'", "ended with exit code -15"),
        ("cat /dev/zero", "writes more than 1 MiB"),
        ("printf '\\000s3cret'", "is not UTF-8 text that an environment takes"),
        ("echo 's3cret", "No closing quotation"),
    ],
)
def test_a_command_that_fails_is_told_without_what_it_said(command: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(Problem) as caught:
        reveal_one(f"${{cmd:{command}}}", tmp_path)
    (one,) = caught.value.diagnostics
    assert told in one.detail
    assert "s3cret" not in one.detail.replace(command, "").replace(repr(command), "")
    assert caught.value.__cause__ is None


def test_a_command_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert reveal_one("${cmd:sh -c 'sleep 60 & echo of-an-agent'}", tmp_path) == "of-an-agent"
    monkeypatch.setattr(references, "PATIENCE", 0.2)
    with pytest.raises(Problem, match=r"took longer than 0\.2 s"):
        reveal_one("${cmd:sleep 60}", tmp_path)
    with pytest.raises(Problem, match=r"took longer than 0\.2 s"):
        reveal_one("${cmd:sh -c 'while echo; do sleep 0.01; done'}", tmp_path)
    with pytest.raises(Problem, match=r"took longer than 0\.2 s"):
        reveal_one("${cmd:sh -c 'exec >&-; sleep 60'}", tmp_path)


def test_each_reference_is_there_by_itself_to_be_looked_for(tmp_path: Path) -> None:
    found = resolve_references(["Bearer ${env:TOKEN}"], {"TOKEN": "tok-1234"}, tmp_path)
    assert {name: each.reveal() for name, each in found.items()} == {
        "Bearer ${env:TOKEN}": "Bearer tok-1234",
        "${env:TOKEN}": "tok-1234",
    }
