"""The simulated bench of the container room, for containers that nobody's plan file made."""

from tests.kinds.container.conftest import simulated

__all__ = ["simulated"]
