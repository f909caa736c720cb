"""Checks of a model's metrics: the names of its tags, and what it wants measured."""

from __future__ import annotations

import re

from gpuplan.triton.lint.check import Check, Effect, Family, Findings
from gpuplan.triton.lint.repository import Repository, Subject, listed, objects, plain

TAG = Check("metric-tag", "A metric tag that ends the server", Effect.KILLS)
CONTROL = Check("metric-control", "A metric is not described in full", Effect.REFUSED)
_NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9_]*)?", re.ASCII)
"""Triton puts a `_` before the name and hands it to prometheus-cpp, which takes letters, digits and `_`, and no two `_`
at the beginning; of anything else it throws, and nobody catches it, with --allow-metrics=false neither (2.51.0)."""


def _tags(subject: Subject, _: Repository) -> Findings:
    for name in objects(subject.config, "metric_tags"):
        if not _NAME.fullmatch(name):
            yield TAG.at(
                subject.where("metric_tags", name),
                f"{subject.name} has the metric tag {name!r}: with the load the whole server ends, and all its models.",
                "Use letters, digits and _, the first one a letter or digit.",
            )


def _controls(subject: Subject, _: Repository) -> Findings:
    for index, control in enumerate(listed(objects(subject.config, "model_metrics"), "metric_control")):
        where = subject.where("model_metrics", "metric_control", index)
        if not objects(control, "metric_identifier").get("family"):
            yield CONTROL.at(where, f"A metric_control of {subject.name} names no family.", "State metric_identifier.")
        if not plain(objects(control, "histogram_options"), "buckets"):
            detail = f"A metric_control of {subject.name} states no buckets."
            yield CONTROL.at(where, detail, "State histogram_options with buckets.")


FAMILY = Family((TAG, CONTROL), (_tags, _controls))
