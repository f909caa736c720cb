"""Checks of optimization settings: those that the backend of the model never reads."""

from __future__ import annotations

from gpuplan.triton.lint.check import (
    Check,
    CheckGroup,
    Effect,
    Findings,
    LintedModel,
    LintedRepository,
    listed,
    objects,
    text,
)
from gpuplan.triton.lint.instances import groups
from gpuplan.types.diagnostic import Severity

ACCELERATOR = Check("accelerator-ignored", "Accelerator is not used", Effect.IGNORED, Severity.WARNING)
UNKNOWN = Check("accelerator-parameter", "Unknown accelerator parameter", Effect.REFUSED)
PARAMETER = Check("parameter-ignored", "The backend ignores a parameter", Effect.IGNORED, Severity.WARNING)
GRAPHS = Check("cuda-graphs-ignored", "CUDA graphs are not used", Effect.IGNORED, Severity.WARNING)

_READERS = ("onnxruntime", "tensorflow", "openvino", "pytorch")
"""Backends that read execution_accelerators (the README of each)."""
_TENSORRT = {
    "precision_mode", "max_workspace_size_bytes", "max_cached_engines", "minimum_segment_size",
    "int8_calibration_table_name", "int8_use_native_calibration_table",
}  # fmt: skip
"""Parameters of the accelerator tensorrt besides those that begin with ``trt_`` (onnxruntime_backend, README)."""
_PLAN_PARAMETERS = frozenset(
    {
        "execution_context_allocation_strategy", "enable_multi_device", "multi_device_gpus",
        "multi_device_per_rank_engines",
    }
)  # fmt: skip
"""The parameters that the tensorrt backend reads (tensorrt_backend, src/model_state.cc)."""
_ENGINE = "A plan is built already; to cache engines that are built at the load, serve the ONNX model with onnxruntime."


def _accelerators(model: LintedModel, repository: LintedRepository) -> Findings:
    stated = objects(objects(model.config, "optimization"), "execution_accelerators")
    kinds = {kind for _, kind, _ in groups(model, repository.server)}
    for field, elsewhere in (("gpu_execution_accelerator", "KIND_CPU"), ("cpu_execution_accelerator", "KIND_GPU")):
        for index, accelerator in enumerate(listed(stated, field)):
            name = text(accelerator.get("name"))
            where = model.where("optimization", "execution_accelerators", field, index)
            if model.backend and model.backend not in _READERS:
                fix = _ENGINE if model.backend == "tensorrt" else "Remove it."
                detail = f"{model.name} names the accelerator {name}, which {model.backend} never reads."
                yield ACCELERATOR.at(where, detail, fix)
            elif kinds == {elsewhere}:
                detail = f"{model.name} names {name} as {field}, and all its instances are {elsewhere}."
                yield ACCELERATOR.at(where, detail, "Remove it, or change the kind of an instance group.")
            elif name == "tensorrt" and model.backend == "onnxruntime":
                yield from _unknown(model, (field, index), objects(accelerator, "parameters"))


def _unknown(model: LintedModel, place: tuple[str, int], parameters: object) -> Findings:
    for key in parameters if isinstance(parameters, dict) else ():
        if key not in _TENSORRT and not key.startswith("trt_"):
            where = model.where("optimization", "execution_accelerators", *place, "parameters", key)
            detail = f"The accelerator tensorrt of {model.name} has the parameter {key}, which does not exist."
            yield UNKNOWN.at(where, detail, f"It knows {', '.join(sorted(_TENSORRT))}, and trt_….")


def _parameters(model: LintedModel, _: LintedRepository) -> Findings:
    if model.backend != "tensorrt":
        return
    for key in objects(model.config, "parameters"):
        if key not in _PLAN_PARAMETERS and (key.startswith("trt_") or key in _TENSORRT):
            detail = f"{model.name} has the parameter {key}, which the tensorrt backend never reads."
            yield PARAMETER.at(model.where("parameters", key), detail, _ENGINE)


def _graphs(model: LintedModel, _: LintedRepository) -> Findings:
    cuda = objects(objects(model.config, "optimization"), "cuda")
    if cuda.get("graphs") is True and model.backend not in ("tensorrt", ""):
        detail = f"{model.name} wants CUDA graphs, which the tensorrt backend alone takes from here."
        yield GRAPHS.at(model.where("optimization", "cuda", "graphs"), detail, "Remove it.")


CHECKS = CheckGroup(
    checks=(
        ACCELERATOR,
        UNKNOWN,
        PARAMETER,
        GRAPHS,
    ),
    model_checks=(
        _accelerators,
        _parameters,
        _graphs,
    ),
)
