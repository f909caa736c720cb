"""Discover: nodes as they are, written as the plan file that would leave them so."""
