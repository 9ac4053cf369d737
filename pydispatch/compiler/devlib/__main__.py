"""Compiles the device library for all levels of machines into one file, the one that wheels have or the one named."""

import sys
from pathlib import Path

from pydispatch.compiler.devlib.prebuilt import write

write(*map(Path, sys.argv[1:2]))
