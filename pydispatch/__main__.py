"""`python -m pydispatch` is the command `pydispatch`."""

import sys

from pydispatch.cli.__main__ import process

if __name__ == "__main__":
    sys.exit(process())
