"""gpuplan installed on a lab node, as docs/boot.md has it: its own directory with everything that it needs."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

import gpuplan
from tests.lab.fixtures import Lab

PROGRAM = "/opt/gpuplan/bin/gpuplan"
START = """\
#!/usr/bin/python3
import sys

sys.path.insert(0, "/opt/gpuplan/lib")
from gpuplan.cli import main

sys.exit(main())
"""


def install(lab: Lab, node: str) -> None:
    """Copy gpuplan and what it depends on to the node, which has no network to install from."""
    target = lab.root(node) / "opt/gpuplan"
    source = Path(gpuplan.__file__).parent
    shutil.copytree(source, target / "lib/gpuplan", ignore=shutil.ignore_patterns("__pycache__"))
    for each in _needed(distribution("gpuplan"), (), {}):
        for file in each.files or ():
            found = Path(str(each.locate_file(file)))
            if ".." in file.parts or found.suffix == ".pyc" or not found.is_file():
                continue
            place = target / "lib" / file
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(found, place)
    shutil.copyfile(_library(), lab.root(node) / _library().relative_to("/"))
    start = lab.root(node) / PROGRAM.lstrip("/")
    start.parent.mkdir()
    start.write_text(START)
    start.chmod(0o755)


def remove(lab: Lab, node: str) -> None:
    """Take it off again."""
    lab.run(node, ["rm", "-rf", "/opt/gpuplan", str(_library())])


def _library() -> Path:
    """What the Triton client needs of the system, and the lab's bare nodes lack."""
    (found,) = Path("/usr/lib").glob("*-linux-gnu/libstdc++.so.6")
    return found


def _needed(owner: Distribution, extras: Iterable[str], seen: dict[str, Distribution]) -> Iterator[Distribution]:
    for text in owner.requires or ():
        requirement = Requirement(text)
        name = requirement.name.lower()
        wanted = [
            extra for extra in ("", *extras) if not requirement.marker or requirement.marker.evaluate({"extra": extra})
        ]
        if name in seen or not wanted:
            continue
        seen[name] = distribution(name)
        yield seen[name]
        yield from _needed(seen[name], requirement.extras, seen)
