"""Where a model server takes its models from: directories next to the plan file, its node, or a bucket.

gpuplan copies only models next to the plan file. Models of any other repository stay as they are there: gpuplan cannot
see their files, and manages only what is loaded and the config laid over them.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from gpuplan.planfile.expand import PlacedContainer, containers_on, models_on
from gpuplan.planfile.schema import ContainerSection, ModelSection, PlanFile
from gpuplan.planfile.sources.config import MARK, ConfigLayer, policy, with_layers
from gpuplan.triton import model_config
from gpuplan.types.diagnostic import Diagnostic, Location, Problem, Severity
from gpuplan.types.inventory import Host
from gpuplan.types.value import JsonObject, digest

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
"""gpuplan's own directory: neither it nor anything below it can be used as a repository."""


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


def repository_problem(repository: str) -> tuple[str, str] | None:
    """(what is wrong, what to do) of a repository as the plan file states it; None where it is right."""
    if repository in (LOCAL, OWN):
        return None
    if on_node(repository):
        return _wrong_path(repository)
    scheme, separator, _ = repository.partition("://")
    if not separator or scheme not in STORES:
        detail = f"{repository!r} is not local, own, an absolute path on the node, or the URL of a bucket."
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
        return f"{path!r} holds '.' or '..'.", "Write the full path of the directory."
    if any(mark in path for mark in ":,") or not path.isprintable():
        return f"{path!r} contains a character that is not allowed in a mount (',', ':').", "Rename the directory."
    if (plain := _one_path(path)) in _TAKEN or f"{plain}/".startswith(f"{_OURS}/"):
        return f"{path!r} cannot be a model repository.", "Use the directory that contains the model directories."
    return None


def _one_path(path: str) -> str:
    """Without what is there twice; normpath leaves two slashes at the beginning, which Linux takes for one."""
    return "/" + posixpath.normpath(path).lstrip("/")


def _wrong_address(address: str, scheme: str) -> tuple[str, str] | None:
    rest = address.partition("://")[2]
    if "@" in rest.partition("/")[0]:
        return (
            f"The {scheme}:// URL contains a user name or password.",
            "Pass them to the container in env:, by reference: ${env:NAME} or ${file:PATH}.",
        )
    if scheme == "s3":
        found = _S3.match(address)
        if found is None or (found["port"] and not 1 <= int(found["port"]) <= 65535):
            return (
                f"{address!r} is not a valid S3 URL.",
                "Write s3://BUCKET/PATH or s3://https://HOST:PORT/BUCKET/PATH.",
            )
        rest = found["rest"]
    return _wrong_parts(address, scheme, rest.rstrip("/").split("/"))


def _wrong_parts(address: str, scheme: str, parts: list[str]) -> tuple[str, str] | None:
    if scheme == "as" and (len(parts) < 2 or not _ACCOUNT.match(parts[0])):
        return f"{address!r} has no account and container.", "Write as://ACCOUNT/CONTAINER/PATH."
    names = parts[1:] if scheme == "as" else parts
    if not _BUCKET.match(names[0]):
        return f"{names[0]!r} is not a valid bucket name.", f"Write {scheme}://BUCKET/PATH."
    if odd := [part for part in names if part in ("", ".", "..") or not _PART.match(part)]:
        what = repr(odd[0]) if odd[0] else "an empty part"
        return f"{address!r} holds {what}.", "Write the path as it is in the bucket."
    return None


@dataclass(frozen=True)
class RemoteModel:
    """One model of a repository that is not ours, as one container serves it."""

    model: str
    versions: tuple[int, ...]
    """The versions that should be READY; empty where the plan file leaves them to the repository."""
    overlay: tuple[JsonObject, ...]
    """What the plan file lays over the model's config, layer by layer."""
    content: str
    """Digest of the overlay, by which the server tells that it is in force; empty where there is none."""
    place: str
    """The repository, as the plan file names it."""


def remote_models_on(plan: PlanFile, host: Host, container: str) -> tuple[RemoteModel, ...]:
    """The models of one container of this host, where its repository is not delivered from next to the plan file."""
    home = next((placed for placed in containers_on(plan, host) if placed.name == container), None)
    if home is None or not has_remote(home.container) or home.container.triton is None:
        return ()
    place = canonical(home.container.triton.repository)
    return tuple(_served(name, model, place) for name, model in models_on(plan, host, container))


def has_remote(container: ContainerSection) -> bool:
    """True for a model server that is not given its models by gpuplan."""
    return container.triton is not None and is_remote(container.triton.repository)


def laid_over(reported: JsonObject, overlay: Sequence[JsonObject], content: str) -> str:
    """The whole config as the text of a load call's `config`: what the server reports, the overlay, and our mark.

    Raises:
        Problem: the overlay does not fit the config.
        Unparsable: the server reports a field that is not known here.
    """
    layers = [*overlay, {"parameters": {MARK: {"string_value": content}}}]
    message = with_layers(
        model_config.from_json(reported), [ConfigLayer(each, lambda *_: Location("")) for each in layers]
    )
    return json.dumps(model_config.to_json(message), separators=(",", ":"))


def overlay_faults(plan: PlanFile, name: str, model: ModelSection) -> Iterator[Diagnostic]:
    """What is wrong with what the plan file lays over a config that it has not: fields, values, versions."""
    where = partial(plan.where, "models", name)
    layers = [ConfigLayer(model.config, partial(where, "config"))]
    layers.extend(
        ConfigLayer(stated, partial(where, "overrides", server)) for server, stated in model.overrides.items()
    )
    for layer in layers:
        try:
            with_layers(model_config.empty(), [layer])
        except Problem as problem:
            yield from problem.diagnostics
    try:
        policy(model.versions)
    except ValueError as fault:
        fix = "Write latest N, all, or a list of versions such as [1, 3]."
        yield Diagnostic("Invalid versions", f"{fault}.", fix, where("versions"))


def credential_warnings(plan: PlanFile, home: PlacedContainer) -> Iterator[Diagnostic]:
    """What Triton needs of its environment to open a bucket, and is not given."""
    triton = home.container.triton
    if triton is None or on_node(triton.repository) or not is_remote(triton.repository):
        return
    if names := missing_variables(triton.repository, home.container.env):
        store = STORES[triton.repository.partition("://")[0]].name
        yield Diagnostic(
            "Model server may lack repository credentials",
            f"Triton reads {_listed(names)} to open {triton.repository} on {store}, and {home.path[1]} does not state "
            f"{'it' if len(names) == 1 else 'them'}; without, it may try for long, and answer nothing meanwhile.",
            f'Write env: {{ {names[0]}: "${{env:{names[0]}}}" }}, and so on; where the node\'s own role opens it, '
            "nothing is to be done.",
            plan.where(*home.path, "triton", "repository"),
            severity=Severity.WARNING,
        )


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _served(name: str, model: ModelSection, place: str) -> RemoteModel:
    stated: tuple[JsonObject, ...] = (model.config, *model.overrides.values(), policy(model.versions))
    overlay = tuple(layer for layer in stated if layer)
    numbers = tuple(sorted(set(model.versions))) if isinstance(model.versions, tuple) else ()
    return RemoteModel(name, numbers, overlay, digest(list(overlay)) if overlay else "", place)
