"""Podman's compatible socket: what it says otherwise than Docker does, brought to Docker's form (seen with 4.3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpuplan.resources.snapshot.docker import Live
from gpuplan.resources.snapshot.raw import mapping, mappings, texts
from gpuplan.types.value import JsonObject

_LOCAL = "localhost/"
"""What it puts before the name of an image without a registry."""
_OWN = ("container=podman", "container=oci", "TERM=xterm")
"""Variables that it gives each container beside those that are stated; the host name is another."""
_OF_MOUNTS = ("rbind", "nosuid", "nodev")
"""Options that it writes down of each mount, or of each named volume, and that nobody can state."""
_OF_TMPFS = ("rprivate", "tmpcopyup")
"""The same of each tmpfs."""
_DROPPED = {"CAP_AUDIT_WRITE", "CAP_MKNOD", "CAP_NET_RAW"}
"""What it lists as dropped where nobody said anything of capabilities, and its defaults are fewer than Docker's."""


def is_podman(version: JsonObject) -> bool:
    """True where the answer to GET /version is Podman's."""
    return any(each.get("Name") == "Podman Engine" for each in mappings(version.get("Components")))


def image_names(said: Iterable[str]) -> tuple[str, ...]:
    """Names of images without what Podman puts before them."""
    return tuple(name.removeprefix(_LOCAL) for name in said)


def as_docker(live: Live) -> Live:
    """A container as Docker would say it."""
    own = (*_OWN, f"HOSTNAME={live.config.get('Hostname')}", f"HOSTNAME={live.id[:12]}")
    env = [line for line in texts(live.config.get("Env")) if line not in own]
    host = dict(live.host_config)
    for key, plain in (("PidMode", "private"), ("Runtime", "oci")):
        if host.get(key) == plain:
            host[key] = ""
    host["Binds"] = [_bind(bind) for bind in texts(host.get("Binds"))]
    host["Tmpfs"] = {path: _without(_OF_TMPFS, str(said)) for path, said in mapping(host.get("Tmpfs")).items()}
    host["Ulimits"] = [
        {**each, "Name": str(each.get("Name")).removeprefix("RLIMIT_").lower()}
        for each in mappings(host.get("Ulimits"))
    ]
    if set(texts(host.get("CapDrop"))) == _DROPPED:
        host["CapDrop"] = []
    return replace(
        live,
        image=live.image.removeprefix(_LOCAL),
        config={**live.config, "Env": env, "Image": live.image.removeprefix(_LOCAL)},
        host_config=mapping(host),
    )


def _bind(bind: str) -> str:
    source, _, rest = bind.partition(":")
    target, _, options = rest.partition(":")
    return ":".join(filter(None, (source, target, _without(_OF_MOUNTS, options))))


def _without(own: Iterable[str], options: str) -> str:
    return ",".join(option for option in options.split(",") if option not in own)
