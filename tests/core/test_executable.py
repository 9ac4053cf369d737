"""An ELF file becomes a callable library: through the loader, the query function and the import table."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from elf_build import ROOT, Builder, run

SOURCES = ROOT / "tests" / "c" / "executable"


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    return Builder(tmp_path_factory.mktemp("executable"))


@pytest.fixture(scope="module")
def runner(build: Builder) -> Path:
    binary = build.folder / "run_executable"
    folders = ["base", "elf", "imports", "executable", "artifact"]
    sources = [source for folder in folders for source in sorted((ROOT / "csrc" / folder).glob("*.c"))]
    sources += [ROOT / "csrc/platform/mem_linux.c", ROOT / "csrc/platform/file_linux.c", SOURCES / "run_executable.c"]
    run(os.environ.get("CC", "gcc"), "-std=c11", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Werror",
        "-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{ROOT}/csrc", f"-I{ROOT}/csrc/include",
        *sources, "-o", binary)  # fmt: skip
    return binary


def load(build: Builder, runner: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    source = (SOURCES / "import_library.c").read_text()
    library = build.link(build.object(source, flags=("-fvisibility=hidden", *flags)))
    return subprocess.run([runner, library, "exe"], capture_output=True, text=True, timeout=300)


def test_loads_resolves_and_runs(build: Builder, runner: Path) -> None:
    done = load(build, runner)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "library import_library 0.6, image holds it\nmul: 0\n96 96 96 96 96 96 96 96\n"


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("-DMISSING", "executable 'exe' has 2 unresolved imports: 'missing_one', 'missing_two'\n"),
        ("-DVERSION=7", "executable 'exe': its library answers to no version from 0.6 down to 0.1: "
                        "it was made for a newer runtime\n"),
        ("-DVERSION=3", "executable 'exe' has library version 0.3, whose tables are laid out differently; "
                        "versions 0.5 to 0.6 can be loaded: compile it again\n"),
        ("-DQUERY=another_query", "executable 'exe' does not define 'iree_hal_executable_library_query': "
                                  "it is not a kernel library\n"),
    ],
)  # fmt: skip
def test_refused_with_nothing_left(build: Builder, runner: Path, flag: str, message: str) -> None:
    done = load(build, runner, flag)  # the runner is built with the leak sanitizer
    assert (done.returncode, done.stdout, done.stderr) == (1, "", message)


def test_a_file_that_is_no_elf(runner: Path, tmp_path: Path) -> None:
    path = tmp_path / "text.so"
    path.write_text("hello" * 40)
    done = subprocess.run([runner, path, "exe"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and done.stderr.startswith("executable 'exe': ")


PEER_PROGRAM = """
func.func @f(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
  %0 = arith.mulf %a, %b : tensor<8xf32>
  %1 = math.exp %0 : tensor<8xf32>
  return %1 : tensor<8xf32>
}
"""


@pytest.mark.peer
def test_the_peer_compiles_what_we_run(runner: Path, tmp_path: Path) -> None:
    tool = shutil.which("iree-compile", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    assert tool, "iree-compile is not installed (pip install iree-base-compiler)"
    source = tmp_path / "f.mlir"
    source.write_text(PEER_PROGRAM)
    run(tool, "--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu",
        f"--iree-hal-dump-executable-binaries-to={tmp_path}", source, "-o", tmp_path / "f.vmfb")  # fmt: skip
    (library,) = tmp_path.glob("*.so")
    done = subprocess.run([runner, library, "exe"], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    header, export, values = done.stdout.splitlines()
    assert header.endswith(" 0.6, image holds it") and export.endswith(": 0")
    assert [float(v) for v in values.split()] == pytest.approx([math.exp(2 * 4)] * 8, rel=1e-5)
