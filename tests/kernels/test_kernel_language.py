"""What statements and expressions of kernels mean, on every device, against NumPy and Python."""

from __future__ import annotations

import copy
import math
import sys
from typing import Annotated, Any

import numpy as np
import pytest
from kernel_works import check, results

import pydispatch as pd

Ints = Annotated[pd.View, pd.i32["n"]]
Longs = pd.i64["n"]
Floats = pd.View[pd.f32, "n"]
Halves = Annotated[pd.View, pd.f16["n"]]
Box = Annotated[pd.View, pd.i32["a", "b", "c"]]

N = 100
X = np.random.default_rng(5).integers(-20, 20, N).astype(np.int32)
F = (X / 8).astype(np.float32)


def close(a: Any, b: Any, err_msg: str = "") -> None:
    np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-6, err_msg=err_msg)


def double(x: Any) -> Any:
    return x * 2


def clamp(x: Any, low: Any, high: Any) -> Any:
    if x < low:
        return low
    if x > high:
        return high
    return x


def divided(a: Any, b: Any) -> Any:
    return a // b, a % b


@pd.kernel
def integers(x: Ints, y: Ints):
    i = pd.global_id(0)
    if i < x.shape[0]:
        q, r = divided(x[i], 7)
        bits = (x[i] & 6) - (x[i] | 1) + (x[i] ^ 5) + (x[i] << 2) + (x[i] >> 1)
        y[i] = q * 100 + r + bits + -x[i] + ~x[i] + abs(x[i])


def test_integers() -> None:
    q, r = X // 7, X % 7
    expected = q * 100 + r + (X & 6) - (X | 1) + (X ^ 5) + (X << 2) + (X >> 1) + -X + ~X + abs(X)
    check(integers, (X, np.zeros_like(X)), expected)


@pytest.mark.parametrize(
    ("integer", "dtype"), [(pd.i16, np.int16), (pd.i32, np.int32), (pd.i64, np.int64), (pd.u8, np.uint8)]
)
def test_shifts_by_counts_that_are_folded(integer: Any, dtype: Any) -> None:
    @pd.kernel
    def shifts(x: Annotated[pd.View, integer["n"]], y: Annotated[pd.View, integer["n"]]):
        i = pd.global_id(0)
        if i < x.shape[0]:
            y[i] = (x[i] << (integer(50) + integer(50))) + (x[i] >> (integer(30) + integer(40))) + (x[i] >> ~integer(7))

    x = np.arange(-3, 97).astype(dtype)
    check(shifts, (x, np.ones_like(x)), np.where(x < 0, -2, 0))


@pd.kernel
def floats(x: Floats, y: Floats):
    i = pd.global_id(0)
    if i >= len(x):
        return
    v = x[i]
    y[i] = v**2 - v // 2 + max(v, 0.5, -v) + min(v, 1) + pd.where(v < 0, 3, v) + abs(v) + pd.fma(v, 2.0, 1.0) + math.pi


def test_floats() -> None:
    v = F
    expected = v**2 - v // 2 + np.maximum(np.maximum(v, 0.5), -v) + np.minimum(v, 1) + np.where(v < 0, 3, v) + abs(v)
    check(floats, (F, np.zeros_like(F)), expected + (2 * v + 1) + np.float32(math.pi), close)


@pd.kernel
def functions(x: Floats, y: Floats):
    i = pd.global_id(0)
    if i < x.shape[0]:
        a = abs(x[i]) + 1.0
        smooth = pd.sin(a) + math.cos(a) + pd.log(a) + math.sqrt(a) + pd.rsqrt(a) + math.tanh(a) + pd.erf(a)
        y[i] = smooth + math.floor(a) + pd.ceil(a)


def test_functions() -> None:
    a = abs(F.astype(np.float64)) + 1
    expected = np.sin(a) + np.cos(a) + np.log(a) + np.sqrt(a) + 1 / np.sqrt(a) + np.tanh(a) + np.vectorize(math.erf)(a)
    check(functions, (F, np.zeros_like(F)), expected + np.floor(a) + np.ceil(a), close)


@pd.kernel
def conditions(x: Ints, y: Ints):
    i = pd.global_id(0)
    if i < x.shape[0]:
        v = x[i]
        kind = 0
        if v < -10 or v > 10:
            kind = 1
        elif -5 <= v < 5 and v != 0:
            kind = 2
            if not (v == 3 or v == 2):
                kind += 10
        y[i] = kind + (100 if v % 2 == 0 else 200) + pd.i32(v > 3)


def test_conditions() -> None:
    inner = np.where((X == 3) | (X == 2), 2, 12)
    kind = np.where((X < -10) | (X > 10), 1, np.where((X >= -5) & (X < 5) & (X != 0), inner, 0))
    check(conditions, (X, np.zeros_like(X)), kind + np.where(X % 2 == 0, 100, 200) + (X > 3))


@pd.kernel
def short_circuit(x: Ints, y: Ints):
    """The second part would read outside where the first decides."""
    i = pd.global_id(0)
    if i < x.shape[0]:
        before = i > 0 and x[i - 1] > 0
        after = i == x.shape[0] - 1 or x[i + 1] > 0
        y[i] = pd.i32(before) + 2 * pd.i32(after)


def test_short_circuit() -> None:
    before, after = np.r_[False, X[:-1] > 0], np.r_[X[1:] > 0, True]
    check(short_circuit, (X, np.zeros_like(X)), before + 2 * after)


@pd.kernel
def loops(x: Ints, y: Ints):
    i = pd.global_id(0)
    if i < x.shape[0]:
        up, down, steps = 0, 0, 0
        for k in range(5):
            up += x[i] * pd.i32(k)
        for k in range(9, -1, -2):
            if k == 5:
                continue
            down = down * 3 + pd.i32(k)
        n = abs(x[i])
        while n > 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        y[i] = up + down + steps


def collatz(n: int) -> int:
    steps = 0
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def test_loops() -> None:
    down = 0
    for k in (9, 7, 3, 1):
        down = down * 3 + k
    check(loops, (X, np.zeros_like(X)), X * 10 + down + np.array([collatz(abs(int(x))) for x in X]))


@pd.kernel
def exits(x: Ints, y: Ints):
    """The first k from 0 for which k * k is not below x[i], at most 3; nothing where x[i] is 7."""
    i = pd.global_id(0)
    if i >= x.shape[0]:
        return
    found = -1
    for k in range(100):
        if x[i] == 7:
            return
        if k == 3:
            found = 3
            break
        if pd.i32(k) * pd.i32(k) < x[i]:
            continue
        found = pd.i32(k)
        break
    y[i] = found


def test_exits() -> None:
    first = np.array([next(k for k in range(100) if k == 3 or k * k >= x) for x in X])
    check(exits, (X, np.full_like(X, 50)), np.where(X == 7, 50, first))


@pd.kernel
def nested(x: Ints, y: Ints):
    i = pd.global_id(0)
    if i < x.shape[0]:
        total = 0
        for a in range(4):
            for b in range(a, 4):
                if b == 2:
                    continue
                if pd.i32(a + b) > x[i]:
                    break
                total += pd.i32(a * 10 + b)
        y[i] = total


def test_nested_loops() -> None:
    def one(x: int) -> int:
        total = 0
        for a in range(4):
            for b in range(a, 4):
                if b == 2:
                    continue
                if a + b > x:
                    break
                total += a * 10 + b
        return total

    check(nested, (X, np.zeros_like(X)), np.array([one(int(x)) for x in X]))


@pd.kernel
def tuples(x: Floats, y: Floats):
    i = pd.global_id(0)
    if i < x.shape[0]:
        a, b = x[i], 1.0
        for _ in range(3):
            a, b = b, a + b
        if a > b:
            a, b = b, a
        y[i] = a - double(clamp(b, -1.0, 2))


def test_tuples_and_helpers() -> None:
    a, b = F.copy(), np.ones_like(F)
    for _ in range(3):
        a, b = b, a + b
    low, high = np.minimum(a, b), np.maximum(a, b)
    check(tuples, (F, np.zeros_like(F)), low - 2 * np.clip(high, -1, 2), close)


def stored_seven(y: Floats) -> bool:
    y[pd.global_id(0)] = 7.0
    return True


@pd.kernel
def stores_in_conditions(x: Floats, y: Floats):
    """The second operand of `and` is a constant, but it stores, if it is evaluated."""
    i = pd.global_id(0)
    if i < x.shape[0]:
        if x[i] > 0.0 and stored_seven(y):
            y[i] += 1.0
        if x[i] < -1.0 or stored_seven(y):
            y[i] += 2.0


def test_stores_of_operands_that_are_constant() -> None:
    expected = np.where(F > 0, 8, 0)
    check(stores_in_conditions, (F, np.zeros_like(F)), np.where(F < -1, expected, 7) + 2, close)


@pd.kernel
def casts(x: Floats, y: Longs, z: Halves):
    i = pd.global_id(0)
    if i < x.shape[0]:
        y[i] = pd.i64(pd.i8(x[i])) * 3 + pd.i64(i) + pd.i64(pd.bitcast(x[i], pd.i32) & 255)
        z[i] = pd.f16(x[i]) * 2


def test_casts() -> None:
    wanted = np.trunc(F).astype(np.int64) * 3 + np.arange(N) + (F.view(np.int32) & 255)
    for device, result in results(casts, F, np.zeros(N, np.int64), np.zeros(N, np.float16)).items():
        np.testing.assert_array_equal(result, wanted, err_msg=device)
    z = np.zeros(N, np.float16)
    casts(F, np.zeros(N, np.int64), z)
    np.testing.assert_array_equal(z, F.astype(np.float16) * 2)


@pd.kernel
def chosen_literals(x: Ints, y: Ints):
    """Each choice is between a number and a truth value, which is 0 or 1 there."""
    i = pd.global_id(0)
    if i < x.shape[0]:
        y[i] = (5 if x[i] > 0 else True) + pd.where(x[i] > 3, False, 20) + pd.where(x[i] > 9, 300, False)


def test_choices_between_literals() -> None:
    expected = np.where(X > 0, 5, 1) + np.where(X > 3, 0, 20) + np.where(X > 9, 300, 0)
    check(chosen_literals, (X, np.zeros_like(X)), expected)


@pd.kernel
def known_conditions(x: Ints, y: Ints):
    """Conditions of literals remain conditions, which combine with those of elements."""
    i = pd.global_id(0)
    if i < x.shape[0]:
        v = x[i] > 0
        y[i] = pd.i32((True & True) & v) + 2 * pd.i32((True ^ True) | v) + (6 & 3 | 8)


def test_conditions_of_literals() -> None:
    check(known_conditions, (X, np.zeros_like(X)), 3 * (X > 0) + 10)


@pd.kernel
def known_extremes(x: Floats, y: Floats):
    i = pd.global_id(0)
    if i < x.shape[0]:
        y[i] = x[i] + max(1.0, 2, min(4, 3.5, True))
        if x[i] > 0:
            y[i] = max(1.0, math.nan, 2.0)
        elif x[i] < 0:
            y[i] = min(math.nan, 1.0)


def test_extremes_of_literals() -> None:
    """NaN is the result, as for elements."""
    check(known_extremes, (F, np.zeros_like(F)), np.where(F == 0, np.float32(2), np.float32(np.nan)))


@pd.kernel(workgroup=(8, 4, 2))
def three(y: Box):
    k, j, i = pd.global_id(0), pd.global_id(1), pd.global_id(2)
    if i < y.shape[0] and j < y.shape[1] and k < y.shape[2]:
        y[i, j, k] = pd.i32(i * 10000 + j * 100 + k)


def test_three_dimensions() -> None:
    i, j, k = np.indices((3, 9, 10))
    check(three, (np.zeros((3, 9, 10), np.int32),), i * 10000 + j * 100 + k)


@pd.kernel
def specialized(x: Floats, y: Floats, times: pd.static, dtype: pd.static = pd.f32):
    i = pd.global_id(0)
    if i < x.shape[0]:
        v = dtype(x[i])
        if times > 2:
            v += dtype(times)
        for _ in range(times):
            v *= 2
        y[i] = pd.f32(v)


def test_statics() -> None:
    check(specialized.specialize(times=3), (F, np.zeros_like(F)), (F + 3) * 8)
    check(specialized.specialize(times=1, dtype=pd.f16), (F, np.zeros_like(F)), F * 2)
    with pytest.raises(pd.InvalidArgumentError, match=r"'times' has no value; write specialized.specialize\(times="):
        specialized(F, np.zeros_like(F))
    with pytest.raises(pd.InvalidArgumentError, match="no static parameter 'time'; there are times, dtype"):
        specialized.specialize(time=3)


@pd.kernel(workgroup=32)
def kept(x: Ints, y: Ints):
    """Each invocation keeps what it has computed over barriers, in a loop that all go through."""
    memory = pd.shared(32, pd.i32)
    lane, i = pd.local_id(0), pd.global_id(0)
    mine = x[i] if i < x.shape[0] else 0
    count = 1
    for round in range(3):
        memory[lane] = mine
        pd.barrier()
        mine = memory[(lane + 1) % 32] * 2 + pd.i32(round) + count
        pd.barrier()
        count += 2
    if i < x.shape[0]:
        y[i] = mine


def test_variables_live_across_barriers() -> None:
    values, count = np.pad(X, (0, 28)).reshape(-1, 32).astype(np.int64), 1
    for round in range(3):
        values = np.roll(values, -1, axis=1) * 2 + round + count
        count += 2
    check(kept, (X, np.zeros_like(X)), values.reshape(-1)[:N])


@pd.kernel(workgroup=64, grid=lambda x, y: 1)
def reductions(x: Floats, y: Annotated[pd.View, pd.f32[3]]):
    lane = pd.local_id(0)
    v = x[lane] if lane < x.shape[0] else 0.0
    total = pd.group_sum(v)
    least = pd.group_min(v - total)
    most = pd.group_max(v)
    if lane == 0:
        y[0] = total
        y[1] = least
        y[2] = most


def test_reductions_over_the_workgroup() -> None:
    v = F[:50]
    padded = np.pad(v, (0, 14))
    expected = [v.sum(), padded.min() - v.sum(), padded.max()]
    check(reductions, (v, np.zeros(3, np.float32)), expected, close)


@pd.kernel(workgroup=64)
def atomics(x: Ints, y: Annotated[pd.View, pd.i32[3]]):
    i = pd.global_id(0)
    if i < x.shape[0]:
        pd.atomic_add(y, 0, x[i])
        pd.atomic_max(y, 1, x[i])
        pd.atomic_min(y, -1, x[i])


atomics = pd.kernel(workgroup=64, grid=lambda x, y: pd.cdiv(x.shape[0], 64))(atomics.__wrapped__)


def test_atomics() -> None:
    check(atomics, (X, np.zeros(3, np.int32)), [X.sum(), max(X.max(), 0), min(X.min(), 0)])


def test_text_and_names() -> None:
    text = integers.mlir()
    assert "test_kernel_language.py" in text and "stream.executable" in text and integers.__name__ == "integers"
    assert repr(integers) == "<pydispatch kernel integers(x: i32[n], y: i32[n]), workgroup (64,)>"


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copies(copied: Any) -> None:
    """Copies of a kernel compute the same, before and after its first call."""
    for kernel in (pd.kernel(integers.source.function, workgroup=32), integers):
        expected, y = np.zeros_like(X), np.zeros_like(X)
        integers(X, expected)
        copied([kernel])[0](X, y)
        np.testing.assert_array_equal(y, expected)
        assert copied(kernel).workgroup == kernel.workgroup


def test_direct_calls_run_no_python() -> None:
    """After the first call, arrays in host memory are passed on without a frame of Python."""
    y = np.zeros_like(X)
    integers(X, y)
    expected, frames = y.copy(), list[str]()
    y[:] = 0
    sys.setprofile(lambda frame, event, _: frames.append(frame.f_code.co_name) if event == "call" else None)
    try:
        integers(X, y)
    finally:
        sys.setprofile(None)
    assert frames == []
    np.testing.assert_array_equal(y, expected)
    with pytest.raises(pd.InvalidArgumentError, match=r"kernel 'integers' takes 2 arguments \(x, y\), got 1"):
        integers(X)
    with pytest.raises(pd.InvalidArgumentError, match="float32"):
        integers(F, y)

    @pd.program
    def called_with_a_constant(like: Annotated[np.ndarray, pd.i32["n"]]) -> Any:
        out = np.zeros_like(like)
        integers(X, out)
        return out

    np.testing.assert_array_equal(called_with_a_constant(X), expected)
    with pytest.raises(pd.InvalidArgumentError, match="views: expected numbers from 0 to 1, got 2"):
        pd.kernel(integers.source.function).bind(integers, 1, 2, [2])
