"""The model.py of a Python model, read and never run."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from gpuplan.triton.lint.repository import Subject, text
from gpuplan.types.diagnostic import Location

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


def sources(subject: Subject) -> Iterator[Source]:
    """The model.py of each version that will be served; those that cannot be read as text are left out."""
    name = text(subject.config.get("default_model_filename")) or "model.py"
    for version in subject.wanted if subject.backend == "python" else ():
        file = subject.files.get(f"{version}/{name}")
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
