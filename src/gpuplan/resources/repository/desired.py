"""What the plan file implies: the model files of each Triton of a node.

The sources are the operator's files next to the plan file; they are read and hashed here.
"""

from __future__ import annotations

from gpuplan.planfile.expand import containers_on
from gpuplan.planfile.schema import PlanFile
from gpuplan.planfile.sources import sources_on
from gpuplan.planfile.sources.repositories import starts_itself
from gpuplan.resources.kind import DesiredResources
from gpuplan.resources.repository.spec import ModelFiles, RepositoryFile, RepositorySpec
from gpuplan.resources.typed import encode
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic
from gpuplan.types.inventory import Host
from gpuplan.types.resource import Desired


def desired_repositories(plan: PlanFile, host: Host) -> DesiredResources:
    """One repository for each container with a `triton:` section, also if it has no models."""
    desired: list[Desired] = []
    issues: list[Diagnostic] = []
    for placed in containers_on(plan, host):
        triton = placed.container.triton
        if triton is None or starts_itself(triton.repository):
            continue
        sources, source_issues = sources_on(plan, host, placed.name)
        issues.extend(source_issues)
        models: dict[str, ModelFiles] = {}
        for source in sources:
            files = {path: RepositoryFile(f.sha256, f.size, f.origin, f.text) for path, f in source.files.items()}
            models[source.model] = ModelFiles(source.content, files)
        address = Address(host.name, "repository", placed.name)
        spec = RepositorySpec(placed.name, models)
        desired.append(Desired(address, encode(spec), where=plan.where(*placed.path)))
    return desired, issues
