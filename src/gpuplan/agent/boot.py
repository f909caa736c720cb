"""Starts the agent on a node: takes the zip from standard input into memory and imports from there.

Not imported by anything: `bundle.py` sends its text. It must parse on any Python, to say that one is too old.
"""

import os
import sys


def boot(size, silence):  # type: ignore[no-untyped-def]  # annotations would not parse on the Pythons that it is to refuse
    """Run the agent from the `size` bytes that follow; `silence` is what `main` says of it."""
    if sys.version_info < (3, 8):
        version = ".".join(str(part) for part in sys.version_info[:3])
        sys.stdout.write('{"hello": "gpuplan-agent", "too_old": "' + version + '"}\n')
        sys.stdout.flush()
        return
    bundle = sys.stdin.buffer.read(size)
    descriptor = os.memfd_create("gpuplan-agent")
    with os.fdopen(os.dup(descriptor), "wb") as memory:
        memory.write(bundle)
    sys.path.insert(0, "/proc/self/fd/{}".format(descriptor))
    from gpuplan_agent.main import main  # type: ignore[import-not-found]  # the name that the zip gives to this package

    main(silence)
