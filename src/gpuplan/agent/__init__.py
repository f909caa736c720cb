"""The program that runs on a node: it answers what the node is, and does what only the node can do.

Standard library and pynvml only, Python 3.8 and later: it travels over the connection (`reach/bundle.py`) and nothing
of it stays. Everything it touches goes through `world.World`, so the simulation runs this very code. docs/agent.md is
its contract.
"""
