"""Operations and spellings of StableHLO and CHLO that few programs have, against NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pydispatch as pd
from pydispatch import ir
from pydispatch.errors import CompileError

Array = np.ndarray[Any, Any]


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


# -- spellings

PLAIN_CONV = "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]"
RAW_CONV = """raw
      input_batch_dimension = 0, input_feature_dimension = 3, input_spatial_dimensions = [1, 2],
      kernel_input_feature_dimension = 2, kernel_output_feature_dimension = 3, kernel_spatial_dimensions = [0, 1],
      output_batch_dimension = 0, output_feature_dimension = 3, output_spatial_dimensions = [1, 2]"""


def attribute(text: str) -> str:
    """What a module with this attribute is printed as."""
    return str(ir.parse(f"module attributes {{a.b = {text}}} {{}}").attributes["a.b"])


@pytest.mark.parametrize(("written", "plain"), [
    ("#stablehlo.gather<offset_dims = [1], index_vector_dim = 1,>",
     "#stablehlo.gather<offset_dims = [1], index_vector_dim = 1>"),
    ("#stablehlo.scatter<update_window_dims = [1],\n>", "#stablehlo.scatter<update_window_dims = [1]>"),
    ("#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0],>",
     "#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>"),
    (f"#stablehlo.conv<{RAW_CONV}>", f"#stablehlo.conv<{PLAIN_CONV}>"),
    (f"#stablehlo.conv<{RAW_CONV},>", f"#stablehlo.conv<{PLAIN_CONV}>"),
])  # fmt: skip
def test_attributes_in_other_spellings(written: str, plain: str) -> None:
    assert attribute(written) == attribute(plain) == plain


@pytest.mark.parametrize(("text", "message"), [
    ("#stablehlo.dot<lhs = [1]>", "'lhs' is not one of lhs_batching_dimensions"),
    ("#stablehlo.dot<,>", "identifier"),
    ("#stablehlo.conv<raw input_batch = 0>", "'input_batch' is not one of input_batch_dimension"),
    (f"#stablehlo.conv<{RAW_CONV.replace('output_batch_dimension = 0', 'output_batch_dimension = 9')}>",
     "do not name each dimension of the output once"),
])  # fmt: skip
def test_attributes_that_are_wrong(text: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        attribute(text)


def test_quantizing_to_the_same_type(run: Any) -> None:
    q = "tensor<3x!quant.uniform<i8:f32, 0.5:3>>"
    (found,) = run(f"""func.func @main(%x: tensor<3xf32>) -> tensor<3xi8> {{
      %0 = stablehlo.uniform_quantize %x : (tensor<3xf32>) -> {q}
      %1 = stablehlo.uniform_quantize %0 : {q}
      %2 = stablehlo.bitcast_convert %1 : ({q}) -> tensor<3xi8>
      return %2 : tensor<3xi8>
    }}""", np.array([1.0, -2.0, 3.5], np.float32))  # fmt: skip
    np.testing.assert_array_equal(found, [5, -1, 10])


def test_public_functions(run: Any) -> None:
    """Without main, all public functions are those of the program; with it, main and those that none calls."""
    text = """func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.abs %x : tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    func.func @g(%x: tensor<?xf32>) -> tensor<?xf32> {
      %0 = stablehlo.negate %x : tensor<?xf32>
      return %0 : tensor<?xf32>
    }
    func.func @h(%y: tensor<4xf32>) -> tensor<4xf32> {
      %0 = func.call @f(%y) : (tensor<4xf32>) -> tensor<4xf32>
      %1 = stablehlo.add %0, %0 : tensor<4xf32>
      return %1 : tensor<4xf32>
    }"""
    program = pd.device("cpu").load(pd.compile(text))
    x = np.array([-1, 2, -3, 4], np.float32)
    assert set(program.functions) == {"f", "g", "h"}
    for name, expected in (("f", abs(x)), ("g", -x), ("h", 2 * abs(x))):
        np.testing.assert_array_equal(program[name](x), expected)
    assert set(pd.device("cpu").load(pd.compile(text.replace("@g", "@main"))).functions) == {"main", "h"}


# -- values of other kinds


def test_tuples(run: Any) -> None:
    text = """func.func @main(%x: tensor<4xf32>, %y: tensor<i32>) -> (tensor<4xf32>, tensor<i32>) {
      %0 = stablehlo.tuple %x, %y : tuple<tensor<4xf32>, tensor<i32>>
      %1 = stablehlo.tuple %y, %0 : tuple<tensor<i32>, tuple<tensor<4xf32>, tensor<i32>>>
      %2 = stablehlo.get_tuple_element %1[1] : (tuple<tensor<i32>, tuple<tensor<4xf32>, tensor<i32>>>) ->
        tuple<tensor<4xf32>, tensor<i32>>
      %3 = stablehlo.get_tuple_element %2[0] : (tuple<tensor<4xf32>, tensor<i32>>) -> tensor<4xf32>
      %4 = stablehlo.get_tuple_element %1[0] : (tuple<tensor<i32>, tuple<tensor<4xf32>, tensor<i32>>>) -> tensor<i32>
      %5 = stablehlo.add %3, %3 : tensor<4xf32>
      return %5, %4 : tensor<4xf32>, tensor<i32>
    }"""
    x, y = np.arange(4, dtype=np.float32), np.int32(7)
    found = run(text, x, y)
    np.testing.assert_array_equal(found[0], x + x)
    assert found[1] == 7


@pytest.mark.parametrize(("element", "type", "message"), [
    (2, "tensor<4xf32>", r"a tuple of 1 element\(s\) has no element 2"),
    (0, "tensor<4xi32>", "element 0 of the tuple is tensor<4xf32>, but the result's type is tensor<4xi32>"),
])  # fmt: skip
def test_elements_that_a_tuple_lacks(element: int, type: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        pd.compile(f"""func.func @main(%x: tensor<4xf32>) -> {type} {{
          %0 = stablehlo.tuple %x : tuple<tensor<4xf32>>
          %1 = stablehlo.get_tuple_element %0[{element}] : (tuple<tensor<4xf32>>) -> {type}
          return %1 : {type}
        }}""")


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float64])
def test_bits_as_truth_values(run: Any, dtype: Any) -> None:
    name = {"u": "ui", "i": "i", "f": "f"}[np.dtype(dtype).kind] + str(8 * np.dtype(dtype).itemsize)
    bits = 8 * np.dtype(dtype).itemsize
    text = f"""func.func @main(%x: tensor<3x{name}>) -> (tensor<3x{bits}xi1>, tensor<3x{name}>, tensor<3x{bits}xi1>) {{
      %0 = stablehlo.bitcast_convert %x : (tensor<3x{name}>) -> tensor<3x{bits}xi1>
      %1 = stablehlo.bitcast_convert %0 : (tensor<3x{bits}xi1>) -> tensor<3x{name}>
      %2 = stablehlo.bitcast_convert %0 : (tensor<3x{bits}xi1>) -> tensor<3x{bits}xi1>
      return %0, %1, %2 : tensor<3x{bits}xi1>, tensor<3x{name}>, tensor<3x{bits}xi1>
    }}"""
    x = np.frombuffer(rng().bytes(3 * bits // 8), dtype)
    truth, back, same = run(text, x)
    expected = np.unpackbits(x.view(np.uint8).reshape(3, -1), axis=1, bitorder="little")
    np.testing.assert_array_equal(truth, expected.astype(bool))
    np.testing.assert_array_equal(same, truth)
    assert back.tobytes() == x.tobytes()


@pytest.mark.parametrize("name", ["i8", "ui8", "i16", "ui16", "i32", "ui32", "i64", "ui64"])
def test_upper_halves_of_products(run: Any, name: str) -> None:
    dtype = np.dtype(name.replace("ui", "uint") if name[0] == "u" else name.replace("i", "int"))
    limits = np.iinfo(dtype)
    edges = [limits.min, limits.max, 0, 1, limits.max // 2, limits.max // 3, 7]
    pairs = np.array(list(itertools.product(edges, edges)), object)
    x, y = (pairs[:, n].astype(dtype) for n in (0, 1))
    (found,) = run(f"""func.func @main(%x: tensor<49x{name}>, %y: tensor<49x{name}>) -> tensor<49x{name}> {{
      %0 = chlo.mulhi %x, %y : tensor<49x{name}>, tensor<49x{name}> -> tensor<49x{name}>
      return %0 : tensor<49x{name}>
    }}""", x, y)  # fmt: skip
    assert found.tolist() == [(a * b) >> limits.bits for a, b in pairs.tolist()]


# -- scans


def scanned(body: str, signature: str, line: str) -> str:
    return f"""func.func @main{signature} {{
      {line} {{
      {body}
    }}"""


@pytest.mark.parametrize(("axis", "backwards"), [(0, False), (1, False), (1, True)])
def test_scans_of_elements(run: Any, axis: int, backwards: bool) -> None:
    row = "3" if axis == 0 else "4"
    given = "attributes {is_reverse = true} " if backwards else ""
    text = f"""func.func @main(%x: tensor<4x3xi32>, %c: tensor<{row}xi32>) -> (tensor<4x3xi32>, tensor<4x3xi1>,
        tensor<{row}xi32>) {{
      %0:3 = chlo.scan(%x) inits (%c) dimension={axis} {given}{{
      ^bb0(%a: tensor<{row}xi32>, %s: tensor<{row}xi32>):
        %two = stablehlo.constant dense<2> : tensor<{row}xi32>
        %1 = stablehlo.multiply %s, %two : tensor<{row}xi32>
        %2 = stablehlo.add %a, %1 : tensor<{row}xi32>
        %3 = stablehlo.compare GT, %a, %s : (tensor<{row}xi32>, tensor<{row}xi32>) -> tensor<{row}xi1>
        stablehlo.return %2, %3, %2 : tensor<{row}xi32>, tensor<{row}xi1>, tensor<{row}xi32>
      }} : (tensor<4x3xi32>, tensor<{row}xi32>) -> (tensor<4x3xi32>, tensor<4x3xi1>, tensor<{row}xi32>)
      return %0#0, %0#1, %0#2 : tensor<4x3xi32>, tensor<4x3xi1>, tensor<{row}xi32>
    }}"""
    x = rng().integers(-9, 9, (4, 3)).astype(np.int32)
    carried = rng().integers(-9, 9, int(row)).astype(np.int32)
    rows, expected, flags = np.moveaxis(x, axis, 0), {}, {}
    state = carried
    for n in range(len(rows))[:: -1 if backwards else 1]:
        flags[n] = rows[n] > state
        state = expected[n] = rows[n] + 2 * state
    found = run(text, x, carried)
    np.testing.assert_array_equal(found[0], np.stack([expected[n] for n in range(len(rows))], axis))
    np.testing.assert_array_equal(found[1], np.stack([flags[n] for n in range(len(rows))], axis))
    np.testing.assert_array_equal(found[2], state)


def test_a_scan_of_rows(run: Any) -> None:
    """The region is more than a function of elements: x becomes W x + a."""
    text = """func.func @main(%a: tensor<3x2xf32>, %w: tensor<2x2xf32>, %c: tensor<2xf32>) -> (tensor<3x2xf32>, tensor<2xf32>) {
      %0:2 = chlo.scan(%a) inits(%c) dimension=0 attributes {is_reverse = true} {
      ^bb0(%r: tensor<2xf32>, %s: tensor<2xf32>):
        %1 = stablehlo.dot %w, %s : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2xf32>
        %2 = stablehlo.add %1, %r : tensor<2xf32>
        stablehlo.return %s, %2 : tensor<2xf32>, tensor<2xf32>
      } : (tensor<3x2xf32>, tensor<2xf32>) -> (tensor<3x2xf32>, tensor<2xf32>)
      return %0#0, %0#1 : tensor<3x2xf32>, tensor<2xf32>
    }"""  # noqa: E501
    a, w, c = (rng().integers(-4, 4, shape).astype(np.float32) for shape in ((3, 2), (2, 2), (2,)))
    rows = [c]
    for row in a[::-1]:
        rows.append(w @ rows[-1] + row)
    found = run(text, a, w, c)
    np.testing.assert_array_equal(found[0], np.stack(rows[:3][::-1]))
    np.testing.assert_array_equal(found[1], rows[3])


@pytest.mark.parametrize(("line", "message"), [
    ("%0:2 = chlo.scan(%x) inits(%c) dimension=2 {\n ^bb0(%a: tensor<3xf32>, %s: tensor<3xf32>):\n"
     " stablehlo.return %s, %s : tensor<3xf32>, tensor<3xf32>\n } : (tensor<4x3xf32>, tensor<3xf32>) -> "
     "(tensor<4x3xf32>, tensor<3xf32>)", "has no axis 2"),
    ("%0:2 = chlo.scan(%x) inits(%c) dimension=0 {\n ^bb0(%a: tensor<3xf32>):\n"
     " stablehlo.return %a, %a : tensor<3xf32>, tensor<3xf32>\n } : (tensor<4x3xf32>, tensor<3xf32>) -> "
     "(tensor<4x3xf32>, tensor<3xf32>)", r"takes 2 value\(s\), got 1"),
    ("%0:2 = chlo.scan() inits(%c, %c) dimension=0 {\n ^bb0(%a: tensor<3xf32>, %s: tensor<3xf32>):\n"
     " stablehlo.return %s, %s : tensor<3xf32>, tensor<3xf32>\n } : (tensor<3xf32>, tensor<3xf32>) -> "
     "(tensor<3xf32>, tensor<3xf32>)", "needs an input"),
    ("%0:2 = chlo.scan(%x) inits(%c, %c, %c) dimension=0 {\n ^bb0(%a: tensor<3xf32>, %s: tensor<3xf32>):\n"
     " stablehlo.return %s, %s : tensor<3xf32>, tensor<3xf32>\n } : (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>, "
     "tensor<3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>)", r"3 value\(s\) are carried"),
])  # fmt: skip
def test_scans_that_are_wrong(line: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        pd.compile(f"func.func @main(%x: tensor<4x3xf32>, %c: tensor<3xf32>) -> tensor<3xf32> {{\n {line}\n "
                   "return %0#1 : tensor<3xf32>\n}")  # fmt: skip


# -- elements at places


@pytest.mark.parametrize(("dim", "batch", "shape", "indices"), [
    (0, 0, (5, 2), (3,)), (1, 0, (2, 5, 3), (2, 2)), (1, 1, (2, 5), (2, 3, 2)), (-1, -1, (2, 2, 4), (2, 2, 3)),
    (2, 1, (2, 3, 4), (2, 5)),
])  # fmt: skip
def test_slices_at_indices(run: Any, dim: int, batch: int, shape: Any, indices: Any) -> None:
    axis, lead = dim % len(shape), batch % len(indices)
    x = rng().integers(-99, 99, shape).astype(np.int32)
    at = rng().integers(0, shape[axis], indices).astype(np.int32)
    if lead:
        places = np.ndindex(*shape[:lead])
        rows = [np.take(x[p], at[p], axis - lead) for p in places]
        expected = np.stack(rows).reshape(*shape[:lead], *rows[0].shape)
    else:
        expected = np.take(x, at, axis)
    types = ["x".join(map(str, (*s, "i32"))) for s in (shape, indices, expected.shape)]
    (found,) = run(f"""func.func @main(%x: tensor<{types[0]}>, %i: tensor<{types[1]}>) -> tensor<{types[2]}> {{
      %0 = "stablehlo.torch_index_select"(%x, %i) {{dim = {dim} : i64, batch_dims = {batch} : i64}}
        : (tensor<{types[0]}>, tensor<{types[1]}>) -> tensor<{types[2]}>
      return %0 : tensor<{types[2]}>
    }}""", x, at)  # fmt: skip
    np.testing.assert_array_equal(found, expected)


def test_slices_along_an_axis_that_is_none() -> None:
    with pytest.raises(CompileError, match="dim 3 and batch_dims 0"):
        pd.compile("""func.func @main(%x: tensor<2x2xf32>, %i: tensor<1xi32>) -> tensor<1x2xf32> {
          %0 = "stablehlo.torch_index_select"(%x, %i) {dim = 3 : i64, batch_dims = 0 : i64}
            : (tensor<2x2xf32>, tensor<1xi32>) -> tensor<1x2xf32>
          return %0 : tensor<1x2xf32>
        }""")


# -- products


def ragged_text(numbers: str, x: Any, y: Any, sizes: Any, out: Any, factors: tuple[str, str] = ("f32", "f32")) -> str:
    types = [
        "tensor<" + "x".join(map(str, (*s, e))) + ">"
        for s, e in zip((x, y, sizes, out), (*factors, "i32", "f32"), strict=True)
    ]
    return f"""func.func @main(%x: {types[0]}, %y: {types[1]}, %g: {types[2]}) -> {types[3]} {{
      %0 = "chlo.ragged_dot"(%x, %y, %g) <{{ragged_dot_dimension_numbers = #chlo.ragged_dot<{numbers}>}}>
        : ({types[0]}, {types[1]}, {types[2]}) -> {types[3]}
      return %0 : {types[3]}
    }}"""


BATCHED = "lhs_batching_dimensions = [0], rhs_batching_dimensions = [{rhs}],"


def groups_of(sizes: Any, n: int) -> list[int]:
    """The group of each element; -1 for those of none."""
    found = [g for g, count in enumerate(sizes) for _ in range(count)]
    return (found + [-1] * n)[:n]


@pytest.mark.parametrize("sizes", [[4, 0, 5], [[1, 2, 3], [0, 9, 2]]])
def test_groups_of_rows_in_batches(run: Any, sizes: Any) -> None:
    numbers = (
        BATCHED.format(rhs=1)
        + """lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [2],
        lhs_ragged_dimensions = [1], rhs_group_dimensions = [0],"""
    )
    x, y = (rng().integers(-4, 4, s).astype(np.float32) for s in ((2, 11, 5), (3, 2, 5, 7)))
    given = np.array(sizes, np.int32)
    y[0, 1, 2] = np.nan  # reaches the rows of its own group alone
    expected = np.zeros((2, 11, 7), np.float32)
    for b in range(2):
        for row, group in enumerate(groups_of(given if given.ndim == 1 else given[b], 11)):
            expected[b, row] = x[b, row] @ y[group, b] if group >= 0 else 0
    (found,) = run(ragged_text(numbers, x.shape, y.shape, given.shape, expected.shape), x, y, given)
    np.testing.assert_array_equal(found, expected)


def test_groups_of_rows(run: Any) -> None:
    numbers = """lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [1],
        lhs_ragged_dimensions = [1], rhs_group_dimensions = [2]"""
    x, y = (rng().integers(-4, 4, s).astype(np.float32) for s in ((5, 9), (7, 5, 3)))
    y[0, 0, 1] = np.inf
    sizes = np.array([4, 0, 3], np.int32)
    expected = np.zeros((9, 7), np.float32)
    for row, group in enumerate(groups_of(sizes, 9)):
        expected[row] = y[..., group] @ x[:, row] if group >= 0 else 0
    (found,) = run(ragged_text(numbers, x.shape, y.shape, sizes.shape, expected.shape), x, y, sizes)
    np.testing.assert_array_equal(found, expected)


def test_groups_of_rows_in_outer_products(run: Any) -> None:
    numbers = (
        BATCHED.format(rhs=1)
        + """lhs_contracting_dimensions = [], rhs_contracting_dimensions = [],
        lhs_ragged_dimensions = [1], rhs_group_dimensions = [0]"""
    )
    x, y = (rng().integers(-4, 4, s).astype(np.float32) for s in ((2, 5), (3, 2, 4)))
    sizes = np.array([2, 0, 2], np.int32)
    expected = np.zeros((2, 5, 4), np.float32)
    for row, group in enumerate(groups_of(sizes, 5)):
        expected[:, row] = x[:, row, None] * y[group] if group >= 0 else 0
    (found,) = run(ragged_text(numbers, x.shape, y.shape, sizes.shape, expected.shape), x, y, sizes)
    np.testing.assert_array_equal(found, expected)


NUMPY = {"f32": np.dtype(np.float32), "bf16": np.dtype(ml_dtypes.bfloat16), "i8": np.dtype(np.int8)}


@pytest.mark.parametrize("factors", [("f32", "f32"), ("f32", "bf16"), ("bf16", "f32"), ("bf16", "i8")])
def test_groups_of_contracted_elements(run: Any, factors: tuple[str, str]) -> None:
    numbers = (
        BATCHED.format(rhs=0)
        + """lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1],
        lhs_ragged_dimensions = [2], rhs_group_dimensions = []"""
    )
    x, y = (rng().integers(-4, 4, s).astype(np.float32) for s in ((2, 3, 8), (2, 8, 4)))
    sizes = np.array([3, 4], np.int32)
    x[0, 1, 2] = np.nan  # in one group each, so that the other one is finite
    y[1, 5, 0] = 5 if factors[1] == "i8" else np.nan
    expected = np.stack([x[:, :, :3] @ y[:, :3], x[:, :, 3:7] @ y[:, 3:7]])
    text = ragged_text(numbers, x.shape, y.shape, sizes.shape, expected.shape, factors)
    (found,) = run(text, *(t.astype(NUMPY[name]) for t, name in zip((x, y), factors, strict=True)), sizes)
    np.testing.assert_array_equal(found, expected)


def test_groups_of_batches(run: Any) -> None:
    numbers = (
        BATCHED.format(rhs=0)
        + """lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1],
        lhs_ragged_dimensions = [0], rhs_group_dimensions = []"""
    )
    x, y = (rng().integers(-4, 4, s).astype(np.float32) for s in ((3, 2, 4), (3, 4, 5)))
    (found,) = run(ragged_text(numbers, x.shape, y.shape, (2,), (3, 2, 5)), x, y, np.array([1, 2], np.int32))
    np.testing.assert_array_equal(found, x @ y)


@pytest.mark.parametrize(("more", "sizes", "message"), [
    ("lhs_ragged_dimensions = [0], rhs_group_dimensions = []", (2,), "has one group dimension of its own"),
    ("lhs_ragged_dimensions = [], rhs_group_dimensions = [0]", (2,), "has 0 ragged dimensions"),
    ("lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]", (2, 2), r"integers of shape \[g\] or \[2\]"),
])  # fmt: skip
def test_groups_that_are_wrong(more: str, sizes: Any, message: str) -> None:
    numbers = f"lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], {more}"
    with pytest.raises(CompileError, match=message):
        pd.compile(ragged_text(numbers, (4, 3), (2, 3, 5), sizes, (4, 5)))


@pytest.mark.parametrize(("image", "kernel", "result"), [
    ((0, 4, 4, 2), (3, 3, 2, 5), (0, 2, 2, 5)),
    ((1, 0, 4, 2), (3, 3, 2, 5), (1, 0, 2, 5)),
    ((1, 2, 4, 2), (3, 3, 2, 5), (1, 0, 2, 5)),
    ((1, 4, 4, 0), (3, 3, 0, 5), (1, 2, 2, 5)),
    ((1, 4, 4, 2), (3, 3, 2, 0), (1, 2, 2, 0)),
    ((1, 4, 4, 2), (0, 3, 2, 5), (1, 5, 2, 5)),
])  # fmt: skip
def test_convolutions_of_nothing(run: Any, image: Any, kernel: Any, result: Any) -> None:
    types = ["tensor<" + "x".join(map(str, (*s, "f32"))) + ">" for s in (image, kernel, result)]
    (found,) = run(f"""func.func @main(%x: {types[0]}, %w: {types[1]}) -> {types[2]} {{
      %0 = stablehlo.convolution(%x, %w) dim_numbers = {PLAIN_CONV}, window = {{}}
        {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : ({types[0]}, {types[1]}) -> {types[2]}
      return %0 : {types[2]}
    }}""", np.ones(image, np.float32), np.ones(kernel, np.float32))  # fmt: skip
    assert found.shape == result and not found.any()


PAD = """func.func @main(%x: tensor<?x?xf32>, %v: tensor<f32>, %low: tensor<2xi32>, %high: tensor<2xi32>,
        %interior: tensor<2xi32>) -> tensor<?x?xf32> {
      %0 = stablehlo.dynamic_pad %x, %v, %low, %high, %interior : (tensor<?x?xf32>, tensor<f32>, tensor<2xi32>,
        tensor<2xi32>, tensor<2xi32>) -> tensor<?x?xf32>
      return %0 : tensor<?x?xf32>
    }"""


def test_padding_that_a_call_decides() -> None:
    main = pd.device("cpu").load(pd.compile(PAD)).main
    for shape, low, high, interior in (
        ((2, 3), (1, 0), (0, 2), (2, 1)), ((3, 2), (-1, 2), (-2, -1), (1, 0)), ((1, 4), (0, 0), (0, 0), (5, 3)),
        ((0, 2), (1, 0), (2, 0), (3, 1)),
    ):  # fmt: skip
        x = rng().integers(1, 9, shape).astype(np.float32)
        spread = np.full([max((n - 1) * (i + 1) + 1, 0) for n, i in zip(shape, interior, strict=True)], -1, np.float32)
        spread[tuple(slice(None, None, i + 1) for i in interior)] = x
        expected = np.pad(spread, [(max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True)], constant_values=-1)
        expected = expected[
            tuple(slice(max(-a, 0), n - max(-b, 0)) for a, b, n in zip(low, high, expected.shape, strict=True))
        ]
        words = [np.array(each, np.int32) for each in (low, high, interior)]
        np.testing.assert_array_equal(main(x, np.float32(-1), *words), expected)
    with pytest.raises(pd.Error, match="the interior padding is negative"):
        main(np.ones((2, 2), np.float32), np.float32(0), *(np.array(w, np.int32) for w in ((0, 0), (0, 0), (-1, 0))))


@pytest.mark.parametrize("interior", [0, 2])
def test_edges_of_padding_that_crop(interior: int) -> None:
    """As the specification says, element i of x is element low + i * (interior + 1) of the result, if that exists."""
    main = (
        pd.device("cpu")
        .load(
            pd.compile(f"""
    func.func @main(%x: tensor<?xf32>, %v: tensor<f32>, %low: tensor<1xi32>, %high: tensor<1xi32>) -> tensor<?xf32> {{
      %between = stablehlo.constant dense<{interior}> : tensor<1xi32>
      %0 = stablehlo.dynamic_pad %x, %v, %low, %high, %between : (tensor<?xf32>, tensor<f32>, tensor<1xi32>,
        tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>
      return %0 : tensor<?xf32>
    }}""")
        )
        .main
    )
    for size, low, high in itertools.product((0, 1, 4), (-6, -2, 0, 1), (-6, -1, 0, 9)):
        x = np.arange(1, size + 1, dtype=np.float32)
        words = [np.array([n], np.int32) for n in (low, high)]
        total = size + low + high + max(size - 1, 0) * interior
        if total < 0:
            with pytest.raises(pd.Error, match=r"negative padding crops more of axis 0 of .* than the axis has"):
                main(x, np.float32(-1), *words)
            continue
        expected = np.full(total, -1, np.float32)
        for n, element in enumerate(x):
            if 0 <= low + n * (interior + 1) < total:
                expected[low + n * (interior + 1)] = element
        np.testing.assert_array_equal(main(x, np.float32(-1), *words), expected, err_msg=f"{size}, {low}, {high}")


@pytest.mark.parametrize(("low", "high"), [(-5, 10), (10, -5), (-3, 0), (-1, -2)])
def test_static_padding_that_crops(low: int, high: int, run: Any) -> None:
    total = 3 + low + high
    (result,) = run(f"""func.func @main(%x: tensor<3xf32>, %v: tensor<f32>) -> tensor<{total}xf32> {{
      %0 = stablehlo.pad %x, %v, low = [{low}], high = [{high}], interior = [0]
        : (tensor<3xf32>, tensor<f32>) -> tensor<{total}xf32>
      return %0 : tensor<{total}xf32>
    }}""", np.ones(3, np.float32), np.float32(7))  # fmt: skip
    grown = np.pad(np.ones(3, np.float32), [(max(low, 0), max(high, 0))], constant_values=7)
    np.testing.assert_array_equal(result, grown[max(-low, 0) : len(grown) - max(-high, 0)])


# -- checks of test programs

CHECKED = {
    "eq": "check.expect_eq %x, %y : tensor<3xf32>",
    "eq_const": "check.expect_eq_const %y, dense<[1.0, 2.0, 4.0]> : tensor<3xf32>",
    "almost": "check.expect_almost_eq %x, %y, tolerance = 1.0e-5 : tensor<3xf32>",
    "almost_typed": "check.expect_almost_eq %x, %y, tolerance = 1.0e-5 : f64 : tensor<3xf32>",
    "almost_const": "check.expect_almost_eq_const %y, dense<[1.0, 2.0, 4.0]> : tensor<3xf32>",
    "almost_dict": "check.expect_almost_eq_const %y, dense<[1.0, 2.0, 4.0]> : tensor<3xf32> {tolerance = 0.001 : f64}",
    "close": "check.expect_close %x, %y, max_ulp_difference = 2, min_ulp_difference = 0 : tensor<3xf32>, tensor<3xf32>",
    "call_close": "stablehlo.custom_call @check.expect_close(%x, %y) {has_side_effect = true} : (tensor<3xf32>, "
                  "tensor<3xf32>) -> ()",
    "call_almost": "stablehlo.custom_call @check.expect_almost_eq(%x, %y) : (tensor<3xf32>, tensor<3xf32>) -> ()",
    "call_eq": "stablehlo.custom_call @check.expect_eq(%x, %y) : (tensor<3xf32>, tensor<3xf32>) -> ()",
    "call_truth": "%t = stablehlo.custom_call @check.eq(%x, %y) : (tensor<3xf32>, tensor<3xf32>) -> tensor<i1>",
    "probe": '%p = interpreter.probe %y, probe_id = "a"  : tensor<3xf32>\n'
             '  check.expect_serialized_eq %x, probe_id = "a", iter = 0 : tensor<3xf32>',
}  # fmt: skip


def checked(names: Any, second: float) -> str:
    """A test function for each of these checks, of [1, 2, 4] and [1, 2, second]."""
    return "\n".join(f"""func.func @{name}() {{
      %c = stablehlo.constant dense<[1.0, 2.0, 4.0]> : tensor<3xf32>
      %d = stablehlo.constant dense<[1.0, 2.0, {second}]> : tensor<3xf32>
      %x = stablehlo.abs %c : tensor<3xf32>
      %y = stablehlo.abs %d : tensor<3xf32>
      {CHECKED[name]}
      return
    }}""" for name in names)  # fmt: skip


def test_checks_of_test_programs() -> None:
    device = pd.device("cpu")
    passing, failing = (device.load(pd.compile(checked(CHECKED, second))) for second in ("4.0", "4.5"))
    assert set(passing.functions) == set(CHECKED)
    for name in CHECKED:
        passing[name]()
        with pytest.raises(pd.CheckError, match=r"element \[2\] is 4"):
            failing[name]()


PROBED = """func.func @main() {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %r = stablehlo.while(%i = %c) : tensor<i32> cond {
    %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %2 = stablehlo.add %i, %one : tensor<i32>
    %3 = interpreter.probe %2, probe_id = "p" : tensor<i32>
    stablehlo.return %3 : tensor<i32>
  }
  check.expect_serialized_eq %one, probe_id = "p" : tensor<i32>
  check.expect_serialized_eq %two, probe_id = "p", iter = 1 : tensor<i32>
  check.expect_eq %r, %n : tensor<i32>
  return
}"""


def test_probes_of_a_loop() -> None:
    device = pd.device("cpu")
    device.load(pd.compile(PROBED)).main()
    probe = 'interpreter.probe %2, probe_id = "p" : tensor<i32>\n'
    twice = PROBED.replace(f"%3 = {probe}", f"%3 = {probe}%4 = {probe}").replace("iter = 1", "iter = 3")
    device.load(pd.compile(twice)).main()
    with pytest.raises(pd.CheckError, match=r"element \[\] is 3, expected 2"):
        device.load(pd.compile(PROBED.replace("iter = 1", "iter = 2"))).main()
    with pytest.raises(pd.Error, match="probe 'p' has no value of iteration 3 of the loop"):
        device.load(pd.compile(PROBED.replace("iter = 1", "iter = 3"))).main()


def test_probes_whose_values_a_check_cannot_read_are_refused() -> None:
    with pytest.raises(CompileError, match=r"probe 'q' has seen 0 value\(s\)"):
        pd.compile(PROBED.replace('%one, probe_id = "p"', '%one, probe_id = "q"'))
    with pytest.raises(CompileError, match="names iteration 32 of probe 'p', and a loop records the first 32"):
        pd.compile(PROBED.replace("iter = 1", "iter = 32"))
    text = """func.func @main(%b: tensor<i1>) -> tensor<i32> {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %r = "stablehlo.if"(%b) ({
        %3 = interpreter.probe %one, probe_id = "p" : tensor<i32>
        stablehlo.return %3 : tensor<i32>
      }, {
        stablehlo.return %one : tensor<i32>
      }) : (tensor<i1>) -> tensor<i32>
      check.expect_serialized_eq %one, probe_id = "p" : tensor<i32>
      return %r : tensor<i32>
    }"""
    with pytest.raises(CompileError, match="probe 'p' is in a branch, a called function or a loop within a loop"):
        pd.compile(text)


def test_calls_of_checks_compare_integers_and_booleans_exactly() -> None:
    kinds = [(name, element) for name in ("eq", "expect_close", "expect_almost_eq") for element in ("i1", "i8", "ui32")]

    def program(last: int) -> str:
        tests = []
        for name, element in kinds:
            type_ = f"tensor<3x{element}>"
            result, results = ("%t = ", "tensor<i1>") if name == "eq" else ("", "()")
            tests.append(f"""func.func @{name}_{element}() {{
              %c = stablehlo.constant dense<[1, 0, 1]> : {type_}
              %x = util.optimization_barrier %c : {type_}
              %y = stablehlo.constant dense<[1, 0, {last}]> : {type_}
              {result}stablehlo.custom_call @check.{name}(%x, %y) : ({type_}, {type_}) -> {results}
              return
            }}""")
        return "\n".join(tests)

    device = pd.device("cpu")
    passing, failing = (device.load(pd.compile(program(last))) for last in (1, 0))
    for name, element in kinds:
        passing[f"{name}_{element}"]()
        with pytest.raises(pd.CheckError, match=r"check.expect_eq: element \[2\] is (1|True), expected (0|False)"):
            failing[f"{name}_{element}"]()


@pytest.mark.parametrize(("line", "message"), [
    ("check.expect_eq %x : tensor<3xf32>", "','"),
    ("check.expect_eq %x, %x, tolerance = 1.0 : tensor<3xf32>", "expected no option, each once, got 'tolerance'"),
    ("check.expect_eq_const %x, 1.0 : f32", "expected a constant with its type"),
    ("check.expect_eq_const %x, dense<1> : tensor<3xi32>", "type"),
    ("check.expect_close %x, %x, max_ulp = 1 : tensor<3xf32>", "expected max_ulp_difference and min_ulp_difference"),
    ("check.expect_close %x, %x : tensor<3xf32>", "max_ulp_difference"),
    ("stablehlo.custom_call @check.expect_eq(%x) : (tensor<3xf32>) -> ()", "a check compares 2 tensors, got 1"),
])  # fmt: skip
def test_checks_that_are_wrong(line: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        pd.compile(f"func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {{\n %0 = stablehlo.abs %x : tensor<3xf32>\n "
                   f"{line}\n return %0 : tensor<3xf32>\n}}")  # fmt: skip


# -- indices of extremes

INDEX_OF_EXTREME = """func.func @main(%x: tensor<2x6xf32>) -> tensor<2xi32> {{
  %index = stablehlo.iota dim = 1 : tensor<2x6xi32>
  %start = stablehlo.constant dense<{start}> : tensor<f32>
  %none = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.reduce(%x init: %start), (%index init: %none) across dimensions = [1]
      : (tensor<2x6xf32>, tensor<2x6xi32>, tensor<f32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>)
      reducer(%a: tensor<f32>, %b: tensor<f32>) (%i: tensor<i32>, %j: tensor<i32>) {{
    %better = stablehlo.compare GT, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %nan = stablehlo.compare NE, %a, %a, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %stays = stablehlo.or %better, %nan : tensor<i1>
    %equal = stablehlo.compare EQ, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %preferred = stablehlo.compare {order}, %i, %j, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %tied = stablehlo.and %equal, %preferred : tensor<i1>
    %index_stays = stablehlo.or %stays, %tied : tensor<i1>
    %value = stablehlo.select %stays, %a, %b : tensor<i1>, tensor<f32>
    %place = stablehlo.select %index_stays, %i, %j : tensor<i1>, tensor<i32>
    stablehlo.return %value, %place : tensor<f32>, tensor<i32>
  }}
  return %r#1 : tensor<2xi32>
}}"""


@pytest.mark.parametrize(("order", "start", "expected"), [
    ("LT", "0xFF800000", [1, 2]), ("GT", "0xFF800000", [4, 2]), ("LT", "9.0", [0, 2]),
])  # fmt: skip
def test_indices_of_extremes(run: Any, order: str, start: str, expected: list[int]) -> None:
    """The first row has equal elements, the second NaN. JAX writes the first form; the others prefer the last of equal
    elements, and start with a number that is larger than all.
    """
    x = np.array([[1, 7, -2, 3, 7, 0], [5, 1, np.nan, 8, 2, 3]], np.float32)
    text = INDEX_OF_EXTREME.format(order=order, start=start)
    np.testing.assert_array_equal(run(text, x)[0], expected)
