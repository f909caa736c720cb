"""What Triton says of itself and its models: metadata, configs, statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.simulator.state import Document, SimulatedModel, SimulatedModelVersion, SimulatedTriton, items, mapping
from gpuplan.triton.model_config import since

if TYPE_CHECKING:
    from google.protobuf.message import Message

_EXTENSIONS = ["classification", "sequence", "model_repository", "model_repository(unload_dependents)",
               "schedule_policy", "model_configuration", "system_shared_memory", "cuda_shared_memory",
               "binary_tensor_data", "parameters", "statistics", "trace", "logging"]  # fmt: skip
_PINNED: Document = {"enable": True}
_OPTIMIZATION: Document = {
    "priority": "PRIORITY_DEFAULT",
    "input_pinned_memory": _PINNED,
    "output_pinned_memory": _PINNED,
    "gather_kernel_buffer_threshold": 0,
    "eager_batching": False,
}
_COUNTS = ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output", "cache_hit", "cache_miss")


def full(message: object, release: str) -> Document:
    """A config with every field that has a default, as Triton's JSON shows it; a release knows its own fields only."""
    known: Message = message  # type: ignore[assignment]  # built from a schema at run time, so it has no class to name
    name = known.DESCRIPTOR.full_name.partition(".")[2]
    shown: Document = {}
    for field in known.DESCRIPTOR.fields:
        value = getattr(known, field.name)
        if since(name, field.name) > release:
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            plain = field.message_type.fields_by_name["value"].message_type is None
            shown[field.name] = {key: value[key] if plain else full(value[key], release) for key in sorted(value)}
        elif field.is_repeated:
            shown[field.name] = [_value(field, one, release) for one in value]
        elif not field.has_presence or known.HasField(field.name):
            shown[field.name] = _value(field, value, release)
    return shown


def served_config(config: Document, gpus: int) -> Document:
    """The config of a loaded model, with what the server fills in."""
    shown = dict(config)
    shown["version_policy"] = config.get("version_policy") or {"latest": {"num_versions": 1}}
    if "ensemble_scheduling" in config:
        shown["model_transaction_policy"] = {"decoupled": False}
    else:
        shown["optimization"] = {**_OPTIMIZATION, **mapping(config.get("optimization"))}
        groups = [mapping(one) for one in items(config["instance_group"])] or [{"name": config["name"]}]
        shown["instance_group"] = [_group(str(config["name"]), number, one, gpus) for number, one in enumerate(groups)]
    return shown


def server_metadata(server: SimulatedTriton) -> Document:
    """`GET /v2`."""
    return {"name": server.identity, "version": server.version, "extensions": _EXTENSIONS}


def model_metadata(name: str, served: SimulatedModel, versions: list[str]) -> Document:
    """`GET /v2/models/NAME`."""
    config = served.config
    batch = [-1] if config.get("max_batch_size") else []
    return {
        "name": name,
        "versions": versions,
        "platform": config.get("platform") or config.get("backend"),
        "inputs": [_tensor(mapping(one), batch) for one in items(config.get("input"))],
        "outputs": [_tensor(mapping(one), batch) for one in items(config.get("output"))],
    }


def statistics(name: str, number: str, version: SimulatedModelVersion) -> Document:
    """One entry of `model_stats`; a simulated model takes no time."""
    counts = {count: version.executions for count in _COUNTS if not count.startswith("cache")}
    counts["fail"] = version.failures
    return {
        "name": name,
        "version": number,
        "last_inference": version.last,
        "inference_count": version.inferences,
        "execution_count": version.executions,
        "inference_stats": {count: {"count": counts.get(count, 0), "ns": 0} for count in _COUNTS},
        "response_stats": {},
        "batch_stats": [],
        "memory_usage": [],
    }


def _value(field: object, value: object, release: str) -> object:
    described = getattr(field, "enum_type", None)
    if described is not None:
        return described.values_by_number[value].name
    return full(value, release) if getattr(field, "message_type", None) is not None else value


def _group(model: str, number: int, stated: Document, gpus: int) -> Document:
    kind = stated.get("kind", "KIND_AUTO")
    if kind == "KIND_AUTO":
        kind = "KIND_GPU" if gpus else "KIND_CPU"
    named = items(stated.get("gpus")) or (list(range(gpus)) if kind == "KIND_GPU" else [])
    return {
        "name": stated.get("name") or f"{model}_{number}",
        "kind": kind,
        "count": stated.get("count") or 1,
        "gpus": named,
        "secondary_devices": stated.get("secondary_devices", []),
        "profile": stated.get("profile", []),
        "passive": stated.get("passive", False),
        "host_policy": stated.get("host_policy", ""),
        **({"rate_limiter": stated["rate_limiter"]} if "rate_limiter" in stated else {}),
    }


def _tensor(stated: Document, batch: list[int]) -> Document:
    kind = str(stated["data_type"]).removeprefix("TYPE_")
    return {
        "name": stated["name"],
        "datatype": "BYTES" if kind == "STRING" else kind,
        "shape": [*batch, *items(stated["dims"])],
    }
