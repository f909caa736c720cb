"""Docker containers: what the plan states of them, compared field by field, and the images that they need."""
