"""Checks of Triton model repositories: what a server would refuse at the load, and what it would take and do wrong.

Pure: a repository is values, and nothing is asked or changed but files beside the plan, which are read.
"""

from gpuplan.checks.check import Check, Effect
from gpuplan.checks.complete import lacking
from gpuplan.checks.repository import Device, Repository, Server, Subject
from gpuplan.checks.run import CHECKS, Silence, Verdict, judge, known_check

__all__ = [
    "CHECKS",
    "Check",
    "Device",
    "Effect",
    "Repository",
    "Server",
    "Silence",
    "Subject",
    "Verdict",
    "judge",
    "known_check",
    "lacking",
]
