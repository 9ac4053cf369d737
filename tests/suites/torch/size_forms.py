"""Pools and interpolation, with static and with dynamic sizes of the image."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from forms import Forms

SIZE_FORMS = Forms()
form, sizes = SIZE_FORMS.form, SIZE_FORMS.sizes
SIZES = ((2, 3, 9, 11), (2, 3, 10, 8), (1, 3, 16, 7), (3, 3, 12, 13), (2, 3, 5, 6))
torch.manual_seed(0)

# -- windows

for ceil in (False, True):
    text = ", ceil_mode" if ceil else ""
    sizes(f"max_pool2d{text}", lambda x, ceil=ceil: (
        F.max_pool2d(x, 2, ceil_mode=ceil), F.max_pool2d(x, 3, 2, 1, ceil_mode=ceil),
        F.max_pool2d(x, (3, 2), (2, 3), (1, 0), ceil_mode=ceil)), (0, 2, 3), *SIZES)  # fmt: skip
    sizes(f"max_pool2d dilated{text}", lambda x, ceil=ceil: F.max_pool2d(x, 2, 3, 1, 2, ceil_mode=ceil), (0, 2, 3),
            *SIZES)  # fmt: skip
    sizes(f"max_pool2d with indices{text}", lambda x, ceil=ceil: (
        *F.max_pool2d(x, 2, ceil_mode=ceil, return_indices=True),
        *F.max_pool2d(x, 3, 2, 1, ceil_mode=ceil, return_indices=True)), (0, 2, 3), *SIZES)  # fmt: skip
    sizes(f"avg_pool2d{text}", lambda x, ceil=ceil: (
        F.avg_pool2d(x, 2, ceil_mode=ceil), F.avg_pool2d(x, 3, 2, 1, ceil_mode=ceil, count_include_pad=False),
        F.avg_pool2d(x, 3, 2, 1, ceil_mode=ceil), F.avg_pool2d(x, 3, 3, ceil_mode=ceil, divisor_override=5)),
        (0, 2, 3), *SIZES)  # fmt: skip
    sizes(f"pools of 1 axis{text}", lambda x, ceil=ceil: (
        F.max_pool1d(x, 3, 2, 1, ceil_mode=ceil, return_indices=True)[0],
        F.avg_pool1d(x, 2, 2, ceil_mode=ceil)), (0, 2), (2, 3, 9), (1, 3, 10), (2, 3, 13))  # fmt: skip
    sizes(f"pools of 3 axes{text}", lambda x, ceil=ceil: (
        F.max_pool3d(x, 2, ceil_mode=ceil), F.avg_pool3d(x, 3, 2, 1, ceil_mode=ceil)), (2, 3, 4), (1, 2, 5, 6, 7),
        (1, 2, 6, 5, 9))  # fmt: skip
sizes("max_pool2d of two sizes", lambda x: F.max_pool2d(F.max_pool2d(F.max_pool2d(x, 3, 2), 3, 2, 1), 2), (2, 3),
        (1, 2, 32, 32), (1, 2, 33, 31), (1, 2, 45, 27), (1, 2, 30, 50))  # fmt: skip


class Network(torch.nn.Module):
    """Convolutions, pools whose windows do not divide the image, and an upsampled skip connection."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 7, 2, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU())
        self.pool = torch.nn.MaxPool2d(3, 2, 1, ceil_mode=True)
        self.deep = torch.nn.Sequential(torch.nn.Conv2d(4, 8, 3, 2), torch.nn.AvgPool2d(2), torch.nn.Conv2d(8, 4, 1))
        self.head = torch.nn.Linear(4 * 9, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(self.stem(x))
        up = F.interpolate(self.deep(x), size=x.shape[2:], mode="bilinear")
        return self.head(F.adaptive_avg_pool2d(x + up, 3).flatten(1))


sizes("network", Network().eval(), (0, 2, 3), (2, 3, 64, 64), *(
    (1 + n % 2, 3, 41 + 7 * n, 90 - 5 * n) for n in range(10)))  # fmt: skip
sizes("strided convolutions", lambda x: F.conv2d(F.max_pool2d(F.conv2d(x, torch.ones(4, 3, 3, 3), stride=2), 2),
                                                   torch.ones(2, 4, 2, 2), stride=2, padding=1), (2, 3),
        (1, 3, 32, 32), (1, 3, 33, 31), (1, 3, 21, 18))  # fmt: skip
sizes("adaptive pools", lambda x: (F.adaptive_avg_pool2d(x, 3), F.adaptive_avg_pool2d(x, (2, 5)),
                                     F.adaptive_avg_pool2d(x, (None, 2)), F.adaptive_avg_pool2d(x, 1)), (0, 2, 3),
        *SIZES)  # fmt: skip
sizes("adaptive max pools", lambda x: (*F.adaptive_max_pool2d(x, 3, return_indices=True),
                                         F.adaptive_max_pool2d(x, (2, 5))), (0, 2, 3), *SIZES)  # fmt: skip
sizes("adaptive pools of 1 axis", lambda x: (F.adaptive_avg_pool1d(x, 4), *F.adaptive_max_pool1d(
    x, 4, return_indices=True)), (2,), (2, 3, 9), (2, 3, 8), (2, 3, 3), (2, 3, 17))  # fmt: skip
sizes("adaptive pools of 3 axes", lambda x: F.adaptive_avg_pool3d(x, (2, 1, 3)), (2, 3, 4), (1, 2, 5, 6, 7),
        (1, 2, 6, 5, 9))  # fmt: skip

# -- other sizes

for mode in ("nearest", "nearest-exact", "bilinear", "bicubic", "area"):
    sizes(f"interpolate, {mode}", lambda x, mode=mode: (
        *(F.interpolate(x, scale_factor=scale, mode=mode) for scale in (2, 0.5, 1.5, 0.7)),
        F.interpolate(x, size=(7, 20), mode=mode),
        F.interpolate(x, size=(x.shape[2] * 2 - 1, x.shape[3] + 3), mode=mode)), (0, 2, 3), *SIZES[:4])  # fmt: skip
sizes("interpolate, nearest, by factors of a line", lambda x: tuple(F.interpolate(x, scale_factor=scale) for scale in (
    3.2, 1.4)), (0, 2), (2, 3, 3), (1, 3, 2), (2, 3, 5), (2, 3, 4))  # fmt: skip
sizes("interpolate, nearest, by factors of an image", lambda x: F.interpolate(x, scale_factor=3.2), (0, 2, 3),
        (2, 3, 3, 4), (1, 3, 2, 3), (2, 3, 5, 6))  # fmt: skip
form(
    "interpolate, nearest, to one or two times the size",
    lambda x: tuple(F.interpolate(y, scale_factor=scale) for y in (x, x[0], x[None]) for scale in (1.1, 2.2)),
    torch.randn(2, 3, 4, 3),
)
aten = torch.ops.aten
form("interpolate, nearest, gradients by factors", lambda x: tuple(
    made for n, scale in ((3, 1.1), (6, 2.2), (9, 3.2)) for made in (
        aten.upsample_nearest1d_backward(x[0, :, :, :n], [n], [2, 5, 3], scale),
        aten.upsample_nearest2d_backward(x[:, :, :4, :n], [4, n], [1, 2, 4, 3], 1.1, scale),
        aten.upsample_nearest3d_backward(x[None, :, :, :4, :n], [2, 4, n], [1, 1, 2, 4, 3], 1.1, None, scale))),
    torch.randn(1, 2, 5, 9))  # fmt: skip
for mode in ("bilinear", "bicubic"):
    sizes(f"interpolate with corners, {mode}", lambda x, mode=mode: (
        F.interpolate(x, scale_factor=1.5, mode=mode, align_corners=True),
        F.interpolate(x, size=(7, 20), mode=mode, align_corners=True)), (0, 2, 3), *SIZES[:4])  # fmt: skip
sizes("interpolate recomputing the scale", lambda x: F.interpolate(
    x, scale_factor=(1.5, 0.6), mode="bilinear", recompute_scale_factor=True), (0, 2, 3), *SIZES[:4])  # fmt: skip
sizes("interpolate, linear", lambda x: F.interpolate(x, scale_factor=1.7, mode="linear"), (2,), (2, 3, 9), (2, 3, 10))
sizes("interpolate, trilinear", lambda x: F.interpolate(x, scale_factor=(1.5, 2, 0.6), mode="trilinear"), (2, 3, 4),
        (1, 2, 4, 5, 6), (1, 2, 5, 3, 8))  # fmt: skip
form("interpolate with antialiasing", lambda x: (
    F.interpolate(x, scale_factor=0.5, mode="bilinear", antialias=True),
    F.interpolate(x, size=(5, 20), mode="bilinear", antialias=True, align_corners=True),
    F.interpolate(x, size=(4, 4), mode="bicubic", antialias=True)), torch.randn(1, 2, 9, 11))  # fmt: skip
form("interpolate of other types", lambda x, h, i: (
    F.interpolate(x, size=(7, 7), mode="bilinear"), F.interpolate(h, size=(7, 7), mode="bicubic"),
    F.interpolate(i, scale_factor=1.5)), torch.randn(1, 2, 4, 4).double(), torch.randn(1, 2, 4, 4).half(),
    torch.randint(0, 256, (1, 2, 4, 4), dtype=torch.uint8))  # fmt: skip
