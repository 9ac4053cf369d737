"""Nearest elements of resized axes: those of exact positions, whether the sizes are static or dynamic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pydispatch as pd
from pydispatch.frontends.torch.nodes import CONVERSIONS
from pydispatch.graph.builder import Builder
from pydispatch.graph.values import Tensor
from pydispatch.operations.resize_axis import Filter, ResizedAxis, resize_axis

OLD_SIZES = (1, 3, 5, 7, 10, 12)
NEW_SIZES = (1, 3, 6, 7, 10, 13)


@pytest.mark.parametrize("transformation", ["half_pixel", "asymmetric"])
@pytest.mark.parametrize("nearest", ["floor", "round_prefer_ceil"])
@pytest.mark.parametrize("has_scale", [False, True])
def test_nearest_elements(run: Any, transformation: str, nearest: str, has_scale: bool) -> None:
    how = Filter("nearest", transformation, nearest)

    def write(b: Builder, *tensors: Tensor) -> list[Tensor]:
        return [
            resize_axis(b, x, ResizedAxis(0, new, float(np.float32(new / old)) if has_scale else None), how)[0]
            for x, old in zip(tensors, OLD_SIZES, strict=True)
            for new in NEW_SIZES
        ]

    inputs = [np.arange(old, dtype=np.float32) for old in OLD_SIZES]
    static, dynamic = (run(write, *inputs, dynamic=dynamic) for dynamic in (False, True))
    for result, expected in zip(dynamic, static, strict=True):
        np.testing.assert_array_equal(result, expected)
    if has_scale:
        return
    for result, (old, new) in zip(static, [(old, new) for old in OLD_SIZES for new in NEW_SIZES], strict=True):
        indices = np.arange(new)  # positions are fractions of 2 * new
        numerators = (2 * indices + 1) * old - new if transformation == "half_pixel" else 2 * indices * old
        rounded = (numerators + (new if nearest == "round_prefer_ceil" else 0)) // (2 * new)
        np.testing.assert_array_equal(result, np.clip(rounded, 0, old - 1))


def test_a_gradient_with_a_scale_too_many_is_refused(run: Any) -> None:
    def write(b: Builder, grad: Tensor) -> Tensor:
        backward = CONVERSIONS["aten.upsample_nearest2d_backward"]
        return backward(b, grad, [8, 12], [1, 3, 4, 6], 2.0, 2.0, 2.0)

    with pytest.raises(pd.CompileError, match="it has 3 scales for 2 axes"):
        run(write, np.zeros((1, 3, 8, 12), np.float32))
