"""Operators of torchvision in exported programs, against torchvision, or definitions where it is not installed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import pydispatch as pd

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "frontends" / "torch")]

from operators import Call  # noqa: E402
from test_torch_export import check  # noqa: E402

NMS = "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
ROI_ALIGN = (
    "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor"
)
DEFORM_CONV2D = (
    "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, "
    "SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, "
    "SymInt offset_groups, bool use_mask) -> Tensor"
)


def nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    areas = (dets[:, 2] - dets[:, 0]) * (dets[:, 3] - dets[:, 1])
    kept: list[int] = []
    for i in scores.argsort(descending=True, stable=True).tolist():
        sides = [(torch.minimum(dets[kept, n + 2], dets[i, n + 2]) - torch.maximum(dets[kept, n], dets[i, n])).clamp(0)
                 for n in range(2)]  # fmt: skip
        common = sides[0] * sides[1]
        if not (common / (areas[kept] + areas[i] - common)).double().gt(iou_threshold).any():
            kept.append(i)
    return torch.tensor(kept, dtype=torch.int64)


def at(image: Tensor, y: float, x: float, *, is_clamped: bool) -> Tensor:
    """An image [channels, h, w] between its elements. is_clamped: at the nearest place, up to 1 outside."""
    h, w = image.shape[1:]
    if y < -1 or y > h or x < -1 or x > w:
        return image.new_zeros(len(image))
    if is_clamped:
        y, x = min(max(y, 0.0), h - 1.0), min(max(x, 0.0), w - 1.0)
    total = image.new_zeros(len(image))
    top, left = int(y // 1), int(x // 1)
    for i in (top, top + 1):
        for j in (left, left + 1):
            if 0 <= i < h and 0 <= j < w:
                total = total + image[:, i, j] * (1 - abs(y - i)) * (1 - abs(x - j))
    return total


def roi_align(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int, sampling_ratio: int,
    aligned: bool,
) -> Tensor:  # fmt: skip
    made = input.new_empty(len(rois), input.shape[1], pooled_height, pooled_width)
    for n, (image, *box) in enumerate(rois.tolist()):
        x0, y0, x1, y1 = (v * spatial_scale - (0.5 if aligned else 0.0) for v in box)
        h, w = (v if aligned else max(v, 1.0) for v in (y1 - y0, x1 - x0))
        step = h / pooled_height / sampling_ratio, w / pooled_width / sampling_ratio
        for i in range(pooled_height):
            for j in range(pooled_width):
                made[n, :, i, j] = sum(
                    at(input[int(image)], y0 + (i * sampling_ratio + k + 0.5) * step[0],
                       x0 + (j * sampling_ratio + m + 0.5) * step[1], is_clamped=True)
                    for k in range(sampling_ratio) for m in range(sampling_ratio)) / sampling_ratio**2  # fmt: skip
    return made


def deform_conv2d(
    input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor, stride_h: int, stride_w: int,
    pad_h: int, pad_w: int, dilation_h: int, dilation_w: int, groups: int, offset_groups: int, use_mask: bool,
) -> Tensor:  # fmt: skip
    (n, c), (f, each, kh, kw), (h, w) = input.shape[:2], weight.shape, offset.shape[2:]
    columns = input.new_empty(n, c, kh * kw, h, w)
    for image in range(n):
        for group in range(offset_groups):
            part = slice(group * c // offset_groups, (group + 1) * c // offset_groups)
            for k in range(kh * kw):
                number = group * kh * kw + k
                for i in range(h):
                    for j in range(w):
                        dy, dx = offset[image, 2 * number : 2 * number + 2, i, j].tolist()
                        value = at(input[image, part], i * stride_h - pad_h + k // kw * dilation_h + dy,
                                   j * stride_w - pad_w + k % kw * dilation_w + dx, is_clamped=False)  # fmt: skip
                        columns[image, part, k, i, j] = value * (mask[image, number, i, j] if use_mask else 1)
    columns = columns.view(n, groups, each * kh * kw, h, w)
    made = torch.einsum("ngkhw,gfk->ngfhw", columns, weight.view(groups, f // groups, -1)).reshape(n, f, h, w)
    return made + bias.view(1, -1, 1, 1)


def define() -> None:
    """Define the operators as torchvision does, where it is not installed."""
    with contextlib.suppress(ImportError):
        import torchvision  # noqa: F401
    if hasattr(torch.ops.torchvision, "nms"):
        return
    for function, schema in ((nms, NMS), (roi_align, ROI_ALIGN), (deform_conv2d, DEFORM_CONV2D)):
        name = f"torchvision::{function.__name__}"
        torch.library.define(name, schema.removeprefix(function.__name__))
        torch.library.impl(name, "CPU", function)
    fakes: dict[str, Callable[..., Tensor]] = {
        "nms": lambda dets, *_: dets.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.int64),
        "roi_align": lambda x, rois, _, h, w, *__: x.new_empty(rois.shape[0], x.shape[1], h, w),
        "deform_conv2d": lambda x, weight, offset, *_: x.new_empty(x.shape[0], weight.shape[0], *offset.shape[2:]),
    }
    for key, fake in fakes.items():
        torch.library.register_fake(f"torchvision::{key}", fake)


define()
vision = torch.ops.torchvision


def boxes(count: int, size: int) -> Tensor:
    low = torch.randint(0, size, (count, 2))
    return torch.cat([low, low + torch.randint(1, size, (count, 2))], 1).float()


def agrees(function: Callable[..., Any], sizes: Any, *calls: tuple[Tensor, ...]) -> None:
    program = torch.export.export(Call(function), calls[0], dynamic_shapes=(sizes,) if sizes else None)
    loaded = pd.device("local-sync").load(pd.compile(program))
    for inputs in calls:
        check(loaded, inputs, [function(*inputs)])


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.0])
def test_nms(threshold: float) -> None:
    torch.manual_seed(0)
    n = torch.export.Dim("n", min=2)
    calls = [(boxes(count, 12), torch.rand(count).mul(20).round()) for count in (30, 9, 2)]
    agrees(lambda dets, scores: vision.nms(dets, scores, threshold), ({0: n}, {0: n}), *calls)


def test_nms_of_boxes_whose_quotient_is_the_limit() -> None:
    # Areas 10 and 6 with 6 in common, and 10 and 3 with 3: the quotient 0.3 of f32 is above that of f64.
    dets = torch.tensor([[0.0, 0.0, 10.0, 1.0], [0.0, 0.0, 3.0, 1.0], [0.0, 0.0, 6.0, 1.0]])
    scores = torch.tensor([3.0, 2.0, 1.0])
    for limit in (0.3, 0.6, 0.5):
        agrees(lambda dets, scores, limit=limit: vision.nms(dets, scores, limit), None, (dets, scores))


@pytest.mark.parametrize("aligned", [True, False])
def test_roi_align(aligned: bool) -> None:
    torch.manual_seed(0)
    rois = torch.cat([torch.tensor([[0.0], [1.0], [0.0]]), boxes(3, 16) - 1], 1)
    agrees(lambda x, rois: vision.roi_align(x, rois, 0.5, 2, 3, 2, aligned), None, (torch.randn(2, 3, 8, 9), rois))


@pytest.mark.parametrize("use_mask", [True, False])
def test_deform_conv2d(use_mask: bool) -> None:
    torch.manual_seed(0)
    x, weight, bias = torch.randn(2, 4, 7, 6), torch.randn(6, 2, 3, 2), torch.randn(6)
    offset, mask = torch.randn(2, 2 * 2 * 6, 4, 6) * 2, torch.rand(2, 2 * 6, 4, 6)
    agrees(lambda *given: vision.deform_conv2d(*given, 2, 1, 1, 1, 1, 2, 2, 2, use_mask), None,
           (x, weight, offset, mask, bias))  # fmt: skip


def test_samples_that_depend_on_the_boxes_are_refused() -> None:
    given = (torch.randn(1, 2, 8, 8), torch.tensor([[0.0, 1, 1, 5, 5]]))
    program = torch.export.export(Call(lambda x, rois: vision.roi_align(x, rois, 1.0, 2, 2, -1, True)), given)
    with pytest.raises(pd.CompileError, match=r"roi_align with the sampling_ratio -1(.|\n)*sampling_ratio=2"):
        pd.compile(program)


def test_a_kernel_of_the_user_takes_the_place_of_a_known_operator() -> None:
    source = "void f(const float *rois, float *out, long count) { for (long i = 0; i < count; i++) out[i] = rois[3]; }"
    kernel = pd.CFunction(source, "f", "rois", "out", "count")
    given = (torch.randn(1, 2, 8, 8), torch.tensor([[0.0, 1, 1, 5, 5]]))
    program = torch.export.export(Call(lambda x, rois: vision.roi_align(x, rois, 1.0, 2, 2, 2, True)), given)
    loaded = pd.device("local-sync").load(pd.compile(program, kernels={"torchvision::roi_align": kernel}))
    check(loaded, given, [torch.full((1, 2, 2, 2), 5.0)])
