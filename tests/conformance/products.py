"""Programs of matrix products, as text, and what they compute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

KINDS = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "i8": np.int8, "i16": np.int16, "i32": np.int32,
         "i64": np.int64}  # fmt: skip
TYPES = {"f32": "f", "f64": "f", "f16": "f", "bf16": "f", "i8": "i", "i16": "i", "i32": "i", "i64": "i"}


def tensor(shape: Sequence[int], element: str) -> str:
    """A type; sizes below 0 are dynamic."""
    return f"tensor<{''.join(f'{n if n >= 0 else chr(63)}x' for n in shape)}{element}>"


def matmul(m: int, n: int, k: int, element: str = "f32", sums: str = "f32", tail: str = "") -> str:
    """`linalg.matmul` from zero; sizes below 0 are dynamic. tail: what is done with %c, its result being %r."""
    a, b, c = tensor((m, k), element), tensor((k, n), element), tensor((m, n), sums)
    sizes = [f"%c{i} = arith.constant {i} : index" for i in (0, 1)]
    names = []
    for name, size, source, type_, dim in (("%dm", m, "%a", a, 0), ("%dn", n, "%b", b, 1)):
        if size < 0:
            sizes.append(f"{name} = tensor.dim {source}, %c{dim} : {type_}")
            names.append(name)
    zero = "0.0" if TYPES[sums] == "f" else "0"
    newline = "\n  "
    return f"""
func.func @f(%a: {a}, %b: {b}) -> {c} {{
  %zero = arith.constant {zero} : {sums}
  {newline.join(sizes)}
  %e = tensor.empty({", ".join(names)}) : {c}
  %z = linalg.fill ins(%zero : {sums}) outs(%e : {c}) -> {c}
  %c = linalg.matmul ins(%a, %b : {a}, {b}) outs(%z : {c}) -> {c}
  {tail}
  return {"%r" if tail else "%c"} : {c}
}}"""


def generic(maps: tuple[str, str, str], shapes: tuple[tuple[int, ...], ...], element: str = "f32") -> str:
    """A product over (m, n, k) or (b, m, n, k) with its own indexing maps, added to a third argument."""
    dims = "(b, m, n, k)" if "b" in maps[2] else "(m, n, k)"
    kinds = ", ".join(['"parallel"'] * (dims.count(",")) + ['"reduction"'])
    a, b, c = (tensor(shape, element) for shape in shapes)
    letter = TYPES[element]
    indexing = ", ".join(f"affine_map<{dims} -> {each}>" for each in maps)
    return f"""
func.func @f(%a: {a}, %b: {b}, %c: {c}) -> {c} {{
  %r = linalg.generic {{indexing_maps = [{indexing}], iterator_types = [{kinds}]}}
      ins(%a, %b : {a}, {b}) outs(%c : {c}) {{
  ^bb0(%x: {element}, %y: {element}, %s: {element}):
    %p = arith.mul{letter} %x, %y : {element}
    %t = arith.add{letter} %s, %p : {element}
    linalg.yield %t : {element}
  }} -> {c}
  return %r : {c}
}}"""


def convolution(op: str, x: tuple[int, ...], w: tuple[int, ...], y: tuple[int, ...], stride: int, pad: int) -> str:
    """A convolution of two dimensions, behind a `tensor.pad` where pad is not 0. x: sizes without padding."""
    spatial = (1, 2) if "nhwc_hwcf" in op else (2, 3)
    wide = tuple(n + 2 * pad * (i in spatial) for i, n in enumerate(x))
    low = ", ".join(str(pad * (i in spatial)) for i in range(4))
    source, padding = "%x", ""
    if pad:
        source = "%p"
        padding = f"""%p = tensor.pad %x low[{low}] high[{low}] {{
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %zero : f32
  }} : {tensor(x, "f32")} to {tensor(wide, "f32")}"""
    out = tensor(y, "f32")
    return f"""
func.func @f(%x: {tensor(x, "f32")}, %w: {tensor(w, "f32")}) -> {out} {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : {out}
  %z = linalg.fill ins(%zero : f32) outs(%e : {out}) -> {out}
  {padding}
  %r = linalg.{op} {{strides = dense<{stride}> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}}
      ins({source}, %w : {tensor(wide, "f32")}, {tensor(w, "f32")}) outs(%z : {out}) -> {out}
  return %r : {out}
}}"""


def whole(seed: int, shape: tuple[int, ...], element: str, most: int = 4) -> Array:
    return np.random.default_rng(seed).integers(-most, most + 1, shape).astype(KINDS[element])


def product(a: Array, b: Array, sums: str) -> Array:
    """The exact product."""
    wide = np.int64 if a.dtype.kind == "i" else np.float64
    return (a.astype(wide) @ b.astype(wide)).astype(KINDS[sums])
