"""Text about us, from values only."""
