"""From plan file and nodes to change set and outcomes; the corridor that knows doors, not rooms."""
