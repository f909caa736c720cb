"""The final configs of single models, for what has to fit them beside the checks."""

from __future__ import annotations

from collections.abc import Mapping

from gpuplan.planfile.expand import Placed, models_on
from gpuplan.planfile.schema import PlanFile
from gpuplan.planfile.sources.reader import Reader
from gpuplan.triton.lint import LintedModel
from gpuplan.types.diagnostic import Problem
from gpuplan.types.inventory import Host


def smoked_on(plan: PlanFile, host: Host, home: Placed) -> Mapping[str, LintedModel]:
    """The models of one container that have a `smoke` section, as its server will find them.

    One that nothing can be made of is left out: the checks say why.
    """
    found: dict[str, LintedModel] = {}
    for name, model in models_on(plan, host, home.name):
        if model.smoke is not False and model.source is not None:
            try:
                found[name] = Reader(plan, name, model, home).read().subject
            except Problem:
                continue
    return found
