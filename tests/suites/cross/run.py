"""What `make test` runs on one emulated model of each architecture, on several; and the core on other systems.

Exits with 3 without qemu-user. What cannot be run for lack of wine is named.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
MODELS = {
    "aarch64": ("cortex-a53", "cortex-a72", "neoverse-n1", "max"),
    "riscv64": ("rv64", "rv64,v=true,vext_spec=v1.0,vlen=128", "rv64,v=true,vext_spec=v1.0,vlen=512"),
}
FILES = ("tests/e2e/test_cross.py", "tests/e2e/test_contract_cross.py", "tests/devlib/test_devlib_cross.py",
         "tests/core/test_elf_library.py", "tests/core/test_plugin.py")  # fmt: skip


def main() -> int:
    missing = [arch for arch in (*MODELS, "x86_64") if not shutil.which(f"qemu-{arch}-static")]
    if missing:
        print(f"no emulator for {', '.join(missing)} (apt-get install qemu-user-static)")
        return 3
    failed = []
    for arch, models in MODELS.items():
        for model in models:
            print(f"== {arch}, {model}", flush=True)
            words = [sys.executable, "-m", "pytest", "-k", arch, *FILES]
            if subprocess.run(words, cwd=ROOT, env={**os.environ, "QEMU_CPU": model}).returncode:
                failed.append(f"{arch}, {model}")
    for what, name in (("compiled for what each model has", "models"), ("Windows and macOS", "systems")):
        print(f"== {what}", flush=True)
        words = [sys.executable, "-m", "pytest", "-rs", str(Path(__file__).with_name(f"test_{name}.py"))]
        if subprocess.run(words, cwd=ROOT).returncode:
            failed.append(what)
    print(f"failed: {'; '.join(failed) or 'nothing'}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
