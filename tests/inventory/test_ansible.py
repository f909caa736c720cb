"""Our inventories against Ansible's own reading of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuplan.inventory import load_inventory
from gpuplan.types.inventory import Host

INVENTORIES = Path(__file__).parent / "inventories"
FILES = ("plain.ini", "nested.yaml", "depth.yaml", "vars/hosts")
COMMAND = Path(sys.executable).parent / "ansible-inventory"
TRUE = (True, 1, "yes", "true", "True", "on", "1")


@pytest.fixture(scope="module")
def ansible_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ansible")


def asked(file: Path, home: Path) -> dict[str, dict[str, object]]:
    """What `ansible-inventory --list` says."""
    if not COMMAND.exists():
        pytest.skip("ansible-core is not installed")
    environment = {**os.environ, "HOME": str(home), "ANSIBLE_LOCALHOST_WARNING": "False", "LC_ALL": "C.UTF-8"}
    told = subprocess.run(
        [str(COMMAND), "-i", str(file), "--list"],
        env=environment,
        capture_output=True,
        check=True,
        timeout=60,
        cwd=home,
    )
    found = json.loads(told.stdout)
    assert isinstance(found, dict)
    return found


def members(asked_groups: dict[str, dict[str, object]], name: str) -> set[str]:
    group = asked_groups.get(name, {})
    hosts, children = group.get("hosts", []), group.get("children", [])
    assert isinstance(hosts, list)
    assert isinstance(children, list)
    return set(hosts).union(*(members(asked_groups, child) for child in children))


def as_ansible(host: Host) -> dict[str, object]:
    return {
        "host": host.address,
        "user": host.user,
        "port": host.port,
        "key": host.private_key,
        "arguments": host.ssh_arguments,
        "python": host.python,
        "become": host.become,
        "connection": host.connection.value,
        "simulated": host.simulated,
    }


def expected(name: str, variables: dict[str, object]) -> dict[str, object]:
    return {
        "host": variables.get("ansible_host", name),
        "user": variables.get("ansible_user", ""),
        "port": int(str(variables.get("ansible_port", 0))),
        "key": variables.get("ansible_ssh_private_key_file", ""),
        "arguments": variables.get("ansible_ssh_common_args", ""),
        "python": variables.get("ansible_python_interpreter", "python3"),
        "become": variables.get("ansible_become", False) in TRUE,
        "connection": variables.get("ansible_connection", "ssh"),
        "simulated": variables.get("gpuplan_simulated", {}),
    }


@pytest.mark.parametrize("name", FILES)
def test_hosts_and_their_variables_are_ansibles(name: str, ansible_home: Path) -> None:
    theirs = asked(INVENTORIES / name, ansible_home)
    ours = load_inventory(str(INVENTORIES / name))
    variables = theirs["_meta"]["hostvars"]
    assert isinstance(variables, dict)
    everyone = members(theirs, "all")
    assert {host.name for host in ours.hosts} == everyone
    for host in ours.hosts:
        assert as_ansible(host) == expected(host.name, variables.get(host.name, {})), host.name


@pytest.mark.parametrize("name", FILES)
def test_groups_are_ansibles(name: str, ansible_home: Path) -> None:
    theirs = asked(INVENTORIES / name, ansible_home)
    ours = load_inventory(str(INVENTORIES / name))
    groups = {group for group in theirs if group not in ("_meta", "all")}
    children = theirs["all"]["children"]
    assert isinstance(children, list)
    for group in groups | set(children):
        assert set(ours.groups.get(group, ())) == members(theirs, group), group
    for host in ours.hosts:
        assert set(host.groups) == {group for group in groups | set(children) if host.name in members(theirs, group)}
