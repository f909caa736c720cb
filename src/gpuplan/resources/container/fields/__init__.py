"""The table of container fields."""
