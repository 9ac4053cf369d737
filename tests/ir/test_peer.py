"""What the peer's compiler prints for our programs parses, phase by phase."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from pydispatch import ir

DATA = Path(__file__).parent / "data"
# From the phase "stream" on, host code is the peer's own command stream, which is no input of ours.
PHASES = ["input", "abi", "preprocessing", "global-optimization", "dispatch-creation", "flow"]


def tool(name: str) -> str:
    folder = os.environ.get("PYDISPATCH_PEER")
    found = shutil.which(name, path=folder) if folder else shutil.which(name)
    if found is None:
        pytest.skip(f"{name} of the peer is not on PATH (pip install iree-base-compiler)")
    return found


@pytest.mark.peer
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("name", ["stream.mlir", "hal.mlir"])
def test_phase_parses(name: str, phase: str) -> None:
    command = [tool("iree-compile"), f"--compile-to={phase}", str(DATA / name), "-o", "-"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    module = ir.parse(done.stdout, f"{name}.{phase}")
    assert module.is_structurally_equivalent(ir.parse(ir.print_module(module)))


@pytest.mark.peer
@pytest.mark.parametrize("name", ["stream.mlir", "hal.mlir", "host.mlir", "kernel.mlir", "regions.mlir", "forms.mlir"])
def test_each_reads_what_the_other_prints(name: str) -> None:
    opt = tool("iree-opt")
    theirs = subprocess.run([opt, str(DATA / name)], capture_output=True, text=True, check=True).stdout
    module = ir.parse(theirs, name)
    ours = ir.print_module(module)
    back = subprocess.run([opt, "-"], input=ours, capture_output=True, text=True)
    assert back.returncode == 0, back.stderr
    assert back.stdout == theirs
