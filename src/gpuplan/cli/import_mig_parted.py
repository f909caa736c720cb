"""`gpuplan import mig-parted`: a config of NVIDIA's mig-parted as a section of a plan file."""

from __future__ import annotations

from typing import Annotated

import typer

from gpuplan.types.diagnostic import Exit


def import_mig_parted(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The config file of mig-parted.", show_default=False)],
    config: Annotated[
        str, typer.Option("--config", metavar="NAME", help="Which of its configs; needed where it holds several.")
    ] = "",
    nodes: Annotated[
        str, typer.Option("--nodes", metavar="NODES", help="Node, group or glob that the config is for.")
    ] = "",
) -> Exit:
    """Print a config of mig-parted as the gpus section of a plan file.

    The file is read as strictly as mig-parted reads it; a device filter becomes a group of nodes.
    """
    from gpuplan.convert.mig_parted.file import chosen, read_mig_parted
    from gpuplan.convert.mig_parted.gpus_section import gpus_section

    entries, name = chosen(read_mig_parted(file), config, file)
    print(gpus_section(entries, name, file, nodes), end="")
    return Exit.DONE
