"""Builds the wheel and the sdist, installs the wheel where there is NumPy alone, and uses it there.

Proves that a machine which only runs artifacts needs nothing but NumPy, that the wheel made from the sdist is the
same, and that a stranger's extension can cimport from the installed package.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

RUN = """
import sys, numpy as np, pydispatch as pd
assert "xdsl" not in sys.modules and "llvmlite" not in sys.modules
a, b = np.full(8, 2, np.float32), np.full(8, 4, np.float32)
program = pd.device("cpu").load(sys.argv[1])
assert program.mixed_invocation(a, b).tolist() == [96.0] * 8
try:
    pd.compile("module {}")
except ImportError as error:
    assert "pydispatch[compiler]" in str(error), error
else:
    raise AssertionError("compile worked without the compiler extra")
assert (__import__("pathlib").Path(pd.get_include()) / "pydispatch" / "library.h").is_file()
print("the wheel runs with NumPy alone")
"""

STRANGER = """
from pydispatch._core.status cimport check
from pydispatch._core.c_status cimport pyd_status_t

def probe():
    return check(<pyd_status_t>NULL)
"""

STRANGER_SETUP = """
import pydispatch
from Cython.Build import cythonize
from setuptools import Extension, setup
setup(ext_modules=cythonize([Extension("stranger", ["stranger.pyx"], include_dirs=[pydispatch.get_include()])]))
"""


def call(*command: object, cwd: Path = ROOT) -> str:
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(str(c) for c in command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        call(
            sys.executable, "-m", "build", "--no-isolation", "--outdir", work / "dist", ROOT
        )  # sdist, then a wheel from it
        (wheel,) = (work / "dist").glob("*.whl")
        names = set(zipfile.ZipFile(wheel).namelist())
        for needed in ("pydispatch/__init__.py", "pydispatch/_core/status.pxd",
        "pydispatch/include/pydispatch/library.h",
                       "pydispatch/py.typed", "pydispatch/_core/status.pyi"):  # fmt: skip
            assert needed in names, f"{needed} is not in the wheel"
        artifact = work / "mixed.pdx"
        call(sys.executable, "-m", "pydispatch.cli", "compile", ROOT / "examples/mixed/program.mlir",
             f"--iree-hal-executable-object-search-path={ROOT / 'examples/mixed'}", "-o", artifact)  # fmt: skip
        venv.create(work / "clean", with_pip=True)
        python = work / "clean" / "bin" / "python"
        call(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", wheel)
        installed = call(python, "-m", "pip", "list", "--format=freeze").lower()
        assert "numpy" in installed and "llvmlite" not in installed and "xdsl" not in installed, installed
        print(call(python, "-c", RUN, artifact, cwd=work), end="")
        call(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "cython", "setuptools")
        (work / "stranger.pyx").write_text(STRANGER)
        (work / "setup.py").write_text(STRANGER_SETUP)
        call(python, "setup.py", "build_ext", "--inplace", cwd=work)
        call(python, "-c", "import stranger; assert stranger.probe() == 0", cwd=work)
        print("a stranger's cimport works against the wheel")


if __name__ == "__main__":
    main()
