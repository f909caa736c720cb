"""What looks like a secret in a file is never told of, however it is written and whatever else is wrong beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import Command

PLAN = "version: 1\nname: a\n"
SECRET = "S3CRETpw"

INVENTORIES = {
    "plain": "all:\n  hosts:\n    a: { }\n  vars:\n    ansible_password: S3CRETpw\n",
    "single quotes": "all:\n  hosts: { a: }\n  vars:\n    ansible_password: 'S3CRETpw x'\n    ansible_port: many\n",
    "in a flow": "all: { hosts: { a: { ansible_password: S3CRETpw, ansible_port: many } } }\n",
    "double quotes in a flow": 'all: { hosts: { a: { "ansible_password": "S3\\"CRETpw", ansible_port: many } } }\n',
    "over two lines": 'all: { hosts: { a: { ansible_password:\n"S3CRETpw", ansible_port: many } } }\n',
    "a quote over lines": 'all: { hosts: { a: { ansible_password: "x\nS3CRETpw", ansible_port: many } } }\n',
    "as a tag": "all: { hosts: { a: { ansible_password: !S3CRETpw x } } }\n",
    "as an integer": "all: { hosts: { a: { ansible_password: !!int S3CRETpw } } }\n",
    "as an alias": "all: { hosts: { a: { ansible_password: *S3CRETpw } } }\n",
    "a syntax error in it": "all:\n  vars:\n    ansible_password: S3CRETpw: x\n",
    "a syntax error at its beginning": "all:\n  vars:\n    ansible_password: @S3CRETpw\n",
    "an escape in it": 'all:\n  vars:\n    ansible_password: "\\S3CRETpw"\n',
    "a block": "all:\n  vars:\n    ansible_ssh_private_key: |\n      S3CRETpw\n    \tS3CRETpw\n",
    "a key": "all:\n  vars:\n    x: |\n      -----BEGIN KEY-----\n     S3CRETpw\n   : S3CRETpw\n",
    "a list": "all:\n  vars:\n    passwords:\n    - S3CRETpw\n    - S3CRETpw: : x\n",
    "twice": "all:\n  vars:\n    ansible_password: S3CRETpw\n    ansible_password: S3CRETpw\n",
    "a host called so": "all: { hosts: { a: { api_key: S3CRETpw }, 'b/c': { token: S3CRETpw } } }\n",
    "an unknown key": "all: { hosts: { a: }, secret: S3CRETpw }\n",
    "an address": "all: { hosts: { a: { url: 'https://u:S3CRETpw@h', ansible_port: many } } }\n",
    "refused beside it": "all: { hosts: { a: { ansible_become_pass: S3CRETpw, ansible_ssh_args: -x } } }\n",
}
INI = {
    "another is wrong": "a ansible_become_pass=S3CRETpw ansible_port=many\n",
    "another is wrong before it": "a ansible_port=many ansible_become_pass=S3CRETpw\n",
    "in quotes": "a ansible_password='x S3CRETpw' ansible_port=many\n",
    "of two words": "a ansible_password=x S3CRETpw\n",
    "with blanks around": "a ansible_password = S3CRETpw\n",
    "not closed": "a ansible_password='S3CRETpw\n",
    "without equals": "a\n[all:vars]\nansible_password: S3CRETpw\n",
    "as a host": "ansible_password: S3CRETpw\n",
    "as a child": "a\n[b:children]\nansible_password = S3CRETpw\n",
    "short": "a ansible_password=x q7\n",
}
PLANS = {
    "plain": "{ NGC_API_KEY: S3CRETpw, B: [1] }",
    "quoted": '{ NGC_API_KEY: "S3CRETpw", B: [1] }',
    "itself wrong": "{ HF_TOKEN: { S3CRETpw: 1 } }",
    "a bad reference": '{ DB_PASSWORD: "S3CRETpw${x}S3CRETpw" }',
    "a name that is none": "{ 'a b': 1, AWS_ACCESS_KEY: S3CRETpw }",
    "in camel case": "{ dbPassword: S3CRETpw, B: [1] }",
    "known by its form": "{ X: nvapi-S3CRETpw, B: [1] }",
}


def nothing_of_it(command: Command, *argv: str) -> None:
    for ran in (command(*argv), command(*argv, "--json")):
        assert ran.code in (0, 1)
        for part in (SECRET, "S3", "CRET", "Tpw", "q7"):
            assert part not in ran.out + ran.err


@pytest.mark.parametrize("text", INVENTORIES.values(), ids=INVENTORIES)
def test_in_a_yaml_inventory(command: Command, text: str) -> None:
    Path("plan.yaml").write_text(PLAN)
    Path("inv.yaml").write_text(text)
    nothing_of_it(command, "validate", "plan.yaml", "-i", "inv.yaml")


@pytest.mark.parametrize("text", INI.values(), ids=INI)
def test_in_an_ini_inventory(command: Command, text: str) -> None:
    Path("plan.yaml").write_text(PLAN)
    Path("hosts.ini").write_text(text)
    nothing_of_it(command, "validate", "plan.yaml", "-i", "hosts.ini")


@pytest.mark.parametrize("env", PLANS.values(), ids=PLANS)
def test_in_a_plan_file(command: Command, env: str) -> None:
    Path("plan.yaml").write_text(f"{PLAN}containers:\n  c: {{ nodes: a, image: x, imag: y, env: {env} }}\n")
    nothing_of_it(command, "validate", "plan.yaml")


def test_what_is_wrong_beside_it_is_still_told(command: Command) -> None:
    Path("plan.yaml").write_text(PLAN)
    Path("hosts.ini").write_text(INI["another is wrong"])
    ran = command("validate", "plan.yaml", "-i", "hosts.ini")
    assert "ansible_port is 'many'" in ran.err
    assert "     1 │ a ansible_become_pass=(sensitive)\n" in ran.err
