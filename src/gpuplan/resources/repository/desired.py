"""What the plan file implies: for each model server of a node, the files of its models.

The sources are the operator's own files beside the plan file; reading and hashing them is all that this door asks of
the world.
"""

from __future__ import annotations

from gpuplan.planfile.expand import containers_on
from gpuplan.planfile.schema import PlanFile
from gpuplan.planfile.sources import sources_on
from gpuplan.planfile.sources.repositories import starts_itself
from gpuplan.resources.kind import Told
from gpuplan.types.address import Address
from gpuplan.types.diagnostic import Diagnostic
from gpuplan.types.inventory import Host
from gpuplan.types.resource import Desired
from gpuplan.types.value import JsonObject


def desired_repositories(plan: PlanFile, host: Host) -> Told:
    """One repository for each container with a `triton:` section, be it without models."""
    desired: list[Desired] = []
    faults: list[Diagnostic] = []
    for placed in containers_on(plan, host):
        triton = placed.container.triton
        if triton is None or starts_itself(triton.repository):
            continue
        sources, found = sources_on(plan, host, placed.name)
        faults.extend(found)
        models: dict[str, JsonObject] = {
            source.model: {
                "content": source.content,
                "files": {path: file.json() for path, file in source.files.items()},
            }
            for source in sources
        }
        address = Address(host.name, "repository", placed.name)
        desired.append(Desired(address, {"container": placed.name, "models": models}, where=plan.where(*placed.path)))
    return desired, faults
