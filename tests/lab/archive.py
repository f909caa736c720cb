"""Image archives as `docker load` takes them, written without any engine."""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import dataclass, field
from hashlib import file_digest, sha256
from pathlib import Path

CREATED = "2024-10-25T00:00:00Z"


@dataclass(frozen=True)
class Image:
    """What an image says of itself."""

    tag: str
    cmd: tuple[str, ...]
    entrypoint: tuple[str, ...] = ()
    env: tuple[str, ...] = ("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",)
    working_directory: str = "/"
    labels: dict[str, str] = field(default_factory=dict)

    def config(self, layer_digest: str) -> bytes:
        """The image's configuration by the Docker image specification 1.2, with one layer."""
        container = {
            "Env": list(self.env),
            "Entrypoint": list(self.entrypoint) or None,
            "Cmd": list(self.cmd),
            "WorkingDir": self.working_directory,
            "Labels": self.labels or None,
        }
        image = {
            "architecture": "amd64",
            "os": "linux",
            "created": CREATED,
            "config": {name: value for name, value in container.items() if value is not None},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_digest}"]},
            "history": [{"created": CREATED, "created_by": "tests/lab"}],
        }
        return json.dumps(image).encode()


def write_archive(root: Path, image: Image, archive: Path) -> None:
    """Write the directory `root` as an image of one layer."""
    layer = archive.with_suffix(".layer")
    with tarfile.open(layer, "w", format=tarfile.GNU_FORMAT) as tar:
        for entry in sorted(root.iterdir()):
            tar.add(entry, arcname=entry.name)
    with layer.open("rb") as content:
        config = image.config(file_digest(content, "sha256").hexdigest())
    name = sha256(config).hexdigest()
    manifest = [{"Config": f"{name}.json", "RepoTags": [image.tag], "Layers": ["layer/layer.tar"]}]
    with tarfile.open(archive, "w") as tar:
        _add(tar, f"{name}.json", config)
        tar.add(layer, arcname="layer/layer.tar")
        _add(tar, "manifest.json", json.dumps(manifest).encode())
    layer.unlink()


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))
