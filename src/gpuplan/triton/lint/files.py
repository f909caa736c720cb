"""Checks of a model's directory: versions, and the files that its config names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuplan.triton import model_config, model_config_text
from gpuplan.triton.lint.check import (
    Check,
    CheckGroup,
    Effect,
    Findings,
    LintedModel,
    LintedRepository,
    listed,
    number,
    objects,
    plain,
    text,
)
from gpuplan.triton.model_config_text import without_comments
from gpuplan.types.diagnostic import Diagnostic, Location, Severity

NONE = Check("version-directory", "A model has no version directory", Effect.REFUSED)
PASSED = Check("version-name", "A directory that looks like a version is ignored", Effect.IGNORED, Severity.WARNING)
MISREAD = Check("version-misread", "A directory is mistaken for a version", Effect.REFUSED)
NUMBER = Check("version-number", "A version's number is too large", Effect.KILLS)
POLICY = Check("version-policy", "A requested version does not exist", Effect.REFUSED)
FILE = Check("model-file", "A version has no model file", Effect.REFUSED)
LABELS = Check("label-file", "A label file does not exist", Effect.REFUSED)
ENVIRONMENT = Check("execution-environment", "An execution environment does not exist", Effect.REFUSED)

_DIRECTORY = "$$TRITON_MODEL_DIRECTORY/"
_NUMBERED = re.compile(r"^v?[0-9]+$")
_BITS = 63
"""Of a version, next to its sign."""


def _versions(model: LintedModel, _: LintedRepository) -> Findings:
    root = model.root
    if not model.versions:
        marker = f"{root}/1/.gitkeep" if model.ensemble else f"{root}/1/"
        also = ", and wants an empty one for an ensemble too" if model.ensemble else ""
        detail = f"{root} holds no directory whose name is a number; Triton serves versions{also}."
        yield NONE.at(Location(str(root)), detail, f"Make one: {marker}")
    for folder in model.folders:
        if _NUMBERED.match(folder) and folder not in map(str, model.versions) and folder not in model.misread:
            plainly = int(folder.lstrip("v"))
            detail = f"{root}/{folder} is no version for Triton: their names are numbers without leading zeros."
            fix = "Remove it" if plainly in model.versions else f"Call it {plainly}"
            yield PASSED.at(Location(f"{root}/{folder}"), detail, f"{fix}.")


def _misread(model: LintedModel, _: LintedRepository) -> Findings:
    root = model.root
    for folder, version in model.misread.items():
        place, fix = Location(f"{root}/{folder}"), "Move it out of the model's directory, or call it old-"
        if version.bit_length() > _BITS:
            detail = f"Triton takes {root}/{folder} for a version, cannot count so far, and ends."
            yield NUMBER.at(place, detail, "Number versions from 1.")
        else:
            hangs = ", and never answers the load" if model.backend == "python" else ""
            detail = f"Triton takes {root}/{folder} for version {version}, looks for it in {root}/{version}{hangs}."
            yield MISREAD.at(place, detail, f"{fix}{folder}: Triton heeds only how the name begins.")


def _policy(model: LintedModel, _: LintedRepository) -> Findings:
    if not model.versions:
        return
    present = ", ".join(map(str, model.versions))
    policy = objects(model.config, "version_policy")
    for index, version in enumerate(plain(objects(policy, "specific"), "versions")):
        if version in model.versions:
            continue
        strict = version in model.stated_versions or not model.wanted
        yield POLICY.at(
            model.where("version_policy", "specific", "versions", index),
            f"Version {version} of {model.name} is asked for, and {model.root} holds {present}.",
            "Add the directory, or request existing versions.",
            Severity.ERROR if strict else Severity.WARNING,
        )
    if "latest" in policy and not number(objects(policy, "latest").get("num_versions")):
        where = model.where("version_policy", "latest", "num_versions")
        yield POLICY.at(where, f"{model.name} asks for the latest 0 versions.", "Request at least one.")
    if "specific" in policy and not plain(objects(policy, "specific"), "versions"):
        where = model.where("version_policy", "specific")
        yield POLICY.at(where, f"{model.name} asks for specific versions and names none.", f"There: {present}.")


def _model_files(model: LintedModel, _: LintedRepository) -> Findings:
    names = () if model.ensemble else model.model_files
    for version in model.wanted:
        if not names or any(model.holds(f"{version}/{name}") for name in names):
            continue
        stated = text(model.config.get("default_model_filename")) or model.config.get("cc_model_filenames")
        what = "the config names" if stated else f"the {model.backend} backend loads"
        hangs = "; without it Triton never answers the load" if model.backend == "python" else ""
        yield FILE.at(
            Location(f"{model.root}/{version}"),
            f"{model.root}/{version} holds none of what {what}: {', '.join(names)}{hangs}.",
            "Put the file there, or name it with default_model_filename.",
        )


def _labels(model: LintedModel, _: LintedRepository) -> Findings:
    for index, output in enumerate(listed(model.config, "output")):
        if (file := text(output.get("label_filename"))) and file not in model.files:
            yield LABELS.at(
                model.where("output", index, "label_filename"),
                f"{text(output.get('name'))} takes its labels from {file}, which is not in {model.root}.",
                "Put it next to the version directories, or remove label_filename.",
            )


def _environment(model: LintedModel, _: LintedRepository) -> Findings:
    stated = text(objects(objects(model.config, "parameters"), "EXECUTION_ENV_PATH").get("string_value"))
    inside = stated.removeprefix(_DIRECTORY)
    if model.backend == "python" and inside != stated and ".." not in inside and not model.holds(inside):
        yield ENVIRONMENT.at(
            model.where("parameters", "EXECUTION_ENV_PATH"),
            f"EXECUTION_ENV_PATH names {inside}, which is not in {model.root}.",
            "Put the archive into the model's directory, or name one in the image by its absolute path.",
        )


# Checks of a config.pbtxt's text: what is no config at all, and what stands in the wrong place.

if TYPE_CHECKING:
    from google.protobuf.message import Message

SUMMARY = "Not a valid config.pbtxt"
SYNTAX = Check("config-syntax", SUMMARY, Effect.REFUSED, fixed=True)
FIELD = Check("config-field", SUMMARY, Effect.REFUSED, fixed=True)
ENUM = Check("config-enum", SUMMARY, Effect.REFUSED, fixed=True)
VALUE = Check("config-value", SUMMARY, Effect.REFUSED, fixed=True)
DUPLICATE = Check("config-duplicate", SUMMARY, Effect.REFUSED, fixed=True)
CHOICE = Check("config-choice", SUMMARY, Effect.REFUSED, fixed=True)
PLACEHOLDER = Check("config-placeholder", "Unfilled placeholder", Effect.REFUSED, fixed=True)

_BY_KIND = {"syntax": SYNTAX, "field": FIELD, "enum": ENUM, "value": VALUE, "duplicate": DUPLICATE, "choice": CHOICE}
_FIXES = {
    "duplicate": "Keep one of them; put everything into one block.",
    "choice": "Keep one of them.",
}
_LOG = "Correct the file. Triton would refuse it too, with the reason only in its log."


@dataclass(frozen=True)
class Parsed:
    """What a text is: a config where it is one, where its fields stand, and what is wrong with it."""

    message: Message | None
    reading: model_config_text.ConfigText = field(default_factory=model_config_text.ConfigText)
    faults: tuple[Diagnostic, ...] = ()


def parse(text: str, file: str) -> Parsed:
    """Read one config.pbtxt; the message is None where Triton would refuse the text."""
    if unfilled := tuple(_unfilled(text, file)):
        return Parsed(None, faults=unfilled)
    reading = model_config_text.read(text)
    try:
        message = model_config.parse(text)
    except model_config.ConfigSyntaxError as fault:
        problems = [_told(each, file) for each in reading.faults]
        own = SYNTAX.at(Location(file, fault.line, fault.column), f"{fault.text}.", _LOG)
        return Parsed(None, reading, tuple(problems or [own]))
    # Protobuf takes a second value where the first one is the field's default; that is never intended.
    twice = [_told(each, file, Severity.WARNING) for each in reading.faults if each.kind == "duplicate"]
    return Parsed(message, reading, tuple(twice))


def _told(fault: model_config_text.ConfigTextError, file: str, severity: Severity | None = None) -> Diagnostic:
    where = Location(file, *fault.place)
    return _BY_KIND[fault.kind].at(where, f"{fault.text}.", _FIXES.get(fault.kind, _LOG), severity)


def _unfilled(text: str, file: str) -> Iterator[Diagnostic]:
    for match in re.finditer(r"\$\{[^}\n]*\}?", without_comments(text)):
        yield PLACEHOLDER.at(
            place(text, match.start(), file),
            f"{match[0]} is in a place where Triton expects a value.",
            "Fill in the template, or set the field under `config:` in the plan file and remove it here.",
        )


def place(text: str, offset: int, file: str) -> Location:
    """The line and column of an offset in a text."""
    line = text.count("\n", 0, offset) + 1
    return Location(file, line, offset - (text.rfind("\n", 0, offset) + 1) + 1)


CHECKS = CheckGroup(
    checks=(
        NONE,
        PASSED,
        MISREAD,
        NUMBER,
        POLICY,
        FILE,
        LABELS,
        ENVIRONMENT,
        SYNTAX,
        FIELD,
        ENUM,
        VALUE,
        DUPLICATE,
        CHOICE,
        PLACEHOLDER,
    ),
    model_checks=(
        _versions,
        _misread,
        _policy,
        _model_files,
        _labels,
        _environment,
    ),
)
