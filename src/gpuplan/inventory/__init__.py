"""Ansible's inventory files, YAML and INI, as nodes: so that one file serves both tools.

What Ansible reads and gpuplan does not need is passed over; what would change how a node is reached and cannot be
honoured is refused, or named in `Inventory.warnings`.
"""

from gpuplan.inventory.load import load_inventory

__all__ = ["load_inventory"]
