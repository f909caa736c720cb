"""The four acts on a repository, as steps with all that their apply door needs."""

from __future__ import annotations

from gpuplan.resources.repository.wanted import WantedModel
from gpuplan.types.address import Address
from gpuplan.types.change import Step, Verb


def prepare(address: Address) -> Step:
    """Make the directory that a model server mounts."""
    title = f"make the model repository of {address.name}"
    return Step("prepare", address, Verb.CREATE, title, {"container": address.name}, makes=(address,))


def switch(address: Address, name: str, model: WantedModel) -> Step:
    """Bring what the node lacks of a model's files and put the new directory in the place of the old one."""
    return Step(
        f"switch-{name}",
        address,
        Verb.UPDATE,
        f"bring {name} to the repository of {address.name} ({summary(model)})",
        {"container": address.name, "model": name, **model.json},
        makes=(address.part(name),),
    )


def remove(address: Address, name: str) -> Step:
    """Take one model out of the repository."""
    title = f"remove {name} from the repository of {address.name}"
    arguments = {"container": address.name, "model": name}
    return Step(f"remove-{name}", address, Verb.DELETE, title, arguments, frees=(address.part(name),))


def remove_all(address: Address) -> Step:
    """Remove a whole repository."""
    title = f"remove the model repository of {address.name}"
    return Step("remove", address, Verb.DELETE, title, {"container": address.name, "model": None}, frees=(address,))


def summary(model: WantedModel) -> str:
    """How much a model is: ``4 files, 812.0 MiB``."""
    size = sum(file.size for file in model.files.values())
    count = sum(1 for file in model.files.values() if file.sha256)
    files = "1 file" if count == 1 else f"{count} files"
    return f"{files}, {size / 2**20:.1f} MiB" if size >= 2**20 else files
