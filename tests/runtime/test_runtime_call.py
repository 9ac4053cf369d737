"""Calls against NumPy, and everything a call refuses."""

from __future__ import annotations

import array
import sys

import numpy as np
import programs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pydispatch as pd
from pydispatch.formats.program.program import Numerical, dtype_word
from pydispatch.runtime.program.program import Program

A = np.arange(8, dtype=np.float32)
B = np.full(8, 3, np.float32)


def chain(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a * b) * b + a


def test_result_is_fresh_and_aligned(program: Program) -> None:
    first, second = program.chain(A, B), program.chain(A, B)
    np.testing.assert_array_equal(first, chain(A, B))
    assert first.dtype == np.float32 and first.flags.c_contiguous and first.flags.writeable and first.flags.aligned
    assert first.ctypes.data % 64 == 0 and not np.shares_memory(first, second)
    assert not np.shares_memory(first, A)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 300), min_size=1, max_size=8), st.integers(0, 2**31))
def test_any_size_any_placement(strict: Program, sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    kept = []
    for n in sizes:
        shift = int(rng.integers(0, 16))
        a = rng.random(n + shift, np.float32)[shift:]  # any alignment of 4
        b = rng.random(n, np.float32)
        kept.append((strict.chain(a, b), chain(a, b)))
    for got, want in kept:  # later calls have not touched earlier results
        np.testing.assert_array_equal(got, want)


def test_many_shapes_stay_right(program: Program) -> None:
    for n in [*range(200), *range(0, 200, 7)]:  # more shapes than the cache has plans
        a = np.arange(n, dtype=np.float32)
        np.testing.assert_array_equal(program.mul(a, a), a * a)


def test_results_in_every_form(program: Program) -> None:
    product, total = program.both(A, B)
    np.testing.assert_array_equal(product, A * B)
    np.testing.assert_array_equal(total, A + B)
    assert program.nothing() is None
    for n, value in [(5, 1.5), (5, 2.5), (0, 1.0), (3, 9.0)]:  # same size, another value: same plan, other content
        filled, following = program.filled(n, value)
        np.testing.assert_array_equal(filled, np.full(n, value, np.float32))
        assert following == n + 1 and type(following) is int


class Interface:
    def __init__(self, x: np.ndarray) -> None:
        self.__array_interface__ = x.__array_interface__
        self.owner = x


class Capsule:
    """What is left of an array when only DLPack is."""

    def __init__(self, x: np.ndarray, versioned: bool, device: int = 1) -> None:
        self.x, self.versioned, self.device = x, versioned, device

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.device, 0)

    def __dlpack__(self, **options: object) -> object:
        if options and not self.versioned:
            raise TypeError("no such argument")
        return self.x.__dlpack__(**options)


class NullPointer:
    __array_interface__ = {"shape": (8,), "typestr": "<f4", "version": 3, "data": (0, False)}


class NoCapsule:
    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **options: object) -> object:
        return 3


@pytest.mark.parametrize(
    "wrap",
    [
        lambda x: memoryview(x),
        lambda x: array.array("f", x),
        Interface,
        lambda x: Capsule(x, True),
        lambda x: Capsule(x, False),
        lambda x: x.view(type("Sub", (np.ndarray,), {})),
    ],
)
def test_foreign_arrays(program: Program, wrap: object) -> None:
    foreign = wrap(A.copy())
    references = sys.getrefcount(foreign)
    np.testing.assert_array_equal(program.mul(foreign, B), A * B)
    np.testing.assert_array_equal(program.mul(B, foreign), A * B)
    assert sys.getrefcount(foreign) == references


def test_read_only_inputs(program: Program) -> None:
    a = A.copy()
    a.flags.writeable = False
    np.testing.assert_array_equal(program.mul(a, a), A * A)
    np.testing.assert_array_equal(program.mul(Capsule(a, True), a), A * A)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((A,), r"@mul: expected 2 arguments, got 1: mul\(a: \?xf32, b: \?xf32\)"),
        ((A, B, A), "expected 2 arguments, got 3"),
        ((A, B.astype(np.float64)), r"argument 1 'b': expected \?xf32 .*got a float64 .*x\.astype\(np\.float32\)"),
        ((A.astype(">f4"), B), r"argument 0 'a': .*in the other byte order; pass x\.astype"),
        ((A.reshape(2, 4), B), r"argument 0 'a': .*got rank 2, shape \(2, 4\); pass x\.reshape\(-1\)"),
        ((np.float32(3), B), "argument 0 'a': .*np.asarray"),
        (([1.0, 2.0], B), r"got list \[1\.0, 2\.0\]; pass an array: np\.asarray\(x, dtype=np\.float32\)"),
        ((None, B), "got NoneType None"),
        ((b"12345678", B), r"got bytes .*; pass np\.frombuffer\(x, dtype=np\.float32\)"),
        ((A.astype(np.complex128), B), r"got a complex128 array .*; pass x\.real\.astype\(np\.float32\)"),
        ((Capsule(A, True, device=2), B), r"its memory is on DLPack device type 2; expected the CPU"),
        ((np.ma.masked_array(A), B), r"its mask would be lost; pass x\.filled\(value\)"),
        ((A, NullPointer()), "whose memory cannot be used: data is NULL"),
        ((A, NoCapsule()), "whose memory cannot be used: __dlpack__ returned no fresh DLPack capsule"),
        ((A, np.zeros(8, object)), r"got an object array of shape \(8,\)"),
        ((A, B[:7]), r"sizes of 'a' and 'b' differ: 8 and 7"),
    ],
)
def test_refused(program: Program, args: tuple[object, ...], message: str) -> None:
    with pytest.raises(pd.InvalidArgumentError, match=message) as caught:
        program.mul(*args)
    assert isinstance(caught.value, ValueError)
    np.testing.assert_array_equal(program.mul(A, B), A * B)  # a refused call changes nothing


def test_static_sizes_and_keywords(program: Program) -> None:
    np.testing.assert_array_equal(program.fixed(A, B), A * B)
    with pytest.raises(pd.InvalidArgumentError, match=r"@fixed: argument 0 'a': axis 0: expected 8 elements, got 7"):
        program.fixed(A[:7].copy(), B[:7].copy())
    with pytest.raises(pd.InvalidArgumentError, match="unexpected keyword argument 'c'"):
        program.mul(A, c=B)


def test_out(program: Program) -> None:
    out = np.zeros(8, np.float32)
    assert program.chain(A, B, out=out) is out
    np.testing.assert_array_equal(out, chain(A, B))
    assert program.chain(A, B, out=None) is not out
    product, total = np.zeros(8, np.float32), np.zeros(8, np.float32)
    got = program.both(A, B, out=(product, None))
    assert got[0] is product and got[1] is not total
    np.testing.assert_array_equal(got[1], A + B)


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (np.ma.masked_array(A), r"its mask would be lost; pass x\.data"),
        (A.astype(">f4"), r"got a float32 array of shape \(8,\), in the other byte order; pass np\.empty"),
    ],
)
def test_refused_out(program: Program, out: object, message: str) -> None:
    with pytest.raises(pd.InvalidArgumentError, match=f"out 0: .*{message}"):
        program.mul(A, B, out=out)


@pytest.mark.parametrize("shift", [0, 1, 3])
def test_out_overlapping_inputs(program: Program, strict: Program, shift: int) -> None:
    for p in (program, strict):
        memory = np.arange(16, dtype=np.float32)
        a, out = memory[:8], memory[shift : shift + 8]
        want = chain(a.copy(), B)
        p.chain(a, B, out=out)
        np.testing.assert_array_equal(out, want)


def test_out_of_two_results_that_share_memory_is_refused(program: Program) -> None:
    pair = np.arange(16, dtype=np.float32)
    message = r"@both: out 0 and out 1 share memory, but results 0 and 1 are different arrays; pass separate"
    for out in ((pair[:8], pair[:8]), (pair[:8], pair[4:12]), (pair[4:12], pair[:8])):
        for call in (program.both, program.both.prepare, program.both.submit):
            with pytest.raises(pd.InvalidArgumentError, match=message):
                call(A, B, out=out)
    np.testing.assert_array_equal(pair, np.arange(16))
    program.both(A, B, out=(pair[8:], pair[:8]))  # neighbours
    np.testing.assert_array_equal(pair, [*(A + B), *(A * B)])
    nothing = A[:0]
    program.both(nothing, nothing, out=(pair[3:3], pair[3:3]))


def test_misaligned(strict: Program) -> None:
    raw = np.zeros(8 * 4 + 65, np.uint8)
    for offset in (1, 2, 4, 17, 64):
        out = raw[offset : offset + 32].view(np.float32)
        assert strict.chain(out.copy(), B, out=out) is out
        a = raw[offset : offset + 32].view(np.float32)
        a[:] = A
        np.testing.assert_array_equal(strict.chain(a, B), chain(A, B))


def frozen() -> np.ndarray:
    x = np.zeros(8, np.float32)
    x.flags.writeable = False
    return x


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (frozen(), "out 0: .*got a read-only array"),
        (
            np.zeros(7, np.float32),
            r"out 0: expected 8xf32 .*got a float32 array of shape \(7,\); pass np\.empty\(\(8,\)",
        ),
        (np.zeros(8, np.float64), "got a float64 array"),
        (np.zeros(8, np.int32), "got an int32 array"),
        (np.zeros(16, np.float32)[::2], "not contiguous"),
        ([0.0] * 8, "got list"),
        ((np.zeros(8, np.float32),) * 2, "out: expected 1 arrays, got 2"),
    ],
)
def test_out_refused(program: Program, out: object, message: str) -> None:
    with pytest.raises(pd.InvalidArgumentError, match=message):
        program.mul(A, B, out=out)
    with pytest.raises(pd.InvalidArgumentError, match="out: expected a tuple of 2 arrays"):
        program.both(A, B, out=np.zeros(8, np.float32))
    with pytest.raises(pd.InvalidArgumentError, match="result 1 is a number; expected None"):
        program.filled(8, 1.0, out=(None, np.zeros(8, np.float32)))


def integer(kind: Numerical, bits: int) -> int:
    return dtype_word(kind, bits)


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_integer_scalars(bits: int) -> None:
    builder = programs.Builder()
    kinds = [Numerical.INTEGER, Numerical.SIGNED, Numerical.UNSIGNED]
    programs.scalars(builder, "f", [integer(kind, bits) for kind in kinds])
    f = pd.device("local-sync").load(builder.artifact())["f"]
    low, high, top = -(1 << bits - 1), (1 << bits - 1) - 1, (1 << bits) - 1
    assert f(low, low, 0) == (low, low, 0)
    assert f(high, high, top) == (high, high, top)
    assert f(top, -1, 1) == (-1, -1, 1)  # a signless type takes both readings
    assert f(np.int8(-3), np.uint8(3), np.int64(7)) == (-3, 3, 7)
    assert all(type(x) is int for x in f(True, 1, 1))
    for bad in [(top + 1, 0, 0), (low - 1, 0, 0), (0, high + 1, 0), (0, 0, -1), (0, 0, top + 1)]:
        with pytest.raises(pd.InvalidArgumentError, match=r"is outside \["):
            f(*bad)
    for bad in [1.0, "1", None, np.zeros(2, int)]:
        with pytest.raises(pd.InvalidArgumentError, match=r"argument 0 's0': expected i\d+ \(a number\), got"):
            f(bad, 0, 0)


def test_float_and_bool_scalars() -> None:
    builder = programs.Builder()
    words = [dtype_word(Numerical.FLOAT, bits) for bits in (16, 32, 64)] + [dtype_word(Numerical.BOOLEAN, 8)]
    programs.scalars(builder, "f", words)
    f = pd.device("local-sync").load(builder.artifact())["f"]
    for x in [0.0, -1.5, 0.1, 1e-7, 3.4e38, float("inf"), 7]:
        if abs(x) > 65504 and x != float("inf"):
            with pytest.raises(pd.InvalidArgumentError, match="outside the range of f16"):
                f(x, x, x, True)
            continue
        assert f(x, x, x, True) == (float(np.float16(x)), float(np.float32(x)), float(x), True)
    assert np.isnan(f(float("nan"), 0, 0, 0)[0]) and f(0, 0, 0, np.False_)[3] is False
    with pytest.raises(pd.InvalidArgumentError, match="outside the range of f32"):
        f(0, 1e39, 0, True)
    with pytest.raises(pd.InvalidArgumentError, match="2 is neither 0 nor 1"):
        f(0, 0, 0, 2)
    with pytest.raises(pd.InvalidArgumentError, match="got str '1'"):
        f(0, "1", 0, True)


FACES = {
    "i8": (Numerical.INTEGER, 8, np.int8),
    "si16": (Numerical.SIGNED, 16, np.int16),
    "ui32": (Numerical.UNSIGNED, 32, np.uint32),
    "i64": (Numerical.INTEGER, 64, np.int64),
    "i1": (Numerical.BOOLEAN, 8, np.bool_),
    "f16": (Numerical.FLOAT, 16, np.float16),
    "f64": (Numerical.FLOAT, 64, np.float64),
    "complex<f32>": (Numerical.COMPLEX, 64, np.complex64),
}


@pytest.mark.parametrize("name", FACES)
def test_element_types(name: str) -> None:
    kind, bits, dtype = FACES[name]
    builder = programs.Builder()
    programs.identity(builder, "f", dtype_word(kind, bits), rank=2)
    f = pd.device("local-sync").load(builder.artifact())["f"]
    x = (np.arange(6).reshape(2, 3) % 2).astype(dtype)
    got = f(x)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, x)
    with pytest.raises(pd.InvalidArgumentError, match=f"expected \\?x\\?x{name}"):
        f(np.zeros((2, 3), "S3"))


@pytest.mark.parametrize(
    ("kind", "bits", "name"),
    [
        (Numerical.BFLOAT, 16, "bfloat16"),
        (Numerical.F8E4M3FN, 8, "float8_e4m3fn"),
        (Numerical.F8E5M2, 8, "float8_e5m2"),
    ],
)
def test_extended_element_types(kind: Numerical, bits: int, name: str) -> None:
    try:
        import ml_dtypes

        dtype = np.dtype(getattr(ml_dtypes, name))
    except ImportError:
        dtype = np.dtype(f"uint{bits}")
    builder = programs.Builder()
    programs.identity(builder, "f", dtype_word(kind, bits))
    f = pd.device("local-sync").load(builder.artifact())["f"]
    x = np.arange(5).astype(dtype)
    got = f(x)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got.view(f"u{bits // 8}"), x.view(f"u{bits // 8}"))


def test_rank_zero_and_empty() -> None:
    builder = programs.Builder()
    programs.identity(builder, "scalar", programs.F32, rank=0)
    programs.identity(builder, "cube", programs.F32, rank=3)
    program = pd.device("local-sync").load(builder.artifact())
    got = program.scalar(np.array(2.5, np.float32))
    assert got.shape == () and got == 2.5
    for shape in [(0, 3, 4), (2, 0, 1), (1, 1, 1)]:
        assert program.cube(np.ones(shape, np.float32)).shape == shape


def test_absurd_sizes(program: Program) -> None:
    for n, kind, message in [
        (1 << 50, pd.OutOfMemoryError, f"{4 << 50} bytes"),
        (1 << 62, pd.InvalidArgumentError, "does not fit into 64 bits"),
        (-1, pd.InvalidArgumentError, "-4 bytes"),
    ]:
        with pytest.raises(kind, match=message):
            program.filled(n, 1.0)


def test_many_arguments() -> None:
    """More than the call path keeps on its stack."""
    builder = programs.Builder()
    f = builder.function("f")
    for i in range(40):
        f.add_argument(programs.FunctionArgument(programs.F32, (-1, -1), f"x{i}"))
        f.add_argument(programs.FunctionArgument(programs.I32, None, f"s{i}"))
    for i in range(0, 80, 2):
        dims = tuple(f.emit(programs.Opcode.DIM, i, axis) for axis in range(2))
        size = f.multiply([*dims, f.constant(4)])
        buffer = f.add_result_buffer(len(f.results), size)
        f.results.append(programs.Result(programs.F32, dims, buffer=buffer))
        f.copy(f.arguments[i].buffer, programs.NONE, buffer, programs.NONE, size)
        f.results.append(programs.Result(programs.I32, None, register=f.emit(programs.Opcode.SCALAR, i + 1)))
    call = pd.device("local-sync").load(builder.artifact())["f"]
    args = [x for i in range(40) for x in (np.full((i % 3, 5), i, np.float32), i)]
    for _ in range(3):
        for got, want in zip(call(*args), args, strict=True):
            np.testing.assert_array_equal(got, want)
    prepared = call.prepare(*args)
    for got, want in zip(prepared(*args), args, strict=True):
        np.testing.assert_array_equal(got, want)


def test_kernel_error(program: Program) -> None:
    with pytest.raises(pd.KernelError, match="77") as caught:
        program.fail(A)
    error = caught.value
    assert (error.executable, error.export, error.workgroup, error.code) == ("lib", "fail", (2, 0, 0), 77)
    np.testing.assert_array_equal(program.mul(A, B), A * B)


def test_names(program: Program) -> None:
    assert set(program.functions) == {*["mul", "add", "chain", "fixed", "both", "filled", "nothing", "slow", "fail"]}
    assert program["mul"] is program.mul and "mul" in program and "mul" in dir(program)
    assert list(program) == list(program.functions) and "mul" in list(program)
    assert program.mul.signature == "(tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>"
    with pytest.raises(AttributeError, match="no function 'chian'; did you mean 'chain'"):
        _ = program.chian
    with pytest.raises(pd.InvalidArgumentError, match="no function 'x'"):
        program["x"]


def test_function_named_like_a_method() -> None:
    builder = programs.Builder()
    programs.scalars(builder, "close", [programs.I32])
    program = pd.device("local-sync").load(builder.artifact())
    assert program["close"](3) == 3
    program.close()
    with pytest.raises(pd.Error, match="was closed"):
        program["close"](3)


def test_references(program: Program) -> None:
    a, b, out = A.copy(), B.copy(), np.zeros(8, np.float32)
    counts = [sys.getrefcount(x) for x in (a, b, out, np.float32, program.mul)]
    for _ in range(100):
        program.mul(a, b)
        program.mul(a, b, out=out)
        program.mul(memoryview(a), b)
        with pytest.raises(pd.InvalidArgumentError):
            program.mul(a, 3)
    assert counts == [sys.getrefcount(x) for x in (a, b, out, np.float32, program.mul)]
