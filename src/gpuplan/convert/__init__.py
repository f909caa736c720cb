"""Text for other systems, and from them."""
