"""Chains: dispatches that depend on each other tile by tile, which give the same bits with and without them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.cli.__main__ import main
from pydispatch.formats.program.text import chains_of

C = """
#include <stddef.h>
// out[i] = lhs[i] * rhs[i] for the |tile| elements from |first| on.
static inline size_t end_of(size_t size, size_t first, size_t tile) {
  return size - first < tile ? size : first + tile;
}
void mul_tile(const float* a, size_t ao, const float* b, size_t bo, float* out, size_t oo, size_t size,
              size_t first) {
  for (size_t i = first; i < end_of(size, first, 64); ++i) out[oo + i] = a[ao + i] * b[bo + i];
}
void half_tile(const float* a, size_t ao, double* out, size_t oo, size_t size, size_t first) {
  for (size_t i = first; i < end_of(size, first, 256); ++i) out[oo + i] = a[ao + i] * 0.5;
}
void turn_tile(const double* a, size_t ao, double* out, size_t oo, size_t size, size_t first) {
  for (size_t i = first; i < end_of(size, first, 64); ++i) out[oo + i] = a[ao + size - 1 - i];
}
"""

MUL = ("mul", 64, "[256, 256, 256]", ("f32", "f32", "f32"))
HALF = ("half", 256, "[1024, 2048]", ("f32", "f64"))
TURN = ("turn", 64, "[0, 512]", ("f64", "f64"))


def executable(kernels: list[tuple[str, int, str, tuple[str, ...]]], source: Path) -> str:
    """A stream.executable with an export for each kernel: name, elements of a workgroup, `pyd.tiles`, element types."""
    exports, bodies = [], []
    for name, tile, tiles, types in kernels:
        stated = f" attributes {{pyd.tiles = {tiles}}}" if tiles else ""
        exports.append(f"""
    stream.executable.export public @{name} workgroups(%n: index) -> (index, index, index) {{
      %x = affine.apply affine_map<()[s0] -> (s0 ceildiv {tile})>()[%n]
      %one = arith.constant 1 : index
      stream.return %x, %one, %one : index, index, index
    }}{stated}""")
        pointers = [f"memref<{t}>, index" for t in types]
        spans = [
            f"%v{i} = stream.binding.subspan %b{i}[%zero] : !stream.binding -> memref<?x{t}>{{%n}}\n"
            f"%p{i}, %o{i}, %n{i}, %s{i} = iree_codegen.extract_strided_metadata %v{i} : memref<?x{t}> -> "
            f"memref<{t}>, index, index, index"
            for i, t in enumerate(types)
        ]
        values = ", ".join(f"%p{i}, %o{i}" for i in range(len(types)))
        signature = f"({', '.join(pointers)}, index, index)"
        bodies.append(f"""
    func.func private @{name}_tile{signature} attributes {{hal.import.static, llvm.bareptr = true}}
    func.func @{name}({", ".join(f"%b{i}: !stream.binding" for i in range(len(types)))}, %n: index) {{
      %zero = arith.constant 0 : index
      %id = stream.dispatch.workgroup.id[0] : index
      %first = affine.apply affine_map<()[s0] -> (s0 * {tile})>()[%id]
      {" ".join(s + chr(10) for s in spans)}
      func.call @{name}_tile({values}, %n, %first) : {signature} -> ()
      return
    }}""")
    objects = f'attributes {{hal.executable.objects = [#hal.executable.object<{{path = "{source}"}}>]}}'
    return f"""stream.executable private @kernels {objects} {{
    {"".join(exports)}
    builtin.module {{ {"".join(bodies)} }}
  }}"""


# Generated before, between and behind the kernels; %m is used twice, %e by the caller, too.
LONG = """func.func @f(%a: tensor<?xf32>, %b: tensor<?xf32>) -> (tensor<?xf64>, tensor<?xf32>) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %a, %c0 : tensor<?xf32>
  %s = arith.addf %a, %b : tensor<?xf32>
  %m = flow.dispatch @kernels::@mul[%n](%s, %b, %n)
      : (tensor<?xf32>{%n}, tensor<?xf32>{%n}, index) -> tensor<?xf32>{%n}
  %e = arith.subf %m, %s : tensor<?xf32>
  %h = flow.dispatch @kernels::@half[%n](%e, %n) : (tensor<?xf32>{%n}, index) -> tensor<?xf64>{%n}
  %w = arith.extf %m : tensor<?xf32> to tensor<?xf64>
  %r = arith.mulf %h, %w : tensor<?xf64>
  return %r, %e : tensor<?xf64>, tensor<?xf32>
}"""


def build(tmp_path: Path, function: str, *kernels: tuple[str, int, str, tuple[str, ...]]) -> pd.Artifact:
    source = tmp_path / "kernels.c"
    source.write_text(C)
    return pd.compile(executable(list(kernels), source) + function, targets="cpu")


def chains(artifact: pd.Artifact) -> list[int]:
    """The number of dispatches in each chain."""
    return [len(names) for _, names in chains_of(artifact.read("program.bin"))]


def test_every_size_has_the_same_bits(tmp_path: Path) -> None:
    artifact = build(tmp_path, LONG, MUL, HALF)
    assert chains(artifact) == [5]
    devices = [pd.device(name) for name in ("cpu?workers=1", "cpu?workers=2")]
    functions = [device.load(artifact).f for device in devices]
    plain = pd.device("cpu?workers=2&chains=0").load(artifact).f
    random = np.random.default_rng(5)
    sizes = [0, 1, 64, 1000, 87039, 87040, 87041, *map(int, random.integers(90_000, 400_000, 6))]
    for n in sizes:
        a, b = random.random(n, np.float32), random.random(n, np.float32)
        s = a + b
        m = s * b
        e = m - s
        expected = e.astype(np.float64) * 0.5 * m.astype(np.float64)
        for f in (*functions, plain):
            for _ in range(2):
                r, got = f(a, b)
                assert np.array_equal(got.view(np.uint32), e.view(np.uint32)), n
                assert np.array_equal(r.view(np.uint64), expected.view(np.uint64)), n


def test_a_kernel_that_looks_elsewhere_begins_a_chain_of_its_own(tmp_path: Path) -> None:
    artifact = build(
        tmp_path,
        """func.func @f(%a: tensor<?xf32>) -> tensor<?xf64> {
          %c0 = arith.constant 0 : index
          %n = tensor.dim %a, %c0 : tensor<?xf32>
          %s = arith.addf %a, %a : tensor<?xf32>
          %h = flow.dispatch @kernels::@half[%n](%s, %n) : (tensor<?xf32>{%n}, index) -> tensor<?xf64>{%n}
          %t = flow.dispatch @kernels::@turn[%n](%h, %n) : (tensor<?xf64>{%n}, index) -> tensor<?xf64>{%n}
          %r = arith.addf %t, %h : tensor<?xf64>
          return %r : tensor<?xf64>
        }""",
        HALF, TURN,
    )  # fmt: skip
    assert chains(artifact) == [2, 2]
    a = np.random.default_rng(6).random(300_001, np.float32)
    h = (a + a).astype(np.float64) * 0.5
    for workers in (1, 2):
        assert np.array_equal(pd.device(f"cpu?workers={workers}").load(artifact).f(a), h[::-1] + h)


def test_without_a_declaration_there_is_no_chain(tmp_path: Path) -> None:
    assert chains(build(tmp_path, LONG, (*MUL[:2], "", MUL[3]), HALF)) == [3]
    assert chains(build(tmp_path, LONG, (*MUL[:2], "[256, 0, 256]", MUL[3]), HALF)) == [5]  # only reads an argument
    assert chains(build(tmp_path, LONG, (*MUL[:2], "[0, 256, 256]", MUL[3]), HALF)) == [4]


@pytest.mark.parametrize(
    ("tiles", "message"),
    [
        ("[256, 256]", "pyd.tiles has 2 sizes, the layout has 3 bindings"),
        ("[256, 256, -4]", "pyd.tiles is the bytes of each binding"),
        ("[256, 256, 4294967296]", "pyd.tiles is the bytes of each binding"),
        ('"all"', "pyd.tiles is the bytes of each binding"),
        ("[256, unit, 4]", "pyd.tiles is the bytes of each binding"),
    ],
)
def test_a_wrong_declaration_is_refused(tmp_path: Path, tiles: str, message: str) -> None:
    with pytest.raises(pd.CompileError, match=message):
        build(tmp_path, LONG, (*MUL[:2], tiles, MUL[3]), HALF)


def test_a_loop_that_updates_its_argument(tmp_path: Path) -> None:
    """Procedures give results the memory of arguments; another tile may still need what lies there."""
    artifact = build(
        tmp_path,
        """func.func @f(%a: tensor<?xf32>, %b: tensor<?xf32>, %k: index) -> tensor<?xf32> {
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %n = tensor.dim %a, %c0 : tensor<?xf32>
          %r = scf.for %i = %c0 to %k step %c1 iter_args(%x = %a) -> tensor<?xf32> {
            %s = arith.addf %x, %b : tensor<?xf32>
            %m = flow.dispatch @kernels::@mul[%n](%s, %x, %n)
                : (tensor<?xf32>{%n}, tensor<?xf32>{%n}, index) -> tensor<?xf32>{%n}
            %e = arith.subf %m, %s : tensor<?xf32>
            scf.yield %e : tensor<?xf32>
          }
          return %r : tensor<?xf32>
        }""",
        MUL,
    )
    assert chains(artifact) == [3]
    a = np.random.default_rng(7).random(200_003, np.float32)
    b = a[::-1].copy()
    expected = a
    for _ in range(3):
        s = expected + b
        expected = s * expected - s
    for workers in (1, 2):
        assert np.array_equal(pd.device(f"cpu?workers={workers}").load(artifact).f(a, b, 3), expected)


def test_inspect_shows_chains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "chain.pdx"
    build(tmp_path, LONG, MUL, HALF).save(path)
    assert main(["inspect", "--dispatches", str(path)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("@f: @f_dispatch_0_addf_Dxf32 then @mul then ") and last.endswith(" run tile by tile")
    assert main(["inspect", "--program", str(path)]) == 0
    text = capsys.readouterr().out
    assert text.count("workgroups a tile") == 5 and text.count("of the same chain") == 4


def test_the_option_of_the_device() -> None:
    assert pd.device("cpu?workers=2&chains=0").name == "cpu?workers=2&chains=0"
    assert pd.device("cpu?chains=1&workers=2").name == "cpu?workers=2"
    with pytest.raises(pd.InvalidArgumentError, match="chains: expected 0 or 1, got 'no'"):
        pd.device("cpu?chains=no")
