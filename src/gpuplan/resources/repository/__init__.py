"""The model files of one Triton container on a node: sent by content, switched model by model.

All that a change consists of is files whose content on the node differs from that of the plan file's sources.
"""

from gpuplan.resources.kind import Kind
from gpuplan.resources.repository.apply import apply_step, check_disk_space
from gpuplan.resources.repository.desired import desired_repositories
from gpuplan.resources.repository.diff import diff
from gpuplan.resources.repository.read import read
from gpuplan.resources.repository.spec import with_previous_model

REPOSITORY = Kind(
    "repository",
    ("repository",),
    desired_repositories,
    read,
    diff,
    apply_step,
    preflight=check_disk_space,
    rolled_back=with_previous_model,
)

__all__ = ["REPOSITORY"]
