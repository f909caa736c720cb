"""Apply: everything of this kind that acts on a node."""
