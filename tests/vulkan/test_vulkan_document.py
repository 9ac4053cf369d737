"""The page on Vulkan says what is so: its example is compiled and run as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import fork_server

ROOT = Path(__file__).resolve().parents[2]


def test_the_example_runs(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "vulkan.md").read_text()
    blocks = {kind: code for kind, code in re.findall(r"```(glsl|mlir|python)\n(.*?)```", text, re.DOTALL)}
    (tmp_path / "simple_mul.glsl").write_text(blocks["glsl"])
    (tmp_path / "example.mlir").write_text(blocks["mlir"])
    done = fork_server.run(["-c", blocks["python"] + "\nassert (np.asarray(y) == a * b + b).all()"], tmp_path)
    assert done.returncode == 0, done.stderr
    command = re.search(r"`pydispatch (run example.mlir [^`]*)`", text)
    assert command is not None
    done = fork_server.run(["-m", "pydispatch.cli", *command[1].split()], tmp_path)
    assert done.stdout == "EXEC @mul_add\nresult[0]: hal.buffer_view\n8xf32=12 12 12 12 12 12 12 12\n", done.stderr


def test_devices_are_listed() -> None:
    done = fork_server.run(["-m", "pydispatch.cli", "devices"])
    assert "vulkan:0\n  model: " in done.stdout and "  subgroup: " in done.stdout
