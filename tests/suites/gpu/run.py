"""What needs a GPU. Exits with 3 when there is no driver for one."""

import ctypes
import subprocess
import sys
from pathlib import Path

try:
    found = ctypes.CDLL("libcuda.so.1").cuInit(0) == 0
except OSError:
    found = False
if not found:
    print("there is no NVIDIA GPU, or no driver for it (libcuda.so.1)")
    sys.exit(3)
sys.exit(subprocess.run([sys.executable, str(Path(__file__).parents[2] / "gpu" / "run.py")]).returncode)
