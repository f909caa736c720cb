"""Files of NVIDIA's mig-parted, read as strictly as mig-parted reads them, and what they mean as a plan file."""
