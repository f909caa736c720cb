"""The lab by hand: `python3 -m tests.lab` with up, down, status, shell, run, reboot or wipe."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time

from tests.lab import power, running
from tests.lab.commands import LabError
from tests.lab.keys import ssh
from tests.lab.place import NODES, Node, Place, find_node, find_place
from tests.lab.wipe import wipe


def main() -> int:
    """Run one verb; 1 where it cannot be done."""
    parser = argparse.ArgumentParser(prog="tests/lab/lab", description="Three GPU nodes on this machine.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("up", help="bring the lab up; quick where it is up already")
    verbs.add_parser("down", help="switch it off; nothing stays but the cache")
    verbs.add_parser("status", help="which nodes run, and where")
    names = [node.name for node in NODES]
    for verb, what in (("shell", "a shell on a node, as ops"), ("reboot", "cut a node's power and switch it on again")):
        verbs.add_parser(verb, help=what).add_argument("node", choices=names, nargs="?", default=names[0])
    verbs.add_parser("wipe", help="put a node back to bare").add_argument("node", choices=names)
    run = verbs.add_parser("run", help="a program on a node, as root")
    run.add_argument("node", choices=names)
    run.add_argument("argv", nargs=argparse.REMAINDER)
    stated = parser.parse_args()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `lab status | head -1` is no fault
    place = find_place()
    try:
        return _do(place, stated)
    except LabError as fault:
        print(fault, file=sys.stderr)
        return 1


def _do(place: Place, stated: argparse.Namespace) -> int:
    node = find_node(stated.node) if "node" in stated else NODES[0]
    started = time.monotonic()
    match stated.verb:
        case "up":
            print("up" if power.up(place) else "up already", f"({time.monotonic() - started:.1f} s)")
            return _status(place)
        case "down":
            power.down(place)
            print(f"down ({time.monotonic() - started:.1f} s)")
        case "status":
            return _status(place)
        case "reboot":
            power.reboot(place, node)
            print(f"{node.name} is back ({time.monotonic() - started:.1f} s)")
        case "wipe":
            wipe(place, node)
            print(f"{node.name} is bare ({time.monotonic() - started:.1f} s)")
        case "shell":
            _become(ssh(place, node, "ops"), place, node)
        case "run":
            _become(running.run_as_root(running.first_process(place, node) or 0, *stated.argv), place, node)
    return 0


def _become(argv: list[str], place: Place, node: Node) -> None:
    if running.first_process(place, node) is None:
        raise LabError(f"{node.name} is off. Run make lab-up.")
    os.execvp(argv[0], argv)


def _status(place: Place) -> int:
    ready = {node.name: running.is_ready(place, node) for node in NODES}
    lines = [
        f"  {node.name}  {place.address(node):<14} {'ready' if ready[node.name] else 'off':<6} {', '.join(node.boards)}"
        for node in NODES
    ]
    if all(ready.values()):
        lines.append(f"  inventory {place.inventory}")
    print("\n".join(lines))
    return 0 if all(ready.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
