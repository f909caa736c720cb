"""CDI specifications: the device names that are read of them, and how one is written anew."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from gpuplan.agent.failure import Failure
from gpuplan.agent.gpus.mig import generate_cdi
from gpuplan.agent.gpus.toolkit import LARGEST, parse_specification, specifications
from gpuplan.agent.world import World

YAML = """\
---
cdiVersion: 0.5.0
containerEdits:
  deviceNodes:
  - path: /dev/nvidiactl
  env:
  - NVIDIA_VISIBLE_DEVICES=void
  hooks:
  - args: [nvidia-cdi-hook, create-symlinks]
    hookName: createContainer
    path: /usr/bin/nvidia-cdi-hook
devices:
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
  name: "0"
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia-caps/nvidia-cap21
  name: MIG-6fd3b0c5-4b1d-4000-8000-000000000000
- name: all
  containerEdits: {}
kind: nvidia.com/gpu
"""
"""The form of nvidia-ctk, shortened."""


class Programs(World):
    """A node whose programs answer as they are told."""

    def __init__(self, **answers: tuple[int, str] | Failure) -> None:
        super().__init__("/nowhere")
        self.ran: list[Sequence[str]] = []
        self._answers = answers

    def run(self, argv: Sequence[str], seconds: float) -> tuple[int, str]:
        """What the program is to say."""
        assert seconds > 0
        self.ran.append(list(argv))
        answer = self._answers.get(argv[0].replace("-", "_"), (0, ""))
        if isinstance(answer, Failure):
            raise answer
        return answer


def test_names_of_the_form_that_nvidia_ctk_writes() -> None:
    assert parse_specification(YAML) == ("nvidia.com/gpu", ["0", "MIG-6fd3b0c5-4b1d-4000-8000-000000000000", "all"])


def test_json() -> None:
    assert parse_specification(json.dumps({"kind": "nvidia.com/gpu", "devices": [{"name": "0:1"}]})) == (
        "nvidia.com/gpu",
        ["0:1"],
    )
    with pytest.raises(ValueError, match="not a CDI"):
        parse_specification('{"kind": "nvidia.com/gpu", "devices": [1]}')


def test_only_specifications_of_gpus_are_told(tmp_path: Path) -> None:
    (tmp_path / "nvidia.yaml").write_text(YAML)
    (tmp_path / "other.json").write_text('{"kind": "vendor.com/net", "devices": []}')
    (tmp_path / "notes.txt").write_text(YAML)
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "large.yaml").write_text(YAML + "#" * LARGEST)
    told = {Path(str(each["path"])).name: each for each in specifications([str(tmp_path), str(tmp_path / "absent")])}
    assert sorted(told) == ["broken.json", "large.yaml", "nvidia.yaml"]
    assert told["nvidia.yaml"]["devices"] == ["0", "MIG-6fd3b0c5-4b1d-4000-8000-000000000000", "all"]
    assert "too_large" in str(told["large.yaml"]["error"])
    assert "error" in told["broken.json"]


def test_device_files_are_made_before_the_specification() -> None:
    node = Programs()
    assert generate_cdi(node, "/var/run/cdi/nvidia.yaml") == {}
    assert node.ran == [["nvidia-smi", "-L"], ["nvidia-ctk", "cdi", "generate", "--output=/var/run/cdi/nvidia.yaml"]]


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        ({"nvidia_ctk": Failure("no_tool", "nvidia-ctk is not on the node")}, "no_tool"),
        ({"nvidia_ctk": (1, "failed to get NVML")}, "unexpected"),
        ({"nvidia_smi": Failure("timeout", "hangs")}, "timeout"),
    ],
)
def test_it_is_not_written(answers: dict[str, tuple[int, str] | Failure], code: str) -> None:
    with pytest.raises(Failure) as failure:
        generate_cdi(Programs(**answers), "/etc/cdi/nvidia.yaml")
    assert failure.value.code == code


def test_without_nvidia_smi_it_goes_on() -> None:
    node = Programs(nvidia_smi=Failure("no_tool", "nvidia-smi is not on the node"))
    assert generate_cdi(node, "/etc/cdi/nvidia.json") == {}
