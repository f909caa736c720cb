"""Applying a change set: lock, steps, journal, record."""
