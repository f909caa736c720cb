"""Why a backend refuses a version of a model, in Triton's words (see docs of each check below)."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

from gpuplan.simulator.document import items, mapping, text
from gpuplan.simulator.state import Document
from gpuplan.simulator.triton.files import Polled


class NeverAnswers(Exception):
    """A Python model without its model.py: Triton 2.51 loads it for ever."""


def refusal(polled: Polled, version: str, backends: Sequence[str], gpus: int) -> str:
    """Why this version cannot be loaded; an empty text where it can.

    Raises:
        NeverAnswers: the load would hang.
    """
    if polled.backend not in backends:
        return (
            f"Invalid argument: unable to find backend library for backend '{polled.backend}', "
            "try specifying runtime on the model configuration."
        )
    if why := _tensors(polled) or _groups(polled, gpus):
        return why
    file = polled.directory / version / polled.file
    if polled.backend == "python":
        if not file.is_file():
            raise NeverAnswers
        return _python(file.read_bytes(), f"{polled.shown}/{version}/{polled.file}")
    if polled.file and not file.exists():
        return f"Internal: unable to find '{polled.shown}/{version}/{polled.file}' for model '{polled.name}'"
    return ""


def _tensors(polled: Polled) -> str:
    for kind in ("input", "output"):
        for tensor in map(mapping, items(polled.config.get(kind))):
            said = f"Invalid argument: model {kind} '{text(tensor.get('name'))}' must specify"
            if not items(tensor.get("dims")):
                return f"{said} 'dims' for {polled.name}"
            if tensor.get("data_type") == "TYPE_INVALID":
                return f"{said} 'data_type' for {polled.name}"
    return ""


def _groups(polled: Polled, gpus: int) -> str:
    for number, group in enumerate(map(mapping, items(polled.config.get("instance_group")))):
        name = text(group.get("name")) or f"{polled.name}_{number}"
        said = f"Invalid argument: instance group {name} of model {polled.name}"
        named = [one for one in items(group.get("gpus")) if isinstance(one, int)]
        if group.get("kind") == "KIND_CPU" and named:
            return f"{said} has kind KIND_CPU but specifies one or more GPUs"
        if group.get("kind") == "KIND_GPU" and not gpus and not named:
            return f"{said} has kind KIND_GPU but no GPUs are available"
        if bad := [one for one in named if one >= gpus]:
            valid = ", ".join(map(str, range(gpus)))
            return (
                f"{said} specifies invalid or unsupported gpu id {bad[0]}. "
                f"GPUs with at least the minimum required CUDA compute compatibility of 6.000000 are: {valid}"
            )
    return ""


def _python(source: bytes, shown: str) -> str:
    """What of a model.py can be seen without running it: its syntax, its class, and what `initialize` surely raises."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", 1)
        return f"Internal: SyntaxError: {getattr(error, 'msg', error)} (model.py, line {line})"
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == "TritonPythonModel":
            return _raised(node, shown, "initialize")
    version = shown.rsplit("/", 2)[1]
    return f"Internal: AttributeError: module '{version}.model' has no attribute 'TritonPythonModel'"


def fails_to_execute(directory: Path, shown: str, model: str, version: str, config: Document) -> str:
    """Why a loaded model fails at each request; an empty text where it answers.

    Of a model.py it is seen where `execute` surely raises, or ends its process.
    """
    file = text(config.get("default_model_filename"))
    source = directory / version / file
    if config.get("backend") != "python" or not source.is_file():
        return ""
    tree = ast.parse(source.read_bytes())
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == "TritonPythonModel":
            if _ends(node):
                return f"Stub process '{model}_0_0' is not healthy."
            raised = _raised(node, f"{shown}/{version}/{file}", "execute").removeprefix("Internal: ")
            return f"Failed to process the request(s) for model '{model}_0_0', message: {raised}" if raised else ""
    return ""


def _ends(model: ast.ClassDef) -> bool:
    for node in model.body:
        if isinstance(node, ast.FunctionDef) and node.name == "execute":
            return any(
                isinstance(each, ast.Expr) and ast.unparse(each).startswith(("os._exit(", "os.abort("))
                for each in node.body
            )
    return False


def _raised(model: ast.ClassDef, shown: str, method: str) -> str:
    for node in model.body:
        if isinstance(node, ast.FunctionDef) and node.name == method:
            for statement in node.body:
                if isinstance(statement, ast.Raise) and isinstance(statement.exc, ast.Call):
                    kind, arguments = ast.unparse(statement.exc.func), statement.exc.args
                    said = str(arguments[0].value) if arguments and isinstance(arguments[0], ast.Constant) else ""
                    return f"Internal: {kind}: {said}\n\nAt:\n  {shown}({statement.lineno}): {method}\n"
    return ""
