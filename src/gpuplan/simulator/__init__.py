"""A node without hardware: NVML, Docker and Triton with their true semantics."""
