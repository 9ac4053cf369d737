"""The page on CUDA and examples/cuda say what is so: they run as they stand there, on the interpreter."""

from __future__ import annotations

import re
from pathlib import Path

import fork_server
import numpy as np
import pytest
from documents import commands

import pydispatch as pd

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "cuda"
CLI = ["-m", "pydispatch.cli"]


def test_the_page_runs(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "cuda.md").read_text()
    blocks = dict(reversed(re.findall(r"```(cuda|mlir|python)\n(.*?)```", text, re.DOTALL)))  # the first of each kind
    (tmp_path / "example.mlir").write_text(blocks["mlir"])
    # The PTX of the example has this kernel too: the page needs no nvcc here.
    body = r"if \(i < \w+\) \w+\[i\] = \w+\[i\] \* \w+\[i\];"
    assert re.search(body, blocks["cuda"]) and re.search(body, (EXAMPLE / "kernels.cu").read_text())
    (tmp_path / "kernels.ptx").write_bytes((EXAMPLE / "kernels.ptx").read_bytes())
    done = fork_server.run(["-c", blocks["python"] + "\nassert (np.asarray(c) == a * b).all()"], tmp_path)
    assert done.returncode == 0, done.stderr
    command = re.search(r"`pydispatch (run example.mlir [^`]*)`", text)
    assert command is not None
    done = fork_server.run([*CLI, *command[1].split()], tmp_path)
    assert done.stdout == "EXEC @mul\nresult[0]: hal.buffer_view\n8xf32=8 8 8 8 8 8 8 8\n", done.stderr


def test_the_example_from_a_shell(tmp_path: Path) -> None:
    artifact = tmp_path / "program.pdx"
    assert fork_server.run([*CLI, "compile", EXAMPLE / "program.mlir", "-o", artifact]).returncode == 0
    inputs = ["--input=8xf32=2", "--input=8xf32=4"]
    for file in (artifact, EXAMPLE / "program.mlir"):
        done = fork_server.run([*CLI, "run", file, "--device=ptx-interpreter?races=1", *inputs])
        assert done.stdout == "EXEC @mixed_invocation\nresult[0]: hal.buffer_view\n8xf32=96 96 96 96 96 96 96 96\n"


def test_functions_linked_when_compiling_and_at_load(tmp_path: Path) -> None:
    (words,) = (words for words in commands("docs/cuda.md") if "functions.mlir" in words)
    done = fork_server.run([*CLI, *words[1:]], EXAMPLE)
    assert done.stdout == "EXEC @mixed_invocation\nresult[0]: hal.buffer_view\n8xf32=96 96 96 96 96 96 96 96\n", (
        done.stderr
    )
    artifact = pd.compile(EXAMPLE / "functions.mlir")
    device = pd.device("ptx-interpreter")
    with pytest.raises(pd.MissingImportError) as caught:
        device.load(artifact)
    said = str(caught.value)
    assert "'scale_workgroup', which @scale calls" in said and "void scale_workgroup(float*" in said
    assert "device.add_plugin('lib.ptx')" in said and "nvcc -ptx -rdc=true" in said
    device.add_plugin(EXAMPLE / "plugin.ptx")
    program = device.load(artifact)
    a, b = np.random.default_rng(5).standard_normal((2, 1000), dtype=np.float32)
    np.testing.assert_array_equal(program.mixed_invocation(a, b), (a * b) * (a * b + b))
    (tmp_path / "new.ptx").write_text((EXAMPLE / "plugin.ptx").read_text().replace(".target sm_75", ".target sm_90"))
    old = pd.device("ptx-interpreter?capability=8.0")
    old.add_plugin(tmp_path / "new.ptx")
    with pytest.raises(pd.InvalidArgumentError, match=r"new.ptx is PTX for sm_90, which this device does not run"):
        old.load(artifact)
    (used,) = program.imports
    assert used.symbol == "scale_workgroup" and used.provider == str(EXAMPLE / "plugin.ptx")


def test_the_example_with_other_sizes() -> None:
    program = pd.device("ptx-interpreter?capability=7.5").load(pd.compile(EXAMPLE / "program.mlir"))
    for size in (1, 63, 64, 65, 1000):
        a, b = np.random.default_rng(size).standard_normal((2, size), dtype=np.float32)
        np.testing.assert_array_equal(program.mixed_invocation(a, b), (a * b) * (a * b + b))


def test_devices_are_listed_by_name_alone() -> None:
    assert "ptx-interpreter" not in pd.devices()
    done = fork_server.run([*CLI, "devices", "ptx-interpreter"])
    assert done.stdout.startswith("ptx-interpreter\n") and "  capability: 9.0\n" in done.stdout
    assert "tools" not in done.stdout
