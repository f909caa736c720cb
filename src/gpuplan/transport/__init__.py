"""Reaching nodes: SSH, this machine, and simulated ones."""
