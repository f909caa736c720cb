"""The arguments of one request, each read with the type that the operation needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .failure import Failure


class Arguments:
    """Typed access to a request's fields; a field of another type is `invalid`, never a traceback."""

    def __init__(self, request: Mapping[str, object]) -> None:
        self._request = request

    def text(self, name: str) -> str:
        """A string that is there."""
        value = self._request.get(name)
        if not isinstance(value, str):
            raise Failure("invalid", "{} must be a string".format(name))
        return value

    def optional_text(self, name: str) -> str | None:
        """A string, or None where the request says null or nothing."""
        return None if self._request.get(name) is None else self.text(name)

    def number(self, name: str) -> int:
        """A whole number that is not negative."""
        value = self._request.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise Failure("invalid", "{} must be a whole number".format(name))
        return value

    def numbers(self, name: str) -> Sequence[int] | None:
        """A list of whole numbers above zero, or None where the request says null or nothing."""
        value = self._request.get(name)
        if value is None:
            return None
        if not isinstance(value, (list, tuple)) or not all(type(item) is int and item > 0 for item in value):
            raise Failure("invalid", "{} must be a list of whole numbers".format(name))
        return value

    def flag(self, name: str) -> bool:
        """True or false."""
        value = self._request.get(name)
        if not isinstance(value, bool):
            raise Failure("invalid", "{} must be true or false".format(name))
        return value

    def texts(self, name: str) -> Sequence[str]:
        """A list of strings."""
        value = self._request.get(name)
        if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
            raise Failure("invalid", "{} must be a list of strings".format(name))
        return value

    def entries(self, name: str) -> Sequence[object]:
        """A list of anything."""
        value = self._request.get(name)
        if not isinstance(value, (list, tuple)):
            raise Failure("invalid", "{} must be a list".format(name))
        return value

    def mapping(self, name: str) -> Mapping[str, object]:
        """An object."""
        value = self._request.get(name)
        if not isinstance(value, Mapping):
            raise Failure("invalid", "{} must be an object".format(name))
        return value
