"""The plan file: YAML with positions, schema, variables, validation."""
