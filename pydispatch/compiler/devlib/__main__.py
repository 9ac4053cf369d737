"""Compile the device library for all levels of machines into its archive, or into the file that is named."""

import sys
from pathlib import Path

from pydispatch.compiler.devlib.prebuilt import write

write(*map(Path, sys.argv[1:2]))
