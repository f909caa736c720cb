"""Resource kinds, one folder each; `kinds.py` lists them."""
