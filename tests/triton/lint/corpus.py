"""A corpus of repositories out of one seed: most statements are right, some wrong in one of the ways of practice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

Files = dict[str, str]

ANSWERS = """import json

import numpy
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.config = json.loads(args["model_config"])

    def execute(self, requests):
        batch = [1] if self.config["max_batch_size"] else []
        tensors = [pb_utils.Tensor(each["name"], self.zeros(each, batch)) for each in self.config["output"]]
        return [pb_utils.InferenceResponse(tensors) for _ in requests]

    def zeros(self, output, batch):
        shape = output["reshape"]["shape"] if "reshape" in output else output["dims"]
        kind = pb_utils.triton_string_to_numpy(output["data_type"])
        return numpy.zeros([*batch, *(max(1, int(dim)) for dim in shape)], kind)
"""
CODES = (
    "class TritonPythonModel:\n    def execute(self, requests)\n        return []\n",
    "class TritonModel:\n    def execute(self, requests):\n        return []\n",
    "class TritonPythonModel:\n    def initialize(self): ...\n    def execute(self, requests): ...\n",
    "class TritonPythonModel:\n    pass\n",
    "class TritonPythonModel:\n    def __init__(self, more):\n        pass\n",
    "from collections import deque\n" + ANSWERS,
)
TYPES = ("TYPE_FP32", "TYPE_INT32", "TYPE_INT64", "TYPE_BOOL", "TYPE_STRING", "TYPE_UINT8", "TYPE_FP16")


@dataclass(frozen=True)
class Sample:
    """One repository and the model that is to be loaded."""

    name: str
    load: str
    files: Files


def corpus(size: int, seed: int = 4) -> Iterator[Sample]:
    """As many samples; the same seed gives the same ones."""
    for number in range(size):
        rng = Random(f"{seed}/{number}")
        make = _ensemble if rng.random() < 0.3 else _single
        yield Sample(f"{number:03}", "m", make(rng))


def _rare(rng: Random, otherwise: str, *wrong: str, chance: float = 0.06) -> str:
    """The right thing, and now and then one of the others."""
    return rng.choice(wrong) if rng.random() < chance else otherwise


def _pick(rng: Random, good: tuple[str, ...], bad: tuple[str, ...], chance: float = 0.12) -> str:
    return rng.choice(bad if rng.random() < chance else good)


def _single(rng: Random) -> Files:
    batch = rng.choice((0, 1, 4, 8, 8))
    tensors = {kind: _tensors(rng, kind, batch) for kind in ("input", "output")}
    parts = [
        _rare(rng, 'backend: "python"', "", 'platform: "python"', 'backend: "pythn"', 'backend: "python" backend: "x"'),
        _rare(rng, f"max_batch_size: {batch}", "max_batch_size: -1", 'max_batch_size: "4"', "max_batchsize: 4"),
        *(f"{kind} [ {', '.join(each)} ]" for kind, each in tensors.items()),
    ]
    for optional, chance in _OPTIONAL:
        if rng.random() < chance:
            parts.append(optional(rng, batch))
    if rng.random() < 0.15 and batch:
        parts.append(_warmup(rng, batch))
    rng.shuffle(parts)
    versions = rng.choice((("1",), ("1",), ("1",), ("1",), ("1", "2"), ("3", "12"), ("0",), ("01", "1"), ("one",)))
    code = _rare(rng, ANSWERS, *CODES, chance=0.12)
    return {"m/config.pbtxt": "\n".join(parts) + "\n", **{f"m/{version}/model.py": code for version in versions}}


def _tensors(rng: Random, kind: str, batch: int) -> list[str]:
    names = rng.sample(("A", "B", "C"), rng.choice((1, 1, 2)))
    return [_tensor(rng, f"{kind[0].upper()}{name}", kind, batch) for name in names]


def _tensor(rng: Random, name: str, kind: str, batch: int) -> str:
    dims = [rng.choice((1, 2, 4, -1)) for _ in range(rng.choice((1, 1, 2, 3)))]
    shown = _rare(rng, f"dims: [ {', '.join(map(str, dims))} ]", "", "dims: [ 0 ]", "dims: [ -2 ]", chance=0.04)
    parts = [
        _rare(rng, f'name: "{name}"', "", f'name: "{name}" name: "X"', chance=0.03),
        _rare(rng, f"data_type: {rng.choice(TYPES)}", "", "data_type: TYPE_BYTES", "data_type: FP32", chance=0.04),
        shown,
    ]
    if rng.random() < 0.12:
        parts.append(f"reshape {{ shape: [ {_reshaped(rng, dims)} ] }}")
    if kind == "input" and rng.random() < 0.1:
        choices = ("optional: true", "allow_ragged_batch: true", "is_shape_tensor: true", "format: FORMAT_NCHW")
        parts.append(rng.choice(choices))
    if kind == "output" and rng.random() < 0.04:
        parts.append('label_filename: "labels.txt"')
    return f"{{ {' '.join(filter(None, parts))} }}"


def _reshaped(rng: Random, dims: list[int]) -> str:
    flat = [1, *dims] if rng.random() < 0.5 else [*dims, 1]
    wrong = rng.choice(("3, 7", "", ", ".join(map(str, [*dims, 2])), "-1, -1, -1"))
    return _rare(rng, ", ".join(map(str, flat)), wrong, chance=0.25)


def _groups(rng: Random, _: int) -> str:
    group = _pick(
        rng,
        (
            "{ kind: KIND_CPU count: 2 }", "{ kind: KIND_CPU }", "{ count: 1 }", "{ kind: KIND_MODEL }",
            "{ kind: KIND_CPU }, { kind: KIND_CPU count: 2 }", "{ kind: KIND_CPU count: 0 }",
            "{ kind: KIND_CPU passive: true }, { kind: KIND_CPU }",
            "{ kind: KIND_CPU rate_limiter { resources [ { name: \"R\" count: 2 } ] priority: 1 } }",
        ),
        (
            "{ kind: KIND_CPU gpus: [ 0 ] }", "{ gpus: [ 0 ] }", "{ kind: KIND_GPU }", "{ kind: KIND_TPU }",
            "{ kind: KIND_CPU profile: [ \"0\" ] }",
            "{ kind: KIND_CPU rate_limiter { resources [ { name: \"R\" count: -1 } ] } }",
            "{ kind: KIND_CPU rate_limit { } }",
        ),
    )  # fmt: skip
    return f"instance_group [ {group} ]"


def _scheduling(rng: Random, batch: int) -> str:
    if rng.random() < 0.35:
        return _sequences(rng, batch)
    levels = rng.choice((0, 0, 1, 3))
    parts = [
        f"preferred_batch_size: [ {_rare(rng, str(batch or 1), '16', '0')} ]" if rng.random() < 0.5 and batch else "",
        f"max_queue_delay_microseconds: {_rare(rng, '100', '-1', '1.5')}" if rng.random() < 0.5 else "",
        f"priority_levels: {levels}" if levels else "",
        f"default_priority_level: {_rare(rng, str(levels), '0', '5')}" if levels or rng.random() < 0.1 else "",
        "preserve_ordering: true" if rng.random() < 0.1 else "",
        _policy("default_queue_policy", rng) if rng.random() < 0.3 else "",
        f"priority_queue_policy {{ key: {_rare(rng, '1', '2', '9')} value {{ max_queue_size: 4 }} }}"
        if rng.random() < 0.2
        else "",
    ]
    return f"dynamic_batching {{ {' '.join(filter(None, parts))} }}"


def _policy(name: str, rng: Random) -> str:
    action = _rare(rng, rng.choice(("REJECT", "DELAY")), "DROP", "delay")
    timeout = rng.choice(("", "default_timeout_microseconds: 5"))
    return f"{name} {{ timeout_action: {action} {timeout} max_queue_size: 8 }}"


def _sequences(rng: Random, batch: int) -> str:
    pair = _pick(
        rng,
        ("int32_false_true: [ 0, 1 ]", "fp32_false_true: [ 0, 1 ]", "bool_false_true: [ false, true ]"),
        ("int32_false_true: [ 0 ]", "", "int32_false_true: [ 0, 1 ] fp32_false_true: [ 0, 1 ]"),
    )
    kind = _pick(rng, ("TYPE_UINT64", "TYPE_STRING"), ("TYPE_FP32",))
    parts = [
        f"oldest {{ preferred_batch_size: [ {_rare(rng, str(batch), '32', '0')} ] }}"
        if rng.random() < 0.3 and batch
        else "",
        f"direct {{ minimum_slot_utilization: {_rare(rng, '0.5', '2', '-1')} }}" if rng.random() < 0.1 else "",
        f'control_input [ {{ name: "START" control [ {{ kind: CONTROL_SEQUENCE_START {pair} }} ] }} ]'
        if rng.random() < 0.5
        else "",
        f'control_input [ {{ name: "ID" control [ {{ kind: CONTROL_SEQUENCE_CORRID data_type: {kind} }} ] }} ]'
        if rng.random() < 0.4
        else "",
        _state(rng) if rng.random() < 0.3 else "",
    ]
    return f"sequence_batching {{ {' '.join(filter(None, parts))} }}"


def _state(rng: Random) -> str:
    first = _pick(
        rng,
        ("", "initial_state { name: \"z\" data_type: TYPE_FP32 dims: [ 1 ] zero_data: true }"),
        (
            "initial_state { data_type: TYPE_FP32 dims: [ 1 ] zero_data: true }",
            "initial_state { name: \"z\" data_type: TYPE_INT8 dims: [ 1 ] zero_data: true }",
            "initial_state { name: \"z\" data_type: TYPE_FP32 dims: [ 2 ] zero_data: true }",
            "initial_state { name: \"z\" data_type: TYPE_FP32 dims: [ 1 ] data_file: \"z\" }",
        ),
        chance=0.3,
    )  # fmt: skip
    return f'state [ {{ input_name: "S" output_name: "T" data_type: TYPE_FP32 dims: [ 1 ] {first} }} ]'


def _versions(rng: Random, _: int) -> str:
    choice = _pick(
        rng,
        ("all { }", "latest { num_versions: 2 }", "specific { versions: [ 1 ] }", "specific { versions: [ 1, 9 ] }"),
        ("specific { versions: [ 9 ] }", "latest: 2", "latest { }", "all { } latest { num_versions: 1 }"),
    )
    return f"version_policy {{ {choice} }}"


_FINE = (
    "response_cache { enable: true }", "model_transaction_policy { decoupled: true }", "# a remark",
    'parameters { key: "k" value { string_value: "v" } }', 'metric_tags { key: "team" value: "a" }',
    "optimization { priority: PRIORITY_MAX }", "optimization { cuda { graphs: true } }", 'name: "m"',
    'default_model_filename: "model.py"', 'runtime: ""', "input [ ]", "version_policy { all: { } }",
    "optimization < priority: PRIORITY_MIN >", "model_warmup [ ]", 'metric_tags { key: "e" value: \'é"\' }',
    'model_operations { op_library_filename: [ "x.so" ] }', "parameters [ ]",
    'parameters { value { string_value: "a" "b" } key: "k" };',
)  # fmt: skip
_BROKEN = (
    "response_cache { enable: true } model_transaction_policy { decoupled: true }", "rate_limiter { }",
    'parameters { key: "k" value: "v" }', "model_metrics { }", 'name: "n"',
    "dynamic_batching { } sequence_batching { }", 'metric_tags { key: "é" value: "x" }',
    "ensemble_scheduling { step [ ] }", "max_queue_size: 3", "unfilled: ${x}", "max_batch_size: 0x4 max_batch_size: 2",
    "optimization { input_pinned_memory { enable: 2 } }", "cc_model_filenames { 8 }", "input: { }, , ",
    'batch_input [ { kind: BATCH_ELEMENT_COUNT target_name: "N" data_type: TYPE_FP32 source_input: "NO" } ]',
    'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "$$TRITON_MODEL_DIRECTORY/e.tar.gz" } }',
    "instance_group [ { kind: KIND_CPU }, ]", "}", 'metric_tags { key: "open', "model_warmup [ { batch_size: -1 } ]",
)  # fmt: skip


def _others(rng: Random, _: int) -> str:
    return _pick(rng, _FINE, _BROKEN, chance=0.2)


def _warmup(rng: Random, batch: int) -> str:
    size = _rare(rng, str(rng.choice((1, batch))), str(batch + 1), "0")
    data = _pick(rng, ("zero_data: true", "random_data: true"), ("", 'input_data_file: "x"'))
    kind, dims = rng.choice(("TYPE_FP32", "TYPE_INT32")), rng.choice(("1", "2", "-1"))
    value = f'inputs {{ key: "IA" value {{ data_type: {kind} dims: [ {dims} ] {data} }} }}'
    return f'model_warmup [ {{ name: "w" batch_size: {size} {value} }} ]'


_OPTIONAL: tuple[tuple[Callable[[Random, int], str], float], ...] = (
    (_groups, 0.4),
    (_scheduling, 0.45),
    (_versions, 0.2),
    (_others, 0.35),
)


def _ensemble(rng: Random) -> Files:
    """Two parts in a row, or one of the ways in which that goes wrong."""
    kinds = [_rare(rng, "TYPE_FP32", "TYPE_INT32", chance=0.1) for _ in range(3)]
    dims = [rng.choice(("1",) * 8 + ("-1", "2", "-1, 1")) for _ in range(3)]
    sizes = [rng.choice((4, 4, 4, 4, 8, 0)) for _ in range(3)]

    def tensor(name: str, at: int) -> str:
        return f'{{ name: "{name}" data_type: {kinds[at]} dims: [ {dims[at]} ] }}'

    def part(at: int) -> str:
        odd = ', { name: "MORE" data_type: TYPE_FP32 dims: [ 1 ] optional: true }' if rng.random() < 0.1 else ""
        return (
            f'backend: "python" max_batch_size: {sizes[at]} '
            f"input [ {tensor('IN', at)}{odd} ] output [ {tensor('OUT', rng.choice((at, at + 1)))} ]\n"
        )

    steps = [
        _step(rng, "a", "x" if rng.random() < 0.05 else "IN", "mid"),
        _step(rng, rng.choice(("b",) * 12 + ("a", "zzz", "m")), "mid", rng.choice(("OUT",) * 12 + ("mid", "NO"))),
    ]
    more = _rare(
        rng, "", "instance_group [ { kind: KIND_CPU } ]", "optimization { }", "response_cache { enable: true }",
        'backend: "python"', "dynamic_batching { }", 'model_warmup [ { name: "w" batch_size: 1 } ]',
        'input [ { name: "SPARE" data_type: TYPE_FP32 dims: [ 1 ] } ]', chance=0.25,
    )  # fmt: skip
    platform = _rare(rng, 'platform: "ensemble"', "", chance=0.05)
    config = (
        f"{platform}\nmax_batch_size: {sizes[2]}\n"
        f"input [ {tensor('IN', 0)} ] output [ {tensor('OUT', rng.choice((1, 2)))} ] {more}\n"
        f"ensemble_scheduling {{ step [ {', '.join(steps)} ] }}\n"
    )
    files = {"m/config.pbtxt": config, "a/config.pbtxt": part(0), "b/config.pbtxt": part(1)}
    return {**files, **_rare_folder(rng), "a/1/model.py": ANSWERS, "b/1/model.py": ANSWERS}


def _rare_folder(rng: Random) -> Files:
    return {} if rng.random() < 0.05 else {"m/1/": ""}


def _step(rng: Random, model: str, read: str, written: str) -> str:
    key, other = _rare(rng, "IN", "NOPE"), _rare(rng, "OUT", "NOPE")
    version = _rare(rng, "model_version: -1", "model_version: 1", "model_version: 7", "", chance=0.15)
    maps = f'input_map {{ key: "{key}" value: "{read}" }} output_map {{ key: "{other}" value: "{written}" }}'
    return f'{{ model_name: "{model}" {version} {_rare(rng, maps, "", chance=0.03)} }}'
