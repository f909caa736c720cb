"""Variables and references: `${var.NAME}` is filled in, `${env:…}`, `${file:…}` and `${cmd:…}` are kept for env."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from gpuplan.planfile.yamlfile import Document, Where, read_document
from gpuplan.planfile.yamlsyntax import resolve
from gpuplan.types.diagnostic import Diagnostic, Location, Problem

ENVIRONMENT = "GPUPLAN_VAR_"
_REFERENCE = re.compile(r"(\$?)\$\{([^{}]*)(\}?)")


@dataclass(frozen=True)
class VariableValue:
    """A variable's value: text, and whether a place that takes a number may read it as one."""

    text: str
    plain: bool = True


@dataclass(frozen=True)
class VariableSources:
    """Where values come from besides the defaults, the strongest first."""

    arguments: Mapping[str, str]
    """--var NAME=VALUE"""
    files: Sequence[str]
    """--var-file; of two files the later one wins."""
    environ: Mapping[str, str]


@dataclass
class Substitution:
    """What filling in found wrong, and which values are not what they will be."""

    faults: list[Diagnostic] = field(default_factory=list)
    broken: set[Where] = field(default_factory=set)
    reported: set[str] = field(default_factory=set)
    """Variables whose own value is at fault; places that use them need no fault of their own."""


def substitute_variables(document: Document, sources: VariableSources) -> Substitution:
    """Put the values into the document's text, in place, and tell what is wrong with variables and references.

    A value that is nothing but one reference becomes a number or a boolean where the variable's default is one (or has
    no default), so that it may stand where a number is wanted; where text is wanted it stays as it was written.
    """
    result = Substitution()
    given = _given(document, sources, result)
    if isinstance(document.data, dict):
        for key, value in document.data.items():
            if key != "variables":
                document.data[key] = _filled(document, value, (key,), given, result)
    return result


def _given(document: Document, sources: VariableSources, filled: Substitution) -> dict[str, VariableValue | None]:
    """Every declared variable with its value, None where it has none."""
    declared = document.data.get("variables") if isinstance(document.data, dict) else None
    result: dict[str, VariableValue | None] = {}
    if not isinstance(declared, dict):
        declared = {}
    texts = dict(_from_outside(sources, tuple(declared), filled.faults))
    for name, section in declared.items():
        default = section.get("default") if isinstance(section, dict) else None
        path = ("variables", name, "default")
        if name in texts:
            result[name] = VariableValue(texts[name], plain=not isinstance(default, str))
        elif default is None or isinstance(default, list | dict):
            result[name] = None
        else:
            result[name] = VariableValue(document.texts.get(path, str(default)), plain=not isinstance(default, str))
        if (value := result[name]) is not None and "${" in value.text:
            detail = f"The value of {name} contains '${{'; variables cannot contain references."
            filled.faults.append(Diagnostic("Reference inside a variable", detail, where=document.at(path)))
            filled.reported.add(name)
    return result


def _from_outside(
    sources: VariableSources, declared: Sequence[str], faults: list[Diagnostic]
) -> Iterator[tuple[str, str]]:
    """(name, text), weakest source first."""
    for name in declared:
        if (text := sources.environ.get(f"{ENVIRONMENT}{name}")) is not None:
            yield name, text
    for file in sources.files:
        yield from _from_file(file, declared, faults)
    for name, text in sources.arguments.items():
        if name not in declared:
            detail = f"--var {name} sets a variable that the plan file does not declare."
            faults.append(Diagnostic("Undeclared variable", detail, _nearest(name, declared)))
        yield name, text


def _from_file(file: str, declared: Sequence[str], faults: list[Diagnostic]) -> Iterator[tuple[str, str]]:
    try:
        document = read_document(file)
    except Problem as problem:
        faults.extend(problem.diagnostics)
        return
    if not isinstance(document.data, dict):
        faults.append(
            Diagnostic(
                "Invalid variable file", "A variable file must consist of NAME: VALUE lines.", where=Location(file)
            )
        )
        return
    for name, value in document.data.items():
        where = document.keys[(name,)]
        if value is None or isinstance(value, list | dict):
            detail = f"{name} is {'empty' if value is None else 'a list or a section'}; a variable is one value."
            faults.append(Diagnostic("Variable has no value", detail, where=where))
        elif name not in declared:
            detail = f"{name} is a variable that the plan file does not declare."
            faults.append(Diagnostic("Undeclared variable", detail, _nearest(name, declared), where))
        else:
            yield name, document.texts.get((name,), str(value))


def _filled(
    document: Document, value: object, path: Where, given: Mapping[str, VariableValue | None], result: Substitution
) -> object:
    if isinstance(value, dict):
        for key in [key for key in value if "${" in key]:
            detail = f"The key {key!r} contains a reference; references are allowed only in values."
            result.broken.add((*path, key))
            result.faults.append(Diagnostic("Reference in a key", detail, where=document.keys[(*path, key)]))
        return {key: _filled(document, inner, (*path, key), given, result) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled(document, inner, (*path, index), given, result) for index, inner in enumerate(value)]
    if not isinstance(value, str) or "${" not in value:
        return value
    return _Text(document, path, given, result).filled(value)


class _Text:
    """One text of the plan file and the references in it."""

    def __init__(
        self, document: Document, path: Where, given: Mapping[str, VariableValue | None], result: Substitution
    ) -> None:
        self._document = document
        self._path = path
        self._given = given
        self._result = result
        self._secrets = len(path) == 4 and path[0] == "containers" and path[2] == "env"

    def filled(self, text: str) -> object:
        whole = _REFERENCE.fullmatch(text)
        result = _REFERENCE.sub(self._replaced, text)
        if self._path in self._result.broken or not whole or whole[1] or not whole[2].startswith("var."):
            return result
        value = self._given.get(whole[2].removeprefix("var."))
        typed = resolve(result) if value and value.plain else result
        if typed is None or isinstance(typed, str):
            return result
        self._document.texts[self._path] = result
        return typed

    def _replaced(self, match: re.Match[str]) -> str:
        escaped, inside, closed = match.groups()
        secret = inside.startswith(("env:", "file:", "cmd:"))
        if escaped:
            if secret and self._secrets:
                self._fault(
                    "Reference cannot be escaped here",
                    match,
                    "In env, ${env:…}, ${file:…} and ${cmd:…} are always secrets.",
                )
            return match[0][1:]
        if not closed:
            self._fault("Unclosed reference", match, "It begins with '${' and has no '}'.", "Write $${ for a plain ${.")
        elif secret and not self._secrets:
            detail = f"{match[0]} is a secret, but this value is printed and saved."
            self._fault("Secret outside env", match, detail, "Use secrets only in env values.")
        elif secret and not inside.partition(":")[2]:
            fix = "Write ${env:NAME}, ${file:PATH} or ${cmd:PROGRAM ARGUMENTS}."
            self._fault("Secret has no name", match, f"{match[0]} names nothing.", fix)
        elif inside.startswith("var."):
            return self._variable(inside.removeprefix("var."), match)
        elif not secret:
            detail = f"{match[0]} is none of ${{var.NAME}}, ${{env:NAME}}, ${{file:PATH}} and ${{cmd:PROGRAM}}."
            self._fault("Unknown reference", match, detail, "Write $${ for a plain ${.")
        return match[0]

    def _variable(self, name: str, match: re.Match[str]) -> str:
        if name not in self._given:
            detail = f"{match[0]} refers to a variable that the plan file does not declare."
            fix = _nearest(name, tuple(self._given))
            self._fault("Undeclared variable", match, detail, fix or f"Declare {name} under variables.")
        elif name in self._result.reported:
            self._result.broken.add(self._path)
        elif (value := self._given[name]) is not None:
            return value.text
        else:
            fix = f"Use --var {name}=VALUE or {ENVIRONMENT}{name}, or give it a default."
            self._fault("Variable has no value", match, f"{name} has no default, and no value was given.", fix)
        return match[0]

    def _fault(self, summary: str, match: re.Match[str], detail: str, fix: str = "") -> None:
        self._result.broken.add(self._path)
        self._result.faults.append(Diagnostic(summary, detail, fix, self._location(match[0])))

    def _location(self, reference: str) -> Location:
        """Where the reference itself stands, as far as the value is on one line."""
        start = self._document.at(self._path)
        line = self._document.lines[start.line - 1] if 0 < start.line <= len(self._document.lines) else ""
        found = line.find(reference, max(start.column - 1, 0))
        return start if found < 0 else Location(start.file, start.line, found + 1)


def _nearest(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, n=1)
    return f"Did you mean {close[0]}?" if close else ""
