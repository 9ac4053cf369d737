"""Dispatches that compute on tensors on a grid chosen by hand, and those that do not ask for their workgroup."""

from __future__ import annotations

import numpy as np
import pytest

import pydispatch as pd


def run(text, *arguments, name="f"):
    return pd.device("cpu").load(pd.compile(text))[name](*arguments)


REGION = """
func.func @f(%x: tensor<{total}xf32>, %w: tensor<{tile}x{tile}xf32>) -> tensor<{total}xf32> {{
  %n = arith.constant {groups} : index
  %r = flow.dispatch.region[%n] -> (tensor<{total}xf32>) {{
    %id = flow.dispatch.workgroup.id[0] : index
    %at = affine.apply affine_map<()[s0] -> (s0 * {tile})>()[%id]
    %s = tensor.extract_slice %x[%at] [{tile}] [1] : tensor<{total}xf32> to tensor<{tile}xf32>
    %zero = arith.constant dense<0.0> : tensor<{tile}xf32>
    %m = linalg.matvec ins(%w, %s : tensor<{tile}x{tile}xf32>, tensor<{tile}xf32>) outs(%zero : tensor<{tile}xf32>)
        -> tensor<{tile}xf32>
    %y = arith.addf %m, %s : tensor<{tile}xf32>
    %e = tensor.empty() : tensor<{total}xf32>
    %i = tensor.insert_slice %y into %e[%at] [{tile}] [1] : tensor<{tile}xf32> into tensor<{total}xf32>
    flow.return %i : tensor<{total}xf32>
  }} count(%k: index) -> (index, index, index) {{
    %one = arith.constant 1 : index
    flow.return %k, %one, %one : index, index, index
  }}
  return %r : tensor<{total}xf32>
}}
"""


@pytest.mark.parametrize(("tile", "groups"), [(1, 1), (3, 5), (8, 4), (7, 13)])
def test_each_workgroup_writes_its_slice(tile, groups):
    rng = np.random.default_rng(tile)
    x = rng.standard_normal(tile * groups, dtype=np.float32)
    w = rng.standard_normal((tile, tile), dtype=np.float32)
    got = run(REGION.format(tile=tile, groups=groups, total=tile * groups), x, w)
    expected = (x.reshape(groups, tile) @ w.T + x.reshape(groups, tile)).reshape(-1)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_a_tensor_that_is_read_and_written_is_read_as_it_was():
    text = """
func.func @f(%x: tensor<5xf32>) -> tensor<5xf32> {
  %z = arith.addf %x, %x : tensor<5xf32>
  %n = arith.constant 5 : index
  %r = flow.dispatch.region[%n] -> (tensor<5xf32>) {
    %id = flow.dispatch.workgroup.id[0] : index
    %count = flow.dispatch.workgroup.count[0] : index
    %one = arith.constant 1 : index
    %last = arith.subi %count, %one : index
    %from = arith.subi %last, %id : index
    %s = tensor.extract_slice %z[%from] [1] [1] : tensor<5xf32> to tensor<1xf32>
    %q = arith.mulf %s, %s : tensor<1xf32>
    %i = tensor.insert_slice %q into %z[%id] [1] [1] : tensor<1xf32> into tensor<5xf32>
    flow.return %i : tensor<5xf32>
  } count(%w: index) -> (index, index, index) {
    %c1 = arith.constant 1 : index
    flow.return %w, %c1, %c1 : index, index, index
  }
  return %r : tensor<5xf32>
}
"""
    x = np.arange(1, 6, dtype=np.float32)
    np.testing.assert_array_equal(run(text, x), ((2 * x) ** 2)[::-1])


WORKGROUPS = """
func.func @f(%x: tensor<?x{n}xf32>, %scale: f32) -> tensor<?x{n}xf32> {{
  %c0 = arith.constant 0 : index
  %d = tensor.dim %x, %c0 : tensor<?x{n}xf32>
  %r = flow.dispatch.workgroups[%d](%x, %scale, %d) : (tensor<?x{n}xf32>{{%d}}, f32, index) -> tensor<?x{n}xf32>{{%d}} =
      (%a: !{t}.dispatch.tensor<readonly:tensor<?x{n}xf32>>, %s: f32, %m: index,
       %o: !{t}.dispatch.tensor<writeonly:tensor<?x{n}xf32>>) {{
    %at = {where}
    %row = {t}.dispatch.tensor.load %a, offsets = [%at, 0], sizes = [{rows}, {n}], strides = [1, 1]
        : !{t}.dispatch.tensor<readonly:tensor<?x{n}xf32>>{{%m}} -> tensor<{type}x{n}xf32>
    %e = tensor.splat %s{dims} : tensor<{type}x{n}xf32>
    %y = arith.mulf %row, %e : tensor<{type}x{n}xf32>
    {t}.dispatch.tensor.store %y, %o, offsets = [%at, 0], sizes = [{rows}, {n}], strides = [1, 1]
        : tensor<{type}x{n}xf32> -> !{t}.dispatch.tensor<writeonly:tensor<?x{n}xf32>>{{%m}}
    flow.return
  }} count(%w: index) -> (index, index, index) {{
    %c1 = arith.constant 1 : index
    flow.return %w, %c1, %c1 : index, index, index
  }}
  return %r : tensor<?x{n}xf32>
}}
"""


@pytest.mark.parametrize("dialect", ["iree_tensor_ext", "flow"])
@pytest.mark.parametrize("by_rows", [True, False])
def test_workgroups_with_loads_and_stores(dialect, by_rows):
    text = WORKGROUPS.format(
        n=6, t=dialect, where="flow.dispatch.workgroup.id[0] : index" if by_rows else "arith.constant 0 : index",
        rows="1" if by_rows else "%m", type="1" if by_rows else "?", dims="" if by_rows else "[%m]",
    )  # fmt: skip
    for rows in (1, 4, 17):
        x = np.random.default_rng(rows).standard_normal((rows, 6), dtype=np.float32)
        np.testing.assert_array_equal(run(text, x, 2.5), x * np.float32(2.5))


def test_a_binding_and_the_binding_with_its_sizes_are_one():
    """A body may store by an argument and by the result of its `tie_shape`; both stores are of the same result."""
    text = WORKGROUPS.format(n=6, t="flow", where="arith.constant 0 : index", rows="%m", type="?", dims="[%m]")
    store = text[text.index("    flow.dispatch.tensor.store") : text.index("    flow.return\n  } count")]
    tie = "    %tied = flow.dispatch.tie_shape %o : !flow.dispatch.tensor<writeonly:tensor<?x6xf32>>{%m}\n"
    doubled = store.replace("%y", "%z").replace("%o,", "%tied,")
    stores = f"{tie}    %z = arith.addf %y, %y : tensor<?x6xf32>\n{doubled}{store}"
    x = np.random.default_rng(0).standard_normal((5, 6), dtype=np.float32)
    np.testing.assert_array_equal(run(text.replace(store, stores), x, 2.5), x * np.float32(2.5))


def test_an_operand_cannot_be_stored():
    text = WORKGROUPS.format(n=6, t="flow", where="arith.constant 0 : index", rows="%m", type="?", dims="[%m]")
    text = text.replace("tensor.store %y, %o,", "tensor.store %y, %a,").replace("writeonly", "readonly")
    with pytest.raises(pd.CompileError, match="a tensor is stored that is no result of the dispatch"):
        pd.compile(text)


EXPORTS = """
stream.executable private @e {
  stream.executable.export public @whole(@negate) workgroups() -> (index, index, index) {
    %c1 = arith.constant 1 : index
    stream.return %c1, %c1, %c1 : index, index, index
  }
  stream.executable.export public @twice(@negate) workgroups() -> (index, index, index) {
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    stream.return %c2, %c1, %c1 : index, index, index
  }
  builtin.module {
    func.func @negate(%0: !stream.binding, %1: !stream.binding) {
      %c0 = arith.constant 0 : index
      %x = stream.binding.subspan %0[%c0] : !stream.binding -> memref<8xf32>
      %y = stream.binding.subspan %1[%c0] : !stream.binding -> memref<8xf32>
      %id = stream.dispatch.workgroup.id[0] : index
      %v = memref.load %x[%id] : memref<8xf32>
      %w = arith.negf %v : f32
      memref.store %w, %y[%id] : memref<8xf32>
      return
    }
  }
}
func.func @f(%x: tensor<8xf32>, %y: tensor<8xf32>, %z: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %a = flow.dispatch @e::@whole(%x, %y) : (tensor<8xf32>, tensor<8xf32>) -> %y
  %b = flow.dispatch @e::@twice(%x, %z) : (tensor<8xf32>, tensor<8xf32>) -> %z
  return %a, %b : tensor<8xf32>, tensor<8xf32>
}
"""


def test_two_exports_of_one_function():
    x, zeros = np.arange(1, 9, dtype=np.float32), np.zeros(8, np.float32)
    once, twice = run(EXPORTS, x, zeros, zeros)
    np.testing.assert_array_equal(once, [-1, *[0] * 7])
    np.testing.assert_array_equal(twice, [-1, -2, *[0] * 6])
    with pytest.raises(pd.CompileError, match="export '@twice' names no function of its executable") as caught:
        pd.compile(EXPORTS.replace("@twice(@negate)", "@twice(@negated)"))
    assert caught.value.note == "functions: @negate"


def test_a_grid_is_needed():
    text = REGION.format(tile=2, groups=2, total=4)
    begin, end = text.index(" count("), text.index("  return %r")
    with pytest.raises(pd.CompileError, match="asks for its workgroup id but has no grid"):
        pd.compile(text[:begin] + "\n" + text[end:])


def test_what_every_workgroup_makes_cannot_be_inserted_into():
    text = REGION.format(tile=2, groups=2, total=4).replace(
        "%e = tensor.empty() : tensor<4xf32>",
        "%v = arith.constant 1.0 : f32\n    %e = tensor.splat %v : tensor<4xf32>",
    )
    with pytest.raises(pd.CompileError, match=r"inserted into what 'tensor\.splat' makes in every workgroup"):
        pd.compile(text)
