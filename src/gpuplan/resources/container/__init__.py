"""Docker containers: compared field by field with the plan file, with the images and CDI specifications they need."""
