"""Installs libpydispatch in an empty folder, and builds, links and runs programs in C and C++ with it.

Exits with 3 without cmake, pkg-config or a compiler of C++.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "embedding" / "standalone"
TOOLS = {"cmake": "cmake", "pkg-config": "pkg-config", "c++": "g++"}
PROGRAM = """
func.func @mul(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %d = tensor.dim %a, %c0 : tensor<?xf32>
  %e = tensor.empty(%d) : tensor<?xf32>
  %r = linalg.mul ins(%a, %b : tensor<?xf32>, tensor<?xf32>) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}
"""


def call(*command: object, cwd: Path, **variables: str) -> str:
    words = [str(c) for c in command]
    done = subprocess.run(words, cwd=cwd, env={**os.environ, **variables}, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def check(binary: Path, artifact: Path, **variables: str) -> None:
    """What it prints for a program that it finds, and for one that it does not."""
    found = call(binary, artifact, "mul", "1", "2", "1.5", cwd=binary.parent, **variables)
    assert found.split() == ["1", "4", "2.25"], found
    words = [str(binary), str(artifact), "nonsense", "1"]
    wrong = subprocess.run(words, env={**os.environ, **variables}, capture_output=True, text=True)
    assert wrong.returncode == 1 and "nonsense" in wrong.stderr and "mul" in wrong.stderr, wrong
    needed = call("ldd", binary, cwd=binary.parent, **variables)
    assert "libpython" not in needed, needed
    print(f"{binary.name}: runs")


def main() -> int:
    missing = [package for tool, package in TOOLS.items() if not shutil.which(tool)]
    if missing:
        print(f"missing: {', '.join(missing)} (apt-get install {' '.join(missing)})")
        return 3
    import pydispatch as pd

    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        prefix, artifact = work / "prefix", work / "mul.pdx"
        pd.compile(PROGRAM).save(artifact)
        print(call(sys.executable, ROOT / "csrc" / "install.py", prefix, cwd=ROOT).splitlines()[-1])
        size = (prefix / "lib" / "libpydispatch.so").stat().st_size
        exported = call("nm", "-D", "--defined-only", prefix / "lib" / "libpydispatch.so", cwd=work).split()[2::3]
        assert exported == ["pyd_standalone_fill", "pyd_standalone_fill_sized"], exported
        print(f"libpydispatch.so: {size / 1e3:.0f} kB")

        found = {"PKG_CONFIG_PATH": str(prefix / "lib" / "pkgconfig")}
        options = call("pkg-config", "--cflags", "--libs", "pydispatch", cwd=work, **found).split()
        for compiler, source in (("cc", "main.c"), ("c++", "main.cpp")):
            binary = work / f"pkg_config_{source.partition('.')[2]}"
            warnings = ["-Wall", "-Wextra", "-Werror", "-pedantic"]
            call(compiler, *warnings, EXAMPLE / source, "-o", binary, *options, cwd=work)
            check(binary, artifact, LD_LIBRARY_PATH=str(prefix / "lib"))

        # The installed tree may move: CMake's files name no folder.
        moved = prefix.rename(work / "moved")
        call("cmake", "-S", EXAMPLE, "-B", work / "cmake", f"-DCMAKE_PREFIX_PATH={moved}", cwd=work)
        call("cmake", "--build", work / "cmake", cwd=work)
        for kind in ("in_c", "in_cpp"):
            check(work / "cmake" / kind, artifact)
    return 0


if __name__ == "__main__":
    sys.exit(main())
