"""The simulated bench of the container room, for containers that nobody's plan file made."""

from tests.resources.container.conftest import simulated

__all__ = ["simulated"]
