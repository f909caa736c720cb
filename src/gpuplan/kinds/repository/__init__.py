"""The model files of one Triton container on a node: brought by content, switched model by model.

A difference is never more than this: a file on the node has another content than the plan file's sources give.
"""

from gpuplan.kinds.repository.apply import apply
from gpuplan.kinds.repository.diff import diff
from gpuplan.kinds.repository.read import read
from gpuplan.kinds.repository.space import foresee
from gpuplan.kinds.repository.spec import spec
from gpuplan.kinds.repository.wanted import with_former
from gpuplan.kinds.room import Room

ROOM = Room("repository", ("repository",), spec, read, diff, apply, foresee=foresee, went_back=with_former)

__all__ = ["ROOM"]
