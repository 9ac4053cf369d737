"""What is wrong with a program is said at its place."""

from __future__ import annotations

import re

import numpy as np
import pytest

import pydispatch as pd
from pydispatch import ir
from pydispatch.errors import CompileError

A = "tensor<4x6xf32>"

SYNTAX = [
    ("%0 = stablehlo.compare LE2, %x, %x : (T, T) -> tensor<4x6xi1>",
     "expected a comparison direction: one of EQ"),
    ("%0 = stablehlo.transpose %x : (T) -> T",
     r"expected 'dims = \.\.\.' in 'stablehlo.transpose'"),
    ("%0 = stablehlo.transpose %x, dim = [1, 0] : (T) -> T",
     "expected an operand or dims = ... in"),
    ("%0 = stablehlo.add %x : (T, T) -> T",
     "1 operand"),
    ("%0 = stablehlo.dot_general %x, %x, batching_dims = [0] x [0] : (T, T) -> T",
     "contracting_dims"),
    ("%0 = stablehlo.slice %x [0:4, 1] : (T) -> T",
     "':'"),
    ("%0 = stablehlo.reduce_precision %x, format = f5m10 : T",
     "a format such as e5m10, got f5m10"),
    ("%0 = stablehlo.fft %x, type = DFT, length = [6] : (T) -> T",
     "a fft type: one of FFT"),
    ("%0 = stablehlo.reduce(%x init: %x) applies stablehlo.sum across dimensions = [0] : (T, T) -> T",
     "'stablehlo.sum' is not an operation of stablehlo"),
    ("%0 = stablehlo.convolution(%x, %x) dim_numbers = [b, 0, 0, f]x[0, i, o, 1]->[b, 0, 1, f], window = {} "
     ": (T, T) -> T",
     "expected b, f and the spatial dimensions from 0, each once"),
    ("%0 = stablehlo.convolution(%x, %x) dim_numbers = [b, f]x[i, o]->[b, f], window = {step = [1]} : (T, T) -> T",
     "at most once, got 'step'"),
    ('%0 = "stablehlo.gather"(%x, %x) <{dimension_numbers = #stablehlo.gather<offsets = [0]>, slice_sizes = '
     "array<i64: 1, 1>}> : (T, T) -> T",
     "'offsets' is not one of offset_dims"),
    ('%0 = "stablehlo.gather"(%x, %x) : (T, T) -> T',
     "dimension_numbers"),
    ("%0 = stablehlo.bogus %x : T",
     "operation 'stablehlo.bogus' is not known"),
    ("%0 = stablehlo.get_dimension_size %x, dim = zero : (T) -> tensor<i32>",
     "integer"),
    ("%0 = stablehlo.convert %x : (T) -> tensor<4x6x!quant.uniform<i8:f32:0, 0.5>>",
     "1 axes need scales"),
    ("%0 = stablehlo.convert %x : (T) -> tensor<4x6x!quant.uniform<i8<0:300>:f32, 0.5>>",
     "0:300 does not fit"),
]  # fmt: skip


def program(line: str, result: str = A) -> str:
    """A function with one operation, at line 2. T stands for the type of its first argument."""
    name = "%0" if line.startswith("%0 =") else "%x"
    written = re.sub(r"\bT\b", A, line)
    return f"""func.func @main(%x: {A}, %i: tensor<3x1xi32>, %s: tensor<f32>, %n: tensor<i32>) -> {result} {{
      {written}
      return {name} : {result}
    }}"""


@pytest.mark.parametrize(("line", "message"), SYNTAX)
def test_texts_that_are_wrong(line: str, message: str) -> None:
    text = program(line)
    with pytest.raises(CompileError) as error:
        ir.parse(text, "model.mlir")
    assert error.value.location is not None and error.value.location.line == 2
    assert error.value.location.file == "model.mlir"
    assert re.search(message, error.value.message), error.value.message
    assert "^" in str(error.value)


MEANING = [
    ("%0 = stablehlo.transpose %x, dims = [0, 0] : (T) -> T", A, "is no order of the axes"),
    ("%0 = stablehlo.transpose %x, dims = [1, 0] : (T) -> T", A, r"the result is f32\[6, 4\], but its type is"),
    ("%0 = stablehlo.reshape %x : (T) -> tensor<5x5xf32>", "tensor<5x5xf32>", "it has 24 elements, not 25"),
    ("%0 = stablehlo.slice %x [0:5, 0:6] : (T) -> tensor<5x6xf32>", "tensor<5x6xf32>",
     "slice 0:5 of axis 0 .* is out of bounds"),
    ("%0 = stablehlo.slice %x [0:4:0, 0:6] : (T) -> T", A, "strides: .* has a number below 1"),
    ("%0 = stablehlo.concatenate %x, %x, dim = 2 : (T, T) -> T", A, "has no axis 2"),
    ("%0 = stablehlo.broadcast_in_dim %x, dims = [1, 1] : (T) -> tensor<6x4xf32>", "tensor<6x4xf32>",
     "names an axis twice"),
    ("%0 = stablehlo.broadcast_in_dim %x, dims = [0, 1] : (T) -> tensor<4x7xf32>", "tensor<4x7xf32>",
     "does not broadcast"),
    ("%0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (T, T) -> T",
     A, "axis 1 has size 6, axis 0 has 4"),
    ("%0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [] : (T, T) -> T",
     A, "1 contracting dimensions of the left"),
    ("%0 = stablehlo.dynamic_slice %x, %n, %n, sizes = [5, 1] : (T, tensor<i32>, tensor<i32>) -> tensor<5x1xf32>",
     "tensor<5x1xf32>", "do not fit into"),
    ("%0 = stablehlo.dynamic_slice %x, %n, sizes = [1, 1] : (T, tensor<i32>) -> tensor<1x1xf32>", "tensor<1x1xf32>",
     "takes 2 start indices"),
    ("%0 = stablehlo.pad %x, %s, low = [0], high = [0, 0], interior = [0, 0] : (T, tensor<f32>) -> T", A,
     "edge_padding_low has 1 entries, expected 2"),
    ('%0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], '
     "collapsed_slice_dims = [0], "
     "start_index_map = [2], index_vector_dim = 1>, "
     "slice_sizes = array<i64: 1, 6>}> : (T, tensor<3x1xi32>) -> tensor<3x6xf32>",
     "tensor<3x6xf32>", "start_index_map: a tensor of rank 2 has no axis 2"),
    ('%0 = "stablehlo.gather"(%x, %x) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], '
     "collapsed_slice_dims = [0], "
     "start_index_map = [0], index_vector_dim = 1>, "
     "slice_sizes = array<i64: 1, 6>}> : (T, T) -> tensor<4x6xf32>",
     "tensor<4x6xf32>", "indices are integers, got f32"),
    ("%0 = stablehlo.fft %x, type = RFFT, length = [8] : (T) -> T", A, "length 8 needs 8 elements"),
    ("%0 = stablehlo.and %x, %x : T", A, "and of f32 is not defined"),
    ("%0 = stablehlo.custom_call @my.thing(%x, %n) : (T, tensor<i32>) -> T", A, "my.thing"),
    ("%0 = stablehlo.custom_call @lapack_ssytrd_ffi(%x) : (T) -> T", A, "eigenvalues and singular values are"),
    ("%0 = func.call @missing(%x) : (T) -> T", A, "missing"),
    ("%0 = func.call @main(%x, %i, %s, %n) : (T, tensor<3x1xi32>, tensor<f32>, tensor<i32>) -> T", A, "calls itself"),
    ('%0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> '
     ": (T) -> tensor<8x6xf32>", "tensor<8x6xf32>", "'stablehlo.all_gather' is not supported.*other devices"),
    ('%0 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}> : (T) -> T',
     A, "'stablehlo.collective_permute' is not supported.*other devices"),
    ('%0 = "interpreter.run_parallel"(%x) {programs = [[@main]]} : (T) -> T', A, "in several processes"),
    ("%1 = stablehlo.create_token : !stablehlo.token", A, "no tensor|not supported"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "result", "message"), MEANING)
def test_programs_that_mean_nothing(line: str, result: str, message: str) -> None:
    text = program(line, result).replace("return", "%9 = stablehlo.abs %x : tensor<4x6xf32>\n      return")
    with pytest.raises(CompileError) as error:
        pd.compile(text)
    assert error.value.location is not None and error.value.location.line == 2, error.value
    assert re.search(message, str(error.value), re.DOTALL), error.value
    assert "^" in str(error.value)


OPERANDS = {
    "add": ("%a, %b", "A, B"), "divide": ("%b, %a", "B, A"), "power": ("%a, %b", "A, B"), "atan2": ("%a, %b", "A, B"),
    "clamp": ("%a, %a, %b", "A, A, B"), "select": ("%p, %a, %b", "tensor<3x4xi1>, A, B"),
}  # fmt: skip
"""Elementwise operation -> its operands, and their types."""


@pytest.mark.parametrize("operation", OPERANDS)
@pytest.mark.parametrize("shape", ["3x1", "1x4", "1x1", "3x5", "?x1"])
def test_operands_of_other_sizes_are_not_broadcast(operation: str, shape: str) -> None:
    operands, types = OPERANDS[operation]
    text = f"""func.func @main(%a: A, %b: B, %p: tensor<3x4xi1>) -> A {{
      %0 = "stablehlo.{operation}"({operands}) : ({types}) -> A
      return %0 : A
    }}"""
    text = re.sub(r"\bA\b", "tensor<3x4xf32>", re.sub(r"\bB\b", f"tensor<{shape}xf32>", text))
    with pytest.raises(CompileError, match=f"'stablehlo.{operation}' of .*: the sizes differ"):
        pd.compile(text)


def test_a_region_that_is_too_large() -> None:
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<f32> {
      %c = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = stablehlo.reduce(%x init: %c) across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
       reducer(%a: tensor<f32>, %b: tensor<f32>) {
        %1 = stablehlo.iota dim = 0 : tensor<4xf32>
        stablehlo.return %a : tensor<f32>
      }
      return %0 : tensor<f32>
    }"""
    with pytest.raises(CompileError, match=r"'stablehlo\.iota' is not supported on single elements") as error:
        pd.compile(text)
    assert error.value.location is not None and error.value.location.line == 5


def test_an_assertion_that_never_holds() -> None:
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<4xf32>) -> tensor<i32>
      %c = stablehlo.constant dense<5> : tensor<i32>
      %0 = stablehlo.compare GE, %n, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.custom_call @shape_assertion(%0, %n) {error_message = "too few rows", has_side_effect = true}
        : (tensor<i1>, tensor<i32>) -> ()
      return %x : tensor<4xf32>
    }"""
    with pytest.raises(CompileError, match="too few rows"):
        pd.compile(text)


def test_an_assertion_is_checked_in_each_call() -> None:
    text = """func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
      %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
      %c = stablehlo.constant dense<5> : tensor<i32>
      %0 = stablehlo.compare GE, %n, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.custom_call @shape_assertion(%0, %n) {error_message = "too few rows", has_side_effect = true}
        : (tensor<i1>, tensor<i32>) -> ()
      %1 = stablehlo.add %x, %x : tensor<?xf32>
      return %1 : tensor<?xf32>
    }"""
    main = pd.device("cpu").load(pd.compile(text)).main
    np.testing.assert_array_equal(main(np.ones(6, np.float32)), np.full(6, 2))
    with pytest.raises(pd.Error, match="too few rows"):
        main(np.ones(4, np.float32))


def test_a_size_that_jax_asserts_to_be_positive() -> None:
    """The program computes with sizes as if the assertion held: n - 1 is not clamped to 0."""
    text = """func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
      %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>
      %c = stablehlo.constant dense<1> : tensor<i32>
      %0 = stablehlo.compare GE, %n, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.custom_call @shape_assertion(%0, %n) {error_message = "no rows", has_side_effect = true}
        : (tensor<i1>, tensor<i32>) -> ()
      %z = stablehlo.constant dense<0> : tensor<i32>
      %1 = stablehlo.subtract %n, %c : tensor<i32>
      %2 = stablehlo.maximum %1, %z : tensor<i32>
      %3 = stablehlo.reshape %2 : (tensor<i32>) -> tensor<1xi32>
      %4 = stablehlo.dynamic_iota %3, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
      return %4 : tensor<?xf32>
    }"""
    main = pd.device("cpu").load(pd.compile(text)).main
    for size in (1, 3):
        np.testing.assert_array_equal(main(np.ones(size, np.float32)), np.arange(size - 1))
    with pytest.raises(pd.Error, match="no rows"):
        main(np.ones(0, np.float32))


@pytest.mark.parametrize(("text", "message"), [
    ("func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n %0 = stablehlo.abs %x : tensor<4xf32>\n return %0 : "
     "tensor<4xf32>\n}", "has a public function; this one has none"),
    ("func.func @main(%x: tensor<4xf80>) -> tensor<4xf80> {\n %0 = stablehlo.abs %x : tensor<4xf80>\n return %0 : "
     "tensor<4xf80>\n}", "elements of type f80 are not supported"),
    ("func.func @main(%x: !stablehlo.token) -> tensor<4xf32> {\n %0 = stablehlo.constant dense<0.0> : tensor<4xf32>\n "
     "return %0 : tensor<4xf32>\n}", "is no tensor"),
])  # fmt: skip
def test_modules_that_are_no_program(text: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        pd.compile(text)


def test_bytecode_is_refused(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "model.mlirbc"
    path.write_bytes(b"ML\xefR\x06StableHLO_v1.15\0rest")
    with pytest.raises(CompileError, match=r"bytecode.*not supported") as error:
        pd.compile(path)
    assert "as_text" in str(error.value)
