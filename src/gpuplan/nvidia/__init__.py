"""Facts about NVIDIA boards, MIG profiles and their names, as data with their sources."""
