"""Facts about hardware and software that we do not control, as data with their sources."""
