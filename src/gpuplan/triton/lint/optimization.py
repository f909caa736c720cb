"""Checks of optimization settings: those that the backend of the model never reads."""

from __future__ import annotations

from gpuplan.triton.lint.check import Check, Effect, Family, Findings
from gpuplan.triton.lint.instances import groups
from gpuplan.triton.lint.repository import Repository, Subject, listed, objects, text
from gpuplan.types.diagnostic import Severity

ACCELERATOR = Check("accelerator-ignored", "An accelerator that is not used", Effect.IGNORED, Severity.WARNING)
UNKNOWN = Check("accelerator-parameter", "A parameter that the accelerator does not know", Effect.REFUSED)
PARAMETER = Check("parameter-ignored", "A parameter that the backend does not read", Effect.IGNORED, Severity.WARNING)
GRAPHS = Check("cuda-graphs-ignored", "CUDA graphs that are not used", Effect.IGNORED, Severity.WARNING)

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


def _accelerators(subject: Subject, repository: Repository) -> Findings:
    stated = objects(objects(subject.config, "optimization"), "execution_accelerators")
    kinds = {kind for _, kind, _ in groups(subject, repository.server)}
    for field, elsewhere in (("gpu_execution_accelerator", "KIND_CPU"), ("cpu_execution_accelerator", "KIND_GPU")):
        for index, accelerator in enumerate(listed(stated, field)):
            name = text(accelerator.get("name"))
            where = subject.where("optimization", "execution_accelerators", field, index)
            if subject.backend and subject.backend not in _READERS:
                fix = _ENGINE if subject.backend == "tensorrt" else "Take it out."
                detail = f"{subject.name} names the accelerator {name}, which {subject.backend} never reads."
                yield ACCELERATOR.at(where, detail, fix)
            elif kinds == {elsewhere}:
                detail = f"{subject.name} names {name} as {field}, and all its instances are {elsewhere}."
                yield ACCELERATOR.at(where, detail, "Take it out, or change the kind of an instance group.")
            elif name == "tensorrt" and subject.backend == "onnxruntime":
                yield from _unknown(subject, (field, index), objects(accelerator, "parameters"))


def _unknown(subject: Subject, place: tuple[str, int], parameters: object) -> Findings:
    for key in parameters if isinstance(parameters, dict) else ():
        if key not in _TENSORRT and not key.startswith("trt_"):
            where = subject.where("optimization", "execution_accelerators", *place, "parameters", key)
            detail = f"The accelerator tensorrt of {subject.name} has the parameter {key}, which it does not know."
            yield UNKNOWN.at(where, detail, f"It knows {', '.join(sorted(_TENSORRT))}, and trt_….")


def _parameters(subject: Subject, _: Repository) -> Findings:
    if subject.backend != "tensorrt":
        return
    for key in objects(subject.config, "parameters"):
        if key not in _PLAN_PARAMETERS and (key.startswith("trt_") or key in _TENSORRT):
            detail = f"{subject.name} has the parameter {key}, which the tensorrt backend never reads."
            yield PARAMETER.at(subject.where("parameters", key), detail, _ENGINE)


def _graphs(subject: Subject, _: Repository) -> Findings:
    cuda = objects(objects(subject.config, "optimization"), "cuda")
    if cuda.get("graphs") is True and subject.backend not in ("tensorrt", ""):
        detail = f"{subject.name} wants CUDA graphs, which the tensorrt backend alone takes from here."
        yield GRAPHS.at(subject.where("optimization", "cuda", "graphs"), detail, "Take it out.")


FAMILY = Family((ACCELERATOR, UNKNOWN, PARAMETER, GRAPHS), (_accelerators, _parameters, _graphs))
