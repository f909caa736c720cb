"""Engine: the calls that the SDK, or the stubs of its types, do not have as this room needs them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from gpuplan.model.value import Json, JsonObject

if TYPE_CHECKING:
    import docker


class Engine(Protocol):
    """What `docker.APIClient` does without types in its stubs."""

    def inspect_image(self, image: str) -> Mapping[str, Json]:
        """GET /images/NAME/json."""
        ...

    def load_image(self, data: Iterable[bytes]) -> Iterator[Mapping[str, object]]:
        """POST /images/load, with the engine's words as they come."""
        ...

    def create_container_from_config(self, config: Mapping[str, Json], name: str) -> Mapping[str, Json]:
        """POST /containers/create with a body of our own."""
        ...


def post_update(engine: docker.APIClient, container: str, body: JsonObject) -> None:
    """POST /containers/ID/update; the SDK's own method knows no NanoCpus.

    Raises:
        docker.errors.APIError: the engine refused.
    """
    from docker.errors import create_api_error_from_http_exception
    from requests import HTTPError

    url = f"{engine.base_url}/v{engine.api_version}/containers/{container}/update"
    answer = engine.post(url, json=body, timeout=engine.timeout)
    try:
        answer.raise_for_status()
    except HTTPError as fault:
        create_api_error_from_http_exception(fault)
