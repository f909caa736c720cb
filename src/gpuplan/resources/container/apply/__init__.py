"""Acts: everything in this room that takes hands, for its apply door alone."""
