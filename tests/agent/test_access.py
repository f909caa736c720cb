"""What the agent finds out of a container's device files: the rules of control groups, and who is asked."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplan.agent.docker import has_gpus
from gpuplan.agent.failure import Failure
from gpuplan.agent.gpus.toolkit import char_links
from gpuplan.agent.proc import DeviceNode, check_access, control_group_of, rules_allow

CONTROL = DeviceNode("nvidiactl", "/dev/nvidiactl", 195, 255)
CAPABILITY = DeviceNode("nvidia-cap21", "/dev/nvidia-caps/nvidia-cap21", 235, 21)


@pytest.mark.parametrize(
    ("rules", "node", "allowed"),
    [
        ("a *:* rwm", CONTROL, True),
        ("c 195:* rw", CONTROL, True),
        ("c *:* m\nc 195:255 rw\n", CONTROL, True),
        ("c *:* m\nb *:* m\nc 1:3 rwm\n", CONTROL, False),
        ("b 195:255 rwm", CONTROL, False),
        ("c 195:255 r", CONTROL, False),
        ("c 235:21 r", CAPABILITY, True),
        ("c 235:22 r", CAPABILITY, False),
        ("", CONTROL, False),
        ("what is\nthis", CONTROL, False),
    ],
)
def test_one_rule_has_to_give_all_that_is_needed(rules: str, node: DeviceNode, allowed: bool) -> None:
    assert rules_allow(rules, node) is allowed


@given(st.text(max_size=200))
def test_rules_of_any_form_are_read(rules: str) -> None:
    assert rules_allow(rules, CONTROL) in (True, False)


@pytest.mark.parametrize(
    ("lines", "version", "path"),
    [
        ("5:devices:/docker/ab\n0::/docker/ab\n", 1, "/groups/devices/docker/ab"),
        ("4:cpu,devices:/x\n", 1, "/groups/devices/x"),
        ("0::/system.slice/docker-ab.scope\n", 2, "/groups/system.slice/docker-ab.scope"),
        ("1:name=systemd:/x\n0::/a:b\n", 2, "/groups/a:b"),
    ],
)
def test_the_group_that_decides(tmp_path: Path, lines: str, version: int, path: str) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7/cgroup").write_text(lines)
    assert control_group_of(7, str(tmp_path), "/groups") == (version, path)


def test_no_group_decides(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7/cgroup").write_text("3:cpu:/x\n")
    with pytest.raises(Failure, match="no control group") as failure:
        control_group_of(7, str(tmp_path))
    assert failure.value.code == "not_supported"


def inspected(status: str = "running", pid: int = 7, **host: Any) -> dict[str, Any]:
    return {"State": {"Status": status, "Pid": pid}, "HostConfig": host}


@pytest.mark.parametrize(
    ("container", "asked"),
    [
        (inspected(DeviceRequests=[{"DeviceIDs": ["0"]}]), True),
        (inspected(Devices=[{"PathOnHost": "nvidia.com/gpu=0"}]), True),
        (inspected(Devices=[{"PathOnHost": "/dev/fuse"}]), False),
        (inspected(Runtime="nvidia"), True),
        (inspected(Runtime="runc", DeviceRequests=None, Devices=None), False),
        (inspected("exited", 0, DeviceRequests=[{}]), False),
        (inspected("paused", 7, DeviceRequests=[{}]), False),
        (inspected("restarting", 0, DeviceRequests=[{}]), False),
    ],
)
def test_who_is_asked(container: dict[str, Any], asked: bool) -> None:
    assert has_gpus(container) is asked


def test_links_are_of_no_account_where_there_is_no_gpu(tmp_path: Path) -> None:
    (tmp_path / "nvidiactl").write_text("not a device")
    assert char_links(str(tmp_path)) is None


def test_one_whose_group_is_gone_hides_no_other(tmp_path: Path) -> None:
    files = [DeviceNode("null", "/dev/null", 1, 3)]
    gone, there = str(tmp_path / "gone" / "cgroup.procs"), str(tmp_path / "cgroup.procs")
    first, second = check_access([(gone, files), (there, files)], str(tmp_path / "home"))
    assert "No such file" in str(first)
    assert second == {"/dev/null": True}
