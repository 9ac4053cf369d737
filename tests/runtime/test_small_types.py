"""Arrays of elements of less than 16 bits through whole programs: bytes in NumPy, packed inside."""

from __future__ import annotations

import numpy as np
import pytest
from pydispatch._core.arrays import pack_elements, type_of, unpack_elements

import pydispatch as pd
from pydispatch.cli.results import format_array
from pydispatch.cli.values import Reader
from pydispatch.formats.artifact.artifact import Artifact
from pydispatch.formats.program.opcodes import Numerical, buffer_bytes, dtype_name, dtype_word
from pydispatch.formats.program.program import FunctionArgument, Program

ml_dtypes = pytest.importorskip("ml_dtypes")
rng = np.random.default_rng(0)
DTYPES = {"i4": "int4", "i2": "int2", "f4E2M1FN": "float4_e2m1fn", "bf16": "bfloat16", "f8E4M3FN": "float8_e4m3fn",
          "f8E5M2": "float8_e5m2"}  # fmt: skip
PACKED = [(Numerical.INTEGER, 4), (Numerical.INTEGER, 2), (Numerical.UNSIGNED, 4), (Numerical.UNSIGNED, 2),
          (Numerical.F4E2M1FN, 4)]  # fmt: skip


def dtype_of(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, DTYPES[name]))


@pytest.mark.parametrize(("numerical", "bits"), PACKED)
@pytest.mark.parametrize("count", [0, 1, 2, 3, 5, 8, 33])
def test_packing(numerical: Numerical, bits: int, count: int) -> None:
    kind = type_of(dtype_word(numerical, bits))
    assert kind.packed and dtype_name(kind.word) == kind.name
    codes = rng.integers(0, 1 << bits, count)
    data = bytearray(-(-count * bits // 8))
    for i, code in enumerate(codes):
        data[i * bits // 8] |= int(code) << (i * bits % 8)
    signed = numerical == Numerical.INTEGER
    numbers = np.where((codes >> (bits - 1) == 1) & signed, codes - (1 << bits), codes).astype(np.int8).view(kind.dtype)
    assert pack_elements(kind, numbers) == bytes(data)
    assert kind.nbytes(count) == buffer_bytes(count, kind.word) == len(data)
    back = unpack_elements(kind, bytes(data), (count,))
    assert back.dtype == kind.dtype
    np.testing.assert_array_equal(back.view(np.uint8), numbers.view(np.uint8))


def test_packing_refuses() -> None:
    kind = type_of(dtype_word(Numerical.INTEGER, 4))
    with pytest.raises(ValueError, match="1 bytes do not hold 3 elements of i4"):
        unpack_elements(kind, b"\0", (3,))
    with pytest.raises(ValueError, match="expected a contiguous array of i4, got int8"):
        pack_elements(kind, np.zeros(2, np.int8))


@pytest.mark.parametrize("word", [0x10000001, 0x11000001, 0x12000001, 0x13000001, 0x13000004, 0x13000010, 0x13000020])
def test_types_of_another_size_in_buffers_are_refused(word: int) -> None:
    """The C core gives each element of these types other bytes than an array of NumPy has."""
    with pytest.raises(ValueError, match=f"element type 0x{word:08x} has no NumPy counterpart"):
        type_of(word)
    program = Program()
    f = program.add_function("f")
    f.add_argument(FunctionArgument(word, (-1,), "x"))
    with pytest.raises(pd.ArtifactError, match=f"@f: argument 0: element type 0x{word:08x} has no NumPy counterpart"):
        pd.device("cpu").load(Artifact.build([("f", "()")], program.encode())).f  # noqa: B018


@pytest.fixture(scope="module")
def double() -> pd.Program:
    """@NAME: x + x."""
    functions = [
        f"func.func @{name}(%a: tensor<?x5x{name}>) -> tensor<?x5x{name}> {{\n"
        f"%b = arith.{'addi' if name[0] == 'i' else 'addf'} %a, %a : tensor<?x5x{name}>\n"
        f"return %b : tensor<?x5x{name}>\n}}"
        for name in DTYPES
    ]
    return pd.device("cpu").load(pd.compile("\n".join(functions)))


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("rows", [0, 1, 3, 64])
def test_programs(double: pd.Program, name: str, rows: int) -> None:
    x = rng.integers(-2, 2, (rows, 5)).astype(np.float32).astype(dtype_of(name))
    function = double[name]
    wanted = x.astype(np.float32) * 2
    if name[0] == "i":
        wanted = (wanted + (1 << int(name[1]) >> 1)) % (1 << int(name[1])) - (1 << int(name[1]) >> 1)
    y = function(x)
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y.astype(np.float32), wanted)
    out = np.ones_like(x)
    assert function(x, out=out) is out
    np.testing.assert_array_equal(out.astype(np.float32), wanted)
    call = function.prepare(x)
    np.testing.assert_array_equal(call().astype(np.float32), wanted)
    np.testing.assert_array_equal(call(np.zeros_like(x)).astype(np.float32), 0 * wanted)


AGAIN = """
func.func @straight(%a: tensor<?x5xi4>, %b: tensor<?x5xf4E2M1FN>) -> tensor<?x5xi4> {
  %r = arith.addi %a, %a : tensor<?x5xi4>
  return %r : tensor<?x5xi4>
}
util.global private mutable @runs = 0 : i32
func.func @stateful(%a: tensor<?x5xi4>, %b: tensor<?x5xf4E2M1FN>) -> (tensor<?x5xi4>, i32) {
  %old = util.global.load @runs : i32
  %one = arith.constant 1 : i32
  %new = arith.addi %old, %one : i32
  util.global.store %new, @runs : i32
  %r = arith.addi %a, %a : tensor<?x5xi4>
  return %r, %new : tensor<?x5xi4>, i32
}
"""


@pytest.mark.parametrize(("device", "target"), [("cpu", "cpu"), ("ptx-interpreter", "cuda")])
def test_prepared_calls_read_packed_arguments_again(device: str, target: str) -> None:
    program = pd.device(device).load(pd.compile(AGAIN, targets=target))
    f4 = np.zeros((3, 5), dtype_of("f4E2M1FN"))
    for function, calls in (program.straight, "prepared"), (program.stateful, "prepared"), (program.straight, "out"):
        x, out = np.full((3, 5), 1, dtype_of("i4")), np.zeros((3, 5), dtype_of("i4"))
        call = function.prepare(x, f4, out=out) if calls == "out" else function.prepare(x, f4)
        for value in (1, 3, -2):
            x[...] = value
            result = call()
            tensor = result[0] if isinstance(result, tuple) else result
            np.testing.assert_array_equal(np.asarray(tensor).astype(int), np.full((3, 5), 2 * value))
        with pytest.raises(pd.InvalidArgumentError, match="argument 0"):
            call(x.astype(np.int8), f4)
        result = call()  # what was bound stays bound
        tensor = result[0] if isinstance(result, tuple) else result
        np.testing.assert_array_equal(np.asarray(tensor).astype(int), np.full((3, 5), -4))


def test_rebound_packed_arguments_are_read_again(double: pd.Program) -> None:
    x, y = np.full((1, 5), 1, dtype_of("i4")), np.full((1, 5), 2, dtype_of("i4"))
    call = double["i4"].prepare(x)
    np.testing.assert_array_equal(call(y).astype(int), np.full((1, 5), 4))
    y[...] = 3
    np.testing.assert_array_equal(call().astype(int), np.full((1, 5), 6))


def test_in_place(double: pd.Program) -> None:
    x = np.array([[1, -2, 3, -4, 0]], dtype_of("i4"))
    assert double["i4"](x, out=x) is x
    np.testing.assert_array_equal(x.astype(int), [[2, -4, 6, -8, 0]])


def test_another_type_is_refused(double: pd.Program) -> None:
    with pytest.raises(pd.InvalidArgumentError, match=r"expected \?x5xi4 \(ml_dtypes.int4 array of rank 2\).*astype"):
        double["i4"](np.zeros((2, 5), np.int8))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("4xi4=1 -8 7 15", "4xi4=1 -8 7 -1"),
        ("3xui4=15", "3xui4=15 15 15"),
        ("4xi2=1 -2 3 0", "4xi2=1 -2 -1 0"),
        ("4xf8E4M3FN=1 -0.3 448 1000", "4xf8E4M3FN=1 -0.3125 448 NAN"),
        ("3xf4E2M1FN=0.5 -6 1.75", "3xf4E2M1FN=0.5 -6 2"),
        ("2xbf16=1.5 -3", "2xbf16=1.5 -3"),
        # Above and below 257, the tie of 256 and 258, by less than an f32 distinguishes.
        ("4xbf16=257.000001 256.999999 1e39 -inf", "4xbf16=258 256 INF -INF"),
    ],
)
def test_command_line_values(text: str, shown: str) -> None:
    (value,) = Reader().read(text, None)
    head = text.partition("=")[0].split("x", 1)[1]
    numerical = {"i": Numerical.INTEGER, "u": Numerical.UNSIGNED, "b": Numerical.BFLOAT}.get(head[0])
    if numerical is None:
        numerical = Numerical[head.upper()]
    bits = int("".join(c for c in head[1:3] if c.isdigit())) if head != "bf16" else 16
    assert format_array(value, type_of(dtype_word(numerical, bits))) == shown


@pytest.mark.parametrize("text", ["2xi4=16 0", "2xi4=-9 0", "2xui4=-1 0"])
def test_command_line_range(text: str) -> None:
    with pytest.raises(pd.InvalidArgumentError, match="does not fit"):
        Reader().read(text, None)
