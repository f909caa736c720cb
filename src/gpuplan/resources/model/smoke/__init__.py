"""Smoke inferences, the pure half: from what a plan file states to a request, and to what its answer lacks."""
