"""What the schema cannot say: whether the names of a plan file fit one another, its files, and the nodes."""

from gpuplan.planfile.checks.nodes import check_nodes
from gpuplan.planfile.checks.plan import check_plan

__all__ = ["check_nodes", "check_plan"]
