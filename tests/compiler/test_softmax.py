"""Softmax: one division for a row, rows with NaN and infinities, and the written order on request."""

import re

import numpy as np
import pytest

import pydispatch as pd

T = "tensor<6x40xf32>"
TEXT = f"""
func.func @f(%x: {T}) -> {T} {{
  %e = tensor.empty() : {T}
  %y = linalg.softmax dimension(1) ins(%x : {T}) outs(%e : {T}) -> {T}
  return %y : {T}
}}
"""


def rows() -> np.ndarray:
    x = np.random.default_rng(3).standard_normal((6, 40)).astype(np.float32) * 20
    x[1, 3] = np.nan
    x[2, 0] = np.inf
    x[3, 39] = -np.inf
    x[4] = -np.inf
    x[5] = 3e38
    return x


def expected(x: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        e = np.exp((x - np.fmax.reduce(x, axis=1, keepdims=True)).astype(np.float64))
        return e / e.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("cpu", ["generic", "native"])
def test_special_values(cpu):
    x = rows()
    y = pd.device("cpu").load(pd.compile(TEXT, targets="cpu", cpu=cpu)).f(x)
    np.testing.assert_allclose(y, expected(x), rtol=2e-6, atol=1e-37)
    assert np.isnan(y[1]).all() and np.isnan(y[2]).all() and np.isnan(y[4]).all()


def divisions(tmp_path, reassociate: bool) -> tuple[int, int]:
    """(vector divisions, all floating-point divisions) in the assembly."""
    pd.compile(TEXT, targets="x86_64", cpu="x86-64-v3", reassociate=reassociate, dump=tmp_path)
    (assembly,) = tmp_path.glob("*.s")
    text = assembly.read_text()
    return len(re.findall(r"\bvdivps\b", text)), len(re.findall(r"\bvdiv[ps]s\b", text))


def test_one_division_for_a_row(tmp_path):
    vectors, all_ = divisions(tmp_path, True)
    assert vectors == 0 and all_ == 1


def test_every_element_is_divided_in_the_written_order(tmp_path):
    vectors, _ = divisions(tmp_path, False)
    assert vectors > 0


SUM = """
#full = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func @f(%x: tensor<3x1000xf32>) -> tensor<3xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<3xf32>) -> tensor<3xf32>
  %s = linalg.generic {indexing_maps = [#full, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<3x1000xf32>) outs(%z : tensor<3xf32>) {
  ^bb0(%p: f32, %q: f32):
    %k = arith.addf %q, %p : f32
    linalg.yield %k : f32
  } -> tensor<3xf32>
  return %s : tensor<3xf32>
}
"""


def test_sums_in_the_written_order_are_bit_exact():
    x = np.random.default_rng(4).standard_normal((3, 1000), np.float32)
    in_order = np.add.accumulate(x, axis=1)[:, -1]  # accumulates one by one
    sums = pd.device("cpu").load(pd.compile(SUM, reassociate=False)).f(x)
    np.testing.assert_array_equal(sums, in_order)
    free = pd.device("cpu").load(pd.compile(SUM)).f(x)
    np.testing.assert_allclose(free, in_order, rtol=1e-4)
    assert (free != in_order).any()


def test_the_command_line_keeps_the_order(tmp_path, capfd):
    from pydispatch.cli.__main__ import main

    (tmp_path / "f.mlir").write_text(SUM)
    assert main(["compile", str(tmp_path / "f.mlir"), "--no-reassociate", "-o", str(tmp_path / "f.pdx")]) == 0
    x = np.random.default_rng(5).standard_normal((3, 1000), np.float32)
    sums = pd.device("cpu").load(pd.Artifact.from_file(tmp_path / "f.pdx")).f(x)
    np.testing.assert_array_equal(sums, np.add.accumulate(x, axis=1)[:, -1])


ROWS = """
func.func @f(%x: {t}) -> {t} {{
  {e}
  %y = linalg.softmax dimension({d}) ins(%x : {t}) outs(%e : {t}) -> {t}
  return %y : {t}
}}
"""


@pytest.mark.parametrize("shape", [(1, 70), (2, 64), (77, 1000), (333, 129), (3, 45, 200), (2, 3, 41, 100)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_every_row_has_its_own_largest_element(shape, dynamic):
    """Many rows share a workgroup, the last one fewer: each has the bits that it has alone."""
    d = len(shape) - 1
    if dynamic:
        t = f"tensor<{'?x' * d}{shape[-1]}xf32>"
        sizes = "".join(f"%c{i} = arith.constant {i} : index\n%n{i} = tensor.dim %x, %c{i} : {t}\n" for i in range(d))
        e = sizes + f"%e = tensor.empty({', '.join(f'%n{i}' for i in range(d))}) : {t}"
    else:
        t = f"tensor<{'x'.join(map(str, shape))}xf32>"
        e = f"%e = tensor.empty() : {t}"
    f = pd.device("cpu").load(pd.compile(ROWS.format(t=t, e=e, d=d))).f
    rng = np.random.default_rng(6)
    x = (rng.standard_normal(shape) * 5 + rng.standard_normal((*shape[:-1], 1)) * 200).astype(np.float32)
    y = f(x)
    wide = x.astype(np.float64)
    want = np.exp(wide - wide.max(axis=-1, keepdims=True))
    np.testing.assert_allclose(y, want / want.sum(axis=-1, keepdims=True), rtol=3e-6, atol=1e-37)
    np.testing.assert_array_equal(f(np.flip(x, axis=0).copy()), np.flip(y, axis=0))
    if dynamic:
        assert f(np.zeros((0, *shape[1:]), np.float32)).shape == (0, *shape[1:])
        np.testing.assert_array_equal(f(x[:1].copy()), y[:1])


@pytest.mark.parametrize("reassociate", [False, True])
def test_the_next_row_is_read_beside_the_exponentials(tmp_path, reassociate):
    """In the written order the sum is no vector, and would keep the search for the largest element from being one."""
    t = "tensor<100x1000xf32>"
    pd.compile(ROWS.format(t=t, e=f"%e = tensor.empty() : {t}", d=1), reassociate=reassociate, dump=tmp_path)
    text = (tmp_path / "module.executables.mlir").read_text()
    assert len(re.findall(r"scf\.for .*-> \(f32, f32\)", text)) == int(reassociate)
    assert len(re.findall(r"arith\.max", text)) == 1 + int(reassociate)
