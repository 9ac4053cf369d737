"""Convolutional networks between pairs of quantize and dequantize: results within one step of the definition in f64,
and only bytes between dispatches."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import machine_levels
import numpy as np
import pytest

import pydispatch as pd
from pydispatch.compiler.driver.pipeline import compile_to

sys.path.insert(0, str(Path(__file__).parents[1] / "frontends" / "onnx"))
from wire import message, model, node, tensor, value

Array = np.ndarray[Any, Any]

LEVELS = [
    (level, features)
    for level, features in (("generic", ""), ("x86-64-v3", ""), ("x86-64-v4", "+avx512vnni"))
    if machine_levels.runs(level, features)
]  # fmt: skip
TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6}


class Network:
    """A network of one branch and residual sums, as ONNX and as the numbers that the definition gives."""

    def __init__(self, x: Array, seed: int) -> None:
        self.rng, self.nodes, self.weights = np.random.default_rng(seed), list[bytes](), list[bytes]()
        self.x, self.name, self.value = x, "x", x.astype(np.float64)

    def add(self, op: str, *inputs: str, **attributes: list[int] | int) -> str:
        encoded = [
            message((1, key), *((8, n) for n in given), (20, 7)) if isinstance(given, list)
            else message((1, key), (3, given), (20, 2)) for key, given in attributes.items()
        ]  # fmt: skip
        name = f"v{len(self.nodes)}"
        self.nodes.append(node(op, list(inputs), [name], *encoded))
        return name

    def constant(self, array: Any) -> str:
        array, name = np.asarray(array), f"c{len(self.weights)}"
        self.weights.append(tensor(name, list(array.shape), TYPES[str(array.dtype)], (9, array.tobytes())))
        return name

    def quantized(self, zero: Any, scale: float | None = None) -> None:
        """Quantize to the range of the numbers and dequantize."""
        low, high = np.iinfo(zero.dtype).min, np.iinfo(zero.dtype).max
        scale = scale or float(np.float32(np.abs(self.value).max() / 120))
        s, z = self.constant(np.float32(scale)), self.constant(zero)
        self.name = self.add("DequantizeLinear", self.add("QuantizeLinear", self.name, s, z), s, z)
        self.scale, self.zero = scale, zero
        self.value = (np.clip(np.round(self.value / scale) + int(zero), low, high) - int(zero)) * scale

    def conv(
        self, filters: int, window: int, stride: int = 1, dilation: int = 1, pad: int = 0, groups: int = 1
    ) -> None:
        w = self.rng.integers(-127, 128, (filters, self.value.shape[1] // groups, window, window), np.int8)
        scales = self.rng.uniform(0.01, 0.02, filters).astype(np.float32)
        bias = self.rng.integers(-500, 500, filters, np.int32)
        bias_scales = np.float32(self.scale) * scales
        filter_name = self.add(
            "DequantizeLinear",
            self.constant(w),
            self.constant(scales),
            self.constant(np.zeros(filters, np.int8)),
            axis=0,
        )
        bias_name = self.add("DequantizeLinear", self.constant(bias), self.constant(bias_scales), axis=0)
        self.name = self.add(
            "Conv", self.name, filter_name, bias_name, strides=[stride] * 2, dilations=[dilation] * 2, pads=[pad] * 4,
            group=groups,
        )  # fmt: skip
        wide = w * scales.astype(np.float64)[:, None, None, None]
        self.value = convolved(self.value, wide, stride, dilation, pad, groups)
        self.value += (bias * bias_scales.astype(np.float64))[:, None, None]

    def relu(self) -> None:
        self.name, self.value = self.add("Relu", self.name), np.maximum(self.value, 0)

    def plus(self, name: str, other: Array) -> None:
        self.name, self.value = self.add("Add", self.name, name), self.value + other

    def concat(self, name: str, other: Array) -> None:
        self.name, self.value = self.add("Concat", self.name, name, axis=1), np.concatenate([self.value, other], 1)

    def enlarge(self) -> None:
        """Repeat each element along both axes of the image."""
        self.name = self.add("Resize", self.name, "", self.constant(np.float32([1, 1, 2, 2])))
        self.value = self.value.repeat(2, 2).repeat(2, 3)

    def pool(self, op: str, window: int, stride: int, pad: int) -> None:
        self.name = self.add(op, self.name, kernel_shape=[window] * 2, strides=[stride] * 2, pads=[pad] * 4)
        edge = -np.inf if op == "MaxPool" else 0.0
        padded = np.pad(self.value, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=edge)
        views = np.lib.stride_tricks.sliding_window_view(padded, (window, window), (2, 3))[:, :, ::stride, ::stride]
        self.value = views.max((-2, -1)) if op == "MaxPool" else views.mean((-2, -1))

    def write(self, folder: Path) -> Path:
        inputs, outputs = [value("x", *self.x.shape)], [value(self.name, *self.value.shape)]
        path = folder / "network.onnx"
        path.write_bytes(model(self.nodes, inputs, outputs, self.weights))
        return path


def convolved(x: Array, w: Array, stride: int, dilation: int, pad: int, groups: int) -> Array:
    """In f64, channels first."""
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    span = dilation * (w.shape[2] - 1) + 1
    views = np.lib.stride_tricks.sliding_window_view(x, (span, span), (2, 3))
    views = views[:, :, ::stride, ::stride, ::dilation, ::dilation]
    parts = zip(np.split(views, groups, 1), np.split(w, groups, 0), strict=True)
    return np.concatenate([np.einsum("bchwij,fcij->bfhw", v, part) for v, part in parts], 1)


def image(channels: int, side: int, seed: int = 1, batch: int = 1) -> Array:
    return np.random.default_rng(seed).standard_normal((batch, channels, side, side + 1)).astype(np.float32)


def check(network: Network, folder: Path, cpu: str, features: str) -> None:
    """Results are at most one step away from those of f64, and few are at all."""
    options = {"targets": "cpu", "cpu": cpu, "cpu_features": features}
    program = pd.device("cpu").load(pd.compile(network.write(folder), **options))
    steps = np.round(np.abs(np.asarray(program.main(network.x)) - network.value) / network.scale)
    assert steps.max() <= 1 and np.mean(steps > 0) < 0.005


CASES = [
    (16, 16, 3, {"pad": 1}),
    (16, 32, 3, {"pad": 1, "stride": 2}),
    (20, 18, 3, {"dilation": 2, "pad": 2}),
    (3, 16, 7, {"stride": 2, "pad": 3}),
    (7, 17, 3, {}),
    (64, 33, 1, {}),
    (64, 32, 1, {"stride": 2}),
    (32, 32, 3, {"groups": 32, "pad": 1}),
    (32, 16, 3, {"groups": 4, "pad": 1}),
    (1, 5, 5, {"pad": 2}),
]
"""(channels, filters, window, attributes)."""


@pytest.mark.parametrize(("cpu", "features"), LEVELS)
@pytest.mark.parametrize("zero", [np.uint8(117), np.int8(5)])
@pytest.mark.parametrize(("channels", "filters", "window", "attributes"), CASES)
def test_convolution(
    channels: int, filters: int, window: int, attributes: dict[str, int], zero: Any, cpu: str, features: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    network = Network(image(channels, 11), channels + window)
    network.quantized(zero, 0.02)
    network.conv(filters, window, **attributes)
    network.relu()
    network.quantized(np.iinfo(zero.dtype).min + zero.dtype.type(0))
    check(network, tmp_path, cpu, features)


def residual(zero: Any, channels: int = 16) -> Network:
    """A first layer of three channels, poolings, and a bottleneck whose input is added to its result."""
    low = np.iinfo(zero.dtype).min + zero.dtype.type(0)
    network = Network(image(3, 33), 5)
    network.quantized(zero, 0.02)
    network.conv(channels, 7, stride=2, pad=3)
    network.relu()
    network.quantized(low)
    network.pool("MaxPool", 3, 2, 1)
    network.quantized(low, network.scale)
    name, before = network.name, network.value
    for window, filters in ((1, 32), (3, 32), (1, channels)):
        network.conv(filters, window, pad=window // 2)
        if filters == 32:
            network.relu()
        network.quantized(low if filters == 32 else zero)
    network.plus(name, before)
    network.relu()
    network.quantized(low)
    network.pool("AveragePool", 9, 1, 0)
    network.quantized(low)
    return network


@pytest.mark.parametrize(("cpu", "features"), LEVELS)
@pytest.mark.parametrize("zero", [np.uint8(117), np.int8(5)])
def test_only_bytes_are_between_the_dispatches_of_a_network(
    zero: Any, cpu: str, features: str, tmp_path: Path
) -> None:  # fmt: skip
    network = residual(zero)
    options = {"targets": "cpu", "cpu": cpu, "cpu_features": features}
    formed = compile_to("dispatches", network.write(tmp_path), **options)
    host = formed[formed.index("func.func @main(") :].partition("func.return")[0]
    results = re.findall(r"= flow\.dispatch .*-> (.*)", host)
    assert len(results) > 5 and not [text for text in results[:-1] if "f32" in text], results
    program = pd.device("cpu").load(pd.compile(network.write(tmp_path), **options))
    apart = np.abs(np.asarray(program.main(network.x)) - network.value) / network.scale
    assert apart.max() < 2.5  # a step of each layer before may differ, too


@pytest.mark.parametrize("move", ["concat", "resize"])
@pytest.mark.parametrize("zero", [np.uint8(117), np.int8(5)])
def test_bytes_are_joined_and_enlarged(zero: Any, move: str, tmp_path: Path) -> None:
    network = Network(image(16, 11), 7)
    network.quantized(zero, 0.02)
    name, before = network.name, network.value
    network.conv(16, 3, pad=1)
    if move == "concat":
        network.concat(name, before)
    else:
        network.enlarge()
    network.quantized(zero)
    network.conv(16, 3, pad=1)
    network.quantized(zero)
    options: Any = {"targets": "cpu", "cpu": "generic"}
    formed = compile_to("dispatches", network.write(tmp_path), **options)
    host = formed[formed.index("func.func @main(") :].partition("func.return")[0]
    results = re.findall(r"= flow\.dispatch .*-> (.*)", host)
    assert len(results) > 3 and not [text for text in results[:-2] if "f32" in text], results  # before the last layer
    program = pd.device("cpu").load(pd.compile(network.write(tmp_path), **options))
    apart = np.abs(np.asarray(program.main(network.x)) - network.value) / network.scale
    assert apart.max() < 2.5 and np.mean(apart > 0.5) < 0.05  # a step of the first layer may differ, too


def test_a_scale_that_is_computed_after_a_concatenation() -> None:
    text = """func.func @main(%x: tensor<2x3xf32>, %scale: tensor<f32>) -> tensor<4x3xi8> {
  %c = tensor.concat dim(0) %x, %x : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  %s = tensor.extract %scale[] : tensor<f32>
  %e = tensor.empty() : tensor<4x3xi8>
  %r = linalg.generic {
      indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a, b)>],
      iterator_types = ["parallel", "parallel"]
    } ins(%c : tensor<4x3xf32>) outs(%e : tensor<4x3xi8>) {
  ^bb0(%v: f32, %o: i8):
    %m = arith.mulf %v, %s : f32
    %q = arith.fptosi %m : f32 to i8
    linalg.yield %q : i8
  } -> tensor<4x3xi8>
  return %r : tensor<4x3xi8>
}"""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    result = pd.device("cpu").load(pd.compile(text, targets="cpu")).main(x, np.float32(3))
    np.testing.assert_array_equal(result, np.concatenate([3 * x, 3 * x]))


@pytest.mark.parametrize(("channels", "padded"), [(3, 4), (6, 8), (1, 1), (5, 5), (16, 16)])
def test_channels_are_padded_to_groups_where_few_are_added(channels: int, padded: int, tmp_path: Path) -> None:
    network = Network(image(channels, 11), 3)
    network.quantized(np.uint8(117), 0.02)
    network.conv(16, 3, pad=1)
    network.quantized(np.uint8(117))
    formed = compile_to("dispatches", network.write(tmp_path), targets="cpu", cpu="generic")
    found = {int(n) for n in re.findall(r"tensor<13x14x(\d+)xi8>", formed)}
    assert (padded in found) == (padded != channels or channels == 16)
    assert channels == 16 or channels not in found


def test_an_image_that_is_also_added_is_quantized_once(tmp_path: Path) -> None:
    network = Network(image(16, 11), 3)
    network.quantized(np.uint8(117), 0.02)
    name, before = network.name, network.value
    network.conv(16, 1)
    network.quantized(np.uint8(117))
    network.plus(name, before)
    network.quantized(np.uint8(117))
    formed = compile_to("dispatches", network.write(tmp_path), targets="cpu", cpu="generic")
    host = formed[formed.index("func.func @main(") :].partition("func.return")[0]
    dispatches = re.findall(r"= flow\.dispatch @main\w*::@(\w+).*-> (.*)", host)
    assert [result for _, result in dispatches] == [
        "tensor<11x12x16xi8>",
        "tensor<132x16xi8>",
        "tensor<16x11x12xf32>",
    ]
    assert ["matmul" in name for name, _ in dispatches] == [False, True, False]
    check(network, tmp_path, "generic", "")


def test_depthwise_sums_are_requantized_in_their_dispatch(tmp_path: Path) -> None:
    network = Network(image(32, 11), 3)
    network.quantized(np.uint8(117), 0.02)
    for window, groups in ((1, 1), (3, 32), (1, 1)):
        network.conv(32, window, pad=window // 2, groups=groups)
        network.relu()
        network.quantized(np.uint8(0))
    formed = compile_to("dispatches", network.write(tmp_path), targets="cpu", cpu="generic")
    assert formed.count("arith.divf") == 1  # the first quantization alone


@pytest.mark.parametrize(
    ("returns_bytes", "results"),
    [
        (False, ["tensor<132x48xi8>", "tensor<48x11x12xf32>"]),
        (True, ["tensor<132x48xi8>", "(tensor<48x11x12xi8>, tensor<48x11x12xf32>)"]),
    ],
)
def test_the_last_transposition_moves_bytes(returns_bytes: bool, results: list[str], tmp_path: Path) -> None:
    """It reads the bytes of a convolution and writes floats, and bytes if these are a result, too."""
    network = Network(image(64, 11), 3)
    network.quantized(np.uint8(117), 0.02)
    network.conv(48, 1)
    network.relu()
    network.quantized(np.uint8(0))
    path, shape = network.write(tmp_path), network.value.shape
    if returns_bytes:
        outputs = [value(network.name, *shape), value("v6", *shape, dtype=TYPES["uint8"])]
        path.write_bytes(model(network.nodes, [value("x", *network.x.shape)], outputs, network.weights))
    formed = compile_to("dispatches", path, targets="cpu", cpu="generic")
    host = formed[formed.index("func.func @main(") :].partition("func.return")[0]
    formed_results = re.findall(r"= flow\.dispatch .*-> (.*)", host)
    assert formed_results[-len(results) :] == results
    if not returns_bytes:
        check(network, tmp_path, "generic", "")
