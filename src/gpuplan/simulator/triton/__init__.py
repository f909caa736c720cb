"""Triton's HTTP API over the model files that a container's mounts show, with the semantics of release 24.10."""
