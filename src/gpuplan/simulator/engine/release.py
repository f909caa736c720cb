"""Releases of Docker Engine that a simulated node can have, and the API versions that each speaks.

Source: the version history of the Engine API in Docker's documentation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuplan.simulator.document import mapping, text
from gpuplan.simulator.engine.http import EngineError
from gpuplan.simulator.state import Document

PLAIN = "20.10.24"
"""What a node has whose inventory names none."""
_APIS = {"20.10": ("1.41", "1.12"), "23.0": ("1.42", "1.12"), "24.0": ("1.43", "1.12"), "25.0": ("1.44", "1.24"),
         "26.0": ("1.45", "1.24"), "26.1": ("1.45", "1.24"), "27.0": ("1.46", "1.24"), "27.5": ("1.47", "1.24"),
         "28.0": ("1.48", "1.24"), "28.5": ("1.51", "1.24"), "29.0": ("1.52", "1.44")}  # fmt: skip
KNOWN = tuple(_APIS)
_PATH = re.compile(r"^/v(\d+)\.(\d+)(/.*)$")
_VERSION = re.compile(r"\d+\.\d+(\.\d+)?")


@dataclass(frozen=True)
class Release:
    """One release: its version, the newest API that it speaks, and the oldest."""

    version: str
    api: str
    least: str

    def asked(self, path: str) -> tuple[int, int]:
        """The API version that a request is answered in: the one in its path, or the newest."""
        found = _PATH.match(path)
        return _number(f"{found[1]}.{found[2]}" if found else self.api)

    def plain(self, path: str) -> str:
        """The path of a request without its version.

        Raises:
            EngineError: the version is newer or older than what this release speaks, in the engine's words.
        """
        asked = _PATH.match(path)
        if asked is None:
            return path
        version = f"{asked[1]}.{asked[2]}"
        if _number(version) > _number(self.api):
            message = f"client version {version} is too new. Maximum supported API version is {self.api}"
            raise EngineError(400, message)
        if _number(version) < _number(self.least):
            message = f"client version {version} is too old. Minimum supported API version is {self.least}, "
            raise EngineError(400, f"{message}please upgrade your client to a newer version")
        return asked[3]


def known(version: str) -> bool:
    """True where a node can be told to have this version."""
    return bool(_VERSION.fullmatch(version)) and ".".join(version.split(".")[:2]) in _APIS


def release_of(hardware: Document) -> Release:
    """The release that the inventory gives a node: ``engine: "29.0"``."""
    version = text(mapping(hardware).get("engine")) or PLAIN
    return Release(version if version.count(".") > 1 else f"{version}.0", *_APIS[".".join(version.split(".")[:2])])


def _number(version: str) -> tuple[int, int]:
    major, _, minor = version.partition(".")
    return int(major), int(minor)
