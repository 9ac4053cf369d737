"""For each reason why operations are not one dispatch, the least program in which it keeps two apart."""

from __future__ import annotations

import re

from pydispatch.compiler.analysis import reasons
from pydispatch.compiler.analysis.kinds import MOST_SCALARS, MOST_TENSORS
from pydispatch.compiler.fusion.merging import MOST_OPERATIONS

TYPES = {
    "M": "tensor<8x16xf32>", "N": "tensor<16x8xf32>", "Q": "tensor<8x8xf32>", "R": "tensor<8xf32>",
    "V": "tensor<16xf32>", "W": "tensor<6xf32>", "B": "tensor<256x128xf32>",
}  # fmt: skip

PARALLEL = '"parallel", "parallel"'
SUM = "%s = linalg.reduce { arith.addf } ins(%x : M) outs(%zr : R) dimensions = [1]"
PRODUCT = "linalg.matmul ins({}, {} : {}) outs(%zq : Q) -> Q"


def generic(maps: str, loops: str, inputs: str, output: str, type: str, body: str) -> str:
    """A linalg.generic. maps: those of all operands. inputs: as in the text. body: gives %n of %a, %b, ... and %t."""
    names = [f"%{'abc'[n]}" for n in range(inputs.split(":")[0].count(",") + 1)]
    arguments = ", ".join(f"{name}: f32" for name in (*names, "%t"))
    shown = ", ".join(f"affine_map<{m}>" for m in maps.split("; "))
    return f"""linalg.generic {{indexing_maps = [{shown}], iterator_types = [{loops}]}}
      ins({inputs}) outs({output} : {type}) {{
    ^bb0({arguments}):
      {body}
      linalg.yield %n : f32
    }} -> {type}"""


K = "tensor<3xf32>"
SUMS = "(i, j) -> (i + j); (i, j) -> (j); (i, j) -> (i)"
"""Sums of three neighbours of 8, in the words of `generic`."""

PROGRAMS: dict[str, tuple[str, str, str]] = {
    reasons.cycle("splat"): ("%x: M, %i: index", "M", """
      %a = math.exp %x : M
      %e = tensor.extract %a[%i, %i] : M
      %b = linalg.fill ins(%e : f32) outs(%em : M) -> M
      %o = arith.addf %a, %b : M"""),
    reasons.too_many_operations(MOST_OPERATIONS): ("%v0: V", "V", "\n".join(
        f"%{'o' if n == 99 else f'v{n + 1}'} = math.{'exp' if n % 2 else 'sin'} %v{n} : V" for n in range(100))),
    reasons.too_many_scalars(MOST_SCALARS): (", ".join(["%v0: V", *(f"%s{n}: f32" for n in range(30))]), "V", "\n".join(
        f"%f{n} = linalg.fill ins(%s{n} : f32) outs(%ev : V) -> V\n"
        f"%{'o' if n == 29 else f'v{n + 1}'} = arith.addf %v{n}, %f{n} : V" for n in range(30))),
    reasons.too_many_tensors(MOST_TENSORS): (", ".join(f"%t{n}: V" for n in range(40)), "V", "\n".join(
        f"%{'o' if n == 39 else f'v{n}'} = arith.addf %{f'v{n - 1}' if n > 1 else 't0'}, %t{n} : V"
        for n in range(1, 40))),
    reasons.ELEMENT: ("%x: M", "M", f"""
      {SUM}
      %e = tensor.extract %s[%c0] : R
      %b = linalg.fill ins(%e : f32) outs(%em : M) -> M
      %o = arith.addf %b, %x : M"""),
    reasons.DESTINATION.format("tensor.insert_slice"): ("%x: M, %y: R", "M", """
      %a = math.exp %x : M
      %o = tensor.insert_slice %y into %a[0, 0] [8, 1] [1, 1] : R into M"""),
    reasons.WRITTEN.format("tensor.insert_slice"): ("%x: M, %y: R", "M", """
      %a = math.exp %y : R
      %i = tensor.insert_slice %a into %x[0, 0] [8, 1] [1, 1] : R into M
      %o = math.exp %i : M"""),
    reasons.OVERWRITTEN.format("iree_linalg_ext.map_store"): ("%x: M", "M", f"""
      {SUM}
      %o = iree_linalg_ext.map_store %s into %x {{
      ^bb0(%i: index):
        %first = arith.constant 0 : index
        %yes = arith.constant true
        iree_linalg_ext.yield %i, %first, %yes : index, index, i1
      }} : R into M -> M"""),
    reasons.ORDERED.format("pyd.recurrence"): ("%x: M, %first: V", "M", """
      %r:2 = iree_linalg_ext.scan dimension(0) inclusive(true) ins(%x : M) outs(%em, %first : M, V) {
      ^bb0(%a: f32, %b: f32):
        %n = arith.subf %a, %b : f32
        iree_linalg_ext.yield %n : f32
      } -> M, V
      %o = math.exp %r#0 : M"""),
    reasons.NO_ROW.format("tensor.pad"): ("%x: M", "V", f"""
      {SUM}
      %o = tensor.pad %s low[4] high[4] {{
      ^bb0(%i: index):
        tensor.yield %zero : f32
      }} : R to V"""),
    reasons.WINDOW_OF_ROWS: ("%x: M", "tensor<6x3xf32>", f"""
      {SUM}
      %e2 = tensor.empty() : tensor<6x3xf32>
      %o = {generic("(i, j) -> (i + j); (i, j) -> (i, j)", PARALLEL, "%s : R", "%e2", "tensor<6x3xf32>",
                    "%n = math.absf %a : f32")}"""),
    reasons.RESHAPED_ROWS: ("%x: M", "tensor<2xf32>", f"""
      {SUM}
      %w = tensor.expand_shape %s [[0, 1]] output_shape [2, 4] : R into tensor<2x4xf32>
      %e2 = tensor.empty() : tensor<2xf32>
      %o = {generic("(i) -> (i, i + 1); (i) -> (i)", '"parallel"', "%w : tensor<2x4xf32>", "%e2", "tensor<2xf32>",
                    "%n = math.absf %a : f32")}"""),
    reasons.REDUCED_AGAIN: ("%x: M", "R", f"{SUM}\n%o = " + generic(
        "(i, j) -> (j); (i, j) -> (i)", '"parallel", "reduction"', "%s : R", "%zr", "R",
        "%n = arith.maximumf %a, %t : f32")),
    reasons.ONE_ROW: ("%x: B", "B", """
      %s = linalg.reduce { arith.addf } ins(%x : B) outs(%z0 : tensor<f32>) dimensions = [0, 1]
      %b = linalg.broadcast ins(%s : tensor<f32>) outs(%eb : B) dimensions = [0, 1]
      %o = arith.addf %x, %b : B"""),
    reasons.INNER: ("%x: M", "M", """
      %s = linalg.reduce { arith.addf } ins(%x : M) outs(%zv : V) dimensions = [0]
      %b = linalg.broadcast ins(%s : V) outs(%em : M) dimensions = [0]
      %o = arith.subf %x, %b : M"""),
    reasons.different_rows("16 and 8"): ("%x: M", "V", f"""
      {SUM}
      %b = linalg.broadcast ins(%s : R) outs(%em : M) dimensions = [1]
      %y = arith.subf %x, %b : M
      %o = linalg.reduce {{ arith.addf }} ins(%y : M) outs(%zv : V) dimensions = [0]"""),
    reasons.other_rows("8", "16x8"): ("%x: M", "N", f"""
      {SUM}
      %b = linalg.broadcast ins(%s : R) outs(%em : M) dimensions = [1]
      %y = arith.subf %x, %b : M
      %o = linalg.transpose ins(%y : M) outs(%en : N) permutation = [1, 0]"""),
    reasons.different_sizes("16x8 and 8x16"): ("%x: M", "N, M", """
      %a = math.exp %x : M
      %o = linalg.transpose ins(%a : M) outs(%en : N) permutation = [1, 0]
      %p = arith.addf %a, %x : M
      return %o, %p : N, M"""),
    reasons.REREAD.format("tensor.gather"): ("%x: M, %i: tensor<5x1xi32>", "tensor<5x16xf32>", """
      %y = math.exp %x : M
      %o = tensor.gather %y[%i] gather_dims([0]) : (M, tensor<5x1xi32>) -> tensor<5x16xf32>"""),
    reasons.WINDOWS: ("%y: R, %k: " + K, "W", "%e = math.exp %y : R\n%o = " + generic(
        SUMS, '"parallel", "reduction"', "%e, %k : R, " + K, "%zw", "W", "%n = arith.maximumf %a, %t : f32")),
    reasons.BROADCAST: ("%x: M, %y: V", "M", """
      %e = math.exp %y : V
      %b = linalg.broadcast ins(%e : V) outs(%em : M) dimensions = [0]
      %o = arith.addf %x, %b : M"""),
    reasons.UNKNOWN_CONTRACTION: ("%x: M, %y: N, %w: N", "Q", "%p = " + generic(
        "(i, j, k) -> (i, k); (i, j, k) -> (k, j); (i, j, k) -> (k, j); (i, j, k) -> (i, j)",
        '"parallel", "parallel", "reduction"', "%x, %y, %w : M, N, N", "%zq", "Q",
        "%u = arith.mulf %a, %b : f32\n%v = arith.mulf %u, %c : f32\n%n = arith.addf %v, %t : f32"
    ) + "\n%o = math.absf %p : Q"),
    reasons.TWO_CONTRACTIONS: ("%x: M, %y: N, %w: Q", "Q", f"""
      %p = {PRODUCT.format("%x", "%y", "M, N")}
      %a = math.exp %p : Q
      %o = {PRODUCT.format("%a", "%a", "Q, Q")}"""),
    reasons.OTHER_PLACES.format("tensor.pad"): ("%x: M, %y: N", "tensor<8x10xf32>", f"""
      %p = {PRODUCT.format("%x", "%y", "M, N")}
      %o = tensor.pad %p low[0, 1] high[0, 1] {{
      ^bb0(%i: index, %j: index):
        tensor.yield %zero : f32
      }} : Q to tensor<8x10xf32>"""),
    reasons.SECOND_RESULT.format("math.absf"): ("%x: M, %y: N", "Q, M", f"""
      %a = math.absf %x : M
      %o = {PRODUCT.format("%a", "%y", "M, N")}
      return %o, %a : Q, M"""),
    reasons.REDUCED_FOR_TILES: ("%u: tensor<8x16x3xf32>, %y: N", "Q", f"""
      %s = linalg.reduce {{ arith.maximumf }} ins(%u : tensor<8x16x3xf32>) outs(%zm : M) dimensions = [2]
      %o = {PRODUCT.format("%s", "%y", "M, N")}"""),
    reasons.EXPENSIVE_FOR_TILES: ("%x: M, %y: N", "Q", "%a = " + generic(
        "(i, j) -> (i, j); (i, j) -> (i, j)", PARALLEL, "%x : M", "%em", "M", "%n = math.exp %a : f32"
    ) + f"\n%o = {PRODUCT.format('%a', '%y', 'M, N')}"),
    reasons.NOT_FOR_TILES.format("tensor.concat"): ("%x: Q, %y: N", "Q", f"""
      %a = tensor.concat dim(1) %x, %x : (Q, Q) -> M
      %o = {PRODUCT.format("%a", "%y", "M, N")}"""),
    reasons.REORDERED_FOR_TILES.format(12): ("%x: tensor<16x12x16xf32>, %y: N", "tensor<12x16x8xf32>", f"""
      %ey = tensor.empty() : N
      %t = linalg.generic {{indexing_maps = [affine_map<(k, n) -> (k * -1 + 15, n)>, affine_map<(k, n) -> (k, n)>],
          iterator_types = [{PARALLEL}]}} ins(%y : N) outs(%ey : N) {{
        ^bb0(%l: f32, %r: f32):
          linalg.yield %l : f32
      }} -> N
      %eo = tensor.empty() : tensor<12x16x8xf32>
      %zo = linalg.fill ins(%zero : f32) outs(%eo : tensor<12x16x8xf32>) -> tensor<12x16x8xf32>
      %o = linalg.generic {{indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>,
          affine_map<(b, m, n, k) -> (k, n)>, affine_map<(b, m, n, k) -> (m, b, n)>],
          iterator_types = ["parallel", "parallel", "parallel", "reduction"]}}
          ins(%x, %t : tensor<16x12x16xf32>, N) outs(%zo : tensor<12x16x8xf32>) {{
        ^bb0(%l: f32, %r: f32, %s: f32):
          %p = arith.mulf %l, %r : f32
          %q = arith.addf %s, %p : f32
          linalg.yield %q : f32
      }} -> tensor<12x16x8xf32>"""),
    reasons.TRANSPOSED_FOR_TILES: ("%x: N, %y: N", "Q", f"""
      %t = linalg.transpose ins(%y : N) outs(%em : M) permutation = [1, 0]
      %o = linalg.generic {{indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
          affine_map<(m, n, k) -> (m, n)>], iterator_types = [{PARALLEL}, "reduction"]}}
          ins(%t, %x : M, N) outs(%zq : Q) attrs = {{pyd.kept_order}} {{
        ^bb0(%l: f32, %r: f32, %s: f32):
          %p = arith.mulf %l, %r : f32
          %q = arith.addf %s, %p : f32
          linalg.yield %q : f32
      }} -> Q"""),
    reasons.TRANSPOSED_AFTER_BYTES: ("%x: tensor<64x64xi8>, %y: tensor<64x64xi8>, %u: tensor<64x64xi32>",
                                     "tensor<64x64xi32>", f"""
      %c = arith.constant 0 : i32
      %e = tensor.empty() : tensor<64x64xi32>
      %z = linalg.fill ins(%c : i32) outs(%e : tensor<64x64xi32>) -> tensor<64x64xi32>
      %p = linalg.generic {{indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
          affine_map<(m, n, k) -> (m, n)>], iterator_types = [{PARALLEL}, "reduction"]}}
          ins(%x, %y : tensor<64x64xi8>, tensor<64x64xi8>) outs(%z : tensor<64x64xi32>) {{
        ^bb0(%l: i8, %r: i8, %s: i32):
          %a = arith.extsi %l : i8 to i32
          %b = arith.extsi %r : i8 to i32
          %q = arith.muli %a, %b : i32
          %t = arith.addi %s, %q : i32
          linalg.yield %t : i32
      }} -> tensor<64x64xi32>
      %w = arith.addi %p, %u : tensor<64x64xi32>
      %o = linalg.transpose ins(%w : tensor<64x64xi32>) outs(%e : tensor<64x64xi32>) permutation = [1, 0]"""),
    reasons.REDUCED_BESIDE: ("%x: M, %y: N, %u: M", "Q", f"""
      %p = {PRODUCT.format("%x", "%y", "M, N")}
      %s = linalg.reduce {{ arith.maximumf }} ins(%u : M) outs(%zr : R) dimensions = [1]
      %b = linalg.broadcast ins(%s : R) outs(%eq : Q) dimensions = [1]
      %o = arith.addf %p, %b : Q"""),
    reasons.EXPENSIVE_BESIDE: ("%x: M, %y: N, %u: R", "Q", f"""
      %p = {PRODUCT.format("%x", "%y", "M, N")}
      %s = math.exp %u : R
      %b = linalg.broadcast ins(%s : R) outs(%eq : Q) dimensions = [1]
      %o = arith.addf %p, %b : Q"""),
}  # fmt: skip


def text_of(arguments: str, result: str, body: str) -> str:
    """A function with constants and empty tensors at hand, in which letters stand for types."""
    ends = "" if "return" in body else f"return %o : {result}"
    text = f"""func.func @f({arguments}) -> ({result}) {{
      %zero = arith.constant 0.0 : f32
      %c0 = arith.constant 0 : index
      %e0 = tensor.empty() : tensor<f32>
      %em = tensor.empty() : M
      %en = tensor.empty() : N
      %eq = tensor.empty() : Q
      %er = tensor.empty() : R
      %ev = tensor.empty() : V
      %ew = tensor.empty() : W
      %eb = tensor.empty() : B
      %z0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<f32>) -> tensor<f32>
      %zm = linalg.fill ins(%zero : f32) outs(%em : M) -> M
      %zq = linalg.fill ins(%zero : f32) outs(%eq : Q) -> Q
      %zr = linalg.fill ins(%zero : f32) outs(%er : R) -> R
      %zv = linalg.fill ins(%zero : f32) outs(%ev : V) -> V
      %zw = linalg.fill ins(%zero : f32) outs(%ew : W) -> W
      {body}
      {ends}
    }}"""
    return re.sub(r"\b[A-Z]\b", lambda m: TYPES[m[0]], text)
