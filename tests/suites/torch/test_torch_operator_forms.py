"""Operators of PyTorch in each of their forms give what eager PyTorch gives, with static and with dynamic sizes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

import pydispatch as pd

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "frontends" / "torch")]

from cases import flat  # noqa: E402
from operators import Call  # noqa: E402
from size_forms import SIZE_FORMS  # noqa: E402
from test_torch_export import check  # noqa: E402


@pytest.mark.parametrize("name", SIZE_FORMS)
def test_forms(name: str) -> None:
    form = SIZE_FORMS[name]
    model = Call(form.function)
    sizes = [{axis: torch.export.Dim.DYNAMIC for axis in axes} for axes in form.dynamic]
    with torch.no_grad():
        program = torch.export.export(model, form.inputs[0], dynamic_shapes=(tuple(sizes),) if sizes else None)
    loaded = pd.device("local-sync").load(pd.compile(program))
    for inputs in form.inputs:
        check(loaded, inputs, flat(model(*inputs)))


def test_antialiasing_of_dynamic_sizes_is_refused() -> None:
    def smaller(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, scale_factor=0.5, mode="bilinear", antialias=True)

    sizes = ({2: torch.export.Dim("rows", min=4)},)
    says = r"an axis of .* is resized to .* elements with antialiasing: both sizes must be known(.|\n)*antialias=False"
    with pytest.raises(pd.CompileError, match=says):
        pd.compile(torch.export.export(Call(smaller), (torch.randn(1, 2, 8, 8),), dynamic_shapes=(sizes,)))


def test_interpolation_of_integers_is_refused() -> None:
    x = torch.randint(0, 256, (1, 2, 4, 4), dtype=torch.uint8)
    with pytest.raises(pd.CompileError, match=r"u8\[1, 2, 4, 4\] is interpolated; expected floats(.|\n)*float32 first"):
        pd.compile(torch.export.export(Call(lambda x: F.interpolate(x, size=(7, 7), mode="bilinear")), (x,)))
