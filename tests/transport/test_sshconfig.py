"""Where SSH goes: inventory, then arguments, then ssh_config; and nothing that changes the way is silently ignored."""

from pathlib import Path

import pytest

from gpuplan.transport.ssh import config as ssh_config
from gpuplan.transport.ssh.config import hop_route, route
from gpuplan.types.diagnostic import Problem
from gpuplan.types.inventory import Host


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(ssh_config, "SYSTEM_CONFIG", tmp_path / "system_config")
    (tmp_path / ".ssh").mkdir()
    return tmp_path


def config(home: Path, text: str) -> None:
    (home / ".ssh/config").write_text(text)


def test_without_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "me")
    found = route(Host("gpu-a1"))
    assert (found.address, found.port, found.user, found.jumps, found.known_as) == ("gpu-a1", 22, "me", (), "gpu-a1")


def test_the_ssh_config_fills_what_the_inventory_leaves_open(home: Path) -> None:
    config(
        home,
        "Host gpu-*\n  HostName 10.0.0.7\n  User ops\n  Port 2222\n  IdentityFile ~/.ssh/gpu\n  ConnectTimeout 3\n"
        "  UserKnownHostsFile ~/hosts1 /hosts2\n  HostKeyAlias gpu\n  IdentitiesOnly yes\n  ProxyJump a@one,two:2200\n",
    )
    found = route(Host("n", address="gpu-a1"))
    assert (found.address, found.port, found.user, found.connect_timeout) == ("10.0.0.7", 2222, "ops", 3)
    assert found.keys == (f"{home}/.ssh/gpu",)
    assert found.known_hosts == (f"{home}/hosts1", "/hosts2")
    assert found.known_as == "gpu"
    assert found.identities_only
    assert found.jumps == ("a@one", "two:2200")


def test_the_inventory_wins(home: Path) -> None:
    config(home, "Host *\n  User ops\n  Port 2222\n")
    found = route(Host("n", address="h", user="me", port=22, private_key="~/key"))
    assert (found.user, found.port, found.private_key) == ("me", 22, f"{home}/key")


def test_the_systems_file_comes_after_the_operators(home: Path) -> None:
    (home / "system_config").write_text("User system\nPort 2022\n")
    config(home, "User mine\n")
    found = route(Host("n"))
    assert (found.user, found.port) == ("mine", 2022)


def test_a_port_of_its_own_is_part_of_the_known_name() -> None:
    assert route(Host("n", address="h", port=2222)).known_as == "[h]:2222"


def test_included_files_are_read_in_place(home: Path) -> None:
    config(home, "Include conf.d/*.conf\nPort 2022\nHost other\n  User other\n")
    (home / ".ssh/conf.d").mkdir()
    (home / ".ssh/conf.d/a.conf").write_text("Host gpu-a1\n  User ops\n")
    assert (route(Host("gpu-a1")).user, route(Host("gpu-a1")).port) == ("ops", 2022)
    assert route(Host("gpu-a2")).port == 2022


def test_an_include_whose_blocks_would_be_torn_out_is_refused(home: Path) -> None:
    config(home, "Host gpu-a1\n  Include more\n")
    (home / ".ssh/more").write_text("User ops\n")
    assert route(Host("gpu-a1")).user == "ops"
    (home / ".ssh/more").write_text("Host *\n  User ops\n")
    with pytest.raises(Problem, match="Include"):
        route(Host("gpu-a1"))


def test_files_that_include_each_other_end(home: Path) -> None:
    config(home, "Include config\n")
    with pytest.raises(Problem, match="deep"):
        route(Host("n"))


@pytest.mark.parametrize(
    "line", ["ProxyCommand nc %h %p", "KnownHostsCommand /bin/x", "IdentityAgent ~/a.sock", "BindAddress 1.2.3.4"]
)
def test_what_is_not_supported_is_refused_by_name(home: Path, line: str) -> None:
    config(home, f"Host n\n  {line}\n")
    with pytest.raises(Problem) as caught:
        route(Host("n"))
    (diagnostic,) = caught.value.diagnostics
    assert line.partition(" ")[0].lower() in diagnostic.detail
    assert diagnostic.fix
    route(Host("another"))


@pytest.mark.parametrize("line", ["ProxyCommand none", "ProxyJump none", "IdentityAgent none"])
def test_none_means_none(home: Path, line: str) -> None:
    config(home, f"Host *\n  {line}\n")
    assert route(Host("n")).jumps == ()


def test_nonsense_is_told(home: Path) -> None:
    config(home, "Port many\n")
    with pytest.raises(Problem, match="not a number"):
        route(Host("n"))
    config(home, "!!\n")
    with pytest.raises(Problem, match="Cannot read ssh_config"):
        route(Host("n"))


def test_arguments_count_before_the_ssh_config(home: Path) -> None:
    config(home, "ProxyJump one\nUserKnownHostsFile /a\nConnectTimeout 9\n")
    arguments = "-o UserKnownHostsFile=/b -o 'ConnectTimeout 2' -oProxyJump=two -o StrictHostKeyChecking=yes"
    found = route(Host("n", ssh_arguments=arguments))
    assert (found.known_hosts, found.connect_timeout, found.jumps) == (("/b",), 2, ("two",))
    assert route(Host("n", ssh_arguments="-J x,y")).jumps == ("x", "y")
    assert route(Host("n", ssh_arguments="-J none")).jumps == ()


def test_a_file_that_is_given_stands_in_place_of_all_others(home: Path) -> None:
    config(home, "User mine\n")
    (home / "other").write_text("Port 99\nUser theirs\n")
    found = route(Host("n", ssh_arguments=f"-F {home}/other"))
    assert (found.user, found.port) == ("theirs", 99)
    with pytest.raises(Problem, match="Cannot read ssh_config"):
        route(Host("n", ssh_arguments="-F /not/there"))


def test_every_argument_that_is_not_understood_is_named() -> None:
    with pytest.raises(Problem) as caught:
        route(Host("n", ssh_arguments="-A -o StrictHostKeyChecking=no -o ProxyCommand='nc x' -v -o"))
    told = " ".join(diagnostic.detail for diagnostic in caught.value.diagnostics)
    for word in ("-A", "StrictHostKeyChecking=no", "ProxyCommand=nc x", "-v", "-o "):
        assert word in told
    assert "always checked" in next(d.fix for d in caught.value.diagnostics if "Strict" in d.detail)
    with pytest.raises(Problem, match="quotation"):
        route(Host("n", ssh_arguments="-o 'x"))


def test_hops(home: Path) -> None:
    config(home, "Host bastion\n  HostName 10.0.0.1\n  User jump\n  ProxyJump never\n")
    to = route(Host("n"))
    found = hop_route(to, "bastion")
    assert (found.address, found.user, found.port, found.jumps, found.node) == ("10.0.0.1", "jump", 22, (), "n")
    found = hop_route(to, "ssh://me@[fe80::1]:2222")
    assert (found.address, found.user, found.port) == ("fe80::1", "me", 2222)
    with pytest.raises(Problem, match="jump host"):
        hop_route(to, "me@host:port")


def test_a_given_file_counts_for_the_hops_as_well(home: Path) -> None:
    (home / "other").write_text("Host bastion\n  User jump\n")
    to = route(Host("n", ssh_arguments=f"-F {home}/other -J bastion"))
    assert hop_route(to, "bastion").user == "jump"
