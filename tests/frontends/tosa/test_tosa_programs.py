"""Whole programs of TOSA: control flow, variables, calls, custom operators, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from tosa_programs import Runner

import pydispatch as pd

F32 = np.float32

BRANCH = """func.func @main(%c: tensor<i1>, %x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0, %1 = tosa.cond_if %c (%a = %x, %b = %y) : tensor<i1> (tensor<4xf32>, tensor<4xf32>)
      -> (tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    %2 = tosa.add %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    tosa.yield %2, %a : tensor<4xf32>, tensor<4xf32>
  } else {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    %2 = tosa.sub %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    tosa.yield %2, %b : tensor<4xf32>, tensor<4xf32>
  }
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}"""
FORMER_BRANCH = """func.func @main(%c: tensor<i1>, %x: tensor<4xf32>, %y: tensor<4xf32>)
    -> (tensor<4xf32>, tensor<4xf32>) {
  %0:2 = tosa.cond_if %c -> (tensor<4xf32>, tensor<4xf32>) {
    %2 = tosa.add %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    tosa.yield %2, %x : tensor<4xf32>, tensor<4xf32>
  } else {
    %2 = tosa.sub %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    tosa.yield %2, %y : tensor<4xf32>, tensor<4xf32>
  }
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xf32>
}"""


@pytest.mark.parametrize("text", [BRANCH, FORMER_BRANCH, BRANCH.replace("<4x", "<?x")])
def test_branches(tosa: Runner, text: str) -> None:
    x, y = np.arange(4, dtype=F32), np.full(4, 3, F32)
    for condition, wanted in ((True, [x + y, x]), (False, [x - y, y])):
        for got, array in zip(tosa.text(text, np.array(condition), x, y), wanted, strict=True):
            np.testing.assert_array_equal(got, array)


LOOP = """func.func @main(%n: tensor<i32>, %x: tensor<10xi32>) -> (tensor<i32>, tensor<10xi32>) {
  %zero = "tosa.const"() <{values = dense<0> : tensor<i32>}> : () -> tensor<i32>
  %1:2 = tosa.while_loop (%i = %zero, %v = %x) : (tensor<i32>, tensor<10xi32>) -> (tensor<i32>, tensor<10xi32>) {
    %2 = tosa.greater_equal %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %3 = tosa.logical_not %2 : (tensor<i1>) -> tensor<i1>
    tosa.yield %3 : tensor<i1>
  } do {
  ^bb0(%i: tensor<i32>, %v: tensor<10xi32>):
    %one = "tosa.const"() <{values = dense<1> : tensor<i32>}> : () -> tensor<i32>
    %2 = tosa.add %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %3 = tosa.add %v, %v : (tensor<10xi32>, tensor<10xi32>) -> tensor<10xi32>
    tosa.yield %2, %3 : tensor<i32>, tensor<10xi32>
  }
  return %1#0, %1#1 : tensor<i32>, tensor<10xi32>
}"""


def test_loops(tosa: Runner) -> None:
    x = np.arange(10, dtype=np.int32)
    for count in (0, 1, 5):
        number, made = tosa.text(LOOP, np.array(count, np.int32), x)
        assert number == count
        np.testing.assert_array_equal(made, x << count)


def test_variables_outlive_a_call(tosa: Runner) -> None:
    for read, write in (("variable_read", "variable_write"), ("variable.read", "variable.write")):
        text = f"""tosa.variable @sum = dense<7.0> : tensor<3xf32>
        tosa.variable @calls : tensor<1xi32>
        func.func @main(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<1xi32>) {{
          %0 = tosa.{read} @sum : tensor<3xf32>
          %1 = tosa.add %0, %x : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
          tosa.{write} @sum, %1 : tensor<3xf32>
          %2 = tosa.{read} @calls : tensor<1xi32>
          %one = "tosa.const"() <{{values = dense<1> : tensor<1xi32>}}> : () -> tensor<1xi32>
          %3 = tosa.add %2, %one : (tensor<1xi32>, tensor<1xi32>) -> tensor<1xi32>
          tosa.{write} @calls, %3 : tensor<1xi32>
          return %1, %3 : tensor<3xf32>, tensor<1xi32>
        }}"""
        program = tosa.device.load(pd.compile(text))
        x = np.array([1, 2, 3], F32)
        for count in (1, 2, 3):
            total, calls = program.main(x)
            np.testing.assert_array_equal(total, 7 + count * x)
            assert calls == count


def test_functions_that_call_others(tosa: Runner) -> None:
    text = """func.func @twice(%x: tensor<3xf32>) -> tensor<3xf32> {
      %0 = call @half(%x) : (tensor<3xf32>) -> tensor<3xf32>
      %1 = tosa.add %0, %x : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
      return %1 : tensor<3xf32>
    }
    func.func @same(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }
    func.func private @half(%x: tensor<3xf32>) -> tensor<3xf32> {
      %c = arith.constant dense<0.5> : tensor<1xf32>
      %0 = tosa.mul %x, %c {shift = 0 : i8} : (tensor<3xf32>, tensor<1xf32>) -> tensor<3xf32>
      return %0 : tensor<3xf32>
    }"""
    program = tosa.device.load(pd.compile(text))
    x = np.array([1, 2, 3], F32)
    np.testing.assert_array_equal(program.twice(x), x * F32(1.5))
    np.testing.assert_array_equal(program.same(x), x)
    assert not hasattr(program, "half")


CUSTOM = """func.func @main(%x: tensor<{size}xf32>) -> tensor<{size}xf32> {{
  %0 = tosa.custom %x {{{names}, implementation_attrs = ""}} : (tensor<{size}xf32>) -> tensor<{size}xf32>
  return %0 : tensor<{size}xf32>
}}"""
TRIPLE = pd.CFunction(
    "#include <stddef.h>\n"
    "void triple(const float *x, float *y, size_t n) { for (size_t i = 0; i < n; i++) y[i] = 3 * x[i]; }",
    "triple", "in0", "out", "count",
)  # fmt: skip


@pytest.mark.parametrize("size", ["5", "?"])
@pytest.mark.parametrize(
    ("names", "name"),
    [
        ('domain_name = "lib", operator_name = "triple"', "lib::triple"),
        ('domain_name = "", operator_name = "triple"', "triple"),
        ('config = "lib", identifier = "triple"', "lib::triple"),
    ],
)
def test_custom_operators(tosa: Runner, size: str, names: str, name: str) -> None:
    program = tosa.device.load(pd.compile(CUSTOM.format(size=size, names=names), kernels={name: TRIPLE}))
    x = np.arange(5, dtype=F32)
    np.testing.assert_array_equal(program.main(x), 3 * x)


def test_a_custom_operator_without_a_kernel() -> None:
    with pytest.raises(pd.CompileError, match="there is no kernel for the custom operation 'lib::triple'") as caught:
        pd.compile(CUSTOM.format(size="5", names='domain_name = "lib", operator_name = "triple"'))
    assert "<text>:2:" in str(caught.value)


def test_a_small_network_of_quantized_numbers(tosa: Runner) -> None:
    """A convolution, its scale, a limit, a mean and a product, in one program."""
    text = """func.func @main(%x: tensor<1x8x8x2xi8>) -> tensor<1x1x3xi32> {
      %w = "tosa.const"() <{values = dense<[[[[3, -2]]], [[[1, 1]]], [[[-5, 4]]]]> : tensor<3x1x1x2xi8>}> : () -> tensor<3x1x1x2xi8>
      %b = "tosa.const"() <{values = dense<[100, -50, 7]> : tensor<3xi32>}> : () -> tensor<3xi32>
      %z8 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
      %zx = "tosa.const"() <{values = dense<-3> : tensor<1xi8>}> : () -> tensor<1xi8>
      %z32 = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
      %m = "tosa.const"() <{values = dense<[1073741824, 1610612736, 1342177280]> : tensor<3xi32>}> : () -> tensor<3xi32>
      %s = "tosa.const"() <{values = dense<[32, 33, 34]> : tensor<3xi8>}> : () -> tensor<3xi8>
      %0 = tosa.conv2d %x, %w, %b, %zx, %z8 {acc_type = i32, dilation = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>} : (tensor<1x8x8x2xi8>, tensor<3x1x1x2xi8>, tensor<3xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x8x8x3xi32>
      %1 = tosa.rescale %0, %m, %s, %z32, %z8 {input_unsigned = false, output_unsigned = false, per_channel = true, rounding_mode = DOUBLE_ROUND, scale32 = true} : (tensor<1x8x8x3xi32>, tensor<3xi32>, tensor<3xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x8x8x3xi8>
      %2 = tosa.clamp %1 {max_val = 100 : i8, min_val = 0 : i8} : (tensor<1x8x8x3xi8>) -> tensor<1x8x8x3xi8>
      %3 = tosa.avg_pool2d %2, %z8, %z8 {acc_type = i32, kernel = array<i64: 8, 8>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>} : (tensor<1x8x8x3xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x1x1x3xi8>
      %n = tosa.const_shape {values = dense<[1, 1, 3]> : tensor<3xindex>} : () -> !tosa.shape<3>
      %4 = tosa.reshape %3, %n : (tensor<1x1x1x3xi8>, !tosa.shape<3>) -> tensor<1x1x3xi8>
      %k = "tosa.const"() <{values = dense<[[[1, 2, 3], [4, 5, 6], [7, 8, 9]]]> : tensor<1x3x3xi8>}> : () -> tensor<1x3x3xi8>
      %5 = tosa.matmul %4, %k, %z8, %z8 : (tensor<1x1x3xi8>, tensor<1x3x3xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x1x3xi32>
      return %5 : tensor<1x1x3xi32>
    }"""  # noqa: E501
    x = np.random.default_rng(2).integers(-128, 128, (1, 8, 8, 2)).astype(np.int8)
    total = (x.astype(np.int64) + 3) @ np.array([[3, -2], [1, 1], [-5, 4]]).T + [100, -50, 7]
    factors, shifts = np.array([1073741824, 1610612736, 1342177280]), np.array([32, 33, 34])
    half = (1 << (shifts - 1)) + np.where(total >= 0, 1 << 30, -(1 << 30))
    scaled = np.clip((total * factors + half) >> shifts, 0, 100)
    mean = (scaled.sum((1, 2)) * ((((1 << 30) + 1) << 6) // 64) + (1 << 35)) >> 36
    wanted = mean[:, None] @ np.arange(1, 10).reshape(3, 3)
    np.testing.assert_array_equal(tosa.text(text, x)[0], wanted)


ONE = """!f = tensor<2x3xf32>
!i = tensor<2x3xi32>
func.func @main(%x: !f, %i: !i, %n: tensor<1xi32>) {{
  {}
  return
}}"""
REFUSED = {
    "operands": ("%0 = tosa.add %x : (!f) -> !f", "1 operand(s) are given, expected 2"),
    "results": ("%0:2 = tosa.abs %x : (!f) -> (!f, !f)", "2 result(s) are given"),
    "zero points": (
        "%z = tosa.const {values = dense<[1, 2, 3]> : tensor<3xi8>} : () -> tensor<3xi8>\n"
        "  %q = tosa.const {values = dense<1> : tensor<1x2x2x3xi8>} : () -> tensor<1x2x2x3xi8>\n"
        "  %0 = tosa.avg_pool2d %q, %z, %z {acc_type = i32, kernel = array<i64: 2, 2>, pad = array<i64: 0, 0, 0, 0>, "
        "stride = array<i64: 1, 1>} : (tensor<1x2x2x3xi8>, tensor<3xi8>, tensor<3xi8>) -> tensor<1x1x1x3xi8>",
        "the input_zp is i8[3], expected one number",
    ),
    "word": (
        "%0 = tosa.maximum %x, %x {nan_mode = NEVER} : (!f, !f) -> !f",
        "unknown nan_mode 'NEVER', expected PROPAGATE or IGNORE",
    ),
    "shapes": (
        "%c = tosa.const {values = dense<1.0> : tensor<4xf32>} : () -> tensor<4xf32>\n"
        "  %0 = tosa.add %x, %c : (!f, tensor<4xf32>) -> !f",
        "do not broadcast together",
    ),
    "elements": ("%0 = tosa.equal %x, %i : (!f, !i) -> tensor<2x3xi1>", "differ in their elements"),
    "declared type": ("%0 = tosa.abs %x : (!f) -> tensor<3x2xf32>", "the result is f32[2, 3], but its type is"),
    "axis": ("%0 = tosa.reduce_sum %x {axis = 2 : i32} : (!f) -> tensor<2x1xf32>", "has no axis 2"),
    "missing axis": ("%0 = tosa.reduce_sum %x : (!f) -> tensor<2x1xf32>", "'tosa.reduce_sum' needs axis, an integer"),
    "function": ("%0 = tosa.ceil %i : (!i) -> !f", "but its type is"),
    "missing function": ("%0 = tosa.tanh %i : (!i) -> !i", "tanh of i32 is not defined"),
    "clamp": (
        "%0 = tosa.clamp %x {min_val = 2.0 : f32, max_val = 1.0 : f32} : (!f) -> !f",
        "the least value 2.0 is above the largest, 1.0",
    ),
    "table": ("%0 = tosa.table %i, %i : (!i, !i) -> !i", "has no entries"),
    "reshape": (
        "%s = tosa.const_shape {values = dense<[4, 2]> : tensor<2xindex>} : () -> !tosa.shape<2>\n"
        "  %0 = tosa.reshape %x, %s : (!f, !tosa.shape<2>) -> tensor<4x2xf32>",
        "it has 6 elements, not 8",
    ),
    "missing shape": ("%0 = tosa.reshape %x : (!f) -> tensor<6xf32>", "'tosa.reshape' needs new_shape"),
    "padding": (
        "%s = tosa.const_shape {values = dense<[4, 2]> : tensor<2xindex>} : () -> !tosa.shape<2>\n"
        "  %0 = tosa.pad %x, %s : (!f, !tosa.shape<2>) -> tensor<4x2xf32>",
        "the padding has 2 number(s), expected 4",
    ),
    "slice": (
        "%0 = tosa.slice %x {start = array<i64: 1, 0>, size = array<i64: 2, 3>} : (!f) -> !f",
        "slice 1:3 of axis 0 of f32[2, 3] is out of bounds",
    ),
    "permutation": (
        "%0 = tosa.transpose %x {perms = array<i32: 0, 0>} : (!f) -> tensor<2x2xf32>",
        "no order of the axes",
    ),
    "gather": ("%0 = tosa.gather %x, %i : (!f, !i) -> !f", "expected a tensor of rank 3"),
    "rescale": (
        "%0 = tosa.rescale %x {scale32 = true, multiplier = array<i32: 1>, shift = array<i8: 2>} "
        ": (!f) -> tensor<2x3xi8>",
        "integers are rescaled, got f32[2, 3] to i8",
    ),
    "channels": (
        "%0 = tosa.rescale %i {per_channel = true, multiplier = array<i32: 1, 1>, shift = array<i8: 2, 2>} "
        ": (!i) -> tensor<2x3xi8>",
        "the multiplier is i64[2], expected 3 number(s)",
    ),
    "rounding": (
        "%0 = tosa.rescale %i {scale32 = false, double_round = true, multiplier = array<i32: 1>, shift = array<i8: 2>} "
        ": (!i) -> tensor<2x3xi8>",
        "DOUBLE_ROUND needs scale32 = true",
    ),
    "divided by zero": (
        "%s = tosa.const_shape {values = dense<0> : tensor<1xindex>} : () -> !tosa.shape<1>\n"
        "  %0 = tosa.mod_shape %s, %s : (!tosa.shape<1>, !tosa.shape<1>) -> !tosa.shape<1>",
        "are divided by [0]",
    ),
    "list of sizes": (
        "%s = tosa.const_shape {values = dense<1> : tensor<1xindex>} : () -> !tosa.shape<2>",
        "but its type is !tosa.shape<2>",
    ),
    "variable": ("%0 = tosa.variable_read @none : tensor<2xf32>", "there is no tosa.variable @none"),
    "beside other operations": (
        "%0 = math.sqrt %x : !f\n  tosa.custom : () -> ()",
        "there is no kernel for the custom operation ''",
    ),
    "any rank": (
        '%0 = tosa.custom %x {operator_name = "f"} : (!f) -> tensor<*xf32>',
        "the sizes of a result of 'f' are not known",
    ),
    "yield": (
        "%c = tosa.greater %n, %n : (tensor<1xi32>, tensor<1xi32>) -> tensor<1xi1>\n"
        "  %0 = tosa.cond_if %c : tensor<1xi1> -> tensor<1xi32> {\n tosa.yield %n : tensor<1xi32>\n } "
        "else {\n tosa.yield : \n }",
        "the else branch passes on 0 value(s), expected 1",
    ),
}


@pytest.mark.parametrize("key", REFUSED)
def test_what_is_refused_and_where(key: str) -> None:
    body, message = REFUSED[key]
    with pytest.raises(pd.CompileError) as caught:
        pd.compile(ONE.format(body))
    text = str(caught.value)
    assert message in text
    assert text.startswith("<text>:") and "^" in text


def test_signatures_that_are_refused() -> None:
    for text, message in (
        ("func.func @main(%x: tensor<*xf32>) -> tensor<*xf32> { %0 = tosa.abs %x : (tensor<*xf32>) -> tensor<*xf32> "
         "return %0 : tensor<*xf32> }", "which has no rank"),
        ("func.func private @f(%x: tensor<2xf32>) { %0 = tosa.abs %x : (tensor<2xf32>) -> tensor<2xf32> return }",
         "this TOSA program has no public function"),
        ("func.func @main(%x: tensor<2xf32>) { %0 = tosa.abs %x : (tensor<2xf32>) -> tensor<2xf32> "
         "call @main(%x) : (tensor<2xf32>) -> () return }", "@main calls itself"),
    ):  # fmt: skip
        with pytest.raises(pd.CompileError, match=message):
            pd.compile(text)
