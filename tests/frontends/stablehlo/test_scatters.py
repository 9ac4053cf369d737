"""Scatters into several tensors at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

TWO = """func.func @main(%x: tensor<5x3xf32>, %y: tensor<5x3xi32>, %i: tensor<4x1xi32>,
    %u: tensor<4x3xf32>, %v: tensor<4x3xi32>)
    -> (tensor<5x3xf32>, tensor<5x3xi32>) {{
  %0:2 = "stablehlo.scatter"(%x, %y, %i, %u, %v) <{{scatter_dimension_numbers = #stablehlo.scatter<
    update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
    index_vector_dim = 1>}}> ({{
  ^bb0(%a: tensor<f32>, %b: tensor<i32>, %c: tensor<f32>, %d: tensor<i32>):
    {body}
    stablehlo.return %e, %f : tensor<f32>, tensor<i32>
  }}) : (tensor<5x3xf32>, tensor<5x3xi32>, tensor<4x1xi32>, tensor<4x3xf32>, tensor<4x3xi32>)
    -> (tensor<5x3xf32>, tensor<5x3xi32>)
  return %0#0, %0#1 : tensor<5x3xf32>, tensor<5x3xi32>
}}"""
ALONE = """%e = stablehlo.add %a, %c : tensor<f32>
    %f = stablehlo.maximum %b, %d : tensor<i32>"""
TOGETHER = """%g = stablehlo.compare GE, %c, %a : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %e = stablehlo.select %g, %c, %a : tensor<i1>, tensor<f32>
    %f = stablehlo.select %g, %d, %b : tensor<i1>, tensor<i32>"""


@pytest.mark.parametrize("body", [ALONE, TOGETHER], ids=["alone", "together"])
def test_a_scatter_into_two_tensors(run: Any, body: str) -> None:
    """What an element becomes follows from it alone, or from those of both tensors. Slices meet, and lie outside."""
    rng = np.random.default_rng(8)
    x, u = (rng.normal(size=shape).astype(np.float32) for shape in ((5, 3), (4, 3)))
    y, v = (rng.integers(-9, 9, shape).astype(np.int32) for shape in ((5, 3), (4, 3)))
    starts = np.array([[3], [0], [3], [6]], np.int32)
    found = run(TWO.format(body=body), x, y, starts, u, v)
    for n, row in enumerate(starts[:3, 0]):
        if body == ALONE:
            x[row], y[row] = x[row] + u[n], np.maximum(y[row], v[n])
        else:
            better = u[n] >= x[row]
            x[row], y[row] = np.where(better, u[n], x[row]), np.where(better, v[n], y[row])
    np.testing.assert_array_equal(found[0], x)
    np.testing.assert_array_equal(found[1], y)


def test_slices_of_several_elements(run: Any) -> None:
    """Along an axis whose first place is computed; elements outside of the tensor are left out."""
    text = """func.func @main(%x: tensor<6x4xf32>, %i: tensor<3x2xi32>, %u: tensor<3x2x3xf32>) -> tensor<6x4xf32> {
      %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
        update_window_dims = [1, 2], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %1 = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %1 : tensor<f32>
      }) : (tensor<6x4xf32>, tensor<3x2xi32>, tensor<3x2x3xf32>) -> tensor<6x4xf32>
      return %0 : tensor<6x4xf32>
    }"""
    rng = np.random.default_rng(9)
    x, u = (rng.integers(-9, 9, shape).astype(np.float32) for shape in ((6, 4), (3, 2, 3)))
    starts = np.array([[0, 1], [1, 0], [5, 3]], np.int32)
    (found,) = run(text, x, starts, u)
    for (row, column), update in zip(starts, u, strict=True):
        for place, value in np.ndenumerate(update):
            if row + place[0] < 6 and column + place[1] < 4:
                x[row + place[0], column + place[1]] += value
    np.testing.assert_array_equal(found, x)


WITHOUT_COORDINATES = """func.func @main(%x: XS, %s: ELEMENT, %i: INDICES, %u: UPDATES, %v: SCALARS) -> (XS, ELEMENT) {
  %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
    update_window_dims = [WINDOWS], index_vector_dim = VECTOR>}> ({
  ^bb0(%a: ELEMENT, %b: ELEMENT):
    %2 = stablehlo.COMBINE %a, %b : ELEMENT
    stablehlo.return %2 : ELEMENT
  }) : (XS, INDICES, UPDATES) -> XS
  %1 = "stablehlo.scatter"(%s, %i, %v) <{scatter_dimension_numbers = #stablehlo.scatter<
    index_vector_dim = VECTOR>}> ({
  ^bb0(%a: ELEMENT, %b: ELEMENT):
    %2 = stablehlo.COMBINE %a, %b : ELEMENT
    stablehlo.return %2 : ELEMENT
  }) : (ELEMENT, INDICES, SCALARS) -> ELEMENT
  return %0, %1 : XS, ELEMENT
}"""


@pytest.mark.parametrize("combine", [np.add, np.multiply])
@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("count", [(), (3,)])
def test_scatters_without_coordinates(run: Any, count: tuple[int, ...], dtype: type, combine: np.ufunc) -> None:
    """Updates of the shape of a tensor, of rank 0 or of dynamic sizes, are combined with all of it, in order."""
    element, batch = "f32" if dtype is np.float32 else "complex<f32>", "".join(f"{n}x" for n in count)
    names = {
        "XS": f"tensor<?x3x{element}>", "UPDATES": f"tensor<{batch}?x3x{element}>",
        "SCALARS": f"tensor<{batch}{element}>", "ELEMENT": f"tensor<{element}>", "INDICES": f"tensor<{batch}0xi32>",
        "WINDOWS": ", ".join(str(len(count) + d) for d in range(2)), "VECTOR": str(len(count)),
        "COMBINE": combine.__name__,
    }  # fmt: skip
    text = WITHOUT_COORDINATES
    for name, value in names.items():
        text = text.replace(name, value)
    rng = np.random.default_rng(10)

    def numbers(*shape: int) -> np.ndarray[Any, Any]:
        x = rng.integers(-3, 4, shape).astype(dtype)
        return x + 1j * rng.integers(-3, 4, shape).astype(dtype) if dtype is np.complex64 else x

    x, s, u, v = numbers(2, 3), numbers(), numbers(*count, 2, 3), numbers(*count)
    found = run(text, x, s, np.zeros((*count, 0), np.int32), u, v)
    for got, old, updates in ((found[0], x, u), (found[1], s, v)):
        np.testing.assert_array_equal(got, combine(old, combine.reduce(updates, 0) if count else updates))


@pytest.mark.parametrize(
    ("index_type", "start"), [("ui8", 200), ("ui8", 255), ("i8", 126), ("i8", -1), ("ui16", 40000), ("ui32", 2**32 - 1)]
)
def test_slices_that_exceed_the_type_of_their_coordinates(run: Any, index_type: str, start: int) -> None:
    """The elements after the first one have coordinates of their own, which are not reduced modulo the type's range."""
    size, old = 40010, np.arange(40010, dtype=np.float32)
    text = f"""func.func @main(%x: tensor<{size}xf32>, %i: tensor<1xINDEX>, %u: tensor<3xf32>) -> tensor<{size}xf32> {{
      %0 = "stablehlo.scatter"(%x, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<
        update_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 0>}}> ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        stablehlo.return %b : tensor<f32>
      }}) : (tensor<{size}xf32>, tensor<1xINDEX>, tensor<3xf32>) -> tensor<{size}xf32>
      return %0 : tensor<{size}xf32>
    }}""".replace("INDEX", index_type)
    dtype = np.dtype(index_type.replace("ui", "uint") if index_type[0] == "u" else index_type.replace("i", "int"))
    (found,) = run(text, old, np.array([start], dtype), -np.ones(3, np.float32))
    expected = old.copy()
    for place in range(start, start + 3):
        if 0 <= place < size:
            expected[place] = -1
    np.testing.assert_array_equal(found, expected)


def test_more_batches_than_the_type_of_the_coordinates_counts(run: Any) -> None:
    """Each of 200 rows is scattered into at a coordinate in i8, whose largest value is 127."""
    text = """func.func @main(%x: tensor<200x3xf32>, %i: tensor<200x1xi8>, %u: tensor<200xf32>) -> tensor<200x3xf32> {
      %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
        inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0],
        scatter_dims_to_operand_dims = [1], index_vector_dim = 1>}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        stablehlo.return %b : tensor<f32>
      }) : (tensor<200x3xf32>, tensor<200x1xi8>, tensor<200xf32>) -> tensor<200x3xf32>
      return %0 : tensor<200x3xf32>
    }"""
    columns = np.arange(200) % 5 - 1  # -1 and 3 are outside
    (found,) = run(text, np.zeros((200, 3), np.float32), columns[:, None].astype(np.int8), np.ones(200, np.float32))
    np.testing.assert_array_equal(found, (columns[:, None] == np.arange(3)).astype(np.float32))
