"""The test lab: three GPU nodes on this machine, each with its own sshd, Docker engine and simulated NVML."""
