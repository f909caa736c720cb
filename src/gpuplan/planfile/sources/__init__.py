"""Model sources: the directories next to the plan file that become models in a Triton's repository.

Two rooms want them, one for the files to bring and one for the content to find loaded; since rooms may not know one
another, they are read here.
"""

from gpuplan.planfile.sources.repositories import RemoteModel, remote_models_on
from gpuplan.planfile.sources.source import ModelSource, SourceFile, silenced_count, sources_on

__all__ = ["ModelSource", "RemoteModel", "SourceFile", "remote_models_on", "silenced_count", "sources_on"]
