"""Inferences: requests are judged as Triton judges them, and answered with zeros of the declared types and shapes."""

from __future__ import annotations

import json
import time

from gpuplan.simulator.state import Document, SimulatedModel, SimulatedModelVersion, items, mapping, text
from gpuplan.simulator.triton.load import Serving, ready
from gpuplan.simulator.triton.model_files import fails_to_execute
from gpuplan.simulator.triton.protocol import (
    Refusal,
    TritonAnswer,
    as_error,
    datatype,
    declared,
    find_region,
    parameters,
    size_of,
    whole,
    write_region,
    zeros,
)

_NOBODY = "[request id: <id_unknown>] "
_BATCH = (
    " NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension to be prepended to each "
    "input shape. If you want to specify the full shape including the batch dim in your input dims config, try setting "
    "max_batch_size to zero. See the model configuration docs for more info on max_batch_size."
)


def infer(serving: Serving, model: str, version: str, body: bytes, head: int | None) -> TritonAnswer:
    """Answer one request and count it."""
    try:
        served, number = _find(serving, model, version)
        if mapping(served.config.get("model_transaction_policy")).get("decoupled") is True:
            raise Refusal(501, "HTTP end point doesn't support models with decoupled transaction policy")
        request = _parsed(body if head is None else body[:head])
        batch = _judge(serving, model, served.config, request, 0 if head is None else len(body) - head)
    except Refusal as refusal:
        return as_error(refusal.status, refusal.text)
    why = _execute(serving, model, number, batch)
    return as_error(500, why) if why else _answer(serving, model, number, served.config, request, batch)


def _find(serving: Serving, model: str, version: str) -> tuple[SimulatedModel, str]:
    served = serving.server.models.get(model)
    if served is None:
        raise Refusal(404, f"Request for unknown model: '{model}' is not found")
    there = [number for number, item in served.versions.items() if item.state == "READY"]
    if not there:
        raise Refusal(404, f"Request for unknown model: '{model}' has no available versions")
    if version and version not in there:
        raise Refusal(404, f"Request for unknown model: '{model}' version {version} is not found")
    return served, version or max(there, key=int)


def _parsed(raw: bytes) -> Document:
    try:
        request = mapping(json.loads(raw or b"{}"))
    except ValueError:
        request = {}
    if "inputs" not in request:
        raise Refusal(500, "Unable to parse 'inputs': attempt to access non-existing object member 'inputs'")
    return request


def _judge(serving: Serving, model: str, config: Document, request: Document, binary: int) -> int:
    """The batch of a request that the model takes; raises Refusal for any other."""
    known = {text(item.get("name")): item for item in map(mapping, items(config.get("input")))}
    given = {text(item.get("name")): item for item in map(mapping, items(request["inputs"]))}
    for name in given:
        if name not in known:
            raise Refusal(400, f"unexpected inference input '{name}' for model '{model}'")
    for name, tensor in given.items():
        binary = _content(serving, model, name, tensor, binary)
    wanted = {text(item.get("name")) for item in map(mapping, items(config.get("output")))}
    for asked in map(mapping, items(request.get("outputs"))):
        if text(asked.get("name")) not in wanted:
            raise Refusal(400, f"unexpected inference output '{asked.get('name')}' for model '{model}'")
    _sequence(model, config, request)
    _complete(model, known, given)
    return _shapes(model, config, known, given)


def _content(serving: Serving, model: str, name: str, tensor: Document, binary: int) -> int:
    """The binary bytes that are left for the other tensors."""
    given_parameters = parameters(tensor)
    if region := given_parameters.get("shared_memory_region"):
        find_region(serving.server, text(region))
        return binary
    size = given_parameters.get("binary_data_size")
    if isinstance(size, int):
        if size > binary:
            more = size - binary
            raise Refusal(
                400, f"unexpected size for input '{name}', expecting {more} additional bytes for model '{model}'"
            )
        return binary - size
    fixed, elements = size_of(tensor), _flat(tensor.get("data"))
    if fixed is not None and elements * (fixed // max(1, _count(tensor))) != fixed:
        raise Refusal(500, "Unable to parse 'data': Shape does not match true shape of 'data' field")
    return binary


def _sequence(model: str, config: Document, request: Document) -> None:
    if "sequence_batching" in config and not mapping(request.get("parameters")).get("sequence_id"):
        words = f"inference request to model '{model}' must specify a non-zero or non-empty correlation ID"
        raise Refusal(400, words)


def _complete(model: str, known: dict[str, Document], given: dict[str, Document]) -> None:
    missing = [name for name, item in known.items() if name not in given and item.get("optional") is not True]
    if missing:
        there = ",".join(f"'{name}'" for name in given)
        lacking = ",".join(f"'{name}'" for name in missing)
        raise Refusal(
            400,
            f"{_NOBODY}expected {len(known)} inputs but got {len(given)} inputs for model '{model}'. Got input(s) "
            f"[{there}], but missing required input(s) [{lacking}]. Please provide all required input(s).",
        )


def _shapes(model: str, config: Document, known: dict[str, Document], given: dict[str, Document]) -> int:
    most, batch = config.get("max_batch_size"), 1
    for name, tensor in given.items():
        kind, shape, allowed = text(tensor.get("datatype")), whole(tensor.get("shape")), declared(config, known[name])
        if kind != datatype(known[name]):
            words = f"inference input '{name}' data-type is '{kind}', but model '{model}' expects"
            raise Refusal(400, f"{_NOBODY}{words} '{datatype(known[name])}'")
        if isinstance(most, int) and most and shape:
            batch = shape[0]
            if batch > most:
                raise Refusal(400, f"{_NOBODY}inference request batch-size must be <= {most} for '{model}'")
        if len(shape) != len(allowed) or any(
            wanted not in (-1, size) for wanted, size in zip(allowed, shape, strict=True)
        ):
            words = f"unexpected shape for input '{name}' for model '{model}'. Expected {_list(allowed)}"
            raise Refusal(400, f"{_NOBODY}{words}, got {_list(shape)}.{_BATCH if most else ''}")
    return batch


def _execute(serving: Serving, model: str, number: str, batch: int) -> str:
    """Why the model fails at a request; what is composed of others runs them. Each is counted."""
    served = serving.server.models[model]
    steps = items(mapping(served.config.get("ensemble_scheduling")).get("step"))
    if steps:
        parts = [text(mapping(step).get("model_name")) for step in steps]
        runs = (_execute(serving, part, _youngest(serving, part), batch) for part in parts)
        failed = next(filter(None, runs), "")
        why = f"in ensemble '{model}', {failed}" if failed else ""
    else:
        directory, shown = serving.directories()[model]
        why = fails_to_execute(directory, shown, model, number, served.config)
    _count_request(served.versions[number], batch, failed=bool(why))
    return why


def _youngest(serving: Serving, model: str) -> str:
    served = serving.server.models[model]
    there = [number for number, item in served.versions.items() if item.state == "READY"] if ready(served) else []
    return max(there or list(served.versions), key=int)


def _count_request(version: SimulatedModelVersion, batch: int, *, failed: bool) -> None:
    if failed:
        version.failures += 1
    else:
        version.executions += 1
        version.inferences += batch
        version.last = int(time.time() * 1000)


def _answer(serving: Serving, model: str, number: str, config: Document, request: Document, batch: int) -> TritonAnswer:
    asked = {text(item.get("name")): parameters(item) for item in map(mapping, items(request.get("outputs")))}
    binary = mapping(request.get("parameters")).get("binary_data_output") is True
    outputs_document: list[Document] = []
    content = b""
    for stated in map(mapping, items(config.get("output"))):
        name, kind = text(stated.get("name")), datatype(stated)
        if asked and name not in asked:
            continue
        shape = [1 if size == -1 else size for size in whole(stated.get("dims"))]
        shape = [batch, *shape] if config.get("max_batch_size") else shape
        raw, plain = zeros(kind, shape)
        output: Document = {"name": name, "datatype": kind, "shape": shape}
        how = asked.get(name, {})
        if region := text(how.get("shared_memory_region", "")):
            write_region(serving, region, how.get("shared_memory_offset"), raw)
            output["parameters"] = {"shared_memory_region": region, "shared_memory_byte_size": len(raw)}
        elif how.get("binary_data", binary):
            output["parameters"] = {"binary_data_size": len(raw)}
            content += raw
        else:
            output["data"] = plain
        outputs_document.append(output)
    named = {"id": request["id"]} if request.get("id") else {}
    head = json.dumps(
        {**named, "model_name": model, "model_version": number, "outputs": outputs_document}, separators=(",", ":")
    ).encode()
    is_binary = any("binary_data_size" in parameters(item) for item in outputs_document)
    return TritonAnswer(200, head + content, len(head) if is_binary else None)


def _flat(value: object) -> int:
    return sum(map(_flat, value)) if isinstance(value, list) else 0 if value is None else 1


def _count(tensor: Document) -> int:
    count = 1
    for size in whole(tensor.get("shape")):
        count *= size
    return count


def _list(shape: list[int]) -> str:
    return f"[{','.join(map(str, shape))}]"
