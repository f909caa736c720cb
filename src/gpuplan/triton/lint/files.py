"""Checks of a model's directory: versions, and the files that its config names."""

from __future__ import annotations

import re

from gpuplan.triton.lint.check import Check, Effect, Family, Findings
from gpuplan.triton.lint.repository import Repository, Subject, listed, number, objects, plain, text
from gpuplan.types.diagnostic import Location, Severity

NONE = Check("version-directory", "A model has no version directory", Effect.REFUSED)
PASSED = Check("version-name", "A directory that looks like a version is passed over", Effect.IGNORED, Severity.WARNING)
MISREAD = Check("version-misread", "A directory is taken for a version that is not there", Effect.REFUSED)
NUMBER = Check("version-number", "A version's number is too large", Effect.KILLS)
POLICY = Check("version-policy", "A wanted version is not there", Effect.REFUSED)
FILE = Check("model-file", "A version has no model file", Effect.REFUSED)
LABELS = Check("label-file", "A file of labels is not there", Effect.REFUSED)
ENVIRONMENT = Check("execution-environment", "An execution environment is not there", Effect.REFUSED)

_DIRECTORY = "$$TRITON_MODEL_DIRECTORY/"
_NUMBERED = re.compile(r"^v?[0-9]+$")
_BITS = 63
"""Of a version, beside its sign."""


def _versions(subject: Subject, _: Repository) -> Findings:
    root = subject.root
    if not subject.versions:
        marker = f"{root}/1/.gitkeep" if subject.ensemble else f"{root}/1/"
        also = ", and wants an empty one for an ensemble too" if subject.ensemble else ""
        detail = f"{root} holds no directory whose name is a number; Triton serves versions{also}."
        yield NONE.at(Location(str(root)), detail, f"Make one: {marker}")
    for folder in subject.folders:
        if _NUMBERED.match(folder) and folder not in map(str, subject.versions) and folder not in subject.misread:
            plainly = int(folder.lstrip("v"))
            detail = f"{root}/{folder} is no version for Triton: their names are numbers without leading zeros."
            fix = "Take it away" if plainly in subject.versions else f"Call it {plainly}"
            yield PASSED.at(Location(f"{root}/{folder}"), detail, f"{fix}.")


def _misread(subject: Subject, _: Repository) -> Findings:
    root = subject.root
    for folder, version in subject.misread.items():
        place, fix = Location(f"{root}/{folder}"), "Move it out of the model's directory, or call it old-"
        if version.bit_length() > _BITS:
            detail = f"Triton takes {root}/{folder} for a version, cannot count so far, and ends."
            yield NUMBER.at(place, detail, "Number versions from 1.")
        else:
            hangs = ", and never answers the load" if subject.backend == "python" else ""
            detail = f"Triton takes {root}/{folder} for version {version}, looks for it in {root}/{version}{hangs}."
            yield MISREAD.at(place, detail, f"{fix}{folder}: Triton heeds only how the name begins.")


def _policy(subject: Subject, _: Repository) -> Findings:
    if not subject.versions:
        return
    present = ", ".join(map(str, subject.versions))
    policy = objects(subject.config, "version_policy")
    for index, version in enumerate(plain(objects(policy, "specific"), "versions")):
        if version in subject.versions:
            continue
        strict = version in subject.stated_versions or not subject.wanted
        yield POLICY.at(
            subject.where("version_policy", "specific", "versions", index),
            f"Version {version} of {subject.name} is asked for, and {subject.root} holds {present}.",
            "Add the directory, or ask for versions that are there.",
            Severity.ERROR if strict else Severity.WARNING,
        )
    if "latest" in policy and not number(objects(policy, "latest").get("num_versions")):
        where = subject.where("version_policy", "latest", "num_versions")
        yield POLICY.at(where, f"{subject.name} asks for the latest 0 versions.", "Ask for one at least.")
    if "specific" in policy and not plain(objects(policy, "specific"), "versions"):
        where = subject.where("version_policy", "specific")
        yield POLICY.at(where, f"{subject.name} asks for specific versions and names none.", f"There: {present}.")


def _model_files(subject: Subject, _: Repository) -> Findings:
    names = () if subject.ensemble else subject.model_files
    for version in subject.wanted:
        if not names or any(subject.holds(f"{version}/{name}") for name in names):
            continue
        stated = text(subject.config.get("default_model_filename")) or subject.config.get("cc_model_filenames")
        what = "the config names" if stated else f"the {subject.backend} backend loads"
        hangs = "; without it Triton never answers the load" if subject.backend == "python" else ""
        yield FILE.at(
            Location(f"{subject.root}/{version}"),
            f"{subject.root}/{version} holds none of what {what}: {', '.join(names)}{hangs}.",
            "Put the file there, or name it with default_model_filename.",
        )


def _labels(subject: Subject, _: Repository) -> Findings:
    for index, output in enumerate(listed(subject.config, "output")):
        if (file := text(output.get("label_filename"))) and file not in subject.files:
            yield LABELS.at(
                subject.where("output", index, "label_filename"),
                f"{text(output.get('name'))} takes its labels from {file}, which is not in {subject.root}.",
                "Put it beside the version directories, or take label_filename out.",
            )


def _environment(subject: Subject, _: Repository) -> Findings:
    stated = text(objects(objects(subject.config, "parameters"), "EXECUTION_ENV_PATH").get("string_value"))
    inside = stated.removeprefix(_DIRECTORY)
    if subject.backend == "python" and inside != stated and ".." not in inside and not subject.holds(inside):
        yield ENVIRONMENT.at(
            subject.where("parameters", "EXECUTION_ENV_PATH"),
            f"EXECUTION_ENV_PATH names {inside}, which is not in {subject.root}.",
            "Bring the archive with the model, or name one of the image by its absolute path.",
        )


FAMILY = Family(
    (NONE, PASSED, MISREAD, NUMBER, POLICY, FILE, LABELS, ENVIRONMENT),
    (_versions, _misread, _policy, _model_files, _labels, _environment),
)
