"""Runs the tests of this folder with PyTorch: from its package alone, with stubs for the libraries of GPUs."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
STUBS = ROOT / "build" / "suites" / "torch" / "stubs"
TORCH = "torch>=2.13,<3"
LACKING = 3


def main() -> int:
    if importlib.util.find_spec("torch") is None:
        # Without what it requires: that is CUDA, several gigabytes. requirements.txt has the rest.
        print(f"installs {TORCH}, several hundred megabytes", flush=True)
        words = ["-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", TORCH]
        if subprocess.run([sys.executable, *words]).returncode:
            print(f"{TORCH} could not be installed: it comes over the network, or from PIP_INDEX_URL or PIP_FIND_LINKS")
            return LACKING
    environment = dict(os.environ)
    if not imports(environment):
        sys.path.insert(0, str(HERE))
        import stubs

        spec = importlib.util.find_spec("torch")
        assert spec is not None and spec.origin is not None
        print(f"stubs: {', '.join(stubs.write(Path(spec.origin).parent / 'lib', STUBS))}", flush=True)
        path = environment.get("LD_LIBRARY_PATH")
        environment["LD_LIBRARY_PATH"] = f"{STUBS}{os.pathsep}{path}" if path else str(STUBS)
        if not imports(environment):
            subprocess.run([sys.executable, "-c", "import torch"], env=environment)
            return LACKING
    tests = [str(path) for path in sorted(HERE.glob("test_*.py"))]
    command = [sys.executable, "-m", "pytest", *(sys.argv[1:] or tests)]
    return subprocess.run(command, cwd=ROOT, env=environment).returncode


def imports(environment: dict[str, str]) -> bool:
    """Whether PyTorch can be imported."""
    command = [sys.executable, "-c", "import torch"]
    return subprocess.run(command, env=environment, capture_output=True).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
