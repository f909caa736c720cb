"""Placement of MIG slices on one GPU: a pure solver, and what it means for the slices that exist."""
