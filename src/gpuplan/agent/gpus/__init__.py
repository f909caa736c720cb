"""GPUs: what NVML reads and changes, resets, NVIDIA's container toolkit."""
