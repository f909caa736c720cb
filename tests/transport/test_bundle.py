"""What travels: small, self-sufficient, and at home on any Python since 3.8."""

import ast
import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from gpuplan.transport import bundle
from gpuplan.types.inventory import Host

BUDGET = 120 * 1024


SUPPORTED = (sys.executable, "python3.8", "python3.9", "python3.10", "python3.12", "python3.13")
TOO_OLD = ("python2.7", "python3.6", "python3.7")


@pytest.fixture
def python(request: pytest.FixtureRequest) -> str:
    """A Python of this machine; a version switcher may have a name without one behind it."""
    path = shutil.which(request.param)
    if path is None or subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode:
        pytest.skip(f"there is no {request.param} here")
    return str(request.param)


def start(python: str, requests: bytes, root: Path) -> list[dict[str, object]]:
    """Run the agent as a node would: no site-packages, no environment, everything over standard input."""
    process = subprocess.Popen(
        [python, "-I", "-S", "-c", bundle.LOADER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"GPUPLAN_ROOT": str(root), "PATH": os.environ["PATH"]},
        cwd=root,
    )
    process.stdin.write(bundle.agent_program())
    process.stdin.flush()
    hello = process.stdout.readline()
    answers, complaint = process.communicate(requests, timeout=30)
    assert complaint == b""
    assert process.returncode == 0
    return [json.loads(line) for line in [hello, *answers.splitlines()]]


def test_the_bundle_stays_small() -> None:
    assert len(bundle.agent_program()) < BUDGET


def test_the_bundle_holds_the_agent_and_pynvml_alone() -> None:
    names = zipfile.ZipFile(io.BytesIO(bundle.agent_bundle())).namelist()
    assert "pynvml.py" in names
    assert "gpuplan_agent/agent.py" in names
    assert not [name for name in names if not name.startswith("gpuplan_agent/") and name != "pynvml.py"]


@pytest.mark.parametrize("python", SUPPORTED, indirect=True)
def test_it_answers_on_a_bare_python(python: str, tmp_path: Path) -> None:
    put = {"op": "blob.put", "digest": "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"}
    requests = [
        json.dumps({"op": "ask", "probes": ["host", "gpu", "record"], "plan": "p", "deadlines": {}}).encode(),
        b"",
        json.dumps({**put, "size": 5, "offset": 0, "last": True, "body": 5}).encode() + b"\nhello" + b"{}",
    ]
    hello, answer, stored, nonsense = start(python, b"\n".join(requests) + b"\n", tmp_path)
    assert hello["hello"] == "gpuplan-agent"
    assert answer["ok"]["probes"]["host"]["value"]["python"] == hello["python"]
    assert answer["ok"]["probes"]["gpu"]["error"]["code"] in ("no_library", "no_driver")
    assert answer["ok"]["probes"]["record"]["value"] is None
    assert stored == {"ok": {}}
    assert nonsense["error"]["code"] == "invalid"


def test_modules_that_lie_where_it_starts_are_not_imported(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('taken over')")
    hello, *_ = start(sys.executable, b"", tmp_path)
    assert hello["hello"] == "gpuplan-agent"


@pytest.mark.parametrize("python", TOO_OLD, indirect=True)
def test_a_python_that_is_too_old_is_reported_as_such(python: str) -> None:
    done = subprocess.run(
        [python, "-E", "-s", "-S", "-c", bundle.LOADER], input=bundle.agent_program(), capture_output=True, check=False
    )
    version = python.removeprefix("python")
    assert json.loads(done.stdout)["too_old"].startswith(version), done.stderr


def test_the_command_runs_under_sudo_where_the_inventory_says_so() -> None:
    plain = bundle.command(Host("n"), become=False)
    assert plain[:3] == ["env", "LC_ALL=C", "python3"]
    assert bundle.command(Host("n", python="/opt/py thon"), become=True)[2:6] == ["sudo", "-n", "--", "/opt/py thon"]
    assert bundle.command(Host("n", python="auto_silent"), become=False) == plain


@pytest.mark.parametrize(
    "path", sorted(bundle.AGENT.rglob("*.py")), ids=lambda path: str(path.relative_to(bundle.AGENT))
)
def test_it_parses_on_the_oldest_python(path: Path) -> None:
    ast.parse(path.read_text(), feature_version=(3, 8))
