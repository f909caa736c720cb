"""From a host's Ansible variables to a `Host`: connection settings, and the hardware of a simulated node."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from gpuplan.inventory.groups import InventoryVariable, Variables
from gpuplan.types.diagnostic import Diagnostic, Location, Severity
from gpuplan.types.inventory import Connection, Host
from gpuplan.types.value import Json, JsonObject

MOST_GPUS = 16
"""GPUs of one node; no machine with MIG boards holds more."""
SHAPE = "Write gpus: [{model: A100-SXM4-80GB, count: 1}]."


def hardware_problems(stated: JsonObject) -> Iterator[tuple[str, str]]:
    """(what is wrong, what to do) for each GPU that cannot be; the rest is checked when the node is made."""
    gpus = stated.get("gpus", [])
    if isinstance(gpus, str) or not isinstance(gpus, Sequence):
        yield "gpuplan_simulated.gpus is not a list.", SHAPE
        return
    total = 0
    for number, gpu in enumerate(gpus):
        model, count = _stated(gpu)
        if not isinstance(model, str):
            yield f"gpuplan_simulated.gpus[{number}] does not name a model.", SHAPE
        elif (fix := _unknown(model)) is not None:
            yield f"gpuplan_simulated has the GPU {model!r}, which is not in the catalog.", fix
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            yield f"gpuplan_simulated.gpus[{number}].count is {count!r}; expected a whole number from 1.", ""
        else:
            total += count
    if total > MOST_GPUS:
        yield f"gpuplan_simulated has {total} GPUs; a node holds at most {MOST_GPUS}.", "Lower the counts."


def _stated(gpu: Json) -> tuple[Json, Json]:
    """Model and count; a text alone is the model of one GPU."""
    return (gpu.get("model"), gpu.get("count", 1)) if isinstance(gpu, Mapping) else (gpu, 1)


def _unknown(model: str) -> str | None:
    """The nearest names, where the catalog has no such board."""
    from gpuplan.nvidia.boards import BOARDS, find_board

    if find_board(model):
        return None
    names = [board.catalog_name for board in BOARDS]
    near = get_close_matches(model.upper(), names, n=3, cutoff=0.4)
    return f"Did you mean {' or '.join(near)}?" if near else f"Valid here: {', '.join(names)}."


_CONNECTIONS = {
    "ssh": Connection.SSH, "smart": Connection.SSH, "paramiko": Connection.SSH, "paramiko_ssh": Connection.SSH,
    "local": Connection.LOCAL, "simulated": Connection.SIMULATED,
}  # fmt: skip
_TRUE, _FALSE = (
    frozenset(("yes", "on", "1", "true", "t", "y", "1.0")),
    frozenset(("no", "off", "0", "false", "f", "n", "0.0")),
)
REFUSED: Mapping[str, str] = {
    "ansible_ssh_args": "Put the options into ansible_ssh_common_args, or into ~/.ssh/config.",
    "ansible_ssh_extra_args": "Put the options into ansible_ssh_common_args, or into ~/.ssh/config.",
}
_PASSED_OVER: Mapping[str, str] = {
    "ansible_password": "gpuplan logs in with keys or the agent only.",
    "ansible_ssh_pass": "gpuplan logs in with keys or the agent only.",
    "ansible_ssh_password": "gpuplan logs in with keys or the agent only.",
    "ansible_become_password": "gpuplan uses sudo -n; allow the user sudo without a password.",
    "ansible_become_pass": "gpuplan uses sudo -n; allow the user sudo without a password.",
    "ansible_sudo_pass": "gpuplan uses sudo -n; allow the user sudo without a password.",
    "ansible_become_exe": "gpuplan uses sudo -n.",
    "ansible_become_flags": "gpuplan uses sudo -n.",
    "ansible_private_key": "Name a key file in ansible_ssh_private_key_file, or use the agent.",
    "ansible_ssh_private_key": "Name a key file in ansible_ssh_private_key_file, or use the agent.",
    "ansible_private_key_passphrase": "Load the key into the agent.",
    "ansible_ssh_private_key_passphrase": "Load the key into the agent.",
    "ansible_ssh_pkcs11_provider": "Load the key into the agent.",
    "ansible_ssh_executable": "gpuplan brings its own SSH client.",
    "ansible_host_key_checking": "gpuplan always checks host keys.",
    "ansible_ssh_host_key_checking": "gpuplan always checks host keys.",
}
_SOCKET = re.compile(r"/[A-Za-z0-9@%+=:,._/-]{1,100}")
"""A path that fits into a socket's address (unix(7): 108 bytes) and needs no quotes anywhere."""
_UNSAFE = re.compile(r"^-|[\x00-\x20\x7f]")


class HostReader:
    """Turns the variables of one host after another into `Host`s; the same fault of many hosts is reported once."""

    def __init__(self) -> None:
        self.faults: dict[tuple[str, Location | None], Diagnostic] = {}
        self._names: set[str] = set()
        self._variables: Variables = {}

    def host(self, name: str, variables: Variables, groups: tuple[str, ...], where: Location) -> Host:
        """One node. Faults are kept in `faults`, warnings among them."""
        self._variables = variables
        self._passed_over()
        connection = self._connection()
        return Host(
            name,
            connection,
            address=self._word("ansible_host", "ansible_ssh_host") or name,
            user=self._word("ansible_user", "ansible_ssh_user"),
            port=self._port(),
            private_key=self._key(),
            ssh_arguments=self._text("ansible_ssh_common_args"),
            python=self._python(),
            become=self._become(),
            docker_socket=self._socket(),
            groups=groups,
            simulated=self._simulated(connection, where),
            where=where,
        )

    def _fault(self, name: str, detail: str, fix: str = "", where: Location | None = None) -> None:
        place = where or self._variables[name].where
        self.faults[(detail, place)] = Diagnostic("Invalid inventory variable", detail, fix, place)

    def _passed_over(self) -> None:
        for name, stated in self._variables.items():
            if name in REFUSED:
                self._fault(
                    name,
                    f"{name} is not supported, and ignoring it would change how gpuplan connects.",
                    REFUSED[name],
                )
            elif name in _PASSED_OVER and not (name.endswith("_checking") and self._boolean(stated)):
                detail = f"{name} is ignored: {_PASSED_OVER[name]}"
                summary = "Inventory variable ignored"
                self.faults[(name, None)] = Diagnostic(summary, detail, "", stated.where, severity=Severity.WARNING)

    def _text(self, *names: str) -> str:
        """The text of the last of the names that is stated: Ansible lets the later alias win."""
        found = [name for name in names if name in self._variables]
        if not found:
            return ""
        name, stated = found[-1], self._variables[found[-1]]
        if stated.tag.startswith("!vault"):
            self._fault(
                name,
                f"{name} is encrypted with Ansible Vault, which gpuplan cannot decrypt.",
                "Write it in plain text.",
            )
        elif stated.text is None:
            self._fault(name, f"{name} is a list or a section; expected one value.")
        elif "{{" in stated.text or "{%" in stated.text:
            self._fault(name, f"{name} is a Jinja template, which gpuplan cannot evaluate.", "Write the value itself.")
        elif any(ord(character) < 32 for character in stated.text):
            self._fault(name, f"{name} holds a line break or a control character.")
        else:
            return "" if stated.value is None else stated.text.strip()
        return ""

    def _word(self, *names: str) -> str:
        text = self._text(*names)
        if _UNSAFE.search(text):
            name = [name for name in names if name in self._variables][-1]
            self._fault(name, f"{name} is {text!r}; it cannot begin with '-' or hold blanks.")
            return ""
        return text

    def _port(self) -> int:
        text = self._text("ansible_port", "ansible_ssh_port")
        if not text:
            return 0
        if re.fullmatch(r"\d{1,5}", text, re.ASCII) and 1 <= int(text) <= 65535:
            return int(text)
        name = "ansible_ssh_port" if "ansible_ssh_port" in self._variables else "ansible_port"
        self._fault(name, f"{name} is {text!r}; expected a number from 1 to 65535.")
        return 0

    def _key(self) -> str:
        text = self._text("ansible_private_key_file", "ansible_ssh_private_key_file")
        try:
            return str(Path(text).expanduser()) if text else ""
        except RuntimeError:  # "~nobody-of-that-name"
            return text

    def _python(self) -> str:
        text = self._text("ansible_python_interpreter")
        return "python3" if text.startswith("auto") or not text else text

    def _socket(self) -> str:
        text = self._text("gpuplan_docker_socket").removeprefix("unix://")
        if text and not _SOCKET.fullmatch(text):
            self._fault(
                "gpuplan_docker_socket",
                f"gpuplan_docker_socket is {text!r}; expected the absolute path of a socket on the node.",
                "Write /run/podman/podman.sock, or leave it out for /var/run/docker.sock.",
            )
            return ""
        return text

    def _connection(self) -> Connection:
        text = self._text("ansible_connection").removeprefix("ansible.builtin.").removeprefix("ansible.netcommon.")
        if text and text not in _CONNECTIONS:
            self._fault(
                "ansible_connection",
                f"gpuplan does not support the connection {text!r}.",
                "Use ssh, local or simulated.",
            )
        return _CONNECTIONS.get(text, Connection.SSH)

    def _become(self) -> bool:
        stated = self._variables.get("ansible_become")
        wanted = self._boolean(stated) if stated and self._text("ansible_become") else False
        if wanted is None:
            self._fault(
                "ansible_become", f"ansible_become is {self._text('ansible_become')!r}; expected true or false."
            )
        for name, only in (("ansible_become_method", "sudo"), ("ansible_become_user", "root")):
            text = self._text(name).removeprefix("ansible.builtin.")
            if wanted and text and text != only:
                self._fault(name, f"{name} is {text!r}; gpuplan becomes root through sudo only.", f"Use {only}.")
        return bool(wanted)

    def _boolean(self, stated: InventoryVariable) -> bool | None:
        text = (stated.text or "").strip().lower()
        return True if text in _TRUE else False if text in _FALSE else None

    def _simulated(self, connection: Connection, where: Location) -> JsonObject:
        stated = self._variables.get("gpuplan_simulated")
        if connection is not Connection.SIMULATED:
            return {}
        if stated is None:
            detail = "The node is simulated, but gpuplan_simulated does not set its hardware."
            fix = "Add gpuplan_simulated: {gpus: [{model: A100-SXM4-80GB, count: 1}]}."
            self._fault("gpuplan_simulated", detail, fix, where)
            return {}
        plain = _plain_object(stated.value)
        if plain is None:
            self._fault(
                "gpuplan_simulated",
                "gpuplan_simulated is not a section of plain data.",
                "Write {gpus: [{model: NAME}]}.",
            )
        elif "{{" in json.dumps(plain):
            self._fault(
                "gpuplan_simulated", "gpuplan_simulated holds a Jinja template.", "Write the values themselves."
            )
        else:
            for detail, fix in hardware_problems(plain):
                self._fault("gpuplan_simulated", detail, fix)
        return plain or {}


def _plain_object(value: object) -> JsonObject | None:
    """The mapping as JSON, or None where it is none: INI values are Python literals, which may hold other things."""
    try:
        result = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return None
    return result if isinstance(result, dict) else None
