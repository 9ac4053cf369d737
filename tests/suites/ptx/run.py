"""All check files through ptxas. Exits with 3 when it is not on PATH."""

import shutil
import subprocess
import sys
from pathlib import Path

if shutil.which("ptxas") is None:
    print("ptxas is not on PATH: it comes with the CUDA toolkit")
    sys.exit(3)
sys.exit(subprocess.run([sys.executable, str(Path(__file__).parents[2] / "cuda" / "assemble.py")]).returncode)
