"""The MIG part of a plan file as a config file of NVIDIA's mig-parted."""
