"""Model sources: the directories beside the plan file that become models in a Triton's repository.

Two rooms want them, one for the files to bring and one for the content to find loaded; since rooms may not know one
another, they are read here.
"""

from gpuplan.planfile.sources.remote import Served, served_on
from gpuplan.planfile.sources.source import File, Source, silenced, sources_on

__all__ = ["File", "Served", "Source", "served_on", "silenced", "sources_on"]
