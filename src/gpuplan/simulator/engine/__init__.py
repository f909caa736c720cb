"""The Docker Engine HTTP API, version 1.41, as a function from request to response over the node's state."""
