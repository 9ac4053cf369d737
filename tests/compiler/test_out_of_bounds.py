"""Indices that the program computes wrongly: kernels stay inside their buffers, and say what they read by its place."""

import numpy as np
import pytest

import pydispatch as pd

EXTRACT = """
#id = affine_map<(i) -> (i)>
func.func @f(%x: tensor<{n}xf32>, %at: tensor<8xi64>) -> tensor<8xf32> {{
  %e = tensor.empty() : tensor<8xf32>
  %y = linalg.generic {{indexing_maps = [#id, #id], iterator_types = ["parallel"]}}
      ins(%at : tensor<8xi64>) outs(%e : tensor<8xf32>) {{
  ^bb0(%i: i64, %o: f32):
    %k = arith.index_cast %i : i64 to index
    %v = tensor.extract %x[%k] : tensor<{n}xf32>
    linalg.yield %v : f32
  }} -> tensor<8xf32>
  return %y : tensor<8xf32>
}}
"""

GATHER = """
func.func @f(%x: tensor<{n}xf32>, %at: tensor<8x1xi64>) -> tensor<8xf32> {{
  %y = tensor.gather %x[%at] gather_dims([0]) : (tensor<{n}xf32>, tensor<8x1xi64>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}}
"""

INSERT = """
func.func @f(%x: tensor<{n}xf32>, %at: index, %v: f32) -> tensor<{n}xf32> {{
  %y = tensor.insert %v into %x[%at] : tensor<{n}xf32>
  return %y : tensor<{n}xf32>
}}
"""

SLICE = """
func.func @f(%x: tensor<{n}xf32>, %at: index) -> tensor<3xf32> {{
  %s = tensor.extract_slice %x[%at] [3] [2] : tensor<{n}xf32> to tensor<3xf32>
  %y = arith.negf %s : tensor<3xf32>
  return %y : tensor<3xf32>
}}
"""

INTO = """
func.func @f(%x: tensor<{n}xf32>, %v: tensor<3xf32>, %at: index) -> tensor<{n}xf32> {{
  %s = arith.negf %v : tensor<3xf32>
  %y = tensor.insert_slice %s into %x[%at] [3] [2] : tensor<3xf32> into tensor<{n}xf32>
  return %y : tensor<{n}xf32>
}}
"""

INSERT_ANEW = """
func.func @f(%at: index, %v: f32) -> tensor<9xf32> {
  %x = arith.constant dense<[0., 1., 2., 3., 4., 5., 6., 7., 8.]> : tensor<9xf32>
  %y = tensor.insert %v into %x[%at] : tensor<9xf32>
  return %y : tensor<9xf32>
}
"""

INTO_ANEW = """
func.func @f(%v: tensor<?xf32>, %at: index, %step: index) -> tensor<9xf32> {{
  %x = arith.constant dense<[0., 1., 2., 3., 4., 5., 6., 7., 8.]> : tensor<9xf32>
  %zero = arith.constant 0 : index
  %n = tensor.dim %v, %zero : tensor<?xf32>
  %s = arith.negf %v : tensor<?xf32>
  %y = tensor.insert_slice %s into %x[{at}] [%n] [{step}] : tensor<?xf32> into tensor<9xf32>
  return %y : tensor<9xf32>
}}
"""

FAR = [0, 8, 9, -1, 1 << 40, -(1 << 40), (1 << 63) - 1, -(1 << 63)]
N = pytest.mark.parametrize("n", ["9", "?"])


def load(text: str, n: str):
    return pd.device("cpu").load(pd.compile(text.format(n=n))).f


def inside_others(n: int) -> tuple[np.ndarray, np.ndarray]:
    """An array with others' memory on both sides."""
    around = np.arange(n + 64, dtype=np.float32) + 100
    return around, around[32 : 32 + n]


@N
@pytest.mark.parametrize("text", [EXTRACT, GATHER])
def test_reads_are_moved_to_the_border(text, n):
    _, x = inside_others(9)
    at = np.array(FAR, np.int64).reshape((8,) if text is EXTRACT else (8, 1))
    np.testing.assert_array_equal(load(text, n)(x, at), x[np.clip(FAR, 0, 8)])


@pytest.mark.parametrize("text", [EXTRACT, GATHER])
def test_nothing_is_read_of_an_empty_tensor(text):
    at = np.zeros((8,) if text is EXTRACT else (8, 1), np.int64)
    np.testing.assert_array_equal(load(text, "?")(np.empty(0, np.float32), at), np.zeros(8, np.float32))


@N
@pytest.mark.parametrize("at", FAR)
def test_an_inserted_element_lands_inside(at, n):
    around, x = inside_others(9)
    before = around.copy()
    expected = x.copy()
    result = load(INSERT, n)(x, at, 5.0)
    expected[min(max(at, 0), 8)] = 5
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(around, before)


def test_nothing_is_inserted_into_an_empty_tensor():
    assert load(INSERT, "?")(np.empty(0, np.float32), 0, 5.0).shape == (0,)


@N
@pytest.mark.parametrize("at", [0, 2, 4, 5, 9, -1, 1 << 40, -(1 << 40)])
def test_slices_begin_where_they_fit(at, n):
    _, x = inside_others(9)
    start = min(max(at, 0), 4)
    np.testing.assert_array_equal(load(SLICE, n)(x, at), -x[start : start + 5 : 2])
    v = np.arange(3, dtype=np.float32)
    expected = x.copy()
    expected[start : start + 5 : 2] = -v
    np.testing.assert_array_equal(load(INTO, n)(x, v, at), expected)


@pytest.mark.parametrize("at", FAR)
def test_an_element_is_inserted_at_the_same_index_into_a_constant(at):
    """The kernel computes all elements of the result: the destination is no memory that it could update."""
    expected = np.arange(9, dtype=np.float32)
    expected[min(max(at, 0), 8)] = 5
    np.testing.assert_array_equal(pd.device("cpu").load(pd.compile(INSERT_ANEW)).f(at, 5.0), expected)


@pytest.mark.parametrize("offset", ["%at", "6"])
@pytest.mark.parametrize("step", [3, 1, 0, -1, -2])
@pytest.mark.parametrize("is_known", [True, False])
def test_slices_of_any_stride_go_into_a_constant(offset, step, is_known):
    """More elements than one have no defined order if the stride is 0."""
    f = pd.device("cpu").load(pd.compile(INTO_ANEW.format(at=offset, step=step if is_known else "%step"))).f
    for n in (0, 1, 3 if step < 0 or (step and offset == "%at") else 1):
        for at in (6, -1, 40) if offset == "%at" else (6,):
            before, after = max(0, -(n - 1) * step), max(0, (n - 1) * step)
            start = min(max(at, before), 8 - after)
            expected = np.arange(9, dtype=np.float32)
            expected[[start + k * step for k in range(n)]] = -np.arange(n)
            np.testing.assert_array_equal(f(np.arange(n, dtype=np.float32), at, step), expected)


def test_slices_end_inside_a_constant():
    f = pd.device("cpu").load(pd.compile(INTO_ANEW.format(at="6", step="%step"))).f
    for n, step in ((3, 2), (4, -3), (10, 1)):
        with pytest.raises(pd.InvalidArgumentError, match=r"'tensor.insert_slice', axis 0: the slice ends outside"):
            f(np.zeros(n, np.float32), 0, step)
