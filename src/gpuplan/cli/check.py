"""`gpuplan check`: what Triton would refuse or do wrong with a model repository on disk; no plan file, no server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from gpuplan.cli.options import AsJson
from gpuplan.types.diagnostic import Diagnostic, Exit, Problem, Severity

if TYPE_CHECKING:
    from gpuplan.triton.lint import SilencedCheck, TargetServer, VisibleGpu

Directory = Annotated[
    str, typer.Argument(metavar="DIR", help="A model repository, or one model's directory.", show_default=False)
]
Image = Annotated[str, typer.Option("--image", metavar="IMAGE", help="The server's image, or its release: 24.10.")]
Gpus = Annotated[
    list[str] | None,
    typer.Option(
        "--gpu",
        metavar="GPU",
        help="A GPU that the server sees: a name, a product such as H100-SXM5-80GB, or NAME=8.0; may be repeated. "
        "none = no GPU at all. Not given = not known.",
    ),
]
SharedMemory = Annotated[
    str, typer.Option("--shm-size", metavar="SIZE", help="Size of /dev/shm, such as 64MiB. Not given = not known.")
]
Flags = Annotated[
    list[str] | None,
    typer.Option(
        "--flag",
        metavar="NAME=VALUE",
        help="An option of tritonserver; may be repeated. none = it runs without any. Not given = not known.",
    ),
]
Ignored = Annotated[
    list[str] | None, typer.Option("--ignore", metavar="ID", help="Silence this check; may be repeated.")
]


def check(
    directory: Directory,
    image: Image = "",
    gpu: Gpus = None,
    shm_size: SharedMemory = "",
    flag: Flags = None,
    ignore: Ignored = None,
    as_json: AsJson = False,
) -> Exit:
    """Check a model repository on disk, and tell all its faults at once.

    What the server is like is told by options; what is not told is not held against a model.
    """
    from gpuplan.cli.voice import Voice
    from gpuplan.output.checks import checked as as_document
    from gpuplan.output.checks import summary
    from gpuplan.planfile.sources.read import lint_directory

    voice = Voice(as_json)
    server = _server(image, gpu, shm_size, flag)
    found = lint_directory(directory, server, tuple(_silences(ignore)))
    voice.tell(found.findings)
    voice.show(summary(len(found.models), found.findings, found.silenced))
    code = Exit.ERROR if any(each.severity is Severity.ERROR for each in found.findings) else Exit.DONE
    voice.answer(as_document(found.models, found.silenced), code)
    return code


def _server(image: str, gpus: Sequence[str] | None, shm_size: str, flags: Sequence[str] | None) -> TargetServer:
    from gpuplan.triton.lint import TargetServer
    from gpuplan.triton.releases import release_of

    full = image if ":" in image or "/" in image or not image else f"tritonserver:{image}-py3"
    release = release_of(full) if full else None
    if full and release is None:
        raise _wrong("An image names no release", f"--image was given “{image}”.", "Write 24.10, or IMAGE:24.10-py3.")
    return TargetServer(
        release=release.name if release else "",
        image=full,
        gpus=None if gpus is None else () if list(gpus) == ["none"] else tuple(map(_device, gpus)),
        shm_size=_size(shm_size),
        flags=None if flags is None else _given(flags),
    )


def _device(text: str) -> VisibleGpu:
    from gpuplan.nvidia.boards import find_board
    from gpuplan.triton.lint import VisibleGpu

    name, equals, capability = text.partition("=")
    board = find_board(name)
    return VisibleGpu(name, capability if equals else board.compute_capability if board else "")


def _size(text: str) -> int | None:
    from gpuplan.planfile.scalars import parse_size

    if not text:
        return None
    try:
        size = parse_size(text)
    except ValueError:
        size = text
    if not isinstance(size, int):
        raise _wrong("A size is not valid", f"--shm-size was given “{text}”.", "Write it as 64MiB or 1GiB.")
    return size


def _given(flags: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for text in flags if list(flags) != ["none"] else ():
        name, _, value = text.removeprefix("--").partition("=")
        found[name] = (*found.get(name, ()), value or "true")
    return found


def _silences(ignored: Sequence[str] | None) -> list[SilencedCheck]:
    from gpuplan.triton.lint import CHECKS, SilencedCheck, known_check
    from gpuplan.triton.model_config import nearest

    for name in ignored or ():
        if known_check(name) is None:
            why = "cannot be silenced" if name in CHECKS else f"is not the id of a check{nearest(name, CHECKS)}"
            raise _wrong("A check cannot be ignored", f"{name} {why}.", "docs/checks.md names them all.")
    return [SilencedCheck(name, "--ignore") for name in ignored or ()]


def _wrong(summary: str, detail: str, fix: str) -> Problem:
    return Problem(Diagnostic(summary, detail, fix), Exit.USAGE)
