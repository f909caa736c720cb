"""The JSON of all documents: the fields that docs/json.md describes, and the same change everywhere."""

from __future__ import annotations

import json
import re
from pathlib import Path

from gpuplan.output import json as documents
from gpuplan.output import json as parts
from gpuplan.output.json import change_set_document as save
from gpuplan.output.json import json_text
from gpuplan.output.json import smoke_document as smoked
from tests.output import examples
from tests.output.examples import change_set_of

DOCS = Path(__file__).parents[2] / "docs" / "json.md"
CHANGES = change_set_of(examples.NODE, examples.QUIET, examples.UNREAD_NODE)


def keys(value: object) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*(keys(each) for key, each in value.items() if key not in ("desired", "rests_on")))
    return set().union(*(keys(each) for each in value)) if isinstance(value, list) else set()


def test_every_field_is_documented() -> None:
    named = set(re.findall(r"[a-z_0-9]+", " ".join(re.findall(r"`([^`]*)`", DOCS.read_text()))))
    for document in (
        save(CHANGES),
        documents.outcomes_document(CHANGES, examples.OUTCOMES + examples.NOT_CONVERGED),
        documents.drift_document(examples.REPORT),
        smoked("prod", examples.PROOFS),
    ):
        assert keys(json.loads(json_text(document))) - named == set()


def test_a_change_looks_the_same_in_a_change_set_and_in_a_report() -> None:
    saved = save(change_set_of(examples.NODE))["nodes"][0]["changes"]
    for change, written in zip(examples.NODE.changes, saved, strict=True):
        assert parts.change_json(change).items() <= written.items()


def test_outcomes_in_full() -> None:
    first = json.loads(json_text(documents.outcomes_document(CHANGES, examples.OUTCOMES)))["nodes"][0]
    assert first["exit_code"] == 1
    assert [step["status"] for step in first["steps"]] == ["done", "failed", "skipped"]
    assert first["steps"][1]["transcript"] == ["loading", "server says:\n  failed to load\n  \x1b[2Jpoll"]
    assert first["steps"][1]["diagnostics"][0]["address"] == "gpu-a1/model/triton-cls/tokenizer"


def test_a_report_in_full() -> None:
    report = json.loads(json_text(documents.drift_document(examples.REPORT)))
    first, second, third, fourth = report["nodes"]
    assert (report["kind"], report["format"], report["seconds"]) == ("gpuplan drift report", 1, 0.42)
    assert first["drift"][0]["change"]["fields"][0]["before"] == "exited"
    assert first["drift"][0]["dependants"] == ["gpu-a1/model/triton-cls/tokenizer"]
    assert (first["pending"], first["suppressed"]) == (["gpu-a1/gpu/a100-0"], 1)
    assert second["drift"] == second["unmanaged"] == second["unknown"] == []
    assert third["unknown"][0]["address"] == "gpu-t1/node/connection"
    assert fourth["busy"] == "ops@bastion (run 77)"
