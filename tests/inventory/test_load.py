"""Inventories: what is honoured, what is refused, and what is only warned of."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuplan.inventory import load_inventory
from gpuplan.inventory.groups import PatternError, expand_pattern
from gpuplan.types.diagnostic import Problem, Severity
from gpuplan.types.inventory import Connection, Inventory
from tests.plan_files import InventoryOf

SIMULATED = Path(__file__).parents[2] / "inventories" / "simulated.yaml"


def test_the_simulated_inventory() -> None:
    (host,) = load_inventory(str(SIMULATED)).hosts
    assert (host.name, host.connection, host.groups) == ("gpu-a1", Connection.SIMULATED, ("a100",))
    assert host.simulated == {"gpus": [{"model": "A100-SXM4-80GB", "count": 1}], "driver": "570.86.15"}
    assert host.where is not None
    assert str(host.where).endswith("simulated.yaml:4:5")


def test_ansibles_spellings_of_a_boolean_count(inventory_of: InventoryOf) -> None:
    spellings = {"yes": True, "True": True, "on": True, "1": True, "'y'": True, "no": False, "OFF": False, "0": False}
    lines = "\n".join(f"    h{number}: {{ ansible_become: {text} }}" for number, text in enumerate(spellings))
    assert [host.become for host in inventory_of(f"all:\n  hosts:\n{lines}\n").hosts] == list(spellings.values())


def test_legacy_names_and_connections(inventory_of: InventoryOf) -> None:
    text = """
all:
  vars: { ansible_python_interpreter: auto_silent }
  hosts:
    a: { ansible_ssh_host: h, ansible_ssh_user: u, ansible_ssh_port: 5, ansible_private_key_file: ~/k }
    b: { ansible_connection: ansible.builtin.ssh, ansible_user: 007 }
    c: { ansible_connection: local, ansible_become: yes, ansible_become_method: sudo, ansible_become_user: root }
"""
    a, b, c = inventory_of(text).hosts
    assert (a.address, a.user, a.port, a.python) == ("h", "u", 5, "python3")
    assert a.private_key == str(Path("~/k").expanduser())
    assert (b.connection, b.user) == (Connection.SSH, "007")
    assert (c.connection, c.become) == (Connection.LOCAL, True)


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ("ansible_host: '{{ ip }}'", "3:24 ansible_host is a Jinja template, which gpuplan cannot evaluate."),
        (
            "ansible_user: !vault abc",
            "3:24 ansible_user is encrypted with Ansible Vault, which gpuplan cannot decrypt.",
        ),
        (
            "ansible_host: -oProxyCommand=x",
            "3:24 ansible_host is '-oProxyCommand=x'; it cannot begin with '-' or hold blanks.",
        ),
        ("ansible_user: [a]", "3:24 ansible_user is a list or a section; expected one value."),
        ("ansible_port: ssh", "3:24 ansible_port is 'ssh'; expected a number from 1 to 65535."),
        ("ansible_port: 70000", "3:24 ansible_port is '70000'; expected a number from 1 to 65535."),
        ("ansible_become: maybe", "3:26 ansible_become is 'maybe'; expected true or false."),
        (
            "ansible_become: 1, ansible_become_method: doas",
            "3:52 ansible_become_method is 'doas'; gpuplan becomes root through sudo only.",
        ),
        (
            "ansible_become: 1, ansible_become_user: ops",
            "3:50 ansible_become_user is 'ops'; gpuplan becomes root through sudo only.",
        ),
        ("ansible_connection: winrm", "3:30 gpuplan does not support the connection 'winrm'."),
        (
            "ansible_ssh_extra_args: -v",
            "3:34 ansible_ssh_extra_args is not supported, and ignoring it would change how gpuplan connects.",
        ),
        (
            'ansible_python_interpreter: "a\\nb"',
            "3:38 ansible_python_interpreter holds a line break or a control character.",
        ),
        (
            "ansible_connection: simulated",
            "3:5 The node is simulated, but gpuplan_simulated does not set its hardware.",
        ),
        (
            "ansible_connection: simulated, gpuplan_simulated: A30",
            "3:60 gpuplan_simulated is not a section of plain data.",
        ),
    ],
)
def test_what_cannot_be_honoured_is_refused(inventory_of: InventoryOf, variables: str, told: str) -> None:
    with pytest.raises(Problem) as caught:
        inventory_of(f"all:\n  hosts:\n    h: {{ {variables} }}\n")
    (one,) = caught.value.diagnostics
    assert one.where is not None
    assert f"{one.where.line}:{one.where.column} {one.detail}" == told


def test_variables_of_ansible_alone_are_passed_over(inventory_of: InventoryOf) -> None:
    text = (
        "g:\n  vars: { secret: !vault x, greeting: '{{ x }}', l: [1] }\n  hosts: { h: { role: !unsafe '{{ y }}' } }\n"
    )
    assert inventory_of(text).warnings == ()


def test_passwords_are_warned_of_once(inventory_of: InventoryOf) -> None:
    text = """
all:
  vars: { ansible_password: hunter2, ansible_become_pass: hunter2, ansible_host_key_checking: false }
  hosts: { a: , b: { ansible_ssh_host_key_checking: true } }
"""
    warnings = inventory_of(text).warnings
    assert {one.severity for one in warnings} == {Severity.WARNING}
    assert [one.detail.split()[0] for one in warnings] == [
        "ansible_password",
        "ansible_become_pass",
        "ansible_host_key_checking",
    ]
    assert "hunter2" not in repr(warnings)


def test_a_fault_of_a_group_is_told_once(inventory_of: InventoryOf) -> None:
    with pytest.raises(Problem) as caught:
        inventory_of("g:\n  vars: { ansible_port: x }\n  hosts: { 'h[1:100]': }\n")
    assert len(caught.value.diagnostics) == 1


YAML_FAULTS = {
    "g: [a]\n": "1:4 g is not a group: a group is a mapping with hosts, children or vars.",
    "g: { hosts: [a] }\n": "1:13 g.hosts is not a mapping; each name is a key with a ':' after it.",
    "g: { host: { a: } }\n": "1:6 The group g has no key 'host'.",
    "g: { hosts: { 'a b': } }\n": "1:15 'a b' is not a valid host name.",
    "g: { hosts: { '../x': } }\n": "1:15 '../x' is not a valid host name.",
    "g: { hosts: { '::1': } }\n": "1:15 '::1' is not a valid host name.",
    "g: { hosts: { 'a[1:x]': } }\n": "1:15 'a[1:x]' has a range that is not of numbers or letters.",
    "g: { hosts: { a: , a: } }\n": "1:20 'a' is already set at FILE:1:15.",
    "a: { children: { b: { hosts: { x: }, children: { a: } } } }\n": "1:1 Groups contain one another: a → b → a.",
    "plugin: aws_ec2\n": "1:9 It configures an inventory plugin of Ansible, which gets its hosts from elsewhere.",
    "- a\n": "1:1 A YAML inventory is a mapping of groups, such as all: or gpu_nodes:.",
    "all: { hosts: }\n": "0:0 FILE contains no host.",
}


@pytest.mark.parametrize("text", YAML_FAULTS)
def test_faults_of_a_yaml_inventory(inventory_of: InventoryOf, text: str, tmp_path: Path) -> None:
    told(inventory_of, text, "inventory.yaml", [YAML_FAULTS[text]], tmp_path)


SIMULATED_FAULTS = {
    "[{model: A101, count: 1}]": "gpuplan_simulated has the GPU 'A101', which is not in the catalog.",
    "[A101-SXM4-80GB]": "gpuplan_simulated has the GPU 'A101-SXM4-80GB', which is not in the catalog.",
    "[{model: A100-SXM4-80GB, count: 1000000}]": "gpuplan_simulated has 1000000 GPUs; a node holds at most 16.",
    "[{model: A100-SXM4-80GB, count: 9}, {model: A30, count: 8}]": (
        "gpuplan_simulated has 17 GPUs; a node holds at most 16."
    ),
    "[{model: A30, count: 0}]": "gpuplan_simulated.gpus[0].count is 0; expected a whole number from 1.",
    "[{model: A30, count: yes}]": "gpuplan_simulated.gpus[0].count is 'yes'; expected a whole number from 1.",
    "[{count: 2}]": "gpuplan_simulated.gpus[0] does not name a model.",
    "[[A30]]": "gpuplan_simulated.gpus[0] does not name a model.",
    "A30": "gpuplan_simulated.gpus is not a list.",
}


@pytest.mark.parametrize("gpus", SIMULATED_FAULTS)
def test_simulated_hardware_that_does_not_exist(inventory_of: InventoryOf, gpus: str, tmp_path: Path) -> None:
    text = f"all: {{ hosts: {{ a: {{ ansible_connection: simulated, gpuplan_simulated: {{ gpus: {gpus} }} }} }} }}\n"
    told(inventory_of, text, "inventory.yaml", [f"1:72 {SIMULATED_FAULTS[gpus]}"], tmp_path)


def test_a_simulated_board_has_nearest_names_and_every_fault_is_told(inventory_of: InventoryOf) -> None:
    simulated = "gpuplan_simulated: { gpus: [{ model: A101-SXM4-80GB, count: 0 }, B1, { model: H100-SXM5-8GB }] }"
    with pytest.raises(Problem) as caught:
        inventory_of(f"all: {{ hosts: {{ a: {{ ansible_connection: simulated, {simulated} }} }} }}\n")
    assert len(caught.value.diagnostics) == 4
    assert "A100-SXM4-80GB" in caught.value.diagnostics[0].fix


INI_FAULTS = {
    "[a b]\nh\n": "1:1 '[a b]' is not a section: a name has no blanks.",
    "[a:hosts:b]\nh\n": "1:1 '[a:hosts:b]' is not a section: a name has no blanks.",
    "[a:var]\nx=y\n": "1:1 [a:var] is not a supported section.",
    "h ansible_user 'x'\n": "1:3 'ansible_user' is not NAME=VALUE.",
    "h ansible_user='x\n": "1:1 No closing quotation.",
    "h\n[a:vars]\nansible_user\n[a]\n": "3:1 'ansible_user' is not NAME = VALUE.",
    "h\n[a:vars]\nx=y\n": "2:1 [a:vars] refers to the group a, which no section declares.",
    "h\n[a:children]\nb\n": "3:1 [a:children] refers to the group b, which no section declares.",
    "h\n[a:children]\nb c\n": "3:1 'b c' is not the name of a group.",
    "h:99999\n": "1:1 'h:99999' has the port 99999; the highest port is 65535.",
    "  h[1:30000]\n": "1:3 'h[1:30000]' gives more than 20000 hosts.",
    "h ansible_user='{{ x }}'\n": "1:3 ansible_user is a Jinja template, which gpuplan cannot evaluate.",
}


@pytest.mark.parametrize("text", INI_FAULTS)
def test_faults_of_an_ini_inventory(inventory_of: InventoryOf, text: str, tmp_path: Path) -> None:
    told(inventory_of, text, "hosts", [INI_FAULTS[text]], tmp_path)


def told(inventory_of: InventoryOf, text: str, name: str, expected: list[str], tmp_path: Path) -> None:
    with pytest.raises(Problem) as caught:
        inventory_of(text, name)
    places = [(one, one.where) for one in caught.value.diagnostics]
    found = [f"{where.line}:{where.column} {one.detail}" for one, where in places if where is not None]
    assert [each.replace(str(tmp_path / name), "FILE") for each in found] == expected


def test_a_folder_and_a_program_are_refused(tmp_path: Path, inventory_of: InventoryOf) -> None:
    for load in (lambda: load_inventory(str(tmp_path)), lambda: inventory_of("#!/bin/sh\necho\n", "inventory.sh")):
        with pytest.raises(Problem, match=r"directory|program"):
            load()


def test_a_file_without_a_telling_name_is_looked_at(inventory_of: InventoryOf) -> None:
    assert [host.name for host in inventory_of("# nodes\n---\nall:\n  hosts: { a: }\n", "hosts").hosts] == ["a"]
    assert [host.name for host in inventory_of("# nodes\na ansible_user=x\n", "hosts").hosts] == ["a"]
    assert [host.port for host in inventory_of("a:22\n", "hosts").hosts] == [22]


def test_an_encrypted_file_beside_it_is_warned_of(tmp_path: Path, inventory_of: InventoryOf) -> None:
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars" / "all.yml").write_text("$ANSIBLE_VAULT;1.1;AES256\n6162\n")
    (warning,) = inventory_of("all:\n  hosts: { a: }\n").warnings
    assert warning.summary == "Variable file ignored"


def test_ten_thousand_hosts_are_read_in_time(inventory_of: InventoryOf) -> None:
    lines = "".join(f"    n{number}: {{ ansible_host: 10.0.0.1, ansible_user: ops }}\n" for number in range(10_000))
    assert len(inventory_of(f"all:\n  hosts:\n{lines}").hosts) == 10_000
    assert len(inventory_of("[g]\nn[00001:20000].lab\n", "hosts").groups["g"]) == 20_000


@pytest.mark.parametrize(
    ("pattern", "names", "port"),
    [
        ("a", ["a"], ""),
        ("a:22", ["a"], "22"),
        ("10.0.0.[8:10]", ["10.0.0.8", "10.0.0.9", "10.0.0.10"], ""),
        ("a[08:10]", ["a08", "a09", "a10"], ""),
        ("a[0:10:5]b[x:z]", [f"a{n}b{c}" for n in (0, 5, 10) for c in "xyz"], ""),
        ("a[:2]", ["a0", "a1", "a2"], ""),
        ("[web]:2222", ["web"], "2222"),
        ("a[X:Z].lab:7", ["aX.lab", "aY.lab", "aZ.lab"], "7"),
    ],
)
def test_patterns(pattern: str, names: list[str], port: str) -> None:
    assert expand_pattern(pattern, 100) == (tuple(names), port)


@pytest.mark.parametrize(
    "pattern",
    [
        "a[3:1]",
        "a[z:a]",
        "a[1]",
        "a[1:]",
        "a[01:3]",
        "a[1:3:0]",
        "a[1:2:x]",
        "a[1:999]",
        "a[1:2",
        "a:0",
        "a:b",
        "",
        "-a",
        "a/b",
        "a..b",
    ],
)
def test_what_is_no_pattern(pattern: str) -> None:
    with pytest.raises(PatternError):
        expand_pattern(pattern, 100)


@given(
    st.text(alphabet="ab1[]:=#;{}'\" \n.-_", max_size=80) | st.text(max_size=60),
    st.sampled_from(["h.ini", "h.yaml", "h"]),
)
@settings(deadline=None, max_examples=400)
def test_no_text_gives_anything_but_an_inventory_or_a_problem(
    tmp_path_factory: pytest.TempPathFactory, text: str, name: str
) -> None:
    file = tmp_path_factory.mktemp("law") / name
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        found: Inventory | Problem = load_inventory(str(file))
    except Problem as problem:
        found = problem
    if isinstance(found, Inventory):
        assert {host.name for host in found.hosts} == set(found.groups["all"])
    else:
        assert all(one.where is not None and one.detail.endswith(".") for one in found.diagnostics)
