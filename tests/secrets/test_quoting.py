"""Errors about a line with a secret do not repeat the secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuplan.planfile.load import load_plan
from gpuplan.secrets.redact import redact_quoted_secrets
from gpuplan.types.diagnostic import Problem


def test_a_syntax_error_inside_a_secret_shows_none_of_its_characters(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text("version: 1\nname: p\npassword: %hunter2\n")
    with pytest.raises(Problem) as caught:
        load_plan(str(path), environ={})
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.where is not None
    assert "looks like a secret" in redact_quoted_secrets(diagnostic).detail
    assert redact_quoted_secrets(diagnostic).fix == ""
