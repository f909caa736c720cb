"""The simulated libnvidia-ml.so.1 of the lab."""
