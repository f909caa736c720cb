"""The rooms: one folder for each resource kind, in the order in which a node is compared and built up."""

from gpuplan.kinds.container import ROOM as CONTAINER
from gpuplan.kinds.gpu import ROOM as GPU
from gpuplan.kinds.model import ROOM as MODEL
from gpuplan.kinds.repository import ROOM as REPOSITORY

ROOMS = (GPU, REPOSITORY, CONTAINER, MODEL)
