"""Tensor programs of several operations, each with what NumPy makes of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

MAP2, ROW = "affine_map<(i, j) -> (i, j)>", "affine_map<(i, j) -> (i)>"


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


def reduction(name: str, source: str, start: str, body: str) -> str:
    return f"""
    %{name}s = arith.constant {start} : f32
    %{name}e = tensor.empty(%n) : tensor<?xf32>
    %{name}f = linalg.fill ins(%{name}s : f32) outs(%{name}e : tensor<?xf32>) -> tensor<?xf32>
    %{name} = linalg.generic {{indexing_maps = [{MAP2}, {ROW}], iterator_types = ["parallel", "reduction"]}}
        ins(%{source} : tensor<?x300xf32>) outs(%{name}f : tensor<?xf32>) {{
    ^bb0(%x: f32, %acc: f32):
      {body}
      linalg.yield %y : f32
    }} -> tensor<?xf32>"""


def rowwise(name: str, left: str, right: str, body: str) -> str:
    return f"""
    %{name} = linalg.generic {{indexing_maps = [{MAP2}, {ROW}, {MAP2}], iterator_types = ["parallel", "parallel"]}}
        ins(%{left}, %{right} : tensor<?x300xf32>, tensor<?xf32>) outs(%empty : tensor<?x300xf32>) {{
    ^bb0(%x: f32, %r: f32, %o: f32):
      {body}
      linalg.yield %y : f32
    }} -> tensor<?x300xf32>"""


HEAD = """
  func.func @f(%a: tensor<?x300xf32>) -> tensor<?x300xf32> {
    %c0 = arith.constant 0 : index
    %n = tensor.dim %a, %c0 : tensor<?x300xf32>
    %empty = tensor.empty(%n) : tensor<?x300xf32>"""

SOFTMAX = f"""{HEAD}
    %y = linalg.softmax dimension(1) ins(%a : tensor<?x300xf32>) outs(%empty : tensor<?x300xf32>) -> tensor<?x300xf32>
    return %y : tensor<?x300xf32>
  }}"""

LAYERNORM = f"""{HEAD}
    %width = arith.constant 300.0 : f32
    %eps = arith.constant 1.0e-5 : f32
    {reduction("sum", "a", "0.0", "%y = arith.addf %x, %acc : f32")}
    {rowwise("centred", "a", "sum", "%m = arith.divf %r, %width : f32 %y = arith.subf %x, %m : f32")}
    {reduction("squares", "centred", "0.0", "%q = arith.mulf %x, %x : f32 %y = arith.addf %q, %acc : f32")}
    {
    rowwise(
        "out",
        "centred",
        "squares",
        '''%v = arith.divf %r, %width : f32 %w = arith.addf %v, %eps : f32
      %s = math.rsqrt %w : f32 %y = arith.mulf %x, %s : f32''',
    )
}
    return %out : tensor<?x300xf32>
  }}"""


def softmax(a: np.ndarray) -> np.ndarray:
    e = np.exp(a - a.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def layernorm(a: np.ndarray) -> np.ndarray:
    c = a - a.mean(1, keepdims=True)
    return c / np.sqrt((c * c).mean(1, keepdims=True) + 1e-5)


MATMUL = """
  func.func @f(%a: tensor<33x70xf32>, %b: tensor<70x17xf32>) -> tensor<33x17xf32> {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<33x17xf32>
    %c = linalg.fill ins(%zero : f32) outs(%e : tensor<33x17xf32>) -> tensor<33x17xf32>
    %r = linalg.matmul ins(%a, %b : tensor<33x70xf32>, tensor<70x17xf32>)
        outs(%c : tensor<33x17xf32>) -> tensor<33x17xf32>
    return %r : tensor<33x17xf32>
  }"""

CONV = """
  func.func @f(%a: tensor<2x3x9x10xf32>, %k: tensor<4x3x3x2xf32>) -> tensor<2x4x7x9xf32> {
    %zero = arith.constant 0.5 : f32
    %e = tensor.empty() : tensor<2x4x7x9xf32>
    %c = linalg.fill ins(%zero : f32) outs(%e : tensor<2x4x7x9xf32>) -> tensor<2x4x7x9xf32>
    %r = linalg.conv_2d_nchw_fchw ins(%a, %k : tensor<2x3x9x10xf32>, tensor<4x3x3x2xf32>)
        outs(%c : tensor<2x4x7x9xf32>) -> tensor<2x4x7x9xf32>
    return %r : tensor<2x4x7x9xf32>
  }"""


def conv(a: np.ndarray, k: np.ndarray) -> np.ndarray:
    windows = np.lib.stride_tricks.sliding_window_view(a, (3, 2), (2, 3))
    return np.einsum("nchwij,fcij->nfhw", windows, k) + 0.5


POOL = """
  func.func @f(%a: tensor<2x3x9x10xf32>) -> tensor<2x3x4x4xf32> {
    %low = arith.constant 0xFF800000 : f32
    %e = tensor.empty() : tensor<2x3x4x4xf32>
    %w = tensor.empty() : tensor<3x3xf32>
    %c = linalg.fill ins(%low : f32) outs(%e : tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
    %r = linalg.pooling_nchw_max {strides = dense<2> : tensor<2xi64>}
        ins(%a, %w : tensor<2x3x9x10xf32>, tensor<3x3xf32>)
        outs(%c : tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
    return %r : tensor<2x3x4x4xf32>
  }"""


def pool(a: np.ndarray) -> np.ndarray:
    return np.lib.stride_tricks.sliding_window_view(a, (3, 3), (2, 3))[:, :, ::2, ::2].max((4, 5))


TRANSPOSE = """
  func.func @f(%a: tensor<65x5x33xf32>) -> tensor<33x65x5xf32> {
    %e = tensor.empty() : tensor<33x65x5xf32>
    %r = linalg.transpose ins(%a : tensor<65x5x33xf32>) outs(%e : tensor<33x65x5xf32>) permutation = [2, 0, 1]
    return %r : tensor<33x65x5xf32>
  }"""

GATHER = """
  func.func @f(%a: tensor<50x7xf32>, %at: tensor<20xi32>) -> tensor<20x7xf32> {
    %e = tensor.empty() : tensor<20x7xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
        iterator_types = ["parallel", "parallel"]} ins(%at : tensor<20xi32>) outs(%e : tensor<20x7xf32>) {
    ^bb0(%k: i32, %o: f32):
      %row = arith.index_cast %k : i32 to index
      %j = linalg.index 1 : index
      %i = linalg.index 0 : index
      %x = tensor.extract %a[%row, %j] : tensor<50x7xf32>
      %n = arith.index_cast %i : index to i32
      %f = arith.sitofp %n : i32 to f32
      %y = arith.addf %x, %f : f32
      linalg.yield %y : f32
    } -> tensor<20x7xf32>
    return %r : tensor<20x7xf32>
  }"""


CASES: dict[str, tuple[str, Callable[..., np.ndarray], list[np.ndarray]]] = {
    "softmax": (SOFTMAX, softmax, [floats(5, 300)]),
    "layernorm": (LAYERNORM, layernorm, [floats(5, 300)]),
    "matmul": (MATMUL, lambda a, b: a @ b, [floats(33, 70), floats(70, 17)]),
    "convolution": (CONV, conv, [floats(2, 3, 9, 10), floats(4, 3, 3, 2)]),
    "pooling": (POOL, pool, [floats(2, 3, 9, 10)]),
    "transpose": (TRANSPOSE, lambda a: a.transpose(2, 0, 1), [floats(65, 5, 33)]),
    "gather": (
        GATHER, lambda a, at: a[at] + np.arange(20, dtype=np.float32)[:, None],
        [floats(50, 7), np.random.default_rng(7).integers(0, 50, 20).astype(np.int32)],
    ),
}  # fmt: skip


TYPES = {
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "f16": np.float16,
    "f32": np.float32, "f64": np.float64,
}  # fmt: skip
SMALL = ("bf16", "f8E4M3FN", "f8E5M2", "f8E4M3FNUZ", "f4E2M1FN", "i2", "i4")


def sums(type_: str) -> str:
    op = "addf" if type_[0] in "fb" else "addi"
    return f"""
    func.func @f(%a: tensor<7x8x{type_}>, %b: tensor<7x8x{type_}>) -> tensor<7x8x{type_}> {{
      %c = arith.{op} %a, %b : tensor<7x8x{type_}>
      %d = arith.{op} %c, %b : tensor<7x8x{type_}>
      return %d : tensor<7x8x{type_}>
    }}"""
