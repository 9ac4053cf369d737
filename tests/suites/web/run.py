"""Check files and kernels on `webgpu:0`, Tint on every shader, and pages in Chromium.

Exits with 3 without Node.js, Chromium or the network.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
MODULES = ROOT / "build" / "suites" / "web" / "node_modules"
PACKAGE = "webgpu@0.6.2"


def main() -> int:
    if not (shutil.which("node") and shutil.which("npm")):
        print("there is no Node.js (apt-get install nodejs npm)")
        return 3
    if not any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))):
        print("there is no Chromium (apt-get install chromium)")
        return 3
    if not (MODULES / "webgpu").exists():
        MODULES.parent.mkdir(parents=True, exist_ok=True)
        words = ["npm", "install", "--silent", "--no-save", "--prefix", str(MODULES.parent), PACKAGE]
        if subprocess.run(words).returncode:
            print(f"npm could not install {PACKAGE}, which comes over the network")
            return 3
    environment = {**os.environ, "PYDISPATCH_WEBGPU": "1", "PYDISPATCH_NODE_MODULES": str(MODULES)}
    environment.setdefault("LP_NUM_THREADS", "0")
    tests = ["tests/conformance/test_checks.py", "tests/conformance/kernels", str(HERE / "test_tint.py")]
    tests.append(str(HERE / "test_browser.py"))
    return subprocess.run([sys.executable, "-m", "pytest", *tests], cwd=ROOT, env=environment).returncode


sys.exit(main())
