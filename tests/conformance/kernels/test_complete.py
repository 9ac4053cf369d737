# ruff: noqa: E501  (lines of MLIR)
"""Every op of the kernel dialects has a lowering or a reason, and what IR leaves open has one answer here."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_targets import load
from kernels import buffer, elementwise

from pydispatch.compiler.emit.llvm.emitter import lowerings
from pydispatch.compiler.kernel_ir.expand import integers
from pydispatch.compiler.kernel_ir.expand.expand import RULES
from pydispatch.compiler.kernel_ir.readers import LEAVES
from pydispatch.ir.dialects import new_context

REASONS = {
    "affine.vector_load": "kernels compute on scalars; vectors come from loops",
    "affine.vector_store": "kernels compute on scalars; vectors come from loops",
    "memref.global": "belongs to the module, not to a function",
    "memref.dma_start": "no target here has a second engine that copies",
    "memref.dma_wait": "no target here has a second engine that copies",
}


@pytest.mark.parametrize("dialect", ["arith", "math", "scf", "cf", "affine", "memref"])
def test_every_op_has_a_lowering(dialect: str) -> None:
    context = new_context()
    names = {op.name for op in context.get_optional_dialect(dialect).operations} if hasattr(context, "get_optional_dialect") \
        else {op.name for op in context._registered_dialects[dialect]().operations}  # fmt: skip
    assert names
    known = lowerings().keys() | RULES.keys() | integers.RULES.keys()
    assert not lowerings().keys() & RULES.keys()
    missing = names - known - LEAVES - REASONS.keys()
    assert not missing
    assert not REASONS.keys() & known


INTS = [(8, np.int8), (16, np.int16), (32, np.int32), (64, np.int64)]


@pytest.mark.parametrize(("bits", "dtype"), INTS)
def test_division_never_traps(bits: int, dtype: type) -> None:
    """By zero 0, remainder the dividend; the smallest number by -1 is itself, remainder 0."""
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    a = np.array([low, low, low, high, high, 0, 0, 5, -5, 7, -7] * 3, dtype)
    b = np.array([-1, 0, 1, -1, 0, 0, -1, 0, 0, 2, 2] * 3, dtype)
    t, mask = f"i{bits}", (1 << bits) - 1
    ops = ["divsi", "remsi", "divui", "remui", "floordivsi", "ceildivsi", "ceildivui"]
    body = "\n".join(f"%y{i} = arith.{op} %x0, %x1 : {t}" for i, op in enumerate(ops))
    kernel = load(elementwise(body, [t, t], [t] * 7), constants=1, bindings=9)
    made = [buffer(np.zeros_like(a)) for _ in ops]
    assert kernel.run(buffer(a), buffer(b), *made, constants=[a.size]) == 0

    def wanted(op: str, x: int, y: int) -> int:
        if op.endswith("ui"):
            x, y = x & mask, y & mask
        if y == 0:
            return x if op.startswith("rem") else 0
        quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        return {"div": quotient, "rem": x - quotient * y, "flo": x // y, "cei": -(-x // y)}[op[:3]]

    for op, got in zip(ops, made, strict=True):
        expected = [wanted(op, int(x), int(y)) & mask for x, y in zip(a, b, strict=True)]
        assert [int(v) & mask for v in got] == expected, op


@pytest.mark.parametrize(("bits", "dtype"), INTS)
def test_shifts_past_the_width(bits: int, dtype: type) -> None:
    a = np.array([-3, 5, -(1 << (bits - 1)), (1 << (bits - 1)) - 1] * 8, dtype)
    b = np.repeat(np.array([0, 1, bits - 1, bits, bits + 1, -1, 2, 100], dtype), 4)
    t = f"i{bits}"
    ops = ["shli", "shrsi", "shrui"]
    body = "\n".join(f"%y{i} = arith.{op} %x0, %x1 : {t}" for i, op in enumerate(ops))
    body += (
        f"\n%far = arith.constant {bits} : {t}\n%y3 = arith.shrui %x0, %far : {t}\n%y4 = arith.shrsi %x0, %far : {t}"
    )
    kernel = load(elementwise(body, [t, t], [t] * 5), constants=1, bindings=7)
    made = [buffer(np.zeros_like(a)) for _ in range(5)]
    assert kernel.run(buffer(a), buffer(b), *made, constants=[a.size]) == 0
    mask = (1 << bits) - 1
    count = [min(int(v) & mask, 2 * bits) for v in b]
    pairs = list(zip((int(v) for v in a), count, strict=True))
    expected = [[x << s & mask for x, s in pairs], [x >> s & mask for x, s in pairs], [(x & mask) >> s for x, s in pairs],
                [0] * a.size, [x >> bits & mask for x, _ in pairs]]  # fmt: skip
    for got, want in zip(made, expected, strict=True):
        assert [int(v) & mask for v in got] == want


@pytest.mark.parametrize("name", ["f16", "f32", "f64", "bf16"])
def test_conversions_saturate(name: str) -> None:
    dtype = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "bf16": np.uint16}[name]
    numbers = np.array(
        [np.nan, np.inf, -np.inf, 3e4, -3e4, 1e3, -1e3, 200.7, -200.7, 0.9, -0.9, 127.9, -128.9, -0.0] * 3
    )
    x = numbers.astype(np.float32).view(np.uint32) >> 16 if name == "bf16" else numbers.astype(dtype)
    x = x.astype(dtype)
    exact = (x.astype(np.uint32) << 16).view(np.float32).astype(np.float64) if name == "bf16" else x.astype(np.float64)
    rows = [
        ("fptosi", 8),
        ("fptoui", 8),
        ("fptosi", 16),
        ("fptosi", 32),
        ("fptoui", 32),
        ("fptosi", 64),
        ("fptoui", 64),
    ]
    body = "\n".join(f"%y{i} = arith.{op} %x0 : {name} to i{bits}" for i, (op, bits) in enumerate(rows))
    kernel = load(elementwise(body, [name], [f"i{bits}" for _, bits in rows]), constants=1, bindings=8)
    made = [buffer(np.zeros(x.size, f"{'u' if 'ui' in op else ''}int{bits}")) for op, bits in rows]
    assert kernel.run(buffer(x), *made, constants=[x.size]) == 0
    for (op, bits), got in zip(rows, made, strict=True):
        info = np.iinfo(got.dtype)
        want = [
            0 if np.isnan(v) else info.max if v >= info.max else info.min if v <= info.min else int(v) for v in exact
        ]
        assert got.tolist() == want, (op, bits)


def test_index_arithmetic_never_traps() -> None:
    """A size of zero known only when the kernel runs."""
    source = """func.func @kernel() {
      %n = hal.interface.constant.load[0] : i32
      %d = arith.index_cast %n : i32 to index
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c7 = arith.constant 7 : index
      %o = hal.interface.binding.subspan binding(0) : memref<5xi64>
      %a = affine.apply affine_map<(x)[s] -> (x floordiv s + x ceildiv s + x mod s)>(%c7)[%d]
      %q:2 = affine.delinearize_index %c7 into (3, %d) : index, index
      %x = arith.index_cast %a : index to i64
      %y = arith.index_cast %q#0 : index to i64
      memref.store %x, %o[%c0] : memref<5xi64>
      memref.store %y, %o[%c1] : memref<5xi64>
      func.return
    }"""
    kernel = load(source, constants=1, bindings=1)
    out = buffer(np.zeros(5, np.int64))
    assert kernel.run(out, constants=[0]) == 0
    assert kernel.run(out, constants=[2]) == 0
    assert out[:2].tolist() == [3 + 4 + 1, 3]


def test_transpose_and_reshape() -> None:
    source = """func.func @kernel() {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c3 = arith.constant 3 : index
      %a = hal.interface.binding.subspan binding(0) : memref<2x3xi32>
      %o = hal.interface.binding.subspan binding(1) : memref<3x2xi32>
      %p = hal.interface.binding.subspan binding(2) : memref<6xi32>
      %s = memref.alloca() : memref<1xi32>
      %c6 = arith.constant 6 : i32
      memref.store %c6, %s[%c0] : memref<1xi32>
      %t = memref.transpose %a (i, j) -> (j, i) : memref<2x3xi32> to memref<3x2xi32, strided<[1, 3]>>
      memref.copy %t, %o : memref<3x2xi32, strided<[1, 3]>> to memref<3x2xi32>
      %r = memref.reshape %o(%s) : (memref<3x2xi32>, memref<1xi32>) -> memref<?xi32>
      %q = memref.cast %r : memref<?xi32> to memref<6xi32>
      memref.copy %q, %p : memref<6xi32> to memref<6xi32>
      func.return
    }"""
    a, o, p = (
        buffer(np.arange(6, dtype=np.int32).reshape(2, 3)),
        buffer(np.zeros((3, 2), np.int32)),
        buffer(np.zeros(6, np.int32)),
    )
    assert load(source, bindings=3).run(a, o, p) == 0
    np.testing.assert_array_equal(o, a.T)
    np.testing.assert_array_equal(p, a.T.reshape(-1))
