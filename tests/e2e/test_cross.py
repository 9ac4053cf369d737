"""The example, compiled for every architecture into one file, runs on each: natively or under user emulation."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from elf_build import ROOT, runner_command

import pydispatch as pd

MACHINES = {"x86_64": "embedded-elf-x86_64", "aarch64": "embedded-elf-arm_64", "riscv64": "embedded-elf-riscv_64"}


@pytest.fixture(scope="module")
def artifact() -> pd.Artifact:
    return pd.compile(ROOT / "examples" / "mixed" / "program.mlir")


def binaries(artifact: pd.Artifact, format: str, folder: Path) -> dict[str, Path]:
    """The ELF of each executable for one format, by the names of its exports."""
    found = {}
    for executable in artifact.executables:
        (variant,) = [v for v in executable.variants if v.format == format]
        path = folder / f"{executable.name}.so"
        path.write_bytes(artifact.read(variant.member))
        found[" ".join(executable.exports)] = path
    return found


@pytest.mark.parametrize("machine", MACHINES)
def test_the_example_gives_96(artifact: pd.Artifact, tmp_path: Path, machine: str) -> None:
    command = runner_command(machine)
    assert command, f"qemu-{machine}-static is not installed (apt-get install qemu-user-static)"
    found = binaries(artifact, MACHINES[machine], tmp_path)
    (add,) = [name for name in found if name != "mul scale"]

    def run(library: str, *arguments: str) -> str:
        done = subprocess.run([*command, found[library], *arguments], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout.rpartition("=")[2].strip().replace(" ", ",")

    size = ["--constant=8", "--constant=0"]  # an index is two words
    product = run("mul scale", "--binding=8xf32=2", "--binding=8xf32=4", "--binding=8xf32", "--export=mul", *size,
                  "--print=2")  # fmt: skip
    assert product == ",".join(["8"] * 8)
    total = run(add, f"--binding=8xf32={product}", "--binding=8xf32=4", "--binding=8xf32", f"--export={add}", *size,
                "--print=2")  # fmt: skip
    assert total == ",".join(["12"] * 8)
    scaled = run("mul scale", f"--binding=8xf32={product}", f"--binding=8xf32={total}", "--export=scale", *size,
                 "--print=1")  # fmt: skip
    assert scaled == ",".join(["96"] * 8)


@pytest.mark.parametrize("machine", MACHINES)
def test_grids_on_every_machine(artifact: pd.Artifact, tmp_path: Path, machine: str) -> None:
    """The second of two workgroups does the rest, and nobody writes behind the end."""
    command = runner_command(machine)
    assert command, f"qemu-{machine}-static is not installed (apt-get install qemu-user-static)"
    library = binaries(artifact, MACHINES[machine], tmp_path)["mul scale"]
    values = ",".join(str(i) for i in range(100))
    done = subprocess.run(
        [
            *command, library, f"--binding=100xf32={values}", "--binding=100xf32=3", "--binding=100xf32=-1",
            "--export=mul", "--grid=2x1x1", "--constant=99", "--constant=0", "--print=2",
        ],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("=")[1].split() == [str(3 * i) for i in range(99)] + ["-1"]
