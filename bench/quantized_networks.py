"""Convolutional networks between pairs of quantize and dequantize, with filters of one scale for each channel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from onnx import numpy_helper
from quantized_graph import Case, Graph, floats

LOW = np.uint8(0)
"""Zero point of results of ReLU, which are not negative."""

ZERO = np.uint8(120)
"""Zero point of numbers of either sign."""


class Layers:
    """A network that is written layer by layer.

    Attributes:
        g: The graph of the network so far.
        scale: Quantization scale of the last layer's result.
        channels: Channels of that result.
        name: Name of that result in the graph, dequantized.
    """

    GROWTH = 25.0
    """Factor of the scale for each convolution: its results are larger than its inputs by about as much."""

    def __init__(self, *shape: int) -> None:
        """Begin with an input of `shape`, (batch, channels, height, width), quantized with a scale of 0.03."""
        self.g, self.scale = Graph(floats(*shape)), 0.03
        self.channels = shape[1]
        self.name = self.g.pair("x", self.scale, ZERO)

    def conv(self, filters: int, window: int, stride: int = 1, groups: int = 1, relu: bool = True) -> None:
        """Add a convolution with a bias, and quantize its result."""
        weights = self.g.weight(filters, self.channels // groups, window, window)
        w = self.g.dequantized(weights, axis=0, per_channel=True)
        # The scale of a bias is that of the activations times that of the weights.
        weight_scales = numpy_helper.to_array(self.g.weights[-2])  # before the zero points, which were added last
        scales = self.g.constant(np.float32(self.scale) * weight_scales)
        stored = self.g.constant(self.g.rng.integers(-1000, 1000, filters, np.int32))
        bias = self.g.node("DequantizeLinear", stored, scales, axis=0)
        pads, strides = [window // 2] * 4, [stride] * 2
        product = self.g.node("Conv", self.name, w, bias, pads=pads, strides=strides, group=groups)
        self.scale *= self.GROWTH
        self.channels = filters
        self.quantize(self.g.node("Relu", product) if relu else product, LOW if relu else ZERO)

    def quantize(self, name: str, zero: Any) -> None:
        """Make the value `name` the current result, quantized with the zero point `zero` and the current scale."""
        self.name = self.g.pair(name, self.scale, zero)

    def residual(self, convs: list[dict[str, int]], relu: bool = True) -> None:
        """Add a block of convolutions; its input, convolved where sizes differ, is added to its result.

        Args:
            convs: Arguments of `conv` for each convolution; the last one has no ReLU.
            relu: Whether ReLU follows the addition.
        """
        before, scale, channels = self.name, self.scale, self.channels
        for conv in convs[:-1]:
            self.conv(**conv)
        self.conv(**convs[-1], relu=False)
        after, last_scale, filters = self.name, self.scale, self.channels
        stride = max(conv.get("stride", 1) for conv in convs)
        if stride > 1 or filters != channels:  # add a 1x1 convolution of the block's input
            self.name, self.scale, self.channels = before, scale, channels
            self.conv(filters, 1, stride, relu=False)
            before = self.name
        self.scale = last_scale
        total = self.g.node("Add", after, before)
        self.quantize(self.g.node("Relu", total) if relu else total, LOW if relu else ZERO)

    def pool(self, kind: str, **attributes: list[int]) -> None:
        """Add a pooling operator after a ReLU, so that its result is not negative."""
        self.quantize(self.g.node(kind, self.name, **attributes), LOW)


def _stem(network: Layers) -> None:
    """Add ResNet's first layer: a convolution 7x7 and a pooling, each with a stride of 2."""
    network.conv(64, 7, 2)
    network.pool("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])


def networks() -> Iterator[Case]:
    """Yield a first layer, residual blocks of ResNet and MobileNet, and a ResNet-18 without its last product."""
    layers = Layers(1, 3, 224, 224)
    _stem(layers)
    yield "QDQ first layer 7x7x3 to 64, pooling", layers.g.model(layers.name), layers.g.x
    # Channels, whether ReLU follows the addition, and the convolutions.
    blocks: dict[str, tuple[int, bool, list[dict[str, int]]]] = {
        "ResNet block 56x56x64": (64, True, [{"filters": 64, "window": 3}] * 2),
        "ResNet bottleneck 56x56x256": (
            256, True, [{"filters": 64, "window": n} for n in (1, 3)] + [{"filters": 256, "window": 1}]
        ),
        "MobileNet block 56x56x64": (
            64, False, [{"filters": 256, "window": 1}, {"filters": 256, "window": 3, "groups": 256},
                        {"filters": 64, "window": 1}]
        ),
    }  # fmt: skip
    for name, (channels, relu, convs) in blocks.items():
        layers = Layers(1, channels, 56, 56)
        for _ in range(2):
            layers.residual(convs, relu)
        yield f"QDQ 2x {name}", layers.g.model(layers.name), layers.g.x
    layers = Layers(1, 3, 224, 224)
    _stem(layers)
    for stage, filters in enumerate((64, 128, 256, 512)):
        for stride in (2 if stage else 1, 1):
            layers.residual([{"filters": filters, "window": 3, "stride": stride}, {"filters": filters, "window": 3}])
    layers.pool("GlobalAveragePool")
    yield "QDQ ResNet-18", layers.g.model(layers.name), layers.g.x
