"""Sizes that do not fit, known in calls only: the call is refused before a kernel reads or writes outside."""

import numpy as np
import pytest

import pydispatch as pd

TAKE = """
func.func @f(%x: tensor<?xf32>, %n: index) -> tensor<?xf32> {{
  %s = tensor.extract_slice %x[{offset}] [%n] [{stride}] : tensor<?xf32> to tensor<?xf32>
  %y = arith.negf %s : tensor<?xf32>
  return %y : tensor<?xf32>
}}
"""

TAKE_STATIC = """
func.func @f(%x: tensor<?xf32>, %at: index) -> tensor<4xf32> {
  %s = tensor.extract_slice %x[%at] [4] [2] : tensor<?xf32> to tensor<4xf32>
  %y = arith.negf %s : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""

TAKE_STEPS = """
func.func @f(%x: tensor<?xf32>, %n: index, %step: index) -> tensor<?xf32> {
  %s = tensor.extract_slice %x[1] [%n] [%step] : tensor<?xf32> to tensor<?xf32>
  %y = arith.negf %s : tensor<?xf32>
  return %y : tensor<?xf32>
}
"""

PUT = """
func.func @f(%x: tensor<?xf32>, %v: tensor<?xf32>, %n: index) -> tensor<?xf32> {
  %s = arith.negf %v : tensor<?xf32>
  %y = tensor.insert_slice %s into %x[1] [%n] [2] : tensor<?xf32> into tensor<?xf32>
  return %y : tensor<?xf32>
}
"""

WINDOW = """
#in = affine_map<(i, k) -> (i * 2 + k * 3)>
#shape = affine_map<(i, k) -> (k)>
#out = affine_map<(i, k) -> (i)>
func.func @f(%x: tensor<?xf32>, %w: tensor<?xf32>, %n: index) -> tensor<?xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %y = linalg.generic {indexing_maps = [#in, #shape, #out], iterator_types = ["parallel", "reduction"]}
      ins(%x, %w : tensor<?xf32>, tensor<?xf32>) outs(%z : tensor<?xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  return %y : tensor<?xf32>
}
"""

MIRROR = """
#in = affine_map<(i) -> (7 - i)>
#out = affine_map<(i) -> (i)>
func.func @f(%x: tensor<?xf32>, %n: index) -> tensor<?xf32> {
  %e = tensor.empty(%n) : tensor<?xf32>
  %y = linalg.generic {indexing_maps = [#in, #out], iterator_types = ["parallel"]}
      ins(%x : tensor<?xf32>) outs(%e : tensor<?xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<?xf32>
  return %y : tensor<?xf32>
}
"""

BLOCKS = """
#in = affine_map<(i, j) -> (i floordiv 2, j mod 3)>
#out = affine_map<(i, j) -> (i, j)>
func.func @f(%x: tensor<?x?xf32>, %m: index, %n: index) -> tensor<?x?xf32> {
  %e = tensor.empty(%m, %n) : tensor<?x?xf32>
  %y = linalg.generic {indexing_maps = [#in, #out], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<?x?xf32>) outs(%e : tensor<?x?xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}
"""

TWICE = """
#in = affine_map<(i) -> (i * 3 - i)>
#out = affine_map<(i) -> (i)>
func.func @f(%x: tensor<?xf32>, %n: index) -> tensor<?xf32> {
  %e = tensor.empty(%n) : tensor<?xf32>
  %y = linalg.generic {indexing_maps = [#in, #out], iterator_types = ["parallel"]}
      ins(%x : tensor<?xf32>) outs(%e : tensor<?xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<?xf32>
  return %y : tensor<?xf32>
}
"""

EXPAND = """
#id = affine_map<(i, j) -> (i, j)>
#turned = affine_map<(i, j) -> (j, i)>
func.func @f(%x: tensor<?xf32>, %m: index, %n: index) -> tensor<?x?xf32> {
  %v = tensor.expand_shape %x [[0, 1]] output_shape [%m, %n] : tensor<?xf32> into tensor<?x?xf32>
  %e = tensor.empty(%n, %m) : tensor<?x?xf32>
  %y = linalg.generic {indexing_maps = [#turned, #id], iterator_types = ["parallel", "parallel"]}
      ins(%v : tensor<?x?xf32>) outs(%e : tensor<?x?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %b = arith.negf %a : f32
    linalg.yield %b : f32
  } -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}
"""

HUGE = [1 << 31, 1 << 40, (1 << 62) + 1, (1 << 63) - 1, -1, -(1 << 63)]


def load(text: str):
    return pd.device("cpu").load(pd.compile(text)).f


def numbers(n: int):
    return np.arange(1, n + 1, dtype=np.float32)


def refused(f, text: str, *arguments: object) -> None:
    with pytest.raises(pd.InvalidArgumentError, match=text):
        f(*arguments)


@pytest.mark.parametrize("offset, stride, most", [(0, 1, 9), (2, 1, 7), (2, 3, 3), (0, 4, 3), (9, 1, 0), (11, 2, 0)])
def test_slices_of_computed_size(offset, stride, most):
    f = load(TAKE.format(offset=offset, stride=stride))
    x = numbers(9)
    for n in range(most + 1):
        np.testing.assert_array_equal(f(x, n), -x[offset::stride][:n])
    for n in (most + 1, *HUGE):
        refused(f, "the slice ends outside", x, n)


def test_the_refusal_names_the_operation_and_its_line():
    f = load(TAKE.format(offset=2, stride=3))
    refused(f, r"'tensor.extract_slice', axis 0: the slice ends outside.*:3", numbers(9), 4)


def test_slices_of_static_size():
    f = load(TAKE_STATIC)
    np.testing.assert_array_equal(f(numbers(7), 0), [-1, -3, -5, -7])
    np.testing.assert_array_equal(f(numbers(8), 1000), [-2, -4, -6, -8])  # the offset is moved inside
    refused(f, "the slice ends outside", numbers(6), 0)
    refused(f, "the slice ends outside", numbers(0), 0)


SIZE_OF_RESULT = """
func.func @f(%x: tensor<3x10xf32>, %n: index) -> tensor<{result}xf32> {{
  %s = tensor.extract_slice %x[1, 2] [{rows}, %n] [1, 1] : tensor<3x10xf32> to tensor<{result}xf32>
  {computed}
  return {value} : tensor<{result}xf32>
}}
"""


@pytest.mark.parametrize(("rows", "result", "computed"), [
    (1, "4", False), (1, "1", False), (1, "1x1", False), (1, "4", True), (1, "1", True), (2, "2x4", True),
    (2, "2x1", True),
])  # fmt: skip
def test_slices_have_the_static_sizes_of_their_results(rows: int, result: str, computed: bool) -> None:
    """Views, and slices that a kernel reads."""
    computation = f"%y = arith.negf %s : tensor<{result}xf32>" if computed else ""
    text = SIZE_OF_RESULT.format(rows=rows, result=result, computed=computation, value="%y" if computed else "%s")
    function = load(text)
    x = np.arange(30, dtype=np.float32).reshape(3, 10)
    columns = int(result[-1])
    shape = tuple(map(int, result.split("x")))
    wanted = x[1 : 1 + rows, 2 : 2 + columns].reshape(shape)
    np.testing.assert_array_equal(function(x, columns), -wanted if computed else wanted)
    for n in (0, columns - 1, columns + 1):
        with pytest.raises(pd.InvalidArgumentError, match=r"extract_slice', axis \d: the slice has|must be equal"):
            function(x, n)


def test_slices_of_computed_stride():
    f = load(TAKE_STEPS)
    np.testing.assert_array_equal(f(numbers(9), 2, 7), [-2, -9])
    np.testing.assert_array_equal(f(numbers(9), 1, 1 << 62), [-2])
    refused(f, "the slice ends outside", numbers(9), 2, 8)
    refused(f, "the slice ends outside", numbers(9), 3, (1 << 63) - 1)
    np.testing.assert_array_equal(f(numbers(9), 2, -1), [-2, -1])
    refused(f, "the slice ends outside", numbers(9), 3, -1)
    refused(f, "the slice ends outside", numbers(1), 1, -1)
    refused(f, "the slice ends outside", numbers(9), 2, -2)
    refused(f, "does not fit into 64 bits", numbers(9), 2, -(1 << 63))
    np.testing.assert_array_equal(f(numbers(9), 3, 0), [-2, -2, -2])


BACK = """
func.func @f(%x: tensor<?xf32>, %at: index, %n: index) -> tensor<?xf32> {{
  %s = tensor.extract_slice %x[{offset}] [%n] [{stride}] : tensor<?xf32> to tensor<?xf32>
  %y = arith.negf %s : tensor<?xf32>
  return %y : tensor<?xf32>
}}
"""


def test_slices_that_run_backwards():
    f = load(BACK.format(offset=5, stride=-2))
    np.testing.assert_array_equal(f(numbers(6), 0, 3), [-6, -4, -2])
    refused(f, "the slice ends outside", numbers(6), 0, 4)
    refused(f, "the slice ends outside", numbers(5), 0, 1)
    f = load(BACK.format(offset="%at", stride=-2))
    for at, first in ((0, 5), (4, 5), (5, 6), (6, 7), (1 << 62, 7), (-1, 5)):
        np.testing.assert_array_equal(f(numbers(7), at, 3), [-first, 2 - first, 4 - first])
    refused(f, "the slice ends outside", numbers(7), 0, 5)


def test_slices_that_stand_still():
    f = load(BACK.format(offset=5, stride=0))
    np.testing.assert_array_equal(f(numbers(6), 0, 9), [-6] * 9)
    refused(f, "the slice ends outside", numbers(5), 0, 1)
    assert f(numbers(5), 0, 0).shape == (0,)


def test_insertions_of_computed_size():
    f = load(PUT)
    np.testing.assert_array_equal(f(numbers(6), numbers(2), 2), [1, -1, 3, -2, 5, 6])
    np.testing.assert_array_equal(f(numbers(6), numbers(3), 3), [1, -1, 3, -2, 5, -3])
    refused(f, "the slice ends outside", numbers(6), numbers(4), 4)
    refused(f, "axis 0: the slice has another number of elements", numbers(6), numbers(2), 3)


OVERWRITE = """
func.func @f(%x: tensor<?xf32>, %v: tensor<?xf32>) -> tensor<?xf32> {
  %zero = arith.constant 0 : index
  %n = tensor.dim %x, %zero : tensor<?xf32>
  %y = tensor.insert_slice %v into %x[0] [%n] [1] : tensor<?xf32> into tensor<?xf32>
  return %y : tensor<?xf32>
}
"""


def test_insertions_that_overwrite_all_of_a_tensor():
    f = load(OVERWRITE)
    np.testing.assert_array_equal(f(numbers(5), -numbers(5)), -numbers(5))
    refused(f, "'tensor.insert_slice'.*must be equal", numbers(5), numbers(3))
    refused(f, "'tensor.insert_slice'.*must be equal", numbers(3), numbers(5))


def test_windows():
    f = load(WINDOW)
    x, w = numbers(11), numbers(3)
    np.testing.assert_array_equal(f(x, w, 3), [sum(x[i * 2 + k * 3] * w[k] for k in range(3)) for i in range(3)])
    assert f(x, w, 0).shape == (0,)
    np.testing.assert_array_equal(f(x, numbers(0), 100), np.zeros(100))  # nothing is read
    refused(f, r"'linalg.generic', operand 0, axis 0: the windows end outside.*:9", x, w, 4)
    refused(f, "the windows end outside", numbers(10), w, 3)
    refused(f, "the windows end outside", numbers(0), w, 1)


def test_windows_that_run_backwards():
    f = load(MIRROR)
    np.testing.assert_array_equal(f(numbers(8), 8), numbers(8)[::-1])
    refused(f, "the windows end outside", numbers(8), 9)
    refused(f, "the windows end outside", numbers(7), 1)


def test_blocks():
    f = load(BLOCKS)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    want = x[np.arange(4)[:, None] // 2, np.arange(5)[None] % 3]
    np.testing.assert_array_equal(f(x, 4, 5), want)
    np.testing.assert_array_equal(f(x[:, :2].copy(), 3, 2), x[np.arange(3) // 2][:, :2])
    refused(f, "operand 0, axis 0: the windows end outside", x, 5, 5)
    refused(f, "operand 0, axis 1: the windows end outside", x[:, :2].copy(), 4, 3)


def test_expanded_shapes():
    f = load(EXPAND)
    np.testing.assert_array_equal(f(numbers(6), 2, 3), -numbers(6).reshape(2, 3).T)
    refused(f, r"'tensor.expand_shape'.*:5", numbers(6), 3, 3)
    refused(f, "'tensor.expand_shape'", numbers(6), 6, 0)


EXPAND_AND_COLLAPSE = """
func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> {
  %zero = arith.constant 0 : index
  %four = arith.constant 4 : index
  %size = tensor.dim %x, %zero : tensor<?xf32>
  %rows = arith.divui %size, %four : index
  %v = tensor.expand_shape %x [[0, 1]] output_shape [%rows, 4] : tensor<?xf32> into tensor<?x4xf32>
  %y = tensor.collapse_shape %v [[0, 1]] : tensor<?x4xf32> into tensor<?xf32>
  return %y : tensor<?xf32>
}
"""


def test_expanded_shapes_that_are_collapsed_again():
    f = load(EXPAND_AND_COLLAPSE)
    np.testing.assert_array_equal(f(numbers(8)), numbers(8))
    refused(f, "'tensor.expand_shape'.*must be equal", numbers(6))


EXPAND_AND_COLLAPSE_STATIC = """
func.func @f(%x: tensor<8xf32>, %rows: index) -> tensor<8xf32> {
  %v = tensor.expand_shape %x [[0, 1]] output_shape [%rows, 4] : tensor<8xf32> into tensor<?x4xf32>
  %y = tensor.collapse_shape %v [[0, 1]] : tensor<?x4xf32> into tensor<8xf32>
  return %y : tensor<8xf32>
}
"""


def test_expanded_shapes_that_are_collapsed_to_static_ones():
    f = load(EXPAND_AND_COLLAPSE_STATIC)
    np.testing.assert_array_equal(f(numbers(8), 2), numbers(8))
    refused(f, "'tensor.expand_shape'.*must be equal", numbers(8), 3)


BITS = """
func.func @f(%x: tensor<?xf32>, %n: index) -> tensor<?xi16> {
  %zero = arith.constant 0 : index
  %m = tensor.dim %x, %zero : tensor<?xf32>
  %a = math.absf %x : tensor<?xf32>
  %b = flow.tensor.bitcast %a : tensor<?xf32>{%m} -> tensor<?xi16>{%n}
  %y = arith.addi %b, %b : tensor<?xi16>
  return %y : tensor<?xi16>
}
"""


def test_bits_of_other_types():
    f = load(BITS)
    assert np.array_equal(f(numbers(5), 10), 2 * numbers(5).view(np.int16))
    for n in (0, 8, 9, 11, 4096):
        refused(f, "the result has another number of bits", numbers(5), n)


def test_positions_without_an_exact_range_are_moved_inside():
    f = load(TWICE)
    np.testing.assert_array_equal(f(numbers(7), 4), [1, 3, 5, 7])
    np.testing.assert_array_equal(f(numbers(6), 5), [1, 3, 5, 6, 6])
    refused(f, "the windows end outside", numbers(0), 1)


PACK = """
func.func @f(%x: tensor<?xf32>, %n: index) -> tensor<?x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?x4xf32>
  %p = linalg.pack %x padding_value(%zero : f32) inner_dims_pos = [0] inner_tiles = [4] into %e
      : tensor<?xf32> -> tensor<?x4xf32>
  return %p : tensor<?x4xf32>
}
"""


def test_packing_into_too_few_tiles():
    f = pd.device("cpu").load(pd.compile(PACK)).f
    x = np.arange(10, dtype=np.float32)
    for tiles in (3, 5):
        np.testing.assert_array_equal(f(x, tiles).ravel(), np.pad(x, (0, 4 * tiles - 10)))
    with pytest.raises(pd.InvalidArgumentError, match="axis 0: the result is smaller than what is padded"):
        f(x, 2)


CONCAT = """
func.func @f(%x: tensor<?x2xf32>, %y: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %r = tensor.concat dim(1) %x, %y : (tensor<?x2xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
"""

SCATTER = """
func.func @f(%x: tensor<?x?xf32>, %rows: tensor<?x?xf32>, %at: tensor<?x1xi64>) -> tensor<?x?xf32> {
  %r = tensor.scatter %rows into %x[%at] scatter_dims([0]) unique
      : (tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x1xi64>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}
"""


def test_joined_tensors_have_the_same_rows():
    f = load(CONCAT)
    for rows in (0, 1, 5):
        x, y = np.ones((rows, 2), np.float32), np.zeros((rows, 3), np.float32)
        np.testing.assert_array_equal(f(x, y), np.concatenate([x, y], 1))
    for rows in (0, 1, 4, 6, 3000):
        refused(f, f"argument 1 .'y'. is {rows}, .* is 5; they must be equal", np.ones((5, 2), np.float32),
                np.ones((rows, 3), np.float32))  # fmt: skip


PAD = """
func.func @f(%x: tensor<5xf32>) -> tensor<?xf32> {{
  %low = arith.constant {} : index
  %high = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %y = tensor.pad %x low[%low] high[%high] {{
  ^bb0(%i: index):
    tensor.yield %zero : f32
  }} : tensor<5xf32> to tensor<?xf32>
  return %y : tensor<?xf32>
}}
"""


@pytest.mark.parametrize("low", [0, 2])
def test_amounts_of_padding_that_are_constants(low: int) -> None:
    x = numbers(5)
    np.testing.assert_array_equal(load(PAD.format(low))(x), np.pad(x, (low, 1)))


def test_negative_amounts_of_padding() -> None:
    with pytest.raises(pd.CompileError, match=r"'tensor\.pad', axis 0: the result is smaller than what is padded"):
        pd.compile(PAD.format(-1))


def test_scattered_slices_fit_their_indices_and_the_destination():
    f = load(SCATTER)
    x, at = np.zeros((8, 4), np.float32), np.array([[2], [7], [0]])
    rows = np.arange(12, dtype=np.float32).reshape(3, 4)
    expected = x.copy()
    expected[at[:, 0]] = rows
    np.testing.assert_array_equal(f(x, rows, at), expected)
    np.testing.assert_array_equal(f(x, rows[:0], at[:0]), x)
    for shape in ((2, 4), (300, 4), (3, 3), (3, 400), (0, 4), (3, 0)):
        refused(f, "they must be equal", x, np.ones(shape, np.float32), at)
