"""SSH: configuration, keys, connections and channels."""
