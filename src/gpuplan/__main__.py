"""`python -m gpuplan`: the same as the command `gpuplan`."""

from __future__ import annotations

import sys

from gpuplan.cli import main

if __name__ == "__main__":
    sys.exit(main())
