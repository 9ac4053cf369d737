# ruff: noqa: E501  (lines of scripts)
"""Without memory, files or threads: loading, calling and closing give errors, and nothing crashes or hangs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pydispatch as pd

SCRIPT = """
import os, resource, sys
import numpy as np
import pydispatch as pd
import pydispatch.formats.arrays.parameters
limit, value, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
path, a = folder + "/f.pdx", np.ones(1 << 18, np.float32)
held, counts = {}, {}

def attempt(name, action):
    try:
        held[name] = action()
        found = "ok"
    except (pd.Error, OSError, MemoryError, ImportError, KeyError) as error:
        found = type(error).__name__
    counts[found] = counts.get(found, 0) + 1

def everything(name):
    attempt("device", lambda: pd.device(name))
    attempt("program", lambda: held["device"].load(path))
    attempt("plugin", lambda: held["device"].add_plugin(folder + "/p.so"))
    attempt("plugin", lambda: held["device"].add_plugin(open(folder + "/p.so", "rb").read()))
    attempt("broken", lambda: held["device"].load(folder + "/p.so"))
    attempt("result", lambda: held["program"].f(a, a))
    attempt("call", lambda: held["program"].f.prepare(a, a))
    attempt("result", lambda: held["call"]())
    attempt("file", lambda: pydispatch.formats.arrays.parameters.ParameterFile(folder + "/big.npy"))
    attempt("closed", lambda: held["program"].close())
    held.clear()
everything("cpu?workers=1")  # Python's own modules are imported before the limit: an import without memory may raise anything
assert set(counts) == {"ok", "ArtifactError"}, counts  # the broken file
counts.clear()
have = {"AS": int(open("/proc/self/statm").read().split()[0]) * 4096, "NOFILE": len(os.listdir("/proc/self/fd")) - 1, "NPROC": 0}
if limit == "NPROC":  # root has no such limit
    os.getuid() or os.setuid(54321)
resource.setrlimit(getattr(resource, "RLIMIT_" + limit), (have[limit] + value,) * 2)
for name in ("cpu?workers=8", "local-sync"):
    everything(name)
print("end", counts, flush=True)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import numpy as np

    made = tmp_path_factory.mktemp("limits")
    text = "func.func @f(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {\n"
    text += "%r = arith.mulf %a, %b : tensor<?xf32>\nreturn %r : tensor<?xf32> }"
    pd.compile(text).save(made / "f.pdx")
    source = Path(__file__).parents[2] / "examples/plugin/simple_mul.c"
    command = [
        sys.executable,
        "-m",
        "pydispatch.cli",
        "plugin",
        "build",
        str(source),
        "-o",
        str(made / "p.so"),
        "--system",
    ]
    subprocess.run(command, check=True, capture_output=True)
    np.save(made / "big.npy", np.zeros(1 << 20, np.float32))
    return made


LIMITS = [("AS", 0), ("AS", 1 << 16), ("AS", 1 << 18), ("AS", 1 << 20), ("AS", 8 << 20), ("NOFILE", 0), ("NOFILE", 1),
          ("NPROC", 1)]  # fmt: skip


@pytest.mark.parametrize(("limit", "value"), LIMITS)
def test_errors_and_no_crashes(folder: Path, limit: str, value: int) -> None:
    command = [sys.executable, "-c", SCRIPT, limit, str(value), str(folder)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONFAULTHANDLER": "1"}
    )
    assert done.returncode == 0 and done.stdout.startswith("end "), done.stderr
    assert "Error" in done.stdout.replace("ArtifactError", ""), done.stdout  # the limit was felt


def test_an_artifact_cut_off_under_a_program_keeps_its_code(tmp_path: Path) -> None:
    """Large files are mapped: constants stay in them and are trusted to stay (docs/artifact.md), code and programs do not."""
    script = """
import os, sys
import numpy as np
import pydispatch as pd
values = np.arange(40_000, dtype=np.float32)
kind = "tensor<40000xf32>"
pd.compile(f'''func.func @c(%a: {kind}) -> {kind} {{
%c = arith.constant dense<"0x{values.tobytes().hex()}"> : {kind}
%r = arith.addf %a, %c : {kind}
return %r : {kind} }}
func.func @p(%a: tensor<?xf32>) -> tensor<?xf32> {{
%r = arith.addf %a, %a : tensor<?xf32>
return %r : tensor<?xf32> }}''').save(sys.argv[1])
program = pd.device("cpu").load(sys.argv[1])
with open(sys.argv[1], "r+b") as file:
    if sys.argv[2] == "cut":
        file.truncate(0)
    else:
        file.write(os.urandom(os.path.getsize(sys.argv[1])))
for n in (3, 7, 100_000):
    assert (program.p(np.ones(n, np.float32)) == 2).all()
    assert (program.p.prepare(np.ones(n, np.float32))() == 2).all()
try:
    program.p(np.ones((3, 3), np.float32))
except pd.Error as error:
    assert "expected ?xf32" in str(error)
program.close()
print("end")
"""
    for how in ("cut", "overwritten"):
        done = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path / "a.pdx"), how], capture_output=True, text=True
        )
        assert (done.returncode, done.stdout) == (0, "end\n"), (how, done.stderr)
