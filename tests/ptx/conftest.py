"""The tools and the texts of nvcc are those of tests/cuda."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "cuda"))
