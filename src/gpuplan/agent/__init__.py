"""The program that runs on a node: it answers what the node is, and does what only the node can do.

Standard library and pynvml only, Python 3.8 and later: it is sent over the connection (`transport/bundle.py`) and not
installed. Everything it touches goes through `world.World`, so the simulator runs this very code. docs/agent.md is its
contract.
"""
