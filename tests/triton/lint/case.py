"""Cases as data: a small repository and its server → what the checks say, and what the real server does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpuplan.planfile.sources.read import LintedDirectory, lint_directory
from gpuplan.triton.lint import CHECKS, Effect, TargetServer, VisibleGpu
from gpuplan.types.diagnostic import Diagnostic, Problem, Severity
from tests.resources.told import checked
from tests.triton.lint.tree import write

CASES = Path(__file__).parent / "cases"
IO = (
    'input [ { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] } ] '
    'output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] } ]'
)
PYTHON = "class TritonPythonModel:\n    def execute(self, requests):\n        return []\n"
KEYS = "about config files server load found real"
LOADS, REFUSES, HANGS, DIES = "loads", "refuses", "hangs", "dies"


@dataclass(frozen=True)
class Case:
    """One case. `config` is that of a Python model `m` with a plain model.py; @io stands for one tensor each way."""

    name: str
    about: str
    files: Mapping[str, Any]
    server: TargetServer
    flags: tuple[str, ...]
    load: str
    found: tuple[str, ...]
    real: str
    """What Triton 2.51.0 does when `load` is loaded; empty where the lab cannot say."""

    def check(self, folder: Path) -> LintedDirectory:
        """What the checks say; a repository that is none gives its faults as findings."""
        write(folder, self.files)
        try:
            return lint_directory(str(folder), self.server)
        except Problem as problem:
            return LintedDirectory((), problem.diagnostics, 0)


def told(finding: Diagnostic, folder: Path) -> str:
    """One line of a finding: place, severity, id, detail."""
    where = str(finding.where or "").replace(f"{folder}/", "").replace(str(folder), ".")
    sign = "error" if finding.severity is Severity.ERROR else "warning"
    detail = finding.detail.replace(f"{folder}/", "").replace(str(folder), ".")
    return f"{where} {sign} {finding.check}: {detail}".strip()


def outcome(findings: tuple[Diagnostic, ...]) -> str:
    """What the findings say that a server does."""
    effects = {CHECKS[each.check].effect for each in findings if each.severity is Severity.ERROR and each.check}
    return REFUSES if effects & {Effect.REFUSED, Effect.HANGS, Effect.KILLS} else LOADS


def cases(folder: Path = CASES) -> list[Case]:
    """All cases, in the order of their files."""
    return [
        _case(f"{file.stem} {number}", raw)
        for file in sorted(folder.glob("*.yaml"))
        for number, raw in enumerate(yaml.safe_load(file.read_text("utf-8")))
    ]


def _case(name: str, raw: Mapping[str, Any]) -> Case:
    stated = checked(raw, KEYS)
    files = {path: _text(content) for path, content in stated.get("files", {}).items()}
    if "config" in stated:
        config = {"m/config.pbtxt": _text(stated["config"])}
        files = {
            **config,
            **({} if any(path.startswith("m/") for path in files) else {"m/1/model.py": PYTHON}),
            **files,
        }
    server, flags = _server(checked(stated.get("server", {}), "image gpus shm_size flags"))
    return Case(
        name,
        stated["about"],
        files,
        server,
        flags,
        stated.get("load", "m"),
        tuple(stated.get("found", ())),
        stated.get("real", ""),
    )


def _text(content: Any) -> Any:
    if not isinstance(content, str):
        return content
    return content.replace("@io", IO).replace("@python", PYTHON)


def _server(stated: Mapping[str, Any]) -> tuple[TargetServer, tuple[str, ...]]:
    image = str(stated.get("image", "24.10"))
    full = image if ":" in image else f"nvcr.io/nvidia/tritonserver:{image}-py3"
    given = stated.get("flags")
    flags: dict[str, tuple[str, ...]] = {}
    for text in given or ():
        name, _, value = text.partition("=")
        flags[name] = (*flags.get(name, ()), value or "true")
    gpus = stated.get("gpus")
    server = TargetServer(
        release=full.rpartition(":")[2][:5],
        image=full,
        gpus=None if gpus is None else tuple(_device(each) for each in gpus),
        shm_size=stated.get("shm_size"),
        flags=None if given is None else flags,
    )
    return server, tuple(f"--{text}" for text in given or ())


def _device(text: str) -> VisibleGpu:
    name, _, capability = text.partition("=")
    return VisibleGpu(name, capability)
