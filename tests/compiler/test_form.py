"""Which dispatches programs become: how many, what they hold, and what stays in host code."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import pydispatch as pd
from pydispatch import ir
from pydispatch.compiler.analysis.in_place import updated_arguments
from pydispatch.compiler.analysis.views import is_contiguous
from pydispatch.compiler.flatten.inline import inline_calls
from pydispatch.compiler.normalize import normalize
from pydispatch.compiler.outline.form import form_dispatches, host_functions, sort_topologically
from pydispatch.ir.dialects.flow import dialect as flow


def formed(text: str) -> tuple[ModuleOp, list[tuple[str, ...]]]:
    """The module after formation, and what each dispatch holds, in words."""
    module = ir.parse(text)
    normalize(module)
    inline_calls(module)
    reports = form_dispatches(module)
    module.verify()
    return module, [tuple(op.split(" ")[-1] for op in d.ops) for r in reports for d in r.dispatches]


def host_text(module: ModuleOp) -> str:
    return "\n".join(ir.print_module(f) for f in host_functions(module))  # type: ignore[arg-type]


def shapes(dynamic: bool, *sizes: int) -> str:
    return "x".join("?" if dynamic and i == 0 else str(n) for i, n in enumerate(sizes))


def softmax(dynamic: bool) -> str:
    t = f"tensor<{shapes(dynamic, 8, 512)}xf32>"
    empty = f"%e = tensor.empty({'%n' if dynamic else ''}) : {t}"
    return f"""func.func @f(%x: {t}) -> {t} {{
      %c0 = arith.constant 0 : index
      %n = tensor.dim %x, %c0 : {t}
      {empty}
      %s = linalg.softmax dimension(1) ins(%x : {t}) outs(%e : {t}) -> {t}
      return %s : {t}
    }}"""


def dense_layer(dynamic: bool) -> str:
    x, y = f"tensor<{shapes(dynamic, 8, 784)}xf32>", f"tensor<{shapes(dynamic, 8, 512)}xf32>"
    return f"""func.func @f(%x: {x}, %w: tensor<784x512xf32>, %b: tensor<512xf32>) -> {y} {{
      %c0 = arith.constant 0 : index
      %n = tensor.dim %x, %c0 : {x}
      %z = arith.constant 0.0 : f32
      %e = tensor.empty({"%n" if dynamic else ""}) : {y}
      %f = linalg.fill ins(%z : f32) outs(%e : {y}) -> {y}
      %m = linalg.matmul ins(%x, %w : {x}, tensor<784x512xf32>) outs(%f : {y}) -> {y}
      %bb = linalg.broadcast ins(%b : tensor<512xf32>) outs(%e : {y}) dimensions = [0]
      %s = arith.addf %m, %bb : {y}
      %r = arith.maximumf %s, %f : {y}
      return %r : {y}
    }}"""


@pytest.mark.parametrize("dynamic", [False, True])
def test_softmax_is_one_dispatch(dynamic: bool) -> None:
    module, groups = formed(softmax(dynamic))
    assert len(groups) == 1 and len(groups[0]) == 4
    assert "softmax" in host_text(module)


@pytest.mark.parametrize("dynamic", [False, True])
def test_matmul_bias_and_activation_are_one_dispatch(dynamic: bool) -> None:
    module, groups = formed(dense_layer(dynamic))
    assert [sorted(g) for g in groups] == [["addf", "broadcast", "matmul", "maximumf"]]
    text = host_text(module)
    assert f"_matmul_{'D' if dynamic else 8}x512x784xf32_" in text
    assert "tensor.splat" not in text and "tensor.empty" not in text


def test_what_dispatches_have_taken_in_is_gone_from_host_code() -> None:
    module, _ = formed(dense_layer(False))
    (function,) = host_functions(module)
    assert [op.name for op in function.regions[0].block.ops] == ["flow.dispatch", "func.return"]


def test_layer_norm_is_one_dispatch() -> None:
    row = ('indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], '
           'iterator_types = ["parallel", "reduction"]')  # fmt: skip
    wide = ("indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], "
            'iterator_types = ["parallel", "parallel"]')  # fmt: skip
    _, groups = formed(f"""func.func @f(%x: tensor<64x256xf32>) -> tensor<64x256xf32> {{
      %z = arith.constant dense<0.0> : tensor<64xf32>
      %e = tensor.empty() : tensor<64x256xf32>
      %n = arith.constant dense<256.0> : tensor<64xf32>
      %eps = arith.constant dense<1.0e-5> : tensor<64xf32>
      %s = linalg.generic {{{row}}} ins(%x : tensor<64x256xf32>) outs(%z : tensor<64xf32>) {{
      ^bb0(%a: f32, %b: f32):
        %0 = arith.addf %a, %b : f32
        linalg.yield %0 : f32
      }} -> tensor<64xf32>
      %mean = arith.divf %s, %n : tensor<64xf32>
      %d = linalg.generic {{{wide}}} ins(%x, %mean : tensor<64x256xf32>, tensor<64xf32>)
          outs(%e : tensor<64x256xf32>) {{
      ^bb0(%a: f32, %b: f32, %c: f32):
        %0 = arith.subf %a, %b : f32
        linalg.yield %0 : f32
      }} -> tensor<64x256xf32>
      %q = linalg.generic {{{row}}} ins(%d : tensor<64x256xf32>) outs(%z : tensor<64xf32>) {{
      ^bb0(%a: f32, %b: f32):
        %0 = arith.mulf %a, %a : f32
        %1 = arith.addf %0, %b : f32
        linalg.yield %1 : f32
      }} -> tensor<64xf32>
      %v = arith.divf %q, %n : tensor<64xf32>
      %ve = arith.addf %v, %eps : tensor<64xf32>
      %r = math.rsqrt %ve : tensor<64xf32>
      %y = linalg.generic {{{wide}}} ins(%d, %r : tensor<64x256xf32>, tensor<64xf32>) outs(%e : tensor<64x256xf32>) {{
      ^bb0(%a: f32, %b: f32, %c: f32):
        %0 = arith.mulf %a, %b : f32
        linalg.yield %0 : f32
      }} -> tensor<64x256xf32>
      return %y : tensor<64x256xf32>
    }}""")
    assert len(groups) == 1


def test_attention_has_no_elementwise_dispatches_between() -> None:
    t, s = "tensor<4x64x32xf32>", "tensor<4x64x64xf32>"
    _, groups = formed(f"""func.func @f(%q: {t}, %k: {t}, %v: {t}) -> {t} {{
      %z = arith.constant 0.0 : f32
      %e = tensor.empty() : {s}
      %f = linalg.fill ins(%z : f32) outs(%e : {s}) -> {s}
      %m = linalg.batch_matmul_transpose_b ins(%q, %k : {t}, {t}) outs(%f : {s}) -> {s}
      %c = arith.constant dense<0.25> : {s}
      %sc = arith.mulf %m, %c : {s}
      %sm = linalg.softmax dimension(2) ins(%sc : {s}) outs(%e : {s}) -> {s}
      %e2 = tensor.empty() : {t}
      %f2 = linalg.fill ins(%z : f32) outs(%e2 : {t}) -> {t}
      %o = linalg.batch_matmul ins(%sm, %v : {s}, {t}) outs(%f2 : {t}) -> {t}
      return %o : {t}
    }}""")
    assert len(groups) <= 3
    assert all(any("matmul" in word or "reduce" in word for word in group) for group in groups)


def test_equal_sizes_are_one_size() -> None:
    module, groups = formed("""func.func @f(%a: tensor<?x4xf32>, %b: tensor<?x4xf32>) -> tensor<?x4xf32> {
      %x = arith.addf %a, %b : tensor<?x4xf32>
      %y = math.exp %x : tensor<?x4xf32>
      return %y : tensor<?x4xf32>
    }""")
    (dispatch,) = [op for op in module.walk() if isinstance(op, flow.DispatchOp)]
    assert len(dispatch.workload) == 1 and len(groups) == 1
    assert {*dispatch.argument_dims, *dispatch.result_dims} == {dispatch.workload[0]}


def test_views_stay_in_host_code_and_others_do_not() -> None:
    module, groups = formed("""
    func.func @f(%x: tensor<8x16xf32>) -> (tensor<4x16xf32>, tensor<128xf32>, tensor<8x4xf32>) {
      %a = tensor.extract_slice %x[2, 0] [4, 16] [1, 1] : tensor<8x16xf32> to tensor<4x16xf32>
      %b = tensor.collapse_shape %x [[0, 1]] : tensor<8x16xf32> into tensor<128xf32>
      %c = tensor.extract_slice %x[0, 4] [8, 4] [1, 1] : tensor<8x16xf32> to tensor<8x4xf32>
      return %a, %b, %c : tensor<4x16xf32>, tensor<128xf32>, tensor<8x4xf32>
    }""")
    assert groups == [("extract_slice",)]
    assert host_text(module).count("extract_slice %x") == 1 and "collapse_shape" in host_text(module)


@pytest.mark.parametrize(
    ("source", "part", "contiguous"),
    [
        ("tensor<8x16xf32>", "[2, 0] [4, 16] [1, 1]", True),
        ("tensor<8x16xf32>", "[2, 3] [1, 4] [1, 1]", True),
        ("tensor<8x16xf32>", "[2, 0] [4, 15] [1, 1]", False),
        ("tensor<8x16xf32>", "[0, 0] [4, 16] [2, 1]", False),
        ("tensor<8x16xf32>", "[0, 0] [0, 16] [1, 1]", True),
        ("tensor<2x8x16xf32>", "[1, 2, 0] [1, 3, 16] [1, 1, 1]", True),
        ("tensor<2x8x16xf32>", "[0, 2, 0] [2, 3, 16] [1, 1, 1]", False),
        ("tensor<?x16xf32>", "[%i, 0] [%n, 16] [1, 1]", True),
        ("tensor<8x?xf32>", "[%i, 0] [4, %n] [1, 1]", False),
        ("tensor<8x?xf32>", "[%i, 0] [4, %d] [1, 1]", True),
    ],
)
def test_contiguous_slices(source: str, part: str, contiguous: bool) -> None:
    sizes = part.split("[")[2].split("]")[0].split(", ")
    result = "x".join("?" if n.startswith("%") else n for n in sizes)
    module = ir.parse(f"""func.func @f(%x: {source}, %i: index, %n: index) -> tensor<{result}xf32> {{
      %c1 = arith.constant 1 : index
      %d = tensor.dim %x, %c1 : {source}
      %a = tensor.extract_slice %x{part} : {source} to tensor<{result}xf32>
      return %a : tensor<{result}xf32>
    }}""")
    (op,) = [op for op in module.walk() if op.name == "tensor.extract_slice"]
    assert is_contiguous(op) is contiguous


def test_an_update_is_tied_and_one_that_reads_what_it_overwrites_is_not() -> None:
    text = """func.func @f(%x: tensor<8x4xf32>, %s: tensor<8x2xf32>) -> tensor<8x4xf32> {{
      %r = tensor.insert_slice {0} into %x[0, 1] [8, 2] [1, 1] : tensor<8x2xf32> into tensor<8x4xf32>
      return %r : tensor<8x4xf32>
    }}"""
    module, _ = formed(text.format("%s"))
    (dispatch,) = [op for op in module.walk() if isinstance(op, flow.DispatchOp)]
    assert dispatch.tied_operands is not None
    own = ir.parse("""func.func @f(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
      %s = tensor.extract_slice %x[0, 2] [8, 2] [1, 1] : tensor<8x4xf32> to tensor<8x2xf32>
      %r = tensor.insert_slice %s into %x[0, 1] [8, 2] [1, 1] : tensor<8x2xf32> into tensor<8x4xf32>
      return %r : tensor<8x4xf32>
    }""")
    (function,) = host_functions(own)
    assert updated_arguments(function) == [None]  # type: ignore[arg-type]


def test_a_scalar_read_for_one_dispatch_is_read_inside_it() -> None:
    text = """func.func @f(%x: tensor<4xf32>, %s: tensor<{0}xf32>, %i: index) -> tensor<4xf32> {{
      %c2 = arith.constant 2 : index
      %v = tensor.extract %s[{1}] : tensor<{0}xf32>
      %w = arith.addf %v, %v : f32
      %sp = tensor.splat %w : tensor<4xf32>
      %y = arith.addf %x, %sp : tensor<4xf32>
      return %y : tensor<4xf32>
    }}"""
    inside, _ = formed(text.format(3, "%c2"))
    assert "tensor.extract" not in host_text(inside)
    outside, _ = formed(text.format(3, "%i"))  # the run checks the place, a kernel would not
    assert "tensor.extract" in host_text(outside)
    beyond, _ = formed(text.format(2, "%c2"))
    assert "tensor.extract" in host_text(beyond)


@pytest.mark.parametrize("combine", ["addf", "mulf", "maximumf", "minimumf", "maxnumf", "minnumf"])
def test_a_large_reduction_is_two_dispatches_and_keeps_its_value(combine: str) -> None:
    text = f"""func.func @f(%x: tensor<1024x160xf32>, %i: tensor<f32>) -> tensor<f32> {{
      %s = linalg.reduce {{ arith.{combine} }} ins(%x : tensor<1024x160xf32>) outs(%i : tensor<f32>) dimensions = [0, 1]
      return %s : tensor<f32>
    }}"""
    _, groups = formed(text)
    assert groups == [(f"reduce_{combine}",)] * 2
    x = (1 + np.random.default_rng(0).standard_normal((1024, 160)) * 1e-4).astype(np.float32)
    if combine.endswith("numf"):
        x[3:500] = np.nan
    initial = np.array(0.5 if combine == "mulf" else 1.0, np.float32)
    fn = {
        "addf": np.add, "mulf": np.multiply, "maximumf": np.maximum, "minimumf": np.minimum, "maxnumf": np.fmax,
        "minnumf": np.fmin,
    }[combine]  # fmt: skip
    expected = fn(fn.reduce(x, axis=None, dtype=np.float64), initial)
    loaded = pd.device("local").load(pd.compile(text))
    np.testing.assert_allclose(loaded.f(x, initial), expected, rtol=5e-3 if combine == "mulf" else 1e-4)


def test_small_reductions_are_not_split() -> None:
    _, groups = formed("""func.func @f(%x: tensor<1024x16xf32>, %i: tensor<f32>) -> tensor<f32> {
      %s = linalg.reduce { arith.addf } ins(%x : tensor<1024x16xf32>) outs(%i : tensor<f32>) dimensions = [0, 1]
      return %s : tensor<f32>
    }""")
    assert len(groups) == 1


def test_equal_operations_and_unused_ones() -> None:
    _, groups = formed("""func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
      %a = math.exp %x : tensor<4xf32>
      %b = math.exp %x : tensor<4xf32>
      %c = math.sin %x : tensor<4xf32>
      %y = arith.addf %a, %b : tensor<4xf32>
      return %y : tensor<4xf32>
    }""")
    assert groups == [("exp", "addf")]


def test_effects_keep_their_order() -> None:
    """A load behind a store stays behind it, also when a dispatch in front needs what was loaded before."""
    module, _ = formed("""
      util.global private mutable @g = dense<1.0> : tensor<4xf32>
      func.func @f(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
        %old = util.global.load @g : tensor<4xf32>
        %a = arith.addf %old, %x : tensor<4xf32>
        util.global.store %a, @g : tensor<4xf32>
        %new = util.global.load @g : tensor<4xf32>
        %b = arith.mulf %new, %a : tensor<4xf32>
        return %a, %b : tensor<4xf32>, tensor<4xf32>
      }""")
    names = [op.name for op in host_functions(module)[0].regions[0].block.ops]
    effects = [n for n in names if n.startswith("util.global")]
    assert effects == ["util.global.load", "util.global.store", "util.global.load"]
    assert names.count("flow.dispatch") == 2


def test_what_is_needed_earlier_does_not_pass_other_effects() -> None:
    module = ir.parse("""
util.global private mutable @g = 1 : i32
func.func @f(%v: i32) -> i32 {
  util.global.store %v, @g : i32
  %b = util.global.load @g : i32
  %d = arith.addi %b, %b : i32
  return %d : i32
}""")
    (function,) = host_functions(module)
    block = function.regions[0].block
    _, _, add, _ = block.ops
    assert block.first_op is not None
    add.detach()
    block.insert_op_before(add, block.first_op)
    sort_topologically(block)
    assert [op.name for op in block.ops] == ["util.global.store", "util.global.load", "arith.addi", "func.return"]


def test_an_unknown_operation_is_refused_by_name() -> None:
    with pytest.raises(pd.CompileError, match=r"vector\.broadcast") as caught:
        pd.compile("""func.func @f(%x: f32) -> tensor<4xf32> {
          %v = vector.broadcast %x : f32 to vector<4xf32>
          %e = tensor.empty() : tensor<4xf32>
          %c0 = arith.constant 0 : index
          %y = "vector.transfer_write"(%v, %e, %c0) <{in_bounds = [true], permutation_map = affine_map<(i) -> (i)>,
            operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (vector<4xf32>, tensor<4xf32>, index) -> tensor<4xf32>
          return %y : tensor<4xf32>
        }""")
    assert caught.value.location is not None and caught.value.location.line == 2
