"""GPUs: MIG mode and slices."""
