"""Reads along axes whose size is 0 in a call: those that need an element are refused, others stay inside of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.frontends.torch.nodes import CONVERSIONS
from pydispatch.graph.builder import Builder
from pydispatch.graph.values import Tensor
from pydispatch.operations import convolutions, gathers, indexing, padding, scatters, slicing
from pydispatch.operations.gathers import GatherAxes
from pydispatch.operations.resize_axis import Filter, ResizedAxis, resize_axis

NONE = np.zeros(0, np.float32)
ROWS = np.zeros((0, 3), np.float32)
INDICES = np.array([0, 5], np.int32)
TWO = np.array([7, 8], np.float32)
SLICES = GatherAxes(
    offset_dims=(1,), collapsed_dims=(), batching_dims=(), indices_batching_dims=(), start_index_map=(0,),
    index_vector_dim=1,
)  # fmt: skip

Write = Callable[..., Tensor]


def slices(b: Builder, x: Tensor, indices: Tensor) -> Tensor:
    return gathers.gather(b, x, indices, SLICES, [3])


def dynamic_slice(b: Builder, x: Tensor, start: Tensor) -> Tensor:
    return indexing.dynamic_slice(b, x, [start], [3])


def update(b: Builder, x: Tensor, new: Tensor, start: Tensor) -> Tensor:
    return indexing.dynamic_update_slice(b, x, new, [start])


def edges(b: Builder, x: Tensor) -> Tensor:
    return padding.pad_with(b, x, [1], [2], "edge")


READS: dict[str, tuple[Write, tuple[Any, ...], str]] = {
    "take": (lambda b, x, i: gathers.take(b, x, i, 0), (NONE, INDICES), r"axis 0 of f32\[n0_0\] has the size 0"),
    "take_along": (
        lambda b, x, i: gathers.take_along(b, x, i, 0), (ROWS, np.zeros((2, 3), np.int32)),
        r"axis 0 of f32\[n0_0, n0_1\] has the size 0",
    ),
    "take_nd": (
        lambda b, x, i: gathers.take_nd(b, x, i, 1), (np.zeros((2, 0), np.float32), np.zeros((2, 4, 1), np.int32)),
        "axis 1 of .* has the size 0",
    ),
    "gather": (slices, (TWO, INDICES[:, None]), r"axis 0 of f32\[n0_0\]: a slice of size 3 is larger than the axis"),
    "dynamic_slice": (dynamic_slice, (TWO, np.int32(1)), "axis 0 of .*: a slice of size 3 is larger"),
    "dynamic_update_slice": (
        update, (TWO, np.ones(3, np.float32), np.int32(1)), "axis 0 of .*: a slice of size n1_0 is larger",
    ),
    "pad_with": (edges, (NONE,), r"axis 0 of f32\[n0_0\] has no element to put around it"),
}  # fmt: skip


def with_static_last_axis(write: Write, name: str) -> Write:
    """take_nd needs the number of positions in a row: state that of the last axis."""
    if name != "take_nd":
        return write
    return lambda b, x, i: write(b, x, b.as_shape(i, [*i.shape[:-1], 1]))


@pytest.mark.parametrize("name", READS)
def test_reads_that_need_an_element(run: Any, name: str) -> None:
    write, arrays, message = READS[name]
    with pytest.raises(pd.InvalidArgumentError, match=message):
        run(with_static_last_axis(write, name), *arrays, dynamic=True)


def test_static_sizes_are_refused_when_compiled(run: Any) -> None:
    with pytest.raises(pd.CompileError, match=r"axis 0 of f32\[0\] has the size 0"):
        run(lambda b, x, i: gathers.take_along(b, x, i, 0), NONE, INDICES)
    with pytest.raises(pd.CompileError, match=r"axis 0 of f32\[2\]: a slice of size 3 is larger than the axis"):
        run(dynamic_slice, TWO, np.int32(1))


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_result_without_elements_reads_none(run: Any, dynamic: bool) -> None:
    (found,) = run(lambda b, x, i: gathers.take(b, x, i, 0), NONE, INDICES[:0], dynamic=dynamic)
    assert found.shape == (0,)
    (found,) = run(lambda b, x, i: gathers.take(b, x, i, 0), ROWS[:, :0], INDICES, dynamic=dynamic)
    assert found.shape == (2, 0)
    (found,) = run(lambda b, x: gathers.take(b, x, b.constant(INDICES[:0]), 1), ROWS[:, :0], dynamic=dynamic)
    assert found.shape == (len(ROWS), 0)
    (found,) = run(slices, TWO, INDICES[:0, None], dynamic=dynamic)
    assert found.shape == (0, 3)


def test_an_update_without_elements_changes_nothing(run: Any) -> None:
    x = np.arange(4, dtype=np.float32)
    for n in (0, 1, 3):
        new = np.full(n, 9, np.float32)
        (found,) = run(update, x, new, np.int32(1), dynamic=True)
        expected = x.copy()
        expected[1 : 1 + n] = new
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("shape", "count"), [((2, 0), 0), ((2, 0), 2), ((0, 3), 0), ((2, 3), 0)])
def test_a_scatter_without_elements_changes_nothing(run: Any, shape: tuple[int, ...], count: int) -> None:
    x = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
    positions, slices = np.zeros((count, 2), np.int64), np.full((count, 1, 1), 9, np.float32)
    (found,) = run(
        lambda b, x, at, new: scatters.scatter_leading(b, x, at, new, 2, lambda s, old, new: new), x, positions, slices
    )
    np.testing.assert_array_equal(found, x)


EXTREMES = ("max.dim", "min.dim", "amax", "amin", "argmax", "argmin", "aminmax")


@pytest.mark.parametrize("name", EXTREMES)
def test_extremes_of_no_elements_are_refused_as_in_pytorch(run: Any, name: str) -> None:
    """An extreme along another axis, of which the result has no elements, is not."""

    def along(dim: int) -> Write:
        return lambda b, x: CONVERSIONS[f"aten.{name}"](b, x, dim=dim)

    with pytest.raises(pd.CompileError, match=r"axis 0 of f32\[0, 3\] has the size 0: it has no element to read"):
        run(along(0), ROWS)
    with pytest.raises(pd.InvalidArgumentError, match=r"axis 0 of f32\[n0_0, n0_1\] has the size 0"):
        run(along(0), ROWS, dynamic=True)
    for dynamic in (False, True):
        assert run(along(1), ROWS, dynamic=dynamic)[0].shape == (0,)


def test_padding_of_no_elements_to_one(run: Any) -> None:
    (result,) = run(lambda b, x: slicing.pad(b, x, [0, 1, 0], [0, 0, 1], 2.5), np.zeros((3, 0, 0), np.float32))
    np.testing.assert_array_equal(result, np.full((3, 1, 1), 2.5, np.float32))


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resizing_of_no_elements(run: Any, mode: str) -> None:
    def to(size: int) -> Write:
        return lambda b, x: resize_axis(b, x, ResizedAxis(0, size), Filter(mode, "half_pixel"))[0]

    for dynamic in (False, True):
        assert run(to(0), ROWS, dynamic=dynamic)[0].shape == (0, 3)
    with pytest.raises(pd.CompileError, match=r"axis 0 of f32\[0, 3\] has the size 0: it has no element to read"):
        run(to(2), ROWS)
    with pytest.raises(pd.InvalidArgumentError, match=r"axis 0 of .* has the size 0: it has no element to read"):
        run(to(2), ROWS, dynamic=True)


@pytest.mark.parametrize("dynamic", [False, True])
def test_padding_between_no_elements(run: Any, dynamic: bool) -> None:
    def write(b: Builder, x: Tensor) -> list[Tensor]:
        return [slicing.pad(b, x, [0, 0], [0, 0], 7.0, [2, 1]), slicing.pad(b, x, [1, 1], [2, 0], 7.0, [2, 1])]

    for shape in ((0, 3), (2, 0), (0, 0), (1, 2)):
        x = np.zeros(shape, np.float32)
        spread = np.full([max((n - 1) * step + 1, 0) for n, step in zip(shape, (3, 2), strict=True)], 7, np.float32)
        spread[::3, ::2] = x
        inner, outer = run(write, x, dynamic=dynamic)
        np.testing.assert_array_equal(inner, spread)
        np.testing.assert_array_equal(outer, np.pad(spread, ((1, 2), (1, 0)), constant_values=7))


def test_transposed_convolutions_of_no_elements_are_refused(run: Any) -> None:
    window = convolutions.Window((1,), (2,), (2,), (1,))

    def upsampled(b: Builder, x: Tensor, w: Tensor) -> Tensor:
        return convolutions.convolution(b, x, b.as_shape(w, (5, 3, 4)), window, input_dilations=(2,))

    w = np.ones((5, 3, 4), np.float32)
    assert run(upsampled, np.ones((2, 3, 4), np.float32), w, dynamic=True)[0].shape == (2, 5, 8)
    with pytest.raises(pd.InvalidArgumentError, match="axis 2 has no elements to spread"):
        run(upsampled, np.ones((2, 3, 0), np.float32), w, dynamic=True)
