"""`gpuplan schema`: the JSON Schema of plan files, for editors."""

from __future__ import annotations

from gpuplan.types.diagnostic import Exit


def schema() -> Exit:
    """Print the JSON Schema of plan files, for editors."""
    from gpuplan.cli.voice import print_json
    from gpuplan.planfile.json_schema import schema as of_plan_files

    print_json(of_plan_files())
    return Exit.DONE
