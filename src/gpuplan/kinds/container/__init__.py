"""Docker containers: what the plan states of them, compared field by field."""

from gpuplan.kinds.container.apply import apply
from gpuplan.kinds.container.diff import diff
from gpuplan.kinds.container.read import read
from gpuplan.kinds.container.spec import containers
from gpuplan.kinds.room import Room

ROOM = Room(kind="container", probes=("docker", "gpu"), spec=containers, read=read, diff=diff, apply=apply)
