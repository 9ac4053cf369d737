"""ptxas takes what tensor programs become, for five architectures. Their values are in `conformance`."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import tools

sys.path.append(str(Path(__file__).parents[1] / "conformance"))
from tensor_programs import CASES, SMALL, TYPES, sums

import pydispatch as pd

ARCHES = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")


def assembled(artifact: Any, tmp_path: Path, arches: tuple[str, ...] = ARCHES) -> int:
    """How many PTX texts of an artifact ptxas takes. An assertion fails for one that it does not."""
    path, count = tmp_path / "program.pdx", 0
    artifact.save(path)
    with zipfile.ZipFile(path) as members:
        for name in (n for n in members.namelist() if n.endswith(".ptx")):
            text = members.read(name).decode()
            arch = next(line.split()[1] for line in text.splitlines() if line.startswith(".target"))
            assert arch in arches
            (tmp_path / "one.ptx").write_text(text)
            command = [tools.ptxas(), f"-arch={arch}", str(tmp_path / "one.ptx"), "-o", str(tmp_path / "one.cubin")]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{name} for {arch}: {done.stderr}"
            count += 1
    return count


@pytest.mark.parametrize("name", CASES)
def test_ptxas_takes_all_architectures(name: str, tmp_path: Path) -> None:
    count = assembled(pd.compile(CASES[name][0], targets=ARCHES), tmp_path)
    assert count and count % len(ARCHES) == 0


@pytest.mark.parametrize("type_", [*TYPES, *SMALL])
def test_ptxas_takes_all_element_types(type_: str, tmp_path: Path) -> None:
    arches = ("sm_75", "sm_90")
    assert assembled(pd.compile(sums(type_), targets=arches), tmp_path) == len(arches)
