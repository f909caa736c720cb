"""Where a model server takes its models from: from beside the plan file, a directory of its node, or a bucket.

What is not brought from beside the plan file is served as it lies there; only loading is managed.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass

LOCAL = "local"
OWN = "own"
"""The server's own command says where its models are, and gpuplan decides only what is loaded."""
_S3 = re.compile(
    r"^s3://(?:(?P<scheme>https?://)?(?P<host>[0-9A-Za-z.-]+):(?P<port>\d{1,5})/)?(?P<rest>[^/]+(?:/.*)?)$"
)
"""Triton's own two forms: BUCKET/PATH, or [http[s]://]HOST:PORT/BUCKET/PATH (model_repository.md)."""
_PART = re.compile(r"^[0-9A-Za-z._=+@,~-]+$")
_BUCKET = re.compile(r"^[0-9A-Za-z][0-9A-Za-z._-]{1,221}$")
_ACCOUNT = re.compile(r"^[0-9a-z]{3,24}$")
_TAKEN = ("/", "/gpuplan")
"""Directories of the node that hold no models."""
_OURS = "/var/lib/gpuplan"
"""Neither it nor anything below it is a repository of somebody else's."""


@dataclass(frozen=True)
class Store:
    """What Triton reads of its environment to open one kind of bucket."""

    name: str
    credentials: tuple[str, ...]
    """All of these, unless one of `instead` is there."""
    instead: tuple[str, ...] = ()
    region: str = ""


STORES: Mapping[str, Store] = {
    "s3": Store(
        "S3",
        ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
        ("AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE",
         "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
        "AWS_DEFAULT_REGION",
    ),
    "gs": Store("Google Cloud Storage", ("GOOGLE_APPLICATION_CREDENTIALS",)),
    "as": Store("Azure Storage", ("AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_KEY")),
}  # fmt: skip
"""By the scheme of an address (docs/user_guide/model_repository.md of triton-inference-server/server)."""
CREDENTIAL_FILE = "TRITON_CLOUD_CREDENTIAL_PATH"
"""Names a file inside the container that stands for all of these variables."""


def is_remote(repository: str) -> bool:
    """True where models are served as they lie somewhere, and are not brought."""
    return repository != LOCAL


def on_node(repository: str) -> bool:
    """True where it is a directory of the node."""
    return repository.startswith("/")


def starts_itself(repository: str) -> bool:
    """True where the container's own command starts the server."""
    return repository == OWN


def canonical(repository: str) -> str:
    """The one spelling of a repository that `wrong` has nothing against."""
    return _one_path(repository) if on_node(repository) else repository.rstrip("/")


def wrong(repository: str) -> tuple[str, str] | None:
    """(what is wrong, what to do) of a repository as the plan file states it; None where it is right."""
    if repository in (LOCAL, OWN):
        return None
    if on_node(repository):
        return _wrong_path(repository)
    scheme, separator, _ = repository.partition("://")
    if not separator or scheme not in STORES:
        detail = f"{repository!r} is neither local nor own nor an absolute path of the node nor an address of a bucket."
        return (
            detail,
            "Write local, own, /mnt/models, s3://BUCKET/PATH, gs://BUCKET/PATH or as://ACCOUNT/CONTAINER/PATH.",
        )
    return _wrong_address(repository, scheme)


def missing_variables(repository: str, env: Mapping[str, object]) -> tuple[str, ...]:
    """The variables that Triton reads to open the bucket and that the container does not state."""
    store = STORES.get(repository.partition("://")[0])
    if store is None or CREDENTIAL_FILE in env:
        return ()
    known = any(name in env for name in store.instead)
    wanted = (*(() if known else store.credentials), *((store.region,) if store.region else ()))
    return tuple(name for name in wanted if name not in env)


def _wrong_path(path: str) -> tuple[str, str] | None:
    parts = path.split("/")[1:]
    if ".." in parts or "." in parts:
        return f"{path!r} holds '.' or '..'.", "Write the path of the directory in full."
    if any(mark in path for mark in ":,") or not path.isprintable():
        return f"{path!r} holds a character that no mount can take (',', ':').", "Give the directory another name."
    if (plain := _one_path(path)) in _TAKEN or f"{plain}/".startswith(f"{_OURS}/"):
        return f"{path!r} is not a directory of models.", "Name the directory above those of the models."
    return None


def _one_path(path: str) -> str:
    """Without what is there twice; normpath leaves two slashes at the beginning, which Linux takes for one."""
    return "/" + posixpath.normpath(path).lstrip("/")


def _wrong_address(address: str, scheme: str) -> tuple[str, str] | None:
    rest = address.partition("://")[2]
    if "@" in rest.partition("/")[0]:
        return (
            f"The address of a bucket on {scheme}:// holds a name or a password.",
            "Give them to the container under env:, by reference: ${env:NAME} or ${file:PATH}.",
        )
    if scheme == "s3":
        found = _S3.match(address)
        if found is None or (found["port"] and not 1 <= int(found["port"]) <= 65535):
            return f"{address!r} is no address of S3.", "Write s3://BUCKET/PATH or s3://https://HOST:PORT/BUCKET/PATH."
        rest = found["rest"]
    return _wrong_parts(address, scheme, rest.rstrip("/").split("/"))


def _wrong_parts(address: str, scheme: str, parts: list[str]) -> tuple[str, str] | None:
    if scheme == "as" and (len(parts) < 2 or not _ACCOUNT.match(parts[0])):
        return f"{address!r} names no account and container.", "Write as://ACCOUNT/CONTAINER/PATH."
    names = parts[1:] if scheme == "as" else parts
    if not _BUCKET.match(names[0]):
        return f"{names[0]!r} is no name of a bucket.", f"Write {scheme}://BUCKET/PATH."
    if odd := [part for part in names if part in ("", ".", "..") or not _PART.match(part)]:
        what = repr(odd[0]) if odd[0] else "an empty part"
        return f"{address!r} holds {what}.", "Write each part of the path as the bucket has it."
    return None
