"""A secret is in its container's environment and nowhere else: not in what any command writes, keeps or sends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PLAN = """
version: 1
name: prod
containers:
  web:
    nodes: all
    image: busybox
    command: [sleep, infinity]
    stop_timeout: 0
    env:
      A: "${env:CANARY}"
      B: "Bearer ${file:token}"
      C: "${cmd:cat word}"
"""
FAILS = "      D: \"${cmd:sh -c 'cat word; cat word >&2; exit 3'}\"\n"
INVENTORY = "all: { hosts: { n1: { ansible_connection: simulated, gpuplan_simulated: { gpus: [A30] } } } }\n"
SECRETS = ("canary-env-1", 'canary-file-"2"', "canary-word-3", "canary-env-4")


def gpuplan(folder: Path, *words: str, canary: str) -> int:
    """One command; what it writes is kept in a file of the folder."""
    environ = {**os.environ, "CANARY": canary, "GPUPLAN_STATE_DIR": str(folder / "state"), "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "gpuplan", *words], cwd=folder, env=environ, capture_output=True, check=False, timeout=60
    )
    written = folder / "said" / f"{len(list((folder / 'said').iterdir()))}-{words[0]}"
    written.write_bytes(done.stdout + done.stderr)
    return done.returncode


def holders(folder: Path, secret: str) -> set[str]:
    """Files below the folder that hold a secret."""
    files = [each for each in folder.rglob("*") if each.is_file()]
    forms = {secret.encode(), secret.replace('"', '\\"').encode()}
    return {str(each.relative_to(folder)) for each in files if any(form in each.read_bytes() for form in forms)}


def test_a_secret_is_nowhere_but_in_its_container(tmp_path: Path) -> None:
    (tmp_path / "said").mkdir()
    (tmp_path / "token").write_text(SECRETS[1])
    (tmp_path / "word").write_text(SECRETS[2])
    plan, inventory = tmp_path / "plan.yaml", tmp_path / "inv.yaml"
    inventory.write_text(INVENTORY)
    both = ("plan.yaml", "-i", "inv.yaml")
    plan.write_text(PLAN + FAILS)
    assert gpuplan(tmp_path, "plan", *both, canary=SECRETS[0]) == 1
    plan.write_text(PLAN)
    assert gpuplan(tmp_path, "plan", *both, "--out", "cs.json", canary=SECRETS[0]) == 0
    assert gpuplan(tmp_path, "apply", "cs.json", "--auto-approve", canary=SECRETS[0]) == 0
    assert gpuplan(tmp_path, "drift-check", *both, "--json", canary=SECRETS[0]) == 0
    assert gpuplan(tmp_path, "drift-check", *both, canary=SECRETS[3]) == 3
    assert gpuplan(tmp_path, "plan", *both, "--json", canary=SECRETS[3]) == 0
    assert gpuplan(tmp_path, "apply", *both, "--auto-approve", "--json", canary=SECRETS[3]) == 0
    state = "state/simulated/n1/state.json"  # the engine's own memory of the container
    assert holders(tmp_path, SECRETS[0]) <= {state}
    assert holders(tmp_path, SECRETS[1]) == {"token", state}
    assert holders(tmp_path, SECRETS[2]) == {"word", state}
    assert holders(tmp_path, SECRETS[3]) == {state}
