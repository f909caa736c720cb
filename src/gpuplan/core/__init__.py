"""From plan file and nodes to a change set and outcomes. It knows what a kind is, but no kind by name."""
