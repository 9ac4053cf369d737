"""Contractions and windows of bench/contract.py: products, transposed operands, convolutions, pooling.

Functions yield cases: (name, MLIR of @f, arguments, function that computes the same in NumPy or None, number of
multiplications).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Case = tuple[str, str, list[np.ndarray[Any, Any]], "Callable[[], Any] | None", float]
"""A case, as described above."""


def program(op: str, a: str, b: str, c: str, zero: str) -> str:
    """Return MLIR of @f, which applies `op` to its arguments, with an output filled with `zero`.

    a, b, c: tensor types of the arguments and of the result. zero: a literal of the result's element type.
    """
    acc = c[:-1].rpartition("x")[2]  # the element type: tensor<2x3xf32> -> f32
    return f"""
func.func @f(%a: {a}, %b: {b}) -> {c} {{
  %zero = arith.constant {zero} : {acc}
  %e = tensor.empty() : {c}
  %z = linalg.fill ins(%zero : {acc}) outs(%e : {c}) -> {c}
  %r = {op} ins(%a, %b : {a}, {b}) outs(%z : {c}) -> {c}
  return %r : {c}
}}
"""


def products() -> Iterator[Case]:
    """Yield matrix products: plain and transposed operands, vectors, and narrow types."""
    rng = np.random.default_rng(1)
    shapes = (256, 256, 256), (512, 784, 512), (1024, 1024, 1024), (1, 1024, 1024), (7, 1000, 333), (2048, 64, 2048)
    for m, k, n in shapes:
        for type_, dtype in (("f32", np.float32), ("f64", np.float64)):
            a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
            out = np.empty((m, n), dtype)
            t = [f"tensor<{x}x{y}x{type_}>" for x, y in ((m, k), (k, n), (m, n))]
            yield (f"matmul {type_} {m}x{k}x{n}", program("linalg.matmul", *t, "0.0"), [a, b],
                   lambda a=a, b=b, out=out: np.matmul(a, b, out=out), float(m * k * n))  # fmt: skip
    for m, k, n in ((1, 1024, 1024), (32, 784, 512), (512, 784, 512)):
        a, b = rng.standard_normal((m, k), dtype=np.float32), rng.standard_normal((n, k), dtype=np.float32)
        t = [f"tensor<{x}x{y}xf32>" for x, y in ((m, k), (n, k), (m, n))]
        maps = ("indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, "
                "affine_map<(m, n, k) -> (m, n)>]")  # fmt: skip
        yield (f"transposed b {m}x{k}x{n}", program(f"linalg.matmul {maps}", *t, "0.0"), [a, b],
               lambda a=a, b=b: a @ b.T, float(m * k * n))  # fmt: skip
    a, b = rng.standard_normal((512, 512), dtype=np.float32), rng.standard_normal((512, 512), dtype=np.float32)
    maps = ("indexing_maps = [affine_map<(m, n, k) -> (k, m)>, affine_map<(m, n, k) -> (k, n)>, "
            "affine_map<(m, n, k) -> (m, n)>]")  # fmt: skip
    yield ("transposed a 512", program(f"linalg.matmul {maps}", *["tensor<512x512xf32>"] * 3, "0.0"), [a, b],
           lambda a=a, b=b: a.T @ b, 512.0**3)  # fmt: skip
    a, x = rng.standard_normal((1024, 1024), dtype=np.float32), rng.standard_normal(1024, dtype=np.float32)
    matrix, vector = "tensor<1024x1024xf32>", "tensor<1024xf32>"
    yield "matvec", program("linalg.matvec", matrix, vector, vector, "0.0"), [a, x], lambda: a @ x, 1024.0**2
    yield "vecmat", program("linalg.vecmat", vector, matrix, vector, "0.0"), [x, a], lambda: x @ a, 1024.0**2
    i, j = (rng.integers(-128, 127, (512, 512), dtype=np.int8) for _ in "ab")
    t = ["tensor<512x512xi8>", "tensor<512x512xi8>", "tensor<512x512xi32>"]
    # NumPy multiplies integers without BLAS, so f32 is its fastest way.
    yield ("matmul i8 512", program("linalg.matmul", *t, "0"), [i, j],
           lambda: i.astype(np.float32) @ j.astype(np.float32), 512.0**3)  # fmt: skip
    yield from narrow()


def narrow() -> Iterator[Case]:
    """Yield products of i8, and of f32 with weights of i8 and f16 that the product converts to f32.

    These weights are [k, n], or [n, k] as those of linear layers in PyTorch.
    """
    rng = np.random.default_rng(2)
    for m, k, n in ((128, 768, 3072), (8, 1024, 1024), (1, 2048, 2048)):
        i, j = rng.integers(-128, 128, (m, k), np.int8), rng.integers(-128, 128, (k, n), np.int8)
        t = [f"tensor<{s}x{type_}>" for s, type_ in ((f"{m}x{k}", "i8"), (f"{k}x{n}", "i8"), (f"{m}x{n}", "i32"))]
        yield f"matmul i8 {m}x{k}x{n}", program("linalg.matmul", *t, "0"), [i, j], None, float(m * k * n)
    for type_, dtype, extend in (("i8", np.int8, "sitofp"), ("f16", np.float16, "extf")):
        for m, k, n in ((1, 2048, 2048), (1, 4096, 4096), (4, 4096, 4096)):
            for order in ("kn", "nk"):
                a, w = rng.standard_normal((m, k), np.float32), rng.integers(-128, 128, (k, n)).astype(dtype)
                b = w if order == "kn" else np.ascontiguousarray(w.T)
                yield (f"f32 times {type_} {order} {m}x{k}x{n}", converted(m, k, n, type_, extend, order), [a, b], None,
                       float(m * k * n))  # fmt: skip


def converted(m: int, k: int, n: int, type_: str, extend: str, order: str) -> str:
    """Return MLIR of @f: f32[m, k] times weights of a narrower type, which the product's body converts to f32.

    type_: of the weights. extend: the operation of arith that converts them. order: dimensions of the weights, "kn" or
    "nk".
    """
    a, c = f"tensor<{m}x{k}xf32>", f"tensor<{m}x{n}xf32>"
    w = f"tensor<{k}x{n}x{type_}>" if order == "kn" else f"tensor<{n}x{k}x{type_}>"
    return f"""
func.func @f(%a: {a}, %b: {w}) -> {c} {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : {c}
  %z = linalg.fill ins(%zero : f32) outs(%e : {c}) -> {c}
  %r = linalg.generic {{indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> ({", ".join(order)})>,
      affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%a, %b : {a}, {w}) outs(%z : {c}) {{
  ^bb0(%x: f32, %w: {type_}, %s: f32):
    %v = arith.{extend} %w : {type_} to f32
    %p = arith.mulf %x, %v : f32
    %q = arith.addf %s, %p : f32
    linalg.yield %q : f32
  }} -> {c}
  return %r : {c}
}}
"""


Sizes = tuple[int, ...]
"""Sizes of a tensor's dimensions."""


def _tensor(sizes: Sizes) -> str:
    """Return the MLIR type of a tensor of f32."""
    return f"tensor<{'x'.join(map(str, sizes))}xf32>"


def _windows(op: str, name: str, a: Sizes, b: Sizes, c: Sizes, stride: int, steps: int, zero: str = "0.0") -> Case:
    """Return the case of an operation of linalg that slides a window over images, of f32 and without padding.

    op: its name. a, b, c: sizes of the images, the window or filters, and the result. steps: multiplications for each
    element of the result. zero: the literal that the result starts with, such as -infinity of a maximum.
    """
    rng = np.random.default_rng(1)
    config = f"{{strides = dense<{stride}> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}}"
    text = program(f"linalg.{op} {config}", _tensor(a), _tensor(b), _tensor(c), zero)
    inputs = [rng.standard_normal(sizes, dtype=np.float32) for sizes in (a, b)]
    return name, text, inputs, None, float(np.prod(c)) * steps


def windows() -> Iterator[Case]:
    """Yield convolutions and pooling; `h` is the input's height and width, `out` the result's."""
    for out, c, stride in ((112, 32, 1), (56, 64, 2), (14, 512, 1)):
        h = (out - 1) * stride + 3
        yield _windows("depthwise_conv_2d_nhwc_hwc", f"depthwise 3x3/{stride} {out}x{out}x{c}", (1, h, h, c), (3, 3, c),
                       (1, out, out, c), stride, steps=9)  # fmt: skip
    # A maximum begins with -infinity, 0xFF800000.
    yield _windows("pooling_nhwc_max", "max pooling 3x3/2 56x56x64", (1, 113, 113, 64), (3, 3), (1, 56, 56, 64),
                   stride=2, steps=9, zero="0xFF800000")  # fmt: skip
    yield _windows("pooling_nhwc_sum", "sum pooling 3x3 112x112x32", (1, 114, 114, 32), (3, 3), (1, 112, 112, 32),
                   stride=1, steps=9)  # fmt: skip
    for out, c in ((56, 64), (14, 256), (7, 512)):
        h = out + 2
        yield _windows("conv_2d_nhwc_hwcf", f"conv nhwc 3x3 {out}x{out}x{c}", (1, h, h, c), (3, 3, c, c),
                       (1, out, out, c), stride=1, steps=9 * c)  # fmt: skip
        yield _windows("conv_2d_nchw_fchw", f"conv nchw 3x3 {out}x{out}x{c}", (1, c, h, h), (c, c, 3, 3),
                       (1, c, out, out), stride=1, steps=9 * c)  # fmt: skip
