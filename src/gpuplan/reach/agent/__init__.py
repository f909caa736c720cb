"""The part that runs on the node: standard library and pynvml, Python 3.8 and later."""
