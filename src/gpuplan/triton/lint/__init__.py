"""Checks of Triton model repositories: what a server would refuse at the load, and what it would take and do wrong.

Pure: a repository is values, and nothing is asked or changed but files beside the plan, which are read.
"""

from gpuplan.triton.lint.check import Check, Effect
from gpuplan.triton.lint.complete import lacking
from gpuplan.triton.lint.repository import Device, Repository, Server, Subject
from gpuplan.triton.lint.run import CHECKS, Silence, Verdict, judge, known_check

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
