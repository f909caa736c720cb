"""Environment files as data (envfiles.yaml)."""

from pathlib import Path

import pytest
import yaml

from gpuplan.convert.systemd.envfile import with_variables

CASES = yaml.safe_load((Path(__file__).parent / "envfiles.yaml").read_text("utf-8"))


@pytest.mark.parametrize("case", CASES, ids=[case["about"] for case in CASES])
def test_one_variable_changes_and_nothing_else(case: dict[str, object]) -> None:
    after = with_variables(str(case["before"]), case["set"])  # type: ignore[arg-type]
    assert after == case["after"]
    assert with_variables(after, case["set"]) == after  # type: ignore[arg-type]


@pytest.mark.parametrize("changes", [{"1A": "x"}, {"A B": "x"}, {"": "x"}, {"Ä": "x"}, {"A": "x\ny"}, {"A": "x\0"}])
def test_what_no_such_file_can_hold_is_refused(changes: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="environment"):
        with_variables("", changes)
