"""Arguments and results of unsigned and complex elements, on every device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pydispatch as pd

WIDTHS = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
COMPLEX = {"f32": np.complex64, "f64": np.complex128}
DEVICES = {"cpu": "cpu", "ptx-interpreter": "cuda", "vulkan:0": "vulkan"}


def twice(given: str, inner: str, op: str, given_sizes: str = "?", inner_sizes: str = "?") -> str:
    """A straight function that doubles, and one that does so when it is told to."""
    outside, inside = f"tensor<{given_sizes}x{given}>", f"tensor<{inner_sizes}x{inner}>"
    into = f"%v = builtin.unrealized_conversion_cast %x : {outside} to {inside}"
    return f"""
func.func @twice(%x: {outside}) -> {outside} {{
  {into}
  %y = arith.{op} %v, %v : {inside}
  %r = builtin.unrealized_conversion_cast %y : {inside} to {outside}
  return %r : {outside}
}}
func.func @maybe(%x: {outside}, %if: i1) -> {outside} {{
  {into}
  %y = scf.if %if -> ({inside}) {{
    %z = arith.{op} %v, %v : {inside}
    scf.yield %z : {inside}
  }} else {{
    scf.yield %v : {inside}
  }}
  %r = builtin.unrealized_conversion_cast %y : {inside} to {outside}
  return %r : {outside}
}}"""


@pytest.fixture(params=DEVICES)
def run(request: pytest.FixtureRequest) -> Any:
    """compiles and loads for a device."""
    device = pd.device(request.param)
    return lambda text: device.load(pd.compile(text, targets=DEVICES[request.param]))


def same(got: Any, expected: np.ndarray[Any, Any]) -> None:
    array = np.asarray(got)
    assert array.dtype == expected.dtype and array.shape == expected.shape
    np.testing.assert_array_equal(array, expected)


def test_unsigned_tensors(run: Any) -> None:
    for bits, dtype in WIDTHS.items():
        program = run(twice(f"ui{bits}", f"i{bits}", "addi"))
        x = np.array([0, 1, 2 ** (bits - 1), 2**bits - 1, 7], dtype)
        same(program.twice(x), x + x)
        same(program.maybe(x, True), x + x)
        same(program.maybe(x, False), x)
        with pytest.raises(
            pd.InvalidArgumentError, match=rf"\?xui{bits} .*got an int{bits} array.*astype\(np.uint{bits}"
        ):
            program.twice(x.view(f"i{bits // 8}"))


def test_complex_tensors(run: Any) -> None:
    for part, dtype in COMPLEX.items():
        program = run(twice(f"complex<{part}>", part, "addf", "?x3", "?x3x2"))
        x = (np.arange(12) - 1j * np.arange(12)[::-1]).reshape(4, 3).astype(dtype)
        same(program.twice(x), x + x)
        same(program.maybe(x, True), x + x)
        same(program.maybe(x, False), x)
        with pytest.raises(pd.InvalidArgumentError, match="got a float32 array"):
            program.twice(x.real.astype(np.float32))


@pytest.mark.parametrize("count", [1, 4, 65, 2000])
@pytest.mark.parametrize("is_splat", [False, True])
def test_constants(count: int, is_splat: bool, run: Any) -> None:
    """Constants of these types, which are stored in kernels where they are small or have equal elements."""
    unsigned = (np.arange(count) % 200 + 50).astype(np.uint8)
    pairs = np.arange(2 * count, dtype=np.float32).view(np.complex64)
    if is_splat:
        unsigned[:], pairs[:] = 250, 1 + 2j
    u, c = (f'"0x{(array[:1] if is_splat else array).tobytes().hex()}"' for array in (unsigned, pairs))
    program = run(f"""
func.func @f(%x: tensor<{count}xi8>, %y: tensor<{count}x2xf32>) -> (tensor<{count}xi8>, tensor<{count}x2xf32>) {{
  %u = arith.constant dense<{u}> : tensor<{count}xui8>
  %c = arith.constant dense<{c}> : tensor<{count}xcomplex<f32>>
  %v = builtin.unrealized_conversion_cast %u : tensor<{count}xui8> to tensor<{count}xi8>
  %d = builtin.unrealized_conversion_cast %c : tensor<{count}xcomplex<f32>> to tensor<{count}x2xf32>
  %r = arith.addi %x, %v : tensor<{count}xi8>
  %s = arith.addf %y, %d : tensor<{count}x2xf32>
  return %r, %s : tensor<{count}xi8>, tensor<{count}x2xf32>
}}""")
    sums, complex_sums = program.f(np.ones(count, np.int8), np.ones((count, 2), np.float32))
    same(sums, (unsigned + 1).astype(np.uint8).view(np.int8))
    same(complex_sums, (pairs + (1 + 1j)).astype(np.complex64).view(np.float32).reshape(count, 2))


def test_unsigned_numbers() -> None:
    program = pd.device("cpu").load(
        pd.compile("""
func.func @f(%x: ui16) -> ui16 {
  %a = builtin.unrealized_conversion_cast %x : ui16 to i16
  %b = arith.addi %a, %a : i16
  %c = builtin.unrealized_conversion_cast %b : i16 to ui16
  return %c : ui16
}""")
    )
    assert program.f(65535) == 65534
    with pytest.raises(pd.InvalidArgumentError, match=r"-1 is outside \[0, 65535\]"):
        program.f(-1)


def test_no_copy_is_made_of_what_is_only_called_otherwise() -> None:
    program = pd.device("cpu").load(pd.compile(twice("complex<f32>", "f32", "addf", "4", "4x2"), targets="cpu"))
    commands = program.twice.plan_of(np.zeros(4, np.complex64))
    assert len(commands) == 1 and "dispatch" in commands[0]


@pytest.mark.parametrize(
    ("given", "inner", "message"),
    [
        ("tensor<4xui32>", "tensor<4xi16>", "are not the same elements"),
        ("tensor<4xui32>", "tensor<?xi32>", "are not the same elements"),
        ("tensor<4xcomplex<f32>>", "tensor<4x2xf64>", "are not the same elements"),
        ("tensor<4xcomplex<f32>>", "tensor<8xf32>", "are not the same elements"),
        ("tensor<4xcomplex<f16>>", "tensor<4x2xf16>", "tensors of complex<f16> are not supported"),
        ("tensor<1xui32>", "i32", "of tensors, one is cast to one"),
        ("ui32", "i16", "of ui32 is not supported in host code"),
        ("complex<f32>", "f64", "argument 0 .'x'. has the type complex<f32>"),
    ],
)
def test_other_casts_are_refused(given: str, inner: str, message: str) -> None:
    text = f"""func.func @f(%x: {given}) -> {inner} {{
  %y = builtin.unrealized_conversion_cast %x : {given} to {inner}
  return %y : {inner}
}}"""
    with pytest.raises(pd.CompileError, match=message):
        pd.compile(text)


def test_kernels_do_not_compute_on_them() -> None:
    text = """func.func @f(%x: tensor<4xui32>) -> tensor<4xui32> {
  %e = tensor.empty() : tensor<4xui32>
  %y = linalg.add ins(%x, %x : tensor<4xui32>, tensor<4xui32>) outs(%e : tensor<4xui32>) -> tensor<4xui32>
  return %y : tensor<4xui32>
}"""
    with pytest.raises(pd.CompileError, match="type ui32 has no machine form"):
        pd.compile(text)
