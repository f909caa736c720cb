"""SSH keys of the operator and the nodes, and what an operator needs to reach them: known hosts and an inventory."""

from __future__ import annotations

from tests.lab.commands import call
from tests.lab.place import NODES, Node, Place
from tests.lab.template import SEED

INVENTORY = """\
# The nodes of the test lab, written by tests/lab.
all:
  vars:
    ansible_user: ops
    ansible_become: true
    ansible_python_interpreter: /usr/bin/python3
    ansible_ssh_private_key_file: {key}
    ansible_ssh_common_args: -o UserKnownHostsFile={known_hosts} -o StrictHostKeyChecking=yes
"""


def make_keys(place: Place) -> None:
    """Make the keys that are not there."""
    place.keys.mkdir(parents=True, exist_ok=True)
    for name in ("id_ed25519", *(f"{node.name}_host" for node in (*NODES, SEED))):
        if not (place.keys / f"{name}.pub").exists():
            (place.keys / name).unlink(missing_ok=True)
            call(
                "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"gpuplan-lab {name}", "-f", str(place.keys / name)
            )


def write_directory(place: Place) -> None:
    """Write known_hosts and inventory.yaml."""
    place.known_hosts.write_text("".join(_known(place, node) for node in NODES), encoding="ascii")
    text = INVENTORY.format(key=place.private_key, known_hosts=place.known_hosts)
    text += "".join(
        f"{node.group}:\n  hosts:\n    {node.name}: {{ ansible_host: {place.address(node)} }}\n" for node in NODES
    )
    place.inventory.write_text(text, encoding="utf-8")


def ssh(place: Place, node: Node, user: str) -> list[str]:
    """The start of an ssh command line to a node that obeys no configuration of this machine."""
    options = ("BatchMode=yes", "LogLevel=ERROR", f"UserKnownHostsFile={place.known_hosts}")
    words = [word for option in options for word in ("-o", option)]
    return ["ssh", "-F", "none", *words, "-i", str(place.private_key), f"{user}@{place.address(node)}"]


def _known(place: Place, node: Node) -> str:
    key = (place.keys / f"{node.name}_host.pub").read_text(encoding="ascii").split()
    return f"{place.address(node)},{node.name} {key[0]} {key[1]}\n"
