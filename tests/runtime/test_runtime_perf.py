"""What perf makes of a running program: the map that PYDISPATCH_PERF_MAP asks for, read by perf's own rule."""

from __future__ import annotations

import bisect
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TEXT = """func.func @f(%a: tensor<?xf32>, %b: tensor<?x64xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
  %r = math.exp %a : tensor<?xf32>
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %d = tensor.dim %b, %c0 : tensor<?x64xf32>
  %empty = tensor.empty(%d) : tensor<?xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<?xf32>) -> tensor<?xf32>
  %s = linalg.reduce { arith.addf } ins(%b : tensor<?x64xf32>) outs(%start : tensor<?xf32>) dimensions = [1]
  return %r, %s : tensor<?xf32>, tensor<?xf32>
}"""

# Addresses where code of the program is executable, from the process itself, and the names of its exports.
SCRIPT = """
import io, json, os, sys, zipfile
import pydispatch as pd
from elftools.elf.elffile import ELFFile
artifact = pd.compile(sys.argv[1], targets="cpu")
program = pd.device("local-sync").load(artifact)
file = zipfile.ZipFile(io.BytesIO(artifact.to_bytes()))
sizes, exports = [], []
manifest = json.loads(file.read("manifest.json"))
for executable in manifest["executables"]:
    exports += executable["exports"]
    for variant in executable["variants"]:
        elf = ELFFile(io.BytesIO(file.read(variant["member"])))
        sizes.append(elf.get_section_by_name(".text")["sh_size"])
print(json.dumps({"pid": os.getpid(), "exports": exports, "sizes": sizes}))
"""


def resolve(entries: list[tuple[int, int, str]], address: int) -> str | None:
    """The entry with start <= address < start + size, as perf looks it up."""
    at = bisect.bisect_right(entries, (address, 1 << 63, "")) - 1
    if at >= 0 and entries[at][0] <= address < entries[at][0] + entries[at][1]:
        return entries[at][2]
    return None


def test_an_address_in_a_kernel_has_its_name() -> None:
    environment = {**os.environ, "PYDISPATCH_PERF_MAP": "1"}
    done = subprocess.run([sys.executable, "-c", SCRIPT, TEXT], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    path = Path(f"/tmp/perf-{said['pid']}.map")
    lines = path.read_text().splitlines()
    path.unlink()
    entries = []
    for line in lines:
        start, size, name = line.split(" ", 2)  # START SIZE name, in hexadecimal digits without 0x
        entries.append((int(start, 16), int(size, 16), name))
    entries.sort()
    names = [name for _, _, name in entries]
    assert len(said["exports"]) >= 2 and set(said["exports"]) <= set(names)
    for (start, size, _), (following, _, _) in itertools.pairwise(entries):
        assert size > 16 and start + size <= following, "functions do not overlap"
    for start, size, name in entries:
        if name in said["exports"]:
            assert resolve(entries, start) == resolve(entries, start + size // 2) == name
            assert resolve(entries, start + size - 1) == name
            assert resolve(entries, start + size) != name
    # All code but the padding between functions has a name.
    assert sum(said["sizes"]) - 16 * len(entries) <= sum(size for _, size, _ in entries) <= sum(said["sizes"])


@pytest.mark.parametrize("value", ["0", ""])
def test_nothing_is_written_unasked(value: str) -> None:
    environment = {**os.environ, "PYDISPATCH_PERF_MAP": value}
    done = subprocess.run([sys.executable, "-c", SCRIPT, TEXT], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert not Path(f"/tmp/perf-{json.loads(done.stdout)['pid']}.map").exists()
