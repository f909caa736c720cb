"""Apply the steps of GPUs: through NVML by the agent, each followed by a second look."""
