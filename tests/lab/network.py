"""A bridge for the lab, and for each node a network namespace with a cable to it."""

from __future__ import annotations

import json

from tests.lab.commands import LabError, attempt, call
from tests.lab.place import Node, Place


def lay_bridge(place: Place) -> None:
    """Make the bridge; LabError where somebody else uses the subnet."""
    taken = [
        f"{route['dst']} on {route['dev']}"
        for route in json.loads(call("ip", "-json", "-4", "route", "show"))
        if route["dst"].startswith(f"{place.subnet}.") and route["dev"] != place.bridge
    ]
    if taken:
        raise LabError(
            f"The subnet {place.subnet}.0/24 of this lab is in use: {', '.join(taken)}. "
            "Another directory gives another subnet: set GPUPLAN_LAB to one."
        )
    call("ip", "link", "add", place.bridge, "address", place.mac(1), "type", "bridge")
    call("ip", "addr", "add", f"{place.subnet}.1/24", "dev", place.bridge)
    call("ip", "link", "set", place.bridge, "up")


def lay_cable(place: Place, node: Node) -> None:
    """Make the node's namespace and connect it."""
    namespace, veth = place.namespace(node), place.veth(node)
    call("ip", "netns", "add", namespace)
    peer = ("peer", "name", "eth0", "address", place.mac(node.number), "netns", namespace)
    call("ip", "link", "add", veth, "type", "veth", *peer)
    call("ip", "link", "set", veth, "master", place.bridge, "up")
    inside = f"addr add {place.address(node)}/24 dev eth0\nlink set eth0 up\nlink set lo up\n"
    inside += f"route add default via {place.subnet}.1\n"
    call("ip", "-netns", namespace, "-batch", "-", stdin=inside.encode())


def pull_cable(place: Place, node: Node) -> None:
    """Cut the node off, as a switch that died would; `plug_in` undoes it."""
    call("ip", "link", "set", place.veth(node), "down")


def plug_in(place: Place, node: Node) -> None:
    """Connect the node again."""
    call("ip", "link", "set", place.veth(node), "up")


def remove_cable(place: Place, node: Node) -> None:
    """Remove the node's namespace and cable, where they are."""
    attempt("ip", "netns", "del", place.namespace(node))
    attempt("ip", "link", "del", place.veth(node))


def remove_bridge(place: Place) -> None:
    """Remove the bridge, where it is."""
    attempt("ip", "link", "del", place.bridge)
