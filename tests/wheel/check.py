"""Builds the wheel and the sdist, installs the wheel where there is NumPy alone, and uses it there.

Proves that a machine which only runs artifacts needs nothing but NumPy, that the wheel made from the sdist is the
same, and that other extensions can be built against the installed package: a stranger's cimport, both examples of
examples/embedding, and the code of docs/embedding.md.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from concurrent.futures import ThreadPoolExecutor
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
except pd.CompileError as error:
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

EMBEDDED = """
import sys, threading, numpy as np, pydispatch as pd
import embedded, embedded_cy, short_c, short_cython
from pydispatch._core import capi
path, name = sys.argv[1], "mixed_invocation"
device = pd.device("cpu")
program = device.load(path)
a, b = np.arange(8, dtype=np.float32), np.full(8, 4, np.float32)
expected = program.mixed_invocation(a, b)
found = np.frombuffer(embedded.repeat(path, name, a, b, 1000), np.float32)
assert found.tolist() == expected.tolist()
z, y, x = np.mgrid[:4, :50, :60]
assert (np.frombuffer(embedded.distances(60, 50, 4), np.float32).reshape(x.shape) == x * x + y * y + z * z).all()
try:
    embedded.repeat(path, "nonsense", a, b, 1)
except ValueError as error:
    assert "no function 'nonsense'. It has: mixed_invocation" in str(error), error
else:
    raise AssertionError("found a function that is not there")

def work(source):
    kernel, out = embedded_cy.Kernel(source, name, 8), np.zeros(8, np.float32)
    kernel(a, b, out, 1000)
    good.append(out.tolist() == expected.tolist())

good = []
threads = [threading.Thread(target=work, args=(source,)) for source in (path, program, path, program)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert good == [True] * 4, good
rows = np.arange(100000, dtype=np.float32).reshape(1000, 100)
assert embedded_cy.total(rows) == rows.sum(dtype=np.float64)
try:
    embedded_cy.Kernel(path, "nonsense", 8)
except pd.InvalidArgumentError as error:
    assert "no function 'nonsense'" in str(error), error
else:
    raise AssertionError("found a function that is not there")

out = np.zeros(8, np.float32)
short_c.load(path, name, 8)
assert short_c.run(a, b, out) is None and out.tolist() == expected.tolist()
short_cython.run(program, a, b, out)
assert out.tolist() == (expected * expected).tolist()
assert capi.handles() == (1, 1), capi.handles()  # what short_c keeps
try:
    short_c.load("nonsense.pdx", name, 8)
except RuntimeError as error:
    assert "nonsense.pdx" in str(error), error
assert capi.handles() == (0, 0), capi.handles()
print("both embedding examples and the code of docs/embedding.md work against the wheel")
"""


# The sources of the sdist are those of the checkout, which setup.py compares: what that has compiled is taken.
ENVIRONMENT = {**os.environ, "PYDISPATCH_BUILT": str(ROOT)}


def call(*command: object, cwd: Path = ROOT) -> str:
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True, env=ENVIRONMENT)
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
                       "pydispatch/py.typed", "pydispatch/_core/status.pyi", "pydispatch/_core/capi.pxd",
                       "pydispatch/_core/capi.pyi",
                       "pydispatch/compiler/devlib/library.tar.xz", "pydispatch/include/pydispatch/api.h"):  # fmt: skip
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
        embed(python, work, artifact)


def embed(python: Path, work: Path, artifact: Path) -> None:
    """Builds and runs the extensions that embed pydispatch."""
    folder = work / "embedding"
    shutil.copytree(ROOT / "examples" / "embedding", folder, ignore=shutil.ignore_patterns("build", "*.so"))
    blocks = dict(reversed(re.findall(r"```(\w+)\n(.*?)```", (ROOT / "docs" / "embedding.md").read_text(), re.S)))
    (folder / "docs").mkdir()
    for language, file in (("c", "short_c.c"), ("cython", "short_cython.pyx"), ("python", "setup.py")):
        (folder / "docs" / file).write_text(blocks[language])
    places = [folder / name for name in ("c_extension", "cython_extension", "docs")]
    with ThreadPoolExecutor() as builders:
        list(builders.map(lambda place: call(python, "setup.py", "-q", "build_ext", "--inplace", cwd=place), places))
    path = f"import sys; sys.path[:0] = {[str(place) for place in places]}\n"
    print(call(python, "-c", path + EMBEDDED, artifact, cwd=work), end="")


if __name__ == "__main__":
    main()
