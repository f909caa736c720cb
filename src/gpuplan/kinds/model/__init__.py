"""Models loaded in a Triton, by explicit model control."""
