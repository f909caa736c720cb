"""NVIDIA mig-parted: its config files written from a plan file, and read into one."""
