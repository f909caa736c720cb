"""The model files of one Triton container, on its node."""
