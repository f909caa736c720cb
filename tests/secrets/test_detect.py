"""Which part of a line looks like a secret."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplan.secrets.detect import hide_from, secret_start, secret_starts, secret_words

HIDDEN = [
    "ansible_password: ~S3",
    "ansible_password=~S3",
    "  - password: ~S3",
    "'password': ~S3",
    "PASSWD = ~S3",
    "{ user: x, pass: ~S3, port: 1 }",
    "h ansible_port=1 ansible_become_pass=~S3 x=1",
    "NGC_API_KEY: ~S3",
    "apiKey: ~S3",
    "AWS_ACCESS_KEY_ID: ~S3",
    "secret: ~S3",
    "client-secret: ~S3",
    'private_key: ~"S3',
    "HF_TOKEN: ~S3",
    "tokenValue: ~S3",
    'command: ["--password", ~"S3", x]',
    "command: run --token ~S3",
    "Authorization: ~Bearer S3",
    "url: https://~u:S3@host/x",
    "x: ~nvapi-S3",
    "x: ~hf_S3abcdefgh",
    "x: ~-----BEGIN RSA PRIVATE KEY-----S3",
    'DB_PASSWORD: ~"${var.x}S3"',
    'A_TOKEN: "${env:A}", B_TOKEN: ~S3',
]
SHOWN = [
    "models: { tokenizer: { source: models/tokenizer } }",
    "ansible_ssh_private_key_file: ~/.ssh/id",
    'env: { NGC_API_KEY: "${env:NGC_API_KEY}", X: 1 }',
    "env: { NGC_API_KEY: ${NGC} }",
    "image: nvcr.io/nvidia/tritonserver:24.10-py3",
    "ansible_host_key_checking: false",
    "key: value",
    "author: somebody",
    "ansible_password:",
]


@pytest.mark.parametrize("line", HIDDEN)
def test_a_line_is_hidden_from_its_first_secret_on(line: str) -> None:
    before, _, after = line.partition("~")
    assert hide_from(before + after, secret_start(before + after)) == f"{before}(sensitive)"
    assert any("S3" in word for word in secret_words(before + after))


@pytest.mark.parametrize("line", SHOWN)
def test_what_only_sounds_like_it_is_shown(line: str) -> None:
    assert secret_start(line) is None


BLOCKS = {
    "block": ("password: |", "  !a", "", "  !b", "x: 1"),
    "folded with a comment": ("password: > # why", "  !a", "x: 1"),
    "plain over lines": ("password: a", "  !b", "x: 1"),
    "on the next line": ("DB_PASSWORD_PROD:", "  !a", "  !b", "x: 1"),
    "tagged": ("  password: !vault |", "    !a", "  x: 1"),
    "section": ("secrets:", "  !a: b", "  !c:", "    !d: e", "x: 1"),
    "list": ("- tokens:", "  !- a", "  !- b", "- x: 1"),
    "brackets": ("a: { tokens: [ a,", "!b, [ c,", "!d ],", "!e ],", "x: 1 }"),
    "quote": ('a: { password: "a', "!b", '!c", x: 1,', "y: 2 }"),
    "armour": ("x: |", "  !-----BEGIN KEY-----", "!a", "!-----END KEY-----", "y: 1"),
    "a container called so": ("token-server:", "  image: x", "  gpus: [a]"),
    "a comment": ("# the secret is elsewhere", "  image: x"),
}


@pytest.mark.parametrize("lines", BLOCKS.values(), ids=BLOCKS)
def test_lines_over_which_a_secret_goes_on_are_hidden_altogether(lines: tuple[str, ...]) -> None:
    plain = [line.replace("!", "", 1) if line.lstrip().startswith("!") else line for line in lines]
    found = [
        start is not None and not line[:start].strip() for line, start in zip(plain, secret_starts(plain), strict=True)
    ]
    assert [each for line, each in zip(plain, found, strict=True) if line] == [
        line.lstrip().startswith("!") for line in lines if line
    ]


@given(st.lists(st.text(alphabet="ab\"'[]{}|>:=-!#\\ \tpasswordtoken", max_size=40), max_size=8))
def test_every_line_gets_an_answer_within_it(lines: list[str]) -> None:
    for line, start in zip(lines, secret_starts(lines), strict=True):
        assert start is None or 0 <= start <= len(line)


def test_a_long_line_is_looked_at_in_time() -> None:
    for unit in ("a", "a.", "token_", "-_", "://a:", "${"):
        assert secret_words(unit * 200_000) is not None
