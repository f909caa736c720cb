"""No writing of a secret passes: as it is, as JSON or Python or an address has it, and of several lines each."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from gpuplan.secrets.redact import redact_diagnostic, redactor
from gpuplan.types.diagnostic import Diagnostic
from gpuplan.types.value import SENSITIVE, Secret

TOKEN = 'tok "é"\\n/1 x'
KEY = "-----BEGIN KEY-----\nMIIEvAIBADANBg\nq3\n-----END KEY-----\n"


@pytest.mark.parametrize(
    "said", [TOKEN, json.dumps(TOKEN), json.dumps(TOKEN, ensure_ascii=False), repr(TOKEN), quote(TOKEN, safe="")]
)
def test_every_writing_of_a_secret_is_hidden(said: str) -> None:
    redact = redactor([Secret("${env:T}", TOKEN)])
    assert "tok" not in redact(f"a {said} b")
    told = redact_diagnostic(Diagnostic("s", f"it has {said}", said), redact)
    assert SENSITIVE in told.detail
    assert "tok" not in told.detail + told.fix


def test_each_longer_line_of_a_secret_is_hidden() -> None:
    redact = redactor([Secret("${file:k}", KEY)])
    assert redact("bad line: MIIEvAIBADANBg!") == f"bad line: {SENSITIVE}!"
    assert redact(KEY) == SENSITIVE
    assert redact(f"x {' '.join(KEY.split())} y") == f"x {SENSITIVE} y"


def test_a_word_of_two_letters_hides_nothing() -> None:
    assert redactor([Secret("${env:S}", "on")])("container on node") == "container on node"
