"""Small models that load on a CPU, good and broken ones."""

from __future__ import annotations

from collections.abc import Mapping

PYTHON = """
class TritonPythonModel:
    def execute(self, requests):
        return []
"""
RAISES = """
class TritonPythonModel:
    def initialize(self, args):
        raise RuntimeError("weights file /models/x.pt not found")

    def execute(self, requests):
        return []
"""
CONFIG = """backend: "python"
max_batch_size: 4
input [ { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] } ]
instance_group [ { kind: KIND_CPU } ]
parameters { key: "gpuplan_content" value { string_value: "CONTENT" } }
"""


def python(source: str = PYTHON, config: str = CONFIG) -> Mapping[str, str]:
    """A model of the Python backend."""
    return {"1/model.py": source, "config.pbtxt": config}


def ensemble(*steps: str) -> Mapping[str, str]:
    """An ensemble that sends IN through the steps to OUT."""
    tensors = ["IN", *(f"t{number}" for number in range(1, len(steps))), "OUT"]
    rendered = ",".join(
        f"""{{ model_name: "{step}" model_version: -1
        input_map {{ key: "IN" value: "{tensors[number]}" }}
        output_map {{ key: "OUT" value: "{tensors[number + 1]}" }} }}"""
        for number, step in enumerate(steps)
    )
    config = f"""platform: "ensemble"
max_batch_size: 4
input [ {{ name: "IN" data_type: TYPE_FP32 dims: [ 1 ] }} ]
output [ {{ name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] }} ]
ensemble_scheduling {{ step [ {rendered} ] }}
"""
    return {"1/": "", "config.pbtxt": config}
