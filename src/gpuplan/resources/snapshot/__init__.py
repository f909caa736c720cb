"""Ground: what several rooms read in the same way on a node, as pure values; it knows no room."""
