"""A host program that somebody edited, with the right checksum: no generated kernel ends the process over it."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.formats.artifact.artifact import CONTRACTS, PROGRAM, Artifact
from pydispatch.formats.artifact.manifest import Manifest

MUTANTS = int(os.environ.get("PYDISPATCH_TEST_MUTANTS", "700"))
"""For each program."""

ADD = """
func.func @f(%a: tensor<?x16xf32>, %b: tensor<?x16xf32>) -> tensor<?x16xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %a, %c0 : tensor<?x16xf32>
  %e = tensor.empty(%n) : tensor<?x16xf32>
  %r = linalg.add ins(%a, %b : tensor<?x16xf32>, tensor<?x16xf32>) outs(%e : tensor<?x16xf32>) -> tensor<?x16xf32>
  return %r : tensor<?x16xf32>
}
"""
MATMUL = """
func.func @f(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %z = arith.constant 0.0 : f32
  %n = tensor.dim %a, %c0 : tensor<?x?xf32>
  %m = tensor.dim %b, %c1 : tensor<?x?xf32>
  %e = tensor.empty(%n, %m) : tensor<?x?xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>
  %r = linalg.matmul ins(%a, %b : tensor<?x?xf32>, tensor<?x?xf32>) outs(%f : tensor<?x?xf32>) -> tensor<?x?xf32>
  %s = linalg.softmax dimension(1) ins(%r : tensor<?x?xf32>) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %s : tensor<?x?xf32>
}
"""
SLICES = """
func.func @f(%a: tensor<?xf32>, %k: index) -> tensor<?xf32> {
  %c = arith.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]> : tensor<8xf32>
  %s = tensor.extract_slice %a[3] [%k] [2] : tensor<?xf32> to tensor<?xf32>
  %t = tensor.extract_slice %c[1] [%k] [1] : tensor<8xf32> to tensor<?xf32>
  %e = tensor.empty(%k) : tensor<?xf32>
  %r = linalg.mul ins(%s, %t : tensor<?xf32>, tensor<?xf32>) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}
"""
STATIC = """
func.func @f(%a: tensor<64x64xf32>, %b: tensor<64x64xf32>) -> (tensor<64xf32>, tensor<64x64xf32>) {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x64xf32>
  %v = tensor.empty() : tensor<64xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<64x64xf32>) -> tensor<64x64xf32>
  %g = linalg.fill ins(%z : f32) outs(%v : tensor<64xf32>) -> tensor<64xf32>
  %r = linalg.matmul ins(%a, %b : tensor<64x64xf32>, tensor<64x64xf32>)
    outs(%f : tensor<64x64xf32>) -> tensor<64x64xf32>
  %s = linalg.reduce ins(%r : tensor<64x64xf32>) outs(%g : tensor<64xf32>) dimensions = [1]
    (%x: f32, %y: f32) { %w = arith.addf %x, %y : f32 linalg.yield %w : f32 }
  return %s, %r : tensor<64xf32>, tensor<64x64xf32>
}
"""
PROGRAMS = {
    "add": (ADD, [["f4", [5, 16], 0], ["f4", [5, 16], 0]]),
    "matmul": (MATMUL, [["f4", [24, 32], 0], ["f4", [32, 16], 0]]),
    "slices": (SLICES, [["f4", [19], 0], ["", None, 6]]),
    "static": (STATIC, [["f4", [64, 64], 0], ["f4", [64, 64], 0]]),
}


def arrays(shapes: list[list[object]]) -> list[object]:
    return [value if shape is None else np.ones(shape, dtype) for dtype, shape, value in shapes]  # type: ignore[call-overload]


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_mutant_ends_the_process(name: str, tmp_path: Path) -> None:
    source, shapes = PROGRAMS[name]
    path = tmp_path / "program.pdx"
    pd.compile(source).save(path)
    script = Path(__file__).with_name("hostile_programs.py")
    command = [sys.executable, str(script), str(path), "f", json.dumps(shapes), "0", str(MUTANTS)]
    ran = subprocess.run(command, capture_output=True, text=True)
    lines = ran.stdout.splitlines()
    last = lines[-1] if lines else "none"
    assert ran.returncode == 0, f"mutant {last} ended with {ran.returncode}: {ran.stderr[-2000:]}"
    outcomes = json.loads(last)
    assert sum(outcomes.values()) == MUTANTS
    assert min(outcomes.values()) > MUTANTS // 100, outcomes  # each way of ending is met


def test_a_smaller_buffer_is_refused_by_name() -> None:
    artifact = pd.compile(STATIC)
    # The transient of 64x64 numbers becomes one of 16 bytes: CONST of its size.
    data = struct.unpack(f"<{len(bytes(artifact.read(PROGRAM))) // 4}I", bytes(artifact.read(PROGRAM)))
    at = next(i for i in range(len(data) - 4) if data[i] == 1 and data[i + 2 : i + 5] == (0, 64 * 64 * 4, 0))
    members = {m: artifact.read(m) for m in artifact.members}
    words = [*data[: at + 3], 16, *data[at + 4 :]]
    program = memoryview(struct.pack(f"<{len(words)}I", *words))
    loaded = pd.device("cpu").load(Artifact(artifact.manifest, {**members, PROGRAM: program}))
    with pytest.raises(pd.Error, match=r"16 bytes"):
        loaded["f"](*arrays(PROGRAMS["static"][1]))


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_export_of_generated_code_has_a_contract(name: str) -> None:
    artifact = pd.compile(PROGRAMS[name][0], targets=["x86_64", "vulkan", "cuda"])
    for executable in artifact.executables:
        for variant in executable.variants:
            numbers = variant.extra["contracts"]
            assert len(numbers) == len(executable.exports) and all(type(n) is int for n in numbers)
    program = pd.device("cpu").load(artifact)
    assert program["f"](*arrays(PROGRAMS[name][1])) is not None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("no list", r"contracts: expected a list of numbers or null, got .no list."),
        ([-1], r"contracts: expected a list of numbers or null, got \[-1\]"),
        ([77], r"contract 77 of 1 is none for"),
    ],
)
def test_broken_contracts_are_refused(value: object, text: str) -> None:
    artifact = pd.compile(ADD)
    manifest = artifact.manifest.to_json()
    manifest["executables"][0]["variants"][0]["contracts"] = value
    members = {m: artifact.read(m) for m in artifact.members}
    with pytest.raises(pd.ArtifactError, match=text):
        changed = Manifest.from_json(manifest)
        pd.device("cpu").load(Artifact(changed, {**members, "manifest.json": memoryview(changed.to_bytes())}))


def test_missing_contracts_are_refused() -> None:
    artifact = pd.compile(ADD)
    members = {m: artifact.read(m) for m in artifact.members if m != CONTRACTS}
    with pytest.raises(pd.ArtifactError, match=r"contracts\.bin"):
        pd.device("cpu").load(Artifact(artifact.manifest, members))
