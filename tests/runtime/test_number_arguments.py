"""Python and NumPy numbers as arguments of rank 0, on every device and in every kind of call."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydispatch._core.arrays import type_of
from pydispatch._core.scalars import array_of_number

import pydispatch as pd
from pydispatch.formats.artifact.artifact import Artifact
from pydispatch.formats.program.program import NONE, FunctionArgument, Numerical, Opcode, Program, Result, dtype_word

DEVICES = ("cpu", "vulkan:0", "webgpu:0", "ptx-interpreter")
WORDS = {
    "i1": dtype_word(Numerical.BOOLEAN, 8), "i8": dtype_word(Numerical.INTEGER, 8),
    "ui8": dtype_word(Numerical.UNSIGNED, 8), "i32": dtype_word(Numerical.INTEGER, 32),
    "i64": dtype_word(Numerical.INTEGER, 64), "ui64": dtype_word(Numerical.UNSIGNED, 64),
    "f16": dtype_word(Numerical.FLOAT, 16), "f32": dtype_word(Numerical.FLOAT, 32),
    "f64": dtype_word(Numerical.FLOAT, 64), "bf16": dtype_word(Numerical.BFLOAT, 16),
    "c64": dtype_word(Numerical.COMPLEX, 64), "i4": dtype_word(Numerical.INTEGER, 4),
    "f8": dtype_word(Numerical.F8E4M3FN, 8),
}  # fmt: skip
PROCEDURE = """
util.global private mutable @total = dense<0> : tensor<i32>
func.func @add(%x: tensor<i32>) -> tensor<i32> {
  %old = util.global.load @total : tensor<i32>
  %new = arith.addi %old, %x : tensor<i32>
  util.global.store %new, @total : tensor<i32>
  return %new : tensor<i32>
}
"""


@pytest.fixture(scope="module")
def identities() -> Artifact:
    """Load a program with a function for each element type, which returns its argument of rank 0."""
    program = Program()
    for name, word in WORDS.items():
        f = program.add_function(name)
        f.add_argument(FunctionArgument(word, (), "x"))
        size = f.constant(max((word & 0xFFFFFF) // 8, 1))
        result = f.add_result_buffer(0, size)
        f.results.append(Result(word, (), buffer=result))
        f.copy(f.arguments[0].buffer, NONE, result, NONE, size)
    f = program.add_function("rows")
    f.add_argument(FunctionArgument(WORDS["f32"], (-1,), "x"))
    f.add_argument(FunctionArgument(WORDS["i32"], (), "n"))
    count = f.emit(Opcode.DIM, 0, 0)
    size = f.multiply([count, f.constant(4)])
    result = f.add_result_buffer(0, size)
    f.results.append(Result(WORDS["f32"], (count,), buffer=result))
    f.copy(f.arguments[0].buffer, NONE, result, NONE, size)
    return Artifact.build([(f.name, "()") for f in program.functions], program.encode())


@pytest.fixture(scope="module")
def cpu(identities: Artifact) -> Any:
    return pd.device("cpu").load(identities)


CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "call": lambda f, x: f(x),
    "out": lambda f, x: f(x, out=np.empty((), f.inputs[0].dtype)),
    "by name": lambda f, x: f(x=x),
    "prepare": lambda f, x: f.prepare(x)(),
    "prepare, fresh": lambda f, x: f.prepare(x, fresh=True)(),
    "prepared with another": lambda f, x: f.prepare(1)(x),
    "submit": lambda f, x: f.submit(x).result(),
    "map": lambda f, x: next(iter(f.map([x]))),
}


@pytest.mark.parametrize("device", DEVICES)
def test_every_call_on_every_device(device: str, identities: Artifact) -> None:
    program = pd.device(device).load(identities)
    for name, call in CALLS.items():
        for value in (5, np.int32(5), np.int8(5)):
            assert np.asarray(call(program["i32"], value)) == 5, name
        assert np.asarray(call(program["f32"], 2)) == 2, name
        assert np.asarray(call(program["f32"], np.float64(0.1))) == np.float32(0.1), name
        for wrong in (1.5, 2**31, np.int64(2**31), "5", None):
            with pytest.raises(pd.InvalidArgumentError, match=r"argument 0 'x': expected i32 \("):
                call(program["i32"], wrong)
    assert [np.asarray(x) for x in program["i32"].map([1, np.int32(2)])] == [1, 2]


def test_submit_many_and_batched(cpu: Any) -> None:
    assert [int(x) for x in cpu["i32"].submit_many([3, np.int16(4)]).result()] == [3, 4]
    x = np.arange(3, dtype=np.float32)
    with cpu.rows.batched(max_batch=4, constants={"n": 7}) as batched:
        np.testing.assert_array_equal(batched(x), x)
    with (
        pytest.raises(pd.InvalidArgumentError, match=r"argument 1 'n': expected i32 .* got float 1.5"),
        cpu.rows.batched(max_batch=4, constants={"n": 1.5}) as batched,
    ):
        batched(x)


@pytest.mark.parametrize("device", ["cpu", "vulkan:0"])
def test_procedures(device: str) -> None:
    targets = {"cpu": "cpu", "vulkan:0": "vulkan"}
    add = pd.device(device).load(pd.compile(PROCEDURE, targets=targets[device])).add
    assert np.asarray(add(5)) == 5
    assert np.asarray(add(np.int64(2))) == 7
    assert np.asarray(add.prepare(3)()) == 10
    assert np.asarray(add.submit(np.uint8(1)).result()) == 11
    with pytest.raises(pd.InvalidArgumentError, match=r"expected i32 .*, got float 1.5: a number of kind float"):
        add(1.5)
    assert np.asarray(add(0)) == 11, "a refused call changes nothing"


@pytest.mark.parametrize(
    ("function", "value", "message"),
    [
        ("i32", 1.5, "expected i32 (a number, or a np.int32 array of rank 0), got float 1.5: a number of kind "
         "float is not converted to i32; pass int(x)"),
        ("i8", 300, "got int 300: outside [-128, 127]"),
        ("i8", np.int64(-129), "got numpy.int64 np.int64(-129): outside [-128, 127]"),
        ("ui8", -1, "got int -1: outside [0, 255]"),
        ("i1", 1, "got int 1: a number of kind integer is not converted to i1"),
        ("i4", 8, "got int 8: outside [-8, 7]"),
        ("f16", 70000, "got int 70000: outside the range of f16"),
        ("f16", 70000.0, "got float 70000.0: outside the range of f16"),
        ("f32", 10**400, ": outside the range of f32"),
        ("f32", 1j, "got complex 1j: a number of kind complex is not converted to f32"),
        ("f8", 1e6, "got float 1000000.0: outside the range of f8E4M3FN"),
        ("f8", float("inf"), "got float inf: f8E4M3FN does not have this value"),
        ("f32", "1", "got str '1'; pass an array: np.asarray(x, dtype=np.float32)"),
        ("i64", np.timedelta64(1), "got numpy.timedelta64"),
        ("rows", 1.0, "expected ?xf32 (np.float32 array of rank 1), got float 1.0"),
    ],
)  # fmt: skip
def test_refusals_name_argument_value_and_type(cpu: Any, function: str, value: Any, message: str) -> None:
    with pytest.raises(pd.InvalidArgumentError, match=rf"@{function}: argument 0 'x': .*{re.escape(message)}"):
        cpu[function](*([value] if function != "rows" else [value, 1]))


NUMBERS = st.one_of(
    st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.complex_numbers(),
    st.floats(width=16).map(np.float16), st.floats(width=32).map(np.float32), st.floats().map(np.float64),
    st.booleans().map(np.bool_), st.integers(-128, 127).map(np.int8), st.integers(0, 2**64 - 1).map(np.uint64),
    st.integers(-(2**63), 2**63 - 1).map(np.int64), st.complex_numbers(width=64).map(np.complex64),
    st.floats(width=16).map(ml_dtypes.bfloat16), st.integers(-8, 7).map(ml_dtypes.int4),
)  # fmt: skip


@given(st.sampled_from([name for name in WORDS if name not in ("i4", "f8", "bf16")]), NUMBERS)
@settings(deadline=None)
def test_conversions_are_those_of_numpy(cpu: Any, name: str, value: Any) -> None:
    dtype = type_of(WORDS[name]).dtype
    try:
        with np.errstate(over="raise"):
            wanted = numpy_result(value, dtype)
    except (TypeError, OverflowError, FloatingPointError):
        with pytest.raises(pd.InvalidArgumentError):
            cpu[name](value)
        return
    assert cpu[name](value).tobytes() == wanted.tobytes()


def numpy_result(value: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """Return the number as NumPy converts it into an array of the type; an error where it does not."""
    if type(value).__module__ == "ml_dtypes":  # which states no rules for casting="same_kind"
        value = int(value) if "int" in value.dtype.name else float(value)
    given = np.array(value)
    if given.dtype == object or given.dtype.kind in "iu":
        if dtype.kind == "b":
            raise TypeError
        if dtype.kind in "iu":  # range checks of Python integers
            return np.array(int(value), dtype)
        return np.array(value, dtype)
    if not np.can_cast(given.dtype, dtype, "same_kind") and dtype.kind not in "iu":
        raise TypeError
    if given.dtype.kind != "b" and dtype.kind in "iu":
        raise TypeError
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return given.astype(dtype)


@given(st.sampled_from(["i4", "f8", "bf16"]), NUMBERS)
@settings(deadline=None)
def test_small_types_round_as_ml_dtypes(name: str, value: Any) -> None:
    element = type_of(WORDS[name])
    try:
        made = array_of_number(value, element)
    except (TypeError, OverflowError):
        return
    assert made is not None and made.shape == () and made.dtype == element.dtype
    if name == "i4":
        assert int(made) == int(value)
        return
    assert np.isnan(float(made)) == np.isnan(float(value)) and np.isinf(float(made)) == np.isinf(float(value))
    with np.errstate(all="ignore"):
        assert made.tobytes() == np.array(value, element.dtype).tobytes()
