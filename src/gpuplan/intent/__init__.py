"""What operators write, turned into typed values; every fault with file, line and column."""
