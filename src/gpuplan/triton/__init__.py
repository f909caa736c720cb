"""Facts about Triton releases, flags and model configs; the client; the lint of model repositories."""
