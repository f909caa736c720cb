"""Lint of Triton model repositories: what a server would refuse to load, and what it would load and serve wrong.

Pure: it reads the operator's files, and neither asks nor changes a server.
"""

from gpuplan.triton.lint.check import Check, Effect, LintedModel, LintedRepository, TargetServer, VisibleGpu
from gpuplan.triton.lint.identity import missing_config
from gpuplan.triton.lint.run import CHECKS, LintResult, SilencedCheck, known_check, lint

__all__ = [
    "CHECKS",
    "Check",
    "Effect",
    "LintResult",
    "LintedModel",
    "LintedRepository",
    "SilencedCheck",
    "TargetServer",
    "VisibleGpu",
    "known_check",
    "lint",
    "missing_config",
]
