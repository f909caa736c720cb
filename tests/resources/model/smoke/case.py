"""Cases as data: a config and a smoke section → the tensors of the request, or every issue with its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpuplan.planfile.schema import ModelSection
from gpuplan.resources.model.smoke.request import InferRequest, build_request
from gpuplan.resources.model.smoke.spec import SmokeSpec, smoke_of
from gpuplan.resources.model.smoke.tensors import ModelSignature, signature_of
from gpuplan.triton.model_config import parse, to_json
from gpuplan.types.diagnostic import Diagnostic, Problem
from tests.resources.told import checked

CASES = sorted((Path(__file__).parent / "cases").glob("*.yaml"))
KEYS = "about config smoke files inputs batch sequence issues"


@dataclass
class Case:
    about: str
    signature: ModelSignature
    spec: SmokeSpec
    files: Mapping[str, bytes]
    expect: Mapping[str, Any]

    def request(self) -> InferRequest | list[str]:
        """The request, or each issue as `place: detail [fix]`."""
        request = build_request("m", self.spec, self.signature, self.read)
        if isinstance(request, InferRequest):
            return request
        return [
            f"{'.'.join(map(str, each.path))}: {each.detail}" + f" [{each.fix}]" * bool(each.fix) for each in request
        ]

    def read(self, path: str) -> bytes:
        if path not in self.files:
            raise Problem(Diagnostic("not there", f"There is no file {path}."))
        return self.files[path]


def load(path: Path) -> Case:
    """Read a case; an unknown key is an error."""
    stated = checked(yaml.safe_load(path.read_text("utf-8")), KEYS)
    model = ModelSection.model_validate({"source": "m", "containers": ["t"], "smoke": stated.get("smoke", True)})
    asked = smoke_of(model)
    assert asked is not None
    files = {name: bytes.fromhex(content) for name, content in stated.get("files", {}).items()}
    return Case(stated["about"], signature_of(to_json(parse(stated["config"]))), asked, files, stated)
