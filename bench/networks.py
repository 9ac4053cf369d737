"""Convolutional networks as ONNX files, as PyTorch exports them, here, in onnxruntime and in OpenVINO

    python bench/networks.py [--only NAME...] [--workers 1 2] [--json FILE]

Channels come first, norms are folded into filters and biases, weights are drawn by a seed. All systems read the same
file; one process for each number of workers, contenders alternate with pauses, the least times count.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from report.figures import OURS, Figures, Row, parser, table

METHOD = (
    "Batch 1, 224x224, channels first, weights in the file, which all read; OpenVINO computes in f32. Least times; "
    "contenders alternate, with pauses, since threads of some spin after a call. With one worker the process keeps to "
    "one core and its CPU time counts."
)
"""How the figures were measured, for the report."""
PAUSE = 0.05
"""Seconds between contenders: threads of onnxruntime spin for a while after their last call."""

MOBILENET = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
"""Of each stage: the factor by which a block's middle is wider than its input, channels of its result, number of
blocks, and the stride of the first block; others have a stride of 1."""


class Network:
    """An ONNX graph, built layer by layer; its input is "x".

    Methods that add a node take and return names of values. batch: how many images, or the name of a dynamic size.
    """

    def __init__(self, batch: int | str = 1) -> None:
        """Begin with an empty graph; onnx is imported here, as only this class needs it."""
        from onnx import helper, numpy_helper

        self.batch = batch
        self.helper, self.array = helper, numpy_helper.from_array
        self.rng = np.random.default_rng(0)
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def put(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Append a node of operator `kind`, and return the name of its result."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(self.helper.make_node(kind, inputs, [name], **attributes))
        return name

    def weight(self, *shape: int) -> str:
        """Add a random initializer, scaled so that results keep their magnitude, and return its name."""
        values = self.rng.standard_normal(shape) * np.sqrt(2 / max(1, np.prod(shape[1:])))
        self.weights.append(self.array(np.float32(values), f"w{len(self.weights)}"))
        return str(self.weights[-1].name)

    def conv(self, x: str, inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1) -> str:
        """Append a convolution of `inputs` channels with filters of size x size, padding and a bias."""
        weights = self.weight(outputs, inputs // groups, size, size), self.weight(outputs)
        return self.put("Conv", x, *weights, kernel_shape=[size] * 2, strides=[stride] * 2, pads=[size // 2] * 4,
                        group=groups)  # fmt: skip

    def save(self, x: str, features: int, path: Path) -> None:
        """Append a classifier of 1000 classes after `x`, an image of `features` channels, and write the model."""
        from onnx import TensorProto, save

        flat = self.put("Flatten", self.put("GlobalAveragePool", x))
        self.put("Gemm", flat, self.weight(1000, features), self.weight(1000), transB=1)
        info, result = self.helper.make_tensor_value_info, self.nodes[-1].output[0]
        inputs = [info("x", TensorProto.FLOAT, [self.batch, 3, 224, 224])]
        outputs = [info(result, TensorProto.FLOAT, [self.batch, 1000])]
        graph = self.helper.make_graph(self.nodes, "network", inputs, outputs, self.weights)
        save(self.helper.make_model(graph, opset_imports=[self.helper.make_opsetid("", 17)], ir_version=8), path)


def resnet(path: Path, blocks: tuple[int, ...], bottleneck: bool, batch: int | str = 1) -> None:
    """Write a ResNet. blocks: number of residual blocks of each stage. bottleneck: of three convolutions, else two."""
    n = Network(batch)
    x = n.put("Relu", n.conv("x", 3, 64, 7, 2))
    x, inputs = n.put("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), 64
    for stage, count in enumerate(blocks):
        narrow = 64 << stage  # channels: each stage has twice as many as the one before, and half the size
        wide = narrow * (4 if bottleneck else 1)
        for block in range(count):
            halves_size = stage > 0 and block == 0
            stride = 2 if halves_size else 1
            if bottleneck:
                y = n.put("Relu", n.conv(x, inputs, narrow, 1))
                y = n.conv(n.put("Relu", n.conv(y, narrow, narrow, 3, stride)), narrow, wide, 1)
            else:
                y = n.conv(n.put("Relu", n.conv(x, inputs, wide, 3, stride)), wide, wide, 3)
            shortcut = x if inputs == wide and stride == 1 else n.conv(x, inputs, wide, 1, stride)
            x, inputs = n.put("Relu", n.put("Add", y, shortcut)), wide
    n.save(x, inputs, path)


def mobilenet(path: Path, batch: int | str = 1) -> None:
    """Write a MobileNetV2; its activations are clipped to 0 to 6."""
    n = Network(batch)
    n.weights += [n.array(np.float32(0), "low"), n.array(np.float32(6), "high")]

    def clipped(x: str) -> str:
        """Append a clip to [0, 6] (ReLU6)."""
        return n.put("Clip", x, "low", "high")

    x, inputs = clipped(n.conv("x", 3, 32, 3, 2)), 32
    for factor, channels, count, first_stride in MOBILENET:
        for block in range(count):
            # A block widens the image by `factor`, filters each channel, and narrows the image to `channels`.
            stride, middle = first_stride if block == 0 else 1, inputs * factor
            y = clipped(n.conv(x, inputs, middle, 1)) if factor > 1 else x
            y = clipped(n.conv(y, middle, middle, 3, stride, groups=middle))
            y = n.conv(y, middle, channels, 1)
            keeps_shape = stride == 1 and inputs == channels
            x, inputs = n.put("Add", y, x) if keeps_shape else y, channels
    n.save(clipped(n.conv(x, inputs, 1280, 1)), 1280, path)


def unet(path: Path) -> None:
    """Write a U-Net that halves the resolution twice; on the way up, images are joined with earlier ones."""
    n = Network()
    n.weights.append(n.array(np.array([1, 1, 2, 2], np.float32), "scales"))

    def layer(x: str, inputs: int, outputs: int) -> str:
        """Append a convolution of 3x3 and ReLU."""
        return n.put("Relu", n.conv(x, inputs, outputs, 3))

    def smaller(x: str) -> str:
        """Append a pooling that halves the resolution."""
        return n.put("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])

    def joined(x: str, y: str) -> str:
        """Double the resolution of `x`, and concatenate the channels of `y`."""
        return n.put("Concat", n.put("Resize", x, "", "scales", mode="nearest"), y, axis=1)

    first = layer("x", 3, 32)
    second = layer(smaller(first), 32, 64)
    x = layer(smaller(second), 64, 128)
    x = layer(joined(x, second), 192, 64)
    n.save(layer(joined(x, first), 96, 32), 32, path)


NETWORKS: dict[str, Callable[[Path], None]] = {
    "ResNet-18": lambda path: resnet(path, (2, 2, 2, 2), bottleneck=False),
    "ResNet-50": lambda path: resnet(path, (3, 4, 6, 3), bottleneck=True),
    "MobileNetV2": mobilenet,
    "U-Net": unet,
    "ResNet-18, dynamic batch": lambda path: resnet(path, (2, 2, 2, 2), bottleneck=False, batch="n"),
    "MobileNetV2, dynamic batch": lambda path: mobilenet(path, batch="n"),
}
"""Name -> function that writes the network to a file."""


def child(path: Path, workers: int, seconds: float) -> dict[str, Any]:
    """Return the least seconds of each contender, and the largest difference relative to the largest result."""
    if workers == 1:  # on one CPU, so that CPU time is what a call takes
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    import onnxruntime

    import pydispatch as pd
    from pydispatch.bench.measure import measure
    from pydispatch.bench.peers import openvino

    x = np.random.default_rng(1).standard_normal((1, 3, 224, 224), dtype=np.float32)
    program = pd.device(f"cpu?workers={workers}").load(pd.compile(path, targets="cpu", cpu="native"))
    call = next(iter(program.functions.values())).prepare(x)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = workers
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": x})
    contenders: dict[str, Callable[[], Any]] = {OURS: call, "onnxruntime": lambda: session.run(None, {"x": x})}
    with suppress(ModuleNotFoundError):
        request = openvino.compiled(path, workers).create_infer_request()
        contenders["openvino"] = lambda: request.infer([x], share_inputs=True, share_outputs=True)
    clock = time.process_time if workers == 1 else time.perf_counter
    seconds_of = {samples.name: samples.least for samples in measure(contenders, seconds, pause=PAUSE, clock=clock)}
    return {"seconds": seconds_of, "difference": float(np.abs(call() - expected).max() / np.abs(expected).max())}


def main() -> int:
    """Write each network as a file, measure it here and in onnxruntime. Return 1 if a result is off."""
    arguments = parser(__doc__)
    arguments.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    arguments.add_argument("--seconds", type=float, default=2, help="of calls for each contender")
    arguments.add_argument("--only", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    arguments.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    args = arguments.parse_args()
    if args.child:
        print(json.dumps(child(args.child, args.workers[0], args.seconds)))
        return 0
    figures, worst = Figures("Convolutional networks as ONNX files", METHOD), 0.0
    with tempfile.TemporaryDirectory() as folder:
        for name in args.only:
            path = Path(folder) / f"{name}.onnx"
            NETWORKS[name](path)
            for workers in args.workers:
                command = [sys.executable, __file__, "--child", path, "--workers", str(workers), "--seconds",
                           str(args.seconds)]  # fmt: skip
                measured = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
                worst = max(worst, measured["difference"])
                seconds = measured["seconds"].items()
                rows = [Row("a call", who, value, size=name, workers=workers) for who, value in seconds]
                print(table(rows), flush=True)
                figures.rows += rows
    if args.json:
        figures.save(args.json)
    return 0 if worst < 1e-4 else 1


if __name__ == "__main__":
    sys.exit(main())
