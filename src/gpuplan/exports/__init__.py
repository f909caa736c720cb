"""Text for other systems."""
