"""Checks of a Python model's code: its syntax, its class, and the methods that Triton calls."""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path

from gpuplan.triton.lint.check import Check, CheckGroup, Effect, Findings, LintedModel, LintedRepository, text
from gpuplan.triton.releases import python_of
from gpuplan.types.diagnostic import Location, Severity

# The model.py of a Python model, read and never run.

CLASS = "TritonPythonModel"
LONGEST = 4 << 20
"""Bytes of a model.py that are read."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Source:
    """One model.py."""

    file: Path
    tree: ast.Module | None
    """None where it has no syntax that could be read."""
    fault: tuple[str, int, int] = ("", 0, 0)
    """What is wrong with the syntax, line and column."""
    newer: bool = field(default=False, compare=False)
    """True where it may be right in a Python that is later than ours."""

    @cached_property
    def model(self) -> ast.ClassDef | None:
        """The class that Triton makes an instance of, where it is defined here."""
        body = self.tree.body if self.tree else []
        return next((node for node in body if isinstance(node, ast.ClassDef) and node.name == CLASS), None)

    @cached_property
    def names(self) -> frozenset[str]:
        """Every name that the module gives something; holds ``*`` where it imports all of another one."""
        return frozenset(_bound(self.tree.body)) if self.tree else frozenset()

    @property
    def inherits(self) -> bool:
        """True where the class may have methods of another one."""
        bases = self.model.bases if self.model else []
        return any(not (isinstance(base, ast.Name) and base.id == "object") for base in bases)

    def methods(self) -> Iterator[Function]:
        """The methods of the class."""
        for node in self.model.body if self.model else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node

    def method(self, name: str) -> Function | None:
        """One method of the class."""
        return next((each for each in self.methods() if each.name == name), None)

    def where(self, node: ast.stmt | ast.expr | None = None) -> Location:
        """Where a node stands; the whole file without one."""
        return Location(str(self.file), node.lineno, node.col_offset + 1) if node else Location(str(self.file))


def sources(model: LintedModel) -> Iterator[Source]:
    """The model.py of each version that will be served; those that cannot be read as text are left out."""
    name = text(model.config.get("default_model_filename")) or "model.py"
    for version in model.wanted if model.backend == "python" else ():
        file = model.files.get(f"{version}/{name}")
        if file is not None and name.endswith(".py") and (found := _read(file)) is not None:
            yield found


def _read(file: Path) -> Source | None:
    try:
        if file.stat().st_size > LONGEST:
            return None
        raw = file.read_bytes()
    except OSError:
        return None
    try:
        with warnings.catch_warnings(action="ignore"):  # what Python thinks of an escape in it is no matter of ours
            return Source(file, ast.parse(raw, str(file)))
    except SyntaxError as fault:
        return Source(file, None, (fault.msg, fault.lineno or 0, fault.offset or 0))
    except (ValueError, RecursionError, MemoryError) as fault:
        return Source(file, None, (str(fault) or "it is nested too deeply", 0, 0))


def _bound(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))
        elif isinstance(node, ast.If | ast.Try | ast.With):
            inner = [*node.body, *getattr(node, "orelse", []), *getattr(node, "finalbody", [])]
            inner += [each for handler in getattr(node, "handlers", []) for each in handler.body]
            yield from _bound(inner)


SYNTAX = Check("python-syntax", "A model's code has no valid syntax", Effect.REFUSED)
MODEL = Check("python-class", "A model's code lacks its class", Effect.REFUSED)
EXECUTE = Check("python-execute", "A model's code lacks execute", Effect.WRONG)
SIGNATURE = Check("python-signature", "A method has the wrong arguments", Effect.REFUSED)
NAME = Check("python-method-name", "Triton never calls a method", Effect.WRONG, Severity.WARNING)

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


def _syntax(model: LintedModel, repository: LintedRepository) -> Findings:
    for source in sources(model):
        if source.tree is None:
            words, line, column = source.fault
            theirs = _version(python_of(repository.server.release))
            later = theirs is not None and theirs > sys.version_info[:2]
            also = f" (read as Python {sys.version_info[0]}.{sys.version_info[1]})" if later else ""
            yield SYNTAX.at(
                Location(str(source.file), line, column),
                f"{source.file.name} of {model.name} cannot be compiled: {words}{also}.",
                "Correct the code; python3 -m py_compile says the same.",
                Severity.WARNING if later else None,
            )


def _version(name: str) -> tuple[int, int] | None:
    major, _, minor = name.partition(".")
    return (int(major), int(minor)) if minor.isdecimal() else None


def _class(model: LintedModel, _: LintedRepository) -> Findings:
    for source in sources(model):
        if source.tree is None or {CLASS, "*"} & source.names:
            continue
        classes = [node for node in source.tree.body if isinstance(node, ast.ClassDef)]
        near = get_close_matches(CLASS, [node.name for node in classes], n=1)
        hint = f", and has {near[0]}" if near else ""
        like = next((node for node in classes if node.name in near), None)
        yield MODEL.at(
            source.where(like),
            f"{source.file.name} of {model.name} defines no class {CLASS}{hint}.",
            f"Call the class {CLASS}.",
        )


def _methods(model: LintedModel, _: LintedRepository) -> Findings:
    for source in sources(model):
        if source.model is None:
            continue
        if source.method("execute") is None and not source.inherits:
            yield EXECUTE.at(
                source.where(source.model),
                f"{CLASS} of {model.name} has no method execute: it loads, and every request fails.",
                "Define execute(self, requests), which returns a response for each request.",
            )
        yield from _lookalikes(model, source)
        for method in source.methods():
            yield from _signature(model, source, method)


def _lookalikes(model: LintedModel, source: Source) -> Findings:
    for method in source.methods():
        if method.name in CALLED or method.name.startswith("__"):
            continue
        close = get_close_matches(method.name, CALLED, n=1, cutoff=0.8)
        meant = close[0] if close else _LOOKALIKES.get(method.name.lower(), "")
        if meant and source.method(meant) is None and not source.inherits:
            yield NAME.at(
                source.where(method),
                f"{CLASS} of {model.name} has {method.name} and no {meant}; Triton calls {meant} alone.",
                f"Call it {meant}, if it is that.",
            )


def _signature(model: LintedModel, source: Source, method: Function) -> Findings:
    given = CALLED.get(method.name) if method.name != "__init__" else ()
    if given is None:
        return
    for why in _misfits(method, len(given)):
        late = method.name in ("execute", "finalize")
        yield SIGNATURE.at(
            source.where(method),
            f"{method.name} of {model.name} {why}{', which shows with the first request' if late else ''}.",
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


CHECKS = CheckGroup(
    checks=(
        SYNTAX,
        MODEL,
        EXECUTE,
        SIGNATURE,
        NAME,
    ),
    model_checks=(
        _syntax,
        _class,
        _methods,
    ),
)
