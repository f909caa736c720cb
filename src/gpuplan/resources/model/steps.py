"""The acts on a model, as steps with all that their apply door needs."""

from __future__ import annotations

from collections.abc import Sequence

from gpuplan.planfile.repositories import OWN
from gpuplan.resources.model.wanted import Wanted
from gpuplan.types.address import Address
from gpuplan.types.change import Step, Verb
from gpuplan.types.resource import Desired
from gpuplan.types.value import JsonObject

CREW = "models"
"""Models load and unload side by side."""


def load(
    desired: Desired,
    wanted: Wanted,
    verb: Verb,
    dropped: Sequence[Address],
    *,
    again: bool,
    anew: bool = False,
    swaps: bool = False,
) -> Step:
    """Load or reload a model and have it loaded at the server's next start; `dropped` are parts that it had before.

    `again` asks for a load even where the server seems to have the content: its files on the node were not what they
    should be, and it may have been loaded from those. `anew` unloads it first. A model that `swaps` is loaded beside
    the one that serves, so that no request goes without an answer.
    """
    title = f"{'load' if verb is Verb.CREATE else 'reload'} {wanted.model}{_which(wanted)} on {wanted.container}"
    title += " without a gap" if verb is Verb.UPDATE and swaps and not anew else ""
    proof: JsonObject = {} if desired.proof is None else {"smoke": desired.proof}
    return Step(
        "load",
        desired.address,
        verb,
        title,
        {**desired.spec, "again": again, **({"anew": True} if anew else {}), **proof},
        makes=(desired.address,),
        uses=desired.needs,
        releases=tuple(dropped),
        crew=CREW,
        abreast=wanted.abreast,
    )


def _which(wanted: Wanted) -> str:
    numbers = ", ".join(map(str, wanted.versions))
    told = [f"{'version' if len(wanted.versions) == 1 else 'versions'} {numbers}"] if numbers else []
    told += ["its config overridden"] if wanted.overlay else []
    return f" ({', '.join(told)})" if told else ""


def list_at_start(desired: Desired, wanted: Wanted) -> Step:
    """Only have a model, which is loaded already, loaded at the server's next start."""
    return _as_it_is(desired, f"have {wanted.container} load {wanted.model} whenever it starts")


def see_through(desired: Desired, wanted: Wanted) -> Step:
    """Have a model, which is loaded already, prove itself, and let the files that it had before go."""
    return _as_it_is(desired, f"see that {wanted.model} on {wanted.container} serves, and let its previous files go")


def _as_it_is(desired: Desired, title: str) -> Step:
    """All that comes after a load, of a model that is loaded."""
    proof: JsonObject = {} if desired.proof is None else {"smoke": desired.proof}
    return Step(
        "load",
        desired.address,
        Verb.UPDATE,
        title,
        {**desired.spec, "again": False, **proof},
        makes=(desired.address,),
        uses=desired.needs,
    )


def unload(
    address: Address,
    container: str,
    model: str,
    releases: Sequence[Address],
    *,
    dependents: bool = False,
    own: bool = False,
) -> Step:
    """Unload a model and have it not loaded again; with `dependents` also the parts that the server loaded for it.

    What a server loads at its start that its `own` command starts is left to that.
    """
    title = f"unload {model} from {container}"
    arguments: JsonObject = {"container": container, "model": model, **({"dependents": True} if dependents else {})}
    arguments = {**arguments, **({"repository": OWN} if own else {})}
    return Step("unload", address, Verb.DELETE, title, arguments, releases=tuple(releases), frees=(address,), crew=CREW)


def forget(address: Address, container: str, model: str) -> Step:
    """Have a server that is not up not load a model at its next start; so it makes the repository that a start uses."""
    title = f"have {container} not load {model} when it starts"
    arguments = {"container": container, "model": model}
    made = Address(address.node, "repository", container)
    return Step("unload", address, Verb.DELETE, title, arguments, makes=(made,), frees=(address,))
