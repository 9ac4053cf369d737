"""Streams are flushed around calls into plugins that may print, and around no others."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from pydispatch._core.plugin import Plugin
from test_imports import FUNCTION, PROGRAM

import pydispatch as pd

SILENT = FUNCTION.replace("SCALE", "1.0f").replace("#include <stddef.h>", "#include <stddef.h>\n#include <math.h>")
SILENT = SILENT.replace("scale * p->a", "roundf(sqrtf(scale)) * p->a")
LOUD = SILENT.replace("#include <stddef.h>", "#include <stddef.h>\n#include <stdio.h>")
SOURCES = {
    "silent": SILENT,
    "loud": LOUD.replace("float scale", 'printf("kernel %d\\n", (int)p->group);\n  float scale', 1),
    "begins": LOUD + '__attribute__((constructor)) static void begin(void) { printf("loaded\\n"); }',
    "ends": SILENT.replace("#include <stddef.h>", "#include <stddef.h>\n#include <stdio.h>")
    + '__attribute__((destructor)) static void finish(void) { printf("ended\\n"); }',
}
A = np.ones(100, np.float32)


@pytest.fixture(scope="module")
def artifact() -> pd.Artifact:
    return pd.compile(PROGRAM)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A system plugin of one of SOURCES."""
    folder = tmp_path_factory.mktemp("prints")

    def build(name: str) -> Path:
        path = folder / f"{name}.so"
        if not path.exists():
            source = path.with_suffix(".c")
            source.write_text(SOURCES[name])
            cli = [sys.executable, "-m", "pydispatch.cli", "plugin", "build", source, "--export=my_mul", "--system"]
            subprocess.run([*cli, "-o", path], check=True)
        return path

    return build


@pytest.mark.parametrize(("name", "prints"), [("silent", False), ("loud", True), ("begins", True)])
def test_who_may_print(artifact: pd.Artifact, built: Callable[[str], Path], name: str, prints: bool) -> None:
    with Plugin(built(name), kind="system") as plugin:
        assert plugin.may_print == prints
        device = pd.device("local-sync")
        device.add_plugin(plugin)
        program = device.load(artifact)
    np.testing.assert_array_equal(program.run(A, A), A)
    assert program._module.flushes == prints


def test_only_who_gave_something_counts(artifact: pd.Artifact, built: Callable[[str], Path]) -> None:
    """A plugin that prints and is asked after another one has answered costs the calls nothing."""
    device = pd.device("local-sync")
    device.add_plugin(built("loud"))
    device.add_plugin(built("silent"), priority=1)
    assert not device.load(artifact)._module.flushes
    other = pd.device("local-sync")
    other.add_plugin(built("loud"), priority=1)
    other.add_plugin(built("silent"))
    assert other.load(artifact)._module.flushes


def test_what_a_plugin_prints_when_it_is_loaded_comes_in_order(built: Callable[[str], Path]) -> None:
    code = f"""
import pydispatch as pd
print("before")
pd.device("local-sync").add_plugin({str(built("begins"))!r})
print("after")
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.splitlines() == ["before", "loaded", "after"]


def test_what_a_plugin_prints_at_the_end_of_a_command_is_written(
    artifact: pd.Artifact, built: Callable[[str], Path], tmp_path: Path
) -> None:
    artifact.save(tmp_path / "p.pdx")
    command = [sys.executable, "-m", "pydispatch.cli", "run", tmp_path / "p.pdx", "--input=8xf32=2", "--input=8xf32=4"]
    plugin = f"--executable_plugin={built('ends')}"
    out = subprocess.run([*command, plugin], capture_output=True, text=True, check=True).stdout
    assert "8xf32=8 8" in out and out.endswith("ended\n")
