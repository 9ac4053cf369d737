"""Constants from text: blobs, long lists and splats give the bytes that NumPy gives; what does not fit is an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from work import count_calls

from pydispatch import ir
from pydispatch.errors import CompileError
from pydispatch.ir.core.dense import is_splat

RNG = np.random.default_rng(5)


def constant(literal: str, type: str, resources: str = "") -> Any:
    text = f"func.func @f() {{\n  %0 = arith.constant {literal} : {type}\n  return\n}}\n{resources}"
    (op,) = [op for op in ir.parse(text, "prog.mlir").walk() if op.name == "arith.constant"]
    return op.properties["value"]


def data(value: Any, dtype: Any) -> np.ndarray[Any, Any]:
    return np.frombuffer(value.data.data, dtype)


ELEMENTS = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "i8": np.int8, "i16": np.int16, "i32": np.int32,
            "i64": np.int64, "index": np.int64}  # fmt: skip


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("shape", [(1000,), (10, 97), (3, 1, 211)])
def test_long_list(element: str, shape: tuple[int, ...]) -> None:
    dtype = ELEMENTS[element]
    if element.startswith("f"):
        array = RNG.standard_normal(shape).astype(dtype)
        values: Any = array.astype(np.float64).tolist()
    else:
        width = 8 * np.dtype(dtype).itemsize
        array = RNG.integers(-(1 << (width - 1)), (1 << (width - 1)) - 1, shape, dtype=np.int64).astype(dtype)
        values = array.tolist()
    value = constant(f"dense<{values}>", f"tensor<{'x'.join(map(str, shape))}x{element}>")
    np.testing.assert_array_equal(data(value, dtype).reshape(shape), array)
    assert not is_splat(value)


@pytest.mark.parametrize("element", ["bf16", "f8E4M3FN", "f8E5M2", "i4", "i2", "i1"])
def test_long_lists_of_small_elements(element: str) -> None:
    """As the short ones, which the library reads."""
    values = [1.0, 0.5, -1.0, 0.0] if "f" in element else [1, 0, 1, 0]
    short = constant(f"dense<{values}>", f"tensor<4x{element}>").data.data
    long = constant(f"dense<{values * 300}>", f"tensor<1200x{element}>").data.data
    assert long == short * 300


@pytest.mark.parametrize(("element", "digits", "values"), [
    ("i4", "0F080107", [-1, -8, 1, 7]), ("si4", "FFF80107", [-1, -8, 1, 7]), ("i2", "03020100", [-1, -2, 1, 0]),
])  # fmt: skip
def test_blobs_of_small_integers_equal_lists(element: str, digits: str, values: list[int]) -> None:
    """MLIR prints the bits of a byte above such an integer as 0."""
    expected = constant(f"dense<{values}>", f"tensor<4x{element}>")
    assert constant(f'dense<"0x{digits}">', f"tensor<4x{element}>") == expected
    resource = f'{{-# dialect_resources: {{ builtin: {{ w: "0x01000000{digits}" }} }} #-}}'
    assert constant("dense_resource<w>", f"tensor<4x{element}>", resource) == expected
    splat = constant(f"dense<{values[0]}>", f"tensor<3x{element}>")
    assert constant(f'dense<"0x{digits[:2]}">', f"tensor<3x{element}>") == splat


@pytest.mark.parametrize("count", [1, 2, 1000])
def test_blob(count: int) -> None:
    array = RNG.standard_normal(count).astype(np.float32)
    value = constant(f'dense<"0x{array.tobytes().hex().upper()}">', f"tensor<{count}xf32>")
    np.testing.assert_array_equal(data(value, np.float32), array)
    blob = f'{{-# dialect_resources: {{ builtin: {{ w: "0x04000000{array.tobytes().hex()}" }} }} #-}}'
    value = constant("dense_resource<w>", f"tensor<{count}xf32>", blob)
    np.testing.assert_array_equal(data(value, np.float32), array)


def test_splats() -> None:
    assert data(constant("dense<1.5>", "tensor<3x2xf32>"), np.float32).tolist() == [1.5] * 6
    assert data(constant('dense<"0x0000C03F">', "tensor<3xf32>"), np.float32).tolist() == [1.5] * 3
    assert data(constant("dense<0x7FC00000>", "tensor<3xf32>"), np.uint32).tolist() == [0x7FC00000] * 3
    assert data(constant("dense<-1>", "tensor<2xi8>"), np.int8).tolist() == [-1, -1]
    assert (
        constant("dense<true>", "tensor<2xi1>").get_values()
        == constant("dense<[true, true]>", "tensor<2xi1>").get_values()
    )
    assert is_splat(constant("dense<2>", "tensor<3xi32>")) and is_splat(constant("dense<[2, 2]>", "tensor<2xi32>"))
    assert not is_splat(constant("dense<[2, 3]>", "tensor<2xi32>"))
    assert constant("dense<>", "tensor<0xi32>").data.data == b""


LONG = ", ".join("1" for _ in range(1000))
WRONG = {
    "too few": (f"dense<[{LONG}]>", "tensor<999xi32>", "Shape mismatch"),
    "nesting": (f"dense<[[{LONG}], [{LONG}]]>", "tensor<2000xi32>", "Shape mismatch"),
    "range": (f"dense<[{LONG}, 300]>", "tensor<1001xi8>", "out of range"),
    "float for an integer": (f"dense<[{LONG}, 1.5]>", "tensor<1001xi32>", "xpected integer"),
    "blob size": ('dense<"0x00000000FF">', "tensor<2xf32>", "5 bytes are given, but tensor<2xf32> has 8"),
    "blob digits": ('dense<"0x0000000G">', "tensor<1xf32>", "pairs of hexadecimal digits"),
    "half a byte": ('dense<"0x000">', "tensor<1xi8>", "pairs of hexadecimal digits"),
    "spaces": ('dense<"0x00 00 00 00">', "tensor<1xf32>", "pairs of hexadecimal digits"),
    "minus before bits": ("dense<-0x3C00>", "tensor<1xf16>", "takes no minus"),
    "minus before bits of zero": ("dense<[1.0, -0x0]>", "tensor<2xf16>", "takes no minus"),
    "minus before bits of a number": ("-0x3C00", "f16", "takes no minus"),
    "open": ('dense<"0x00', "tensor<1xi8>", "not closed"),
    "dynamic": ('dense<"0x00">', "tensor<?xi8>", "the shape of a constant is static"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong(name: str) -> None:
    literal, type, message = WRONG[name]
    with pytest.raises(CompileError) as caught:
        constant(literal, type)
    assert message.lower() in str(caught.value).lower()
    assert caught.value.location is not None and caught.value.location.line == 2
    assert len(caught.value.location.text) < 3000


def test_large_constants_are_quick() -> None:
    """As a blob and as a list: no call in Python is made for each element."""

    def as_blob(size: int) -> int:
        array = RNG.standard_normal(size).astype(np.float32)
        text, type = f'dense<"0x{array.tobytes().hex()}">', f"tensor<{size}xf32>"
        np.testing.assert_array_equal(data(constant(text, type), np.float32), array)
        return count_calls(lambda: constant(text, type))

    def as_list(size: int) -> int:
        text, type = f"dense<{list(range(size))}>", f"tensor<{size}xi32>"
        return count_calls(lambda: constant(text, type))

    for calls in (as_blob, as_list):
        few, many = calls(1_000), calls(1_000_000)
        assert 0 < many < few + 500
