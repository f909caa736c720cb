"""`gpuplan check`: what Triton would refuse or misread in a model repository on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from gpuplan.cli.inputs import AsJson
from gpuplan.types.diagnostic import Diagnostic, Exit, Problem, Severity

if TYPE_CHECKING:
    from gpuplan.triton.lint import SilencedCheck, TargetServer, VisibleGpu

Directory = Annotated[
    str, typer.Argument(metavar="DIR", help="Model repository, or the directory of one model.", show_default=False)
]
Image = Annotated[
    str, typer.Option("--image", metavar="IMAGE", help="Triton image, or its release, for example 24.10.")
]
Gpus = Annotated[
    list[str] | None,
    typer.Option(
        "--gpu",
        metavar="GPU",
        help="GPU of the server: a product such as H100-SXM5-80GB, or NAME=COMPUTE_CAPABILITY. Repeatable; "
        "none: no GPUs. Default: unknown, and checks that depend on it are skipped.",
    ),
]
SharedMemory = Annotated[
    str, typer.Option("--shm-size", metavar="SIZE", help="Size of /dev/shm, for example 64MiB. Default: unknown.")
]
Flags = Annotated[
    list[str] | None,
    typer.Option(
        "--flag",
        metavar="NAME=VALUE",
        help="Option of tritonserver. Repeatable; none: no options. Default: unknown.",
    ),
]
Ignored = Annotated[list[str] | None, typer.Option("--ignore", metavar="ID", help="Silence this check. Repeatable.")]


def check(
    directory: Directory,
    image: Image = "",
    gpu: Gpus = None,
    shm_size: SharedMemory = "",
    flag: Flags = None,
    ignore: Ignored = None,
    as_json: AsJson = False,
) -> Exit:
    """Check a model repository on disk and report all errors at once.

    Describe the server with the options. Checks that depend on an unknown property of the server are skipped.
    """
    from gpuplan.cli.console import Console
    from gpuplan.output.json import check_document
    from gpuplan.output.summary import check_summary
    from gpuplan.planfile.sources.read import lint_directory

    console = Console(as_json)
    server = _server(image, gpu, shm_size, flag)
    result = lint_directory(directory, server, tuple(_silenced_checks(ignore)))
    console.report(result.findings)
    console.show(check_summary(len(result.models), result.findings, result.silenced))
    code = Exit.ERROR if any(finding.severity is Severity.ERROR for finding in result.findings) else Exit.DONE
    console.print_document(check_document(result.models, result.silenced), code)
    return code


def _server(image: str, gpus: Sequence[str] | None, shm_size: str, flags: Sequence[str] | None) -> TargetServer:
    from gpuplan.triton.lint import TargetServer
    from gpuplan.triton.releases import release_of

    full = image if ":" in image or "/" in image or not image else f"tritonserver:{image}-py3"
    release = release_of(full) if full else None
    if full and release is None:
        raise _usage_problem(
            "Cannot tell the release of the image",
            f"--image was given “{image}”.",
            "Use a release such as 24.10, or IMAGE:24.10-py3.",
        )
    return TargetServer(
        release=release.name if release else "",
        image=full,
        gpus=None if gpus is None else () if list(gpus) == ["none"] else tuple(map(_parse_gpu, gpus)),
        shm_size=_parse_size(shm_size),
        flags=None if flags is None else _parse_flags(flags),
    )


def _parse_gpu(text: str) -> VisibleGpu:
    from gpuplan.nvidia.boards import find_board
    from gpuplan.triton.lint import VisibleGpu

    name, equals, capability = text.partition("=")
    board = find_board(name)
    return VisibleGpu(name, capability if equals else board.compute_capability if board else "")


def _parse_size(text: str) -> int | None:
    from gpuplan.planfile.scalars import parse_size

    if not text:
        return None
    try:
        size = parse_size(text)
    except ValueError:
        size = text
    if not isinstance(size, int):
        raise _usage_problem("Invalid size", f"--shm-size was given “{text}”.", "Use a size such as 64MiB or 1GiB.")
    return size


def _parse_flags(flags: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    parsed: dict[str, tuple[str, ...]] = {}
    for text in flags if list(flags) != ["none"] else ():
        name, _, value = text.removeprefix("--").partition("=")
        parsed[name] = (*parsed.get(name, ()), value or "true")
    return parsed


def _silenced_checks(ignored: Sequence[str] | None) -> list[SilencedCheck]:
    from gpuplan.triton.lint import CHECKS, SilencedCheck, known_check
    from gpuplan.triton.model_config import nearest

    for name in ignored or ():
        if known_check(name) is None:
            why = "cannot be silenced" if name in CHECKS else f"is not the id of a check{nearest(name, CHECKS)}"
            raise _usage_problem(
                "Cannot ignore check", f"{name} {why}.", "See docs/checks.md for the ids of all checks."
            )
    return [SilencedCheck(name, "--ignore") for name in ignored or ()]


def _usage_problem(summary: str, detail: str, fix: str) -> Problem:
    return Problem(Diagnostic(summary, detail, fix), Exit.USAGE)
