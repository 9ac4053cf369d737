"""Named contractions and their generic spellings, with what NumPy makes of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from harness import DTYPES, INTEGERS, Array, Body, Value

# name: einsum of the two factors and the result, over b(atch) m n k
NAMED = {
    "matmul": "mk,kn->mn",
    "matmul_transpose_a": "km,kn->mn",
    "matmul_transpose_b": "mk,nk->mn",
    "batch_matmul": "bmk,bkn->bmn",
    "batch_matmul_transpose_a": "bkm,bkn->bmn",
    "batch_matmul_transpose_b": "bmk,bnk->bmn",
    "batch_reduce_matmul": "bmk,bkn->mn",
    "matvec": "mk,k->m",
    "vecmat": "k,kn->n",
    "batch_matvec": "bmk,bk->bm",
    "batch_vecmat": "bk,bkn->bn",
    "dot": "k,k->",
}
# factors and accumulator; the cast between them is part of the operation
TYPES = [("f32", "f32"), ("f64", "f64"), ("f16", "f32"), ("bf16", "f32"), ("i8", "i32"), ("i32", "i32"),
         ("i16", "i64"), ("i64", "i64"), ("f16", "f16"), ("i16", "i32"), ("f32", "f64"), ("i8", "i8")]  # fmt: skip


def product(equation: str, left: Array, right: Array, acc: Array, element: str) -> Array:
    """acc + the product, computed exactly, then in the accumulator's type (which wraps)."""
    exact = np.int64 if element in INTEGERS else np.float64
    with np.errstate(over="ignore"):
        total = acc.astype(exact) + np.einsum(equation, left.astype(exact), right.astype(exact))
        return np.asarray(total).astype(DTYPES[element])


def named(body: Body, op: str, sizes: dict[str, int], factor: str, element: str, zero: bool = True) -> None:
    """One operation onto zeros, or onto what is already there."""
    first, second, out = NAMED[op].replace("->", ",").split(",")
    shapes = [[sizes[d] for d in dims] for dims in (first, second, out)]
    (a, left), (b, right) = body.numbers(shapes[0], factor), body.numbers(shapes[1], factor)
    if zero:
        c, acc = body.filled(0, shapes[2], element), np.zeros(shapes[2])
    else:
        c, acc = body.numbers(shapes[2], element)
    result = body.named(op, [a, b], c)
    body.expect(result, product(NAMED[op], left, right, acc, element))


def generic(body: Body, equation: str, sizes: dict[str, int], factor: str, element: str, order: Sequence[str]) -> None:
    """The same as linalg.generic with its loops in any order; the factors are cast in its body."""
    first, second, out = equation.replace("->", ",").split(",")
    (a, left), (b, right) = (body.numbers([sizes[d] for d in dims], factor) for dims in (first, second))
    c = body.filled(0, [sizes[d] for d in out], element)
    maps = [f"({', '.join(order)}) -> ({', '.join(dims)})" for dims in (first, second, out)]
    add, mul = ("addi", "muli") if element in INTEGERS else ("addf", "mulf")
    cast = "" if factor == element else "arith.extsi" if factor in INTEGERS else "arith.extf"
    lines = [f"%l = {cast} %a0 : {factor} to {element}", f"%r = {cast} %a1 : {factor} to {element}"] if cast else []
    left_name, right_name = ("%l", "%r") if cast else ("%a0", "%a1")
    lines += [
        f"%p = arith.{mul} {left_name}, {right_name} : {element}",
        f"%s = arith.{add} %o0, %p : {element}",
        f"linalg.yield %s : {element}",
    ]
    iterators = "".join("p" if d in out else "r" for d in order)
    (result,) = body.generic(maps, iterators, [a, b], [c], "\n".join(lines))
    body.expect(result, product(equation, left, right, np.zeros([sizes[d] for d in out]), element))


def quantized(body: Body, m: int, k: int, n: int, zeros: tuple[int, int], batch: int | None = None) -> None:
    """quantized_matmul, and the same from a matmul, row sums and column sums."""
    lead = [] if batch is None else [batch]
    (a, left), (b, right) = (body.numbers([*lead, *s], "i8", -128, 128) for s in ((m, k), (k, n)))
    za, zb = body.scalar(zeros[0], "i32"), body.scalar(zeros[1], "i32")
    op = "quantized_matmul" if batch is None else "quantized_batch_matmul"
    result = body.named(op, [a, b, za, zb], body.filled(0, [*lead, m, n], "i32"))
    wanted = (left.astype(np.int32) - zeros[0]) @ (right.astype(np.int32) - zeros[1])
    body.expect(result, wanted)
    if batch is not None:
        return
    plain = body.named("matmul", [a, b], body.filled(0, [m, n], "i32"))
    sums: list[Value] = []
    for value, length, keep in ((a, m, "d0"), (b, n, "d1")):
        iterators = "pr" if keep == "d0" else "rp"
        sums += body.generic(
            ["(d0, d1) -> (d0, d1)", f"(d0, d1) -> ({keep})"], iterators, [value], [body.filled(0, [length], "i32")],
            "%e = arith.extsi %a0 : i8 to i32\n%s = arith.addi %e, %o0 : i32\nlinalg.yield %s : i32",
        )  # fmt: skip
    depth = body.scalar(k, "i32")
    (corrected,) = body.generic(
        ["(i, j) -> (i, j)", "(i, j) -> (i)", "(i, j) -> (j)", *["(i, j) -> ()"] * 3, "(i, j) -> (i, j)"],
        "pp", [plain, *sums, za, zb, depth], [body.empty([m, n], "i32")],
        """%0 = arith.muli %a1, %a4 : i32
        %1 = arith.muli %a2, %a3 : i32
        %2 = arith.addi %0, %1 : i32
        %3 = arith.muli %a3, %a4 : i32
        %4 = arith.muli %a5, %3 : i32
        %5 = arith.subi %a0, %2 : i32
        %6 = arith.addi %5, %4 : i32
        linalg.yield %6 : i32""",
    )  # fmt: skip
    body.expect(corrected, wanted)
