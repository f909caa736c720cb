"""Checks of a Python model's code: its syntax, its class, and the methods that Triton calls."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from gpuplan.triton.lint.check import Check, Effect, Family, Findings
from gpuplan.triton.lint.pythonsource import CLASS, Function, Source, sources
from gpuplan.triton.lint.repository import Repository, Subject
from gpuplan.triton.releases import python_of
from gpuplan.types.diagnostic import Location, Severity

SYNTAX = Check("python-syntax", "A model's code has no valid syntax", Effect.REFUSED)
MODEL = Check("python-class", "A model's code lacks its class", Effect.REFUSED)
EXECUTE = Check("python-execute", "A model's code lacks execute", Effect.WRONG)
SIGNATURE = Check("python-signature", "A method takes other arguments than Triton gives", Effect.REFUSED)
NAME = Check("python-method-name", "A method that Triton never calls", Effect.WRONG, Severity.WARNING)

CALLED: Mapping[str, tuple[str, ...]] = {
    "initialize": ("args",),
    "execute": ("requests",),
    "finalize": (),
    "auto_complete_config": ("auto_complete_model_config",),
}
"""The methods that Triton calls, and what it gives each besides self (python_backend, README)."""
_LOOKALIKES = {
    "init": "initialize", "setup": "initialize", "load": "initialize", "initialise": "initialize",
    "predict": "execute", "infer": "execute", "inference": "execute", "run": "execute", "forward": "execute",
    "finalise": "finalize", "teardown": "finalize", "unload": "finalize",
}  # fmt: skip
"""Methods of other tools that stand for one of these, where the class lacks that one."""


def _syntax(subject: Subject, repository: Repository) -> Findings:
    for source in sources(subject):
        if source.tree is None:
            words, line, column = source.fault
            theirs = _version(python_of(repository.server.release))
            later = theirs is not None and theirs > sys.version_info[:2]
            also = f" (read as Python {sys.version_info[0]}.{sys.version_info[1]})" if later else ""
            yield SYNTAX.at(
                Location(str(source.file), line, column),
                f"{source.file.name} of {subject.name} cannot be compiled: {words}{also}.",
                "Correct the code; python3 -m py_compile says the same.",
                Severity.WARNING if later else None,
            )


def _version(name: str) -> tuple[int, int] | None:
    major, _, minor = name.partition(".")
    return (int(major), int(minor)) if minor.isdecimal() else None


def _class(subject: Subject, _: Repository) -> Findings:
    for source in sources(subject):
        if source.tree is None or {CLASS, "*"} & source.names:
            continue
        classes = [node for node in source.tree.body if isinstance(node, ast.ClassDef)]
        near = get_close_matches(CLASS, [node.name for node in classes], n=1)
        hint = f", and has {near[0]}" if near else ""
        like = next((node for node in classes if node.name in near), None)
        yield MODEL.at(
            source.where(like),
            f"{source.file.name} of {subject.name} defines no class {CLASS}{hint}.",
            f"Call the class {CLASS}.",
        )


def _methods(subject: Subject, _: Repository) -> Findings:
    for source in sources(subject):
        if source.model is None:
            continue
        if source.method("execute") is None and not source.inherits:
            yield EXECUTE.at(
                source.where(source.model),
                f"{CLASS} of {subject.name} has no method execute: it loads, and every request fails.",
                "Define execute(self, requests), which returns a response for each request.",
            )
        yield from _lookalikes(subject, source)
        for method in source.methods():
            yield from _signature(subject, source, method)


def _lookalikes(subject: Subject, source: Source) -> Findings:
    for method in source.methods():
        if method.name in CALLED or method.name.startswith("__"):
            continue
        close = get_close_matches(method.name, CALLED, n=1, cutoff=0.8)
        meant = close[0] if close else _LOOKALIKES.get(method.name.lower(), "")
        if meant and source.method(meant) is None and not source.inherits:
            yield NAME.at(
                source.where(method),
                f"{CLASS} of {subject.name} has {method.name} and no {meant}; Triton calls {meant} alone.",
                f"Call it {meant}, if it is that.",
            )


def _signature(subject: Subject, source: Source, method: Function) -> Findings:
    given = CALLED.get(method.name) if method.name != "__init__" else ()
    if given is None:
        return
    for why in _misfits(method, len(given)):
        late = method.name in ("execute", "finalize")
        yield SIGNATURE.at(
            source.where(method),
            f"{method.name} of {subject.name} {why}{', which shows with the first request' if late else ''}.",
            f"Write {_wanted(method.name, given)}.",
        )


def _wanted(name: str, given: tuple[str, ...]) -> str:
    if name == "auto_complete_config":
        return f"@staticmethod def {name}({', '.join(given)})"
    return f"def {name}({', '.join(('self', *given))})"


def _misfits(method: Function, given: int) -> Iterator[str]:
    decorators = {node.id for node in method.decorator_list if isinstance(node, ast.Name)}
    if len(decorators) != len(method.decorator_list):
        return  # a decorator of its own may change everything
    free = "staticmethod" in decorators
    if method.name == "auto_complete_config" and not free and "classmethod" not in decorators:
        yield "is no static method"
        return
    arguments = method.args
    plain = [*arguments.posonlyargs, *arguments.args]
    most = len(plain) - (0 if free else 1)
    least = most - len(arguments.defaults)
    if most < given and arguments.vararg is None:
        yield f"takes {max(0, most)} arguments, and Triton gives it {given}"
    elif least > given or any(default is None for default in arguments.kw_defaults):
        yield f"wants more arguments than the {given} that Triton gives it"


FAMILY = Family((SYNTAX, MODEL, EXECUTE, SIGNATURE, NAME), (_syntax, _class, _methods))
