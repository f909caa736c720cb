"""The rooms: one folder for each resource kind."""
