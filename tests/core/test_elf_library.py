"""A hand-written executable library runs through the loader on every machine: natively or under user emulation."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from elf_build import ROOT, Builder, runner_command
from pydispatch._core import elf

TESTS = ROOT / "tests" / "c" / "elf"
MACHINES = ["x86_64", "aarch64", "riscv64"]


@pytest.fixture(scope="session")
def runners() -> dict[str, list[str]]:
    """machine -> the command that runs the loader there; a machine without its emulator is missing."""
    commands = {machine: runner_command(machine) for machine in MACHINES}
    return {machine: command for machine, command in commands.items() if command}


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Path]:
    build = Builder(tmp_path_factory.mktemp("library"))
    source = (TESTS / "sample_library.c").read_text()
    made = {}
    for machine in MACHINES:
        compiled = build.object(source, machine, flags=("-fvisibility=hidden",))
        made[machine, "rela"] = build.link(compiled, flags=("--hash-style=sysv",))
        made[machine, "relr"] = build.link(compiled, flags=("--hash-style=gnu", "-z", "pack-relative-relocs"))
        made[machine, "4 KiB"] = build.link(compiled, flags=("--hash-style=gnu", "-z", "max-page-size=4096"))
    return made


def run_library(command: list[str], *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, timeout=300)


def command_for(runners: dict[str, list[str]], machine: str) -> list[str]:
    if machine not in runners:
        pytest.skip(f"qemu-{machine}-static is not installed (apt-get install qemu-user-static)")
    return runners[machine]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kind", ["rela", "relr"])
def test_three_dispatches(runners: dict, libraries: dict, machine: str, kind: str) -> None:
    done = run_library(
        command_for(runners, machine), libraries[machine, kind],
        "--binding=8xf32=1,2,3,4,5,6,7,8", "--binding=8xf32=3", "--binding=8xf32", "--binding=8xf32",
        "--export=mul", "--grid=2x1x1", "--constant=8", "--use=0,1,2",
        "--export=add", "--grid=2", "--constant=8", "--use=2,2,3",
        "--export=mul_inplace", "--grid=2", "--constant=7", "--use=0,3", "--print=3", "--print=0",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    # (a * 3 + a * 3) * a, without the last multiplication in the last element, which its constant leaves out.
    expected = [6 * a * a for a in range(1, 8)] + [48]
    assert done.stdout == f"8xf32={' '.join(map(str, expected))}\n8xf32=1 2 3 4 5 6 7 8\n"


@pytest.mark.parametrize("machine", MACHINES)
def test_refusals(runners: dict, libraries: dict, tmp_path: Path, machine: str) -> None:
    command = command_for(runners, machine)
    other = MACHINES[MACHINES.index(machine) - 1]
    done = run_library(command, libraries[other, "rela"])
    assert done.returncode == 1 and f"is for {other}, this machine is {machine}" in done.stderr
    done = run_library(command, libraries[machine, "rela"], "--export=nothing")
    assert done.returncode == 1 and "no export is named: nothing" in done.stderr
    broken = tmp_path / "broken.so"
    broken.write_bytes(libraries[machine, "rela"].read_bytes()[:900])
    done = run_library(command, broken)
    assert done.returncode == 1 and "is it cut off?" in done.stderr


@pytest.mark.parametrize("page", [4096, 16384, 65536])
def test_page_sizes(runners: dict, libraries: dict, page: int) -> None:
    """An emulator with larger pages: what was linked for them runs, what was not is refused with the remedy."""
    machine = "riscv64" if elf.host_machine() == "aarch64" else "aarch64"
    emulator, runner = command_for(runners, machine)
    command = [emulator, "-p", str(page), runner]
    arguments = ("--binding=4xf32=6", "--binding=4xf32=7", "--binding=4xf32", "--export=mul", "--constant=4",
                 "--print=2")  # fmt: skip
    done = run_library(command, libraries[machine, "rela"], *arguments)
    assert done.stdout == "4xf32=42 42 42 42\n", done.stderr
    done = run_library(command, libraries[machine, "4 KiB"], *arguments)
    if page == 4096:
        assert done.stdout == "4xf32=42 42 42 42\n", done.stderr
    else:
        assert f"share the {page}-byte page" in done.stderr and "-z max-page-size=65536" in done.stderr
