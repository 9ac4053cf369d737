"""Quantized ONNX models beside onnxruntime and, where it is installed, OpenVINO.

Pairs of quantize and dequantize around products and convolutions, convolutional networks, products of integers,
quantization at run time, and weights of 4 and 8 bits.

    python bench/quantized.py [--workers 1] [--only TEXT] [--seconds 0.2]

Contenders alternate with pauses, since idle threads of onnxruntime spin; the least time of each counts.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnxruntime as ort
from kernels.roof import Roof, roof
from onnx import TensorProto, numpy_helper
from programs import PAUSE
from quantized_graph import Array, Case, Graph, floats, levels, operations
from quantized_networks import networks
from report.figures import OURS, ROOF, Figures, Row, parser, rows_of, table

import pydispatch as pd
from pydispatch.bench.measure import Call, measure
from pydispatch.bench.peers import openvino

SHAPES = [(512, 512, 512), (128, 768, 3072), (8, 1024, 1024), (1, 2048, 2048)]
"""(M, K, N) of [M, K] times [K, N]."""
WINDOWS = [(56, 64, 64, 3, 1), (28, 128, 128, 3, 1), (14, 256, 256, 3, 1), (56, 64, 256, 1, 1), (14, 1024, 256, 1, 1)]
"""(side, channels, filters, window, groups) of convolutions: of a square image, and of a square window, in pixels."""

FEW_BITS = "MatMulNBits"
"""The ONNX operator with weights of few bits; names of its cases begin with this."""
GROUP = 32
"""Number of activations that OpenVINO quantizes with one scale, its default."""
BYTES = f"{OURS}, activation_bits=8"
"""The contender whose activations of `FEW_BITS` are quantized to bytes, which OpenVINO does by default."""

READ_BYTES = 256 << 20
"""Bytes of an array that is larger than every cache."""


def pairs() -> Iterator[Case]:
    """Yield models with pairs of quantize and dequantize, as onnxruntime's quantizer writes them; weights are i8."""
    # Types of activations and weights, as names of cases have them, and the zero point of activations.
    for signs, zero in (("u8 s8", np.uint8(120)), ("s8 s8", np.int8(3))):
        for per_channel in (False, True):
            for m, k, n in SHAPES:
                g = Graph(floats(m, k))
                w = g.dequantized(g.weight(k, n), axis=1, per_channel=per_channel)
                hidden = g.node("MatMul", g.pair("x", 0.03, zero), w)
                name = f"QDQ MatMul {signs} {m}x{k}x{n}{' per channel' if per_channel else ''}"
                yield name, g.model(g.pair(hidden, 1.0, zero)), g.x
    for m, k, n in SHAPES:
        g = Graph(floats(m, k))
        w = g.dequantized(g.weight(n, k), axis=0, per_channel=True)
        # The scale of the bias is that of the activations times that of the weights.
        weight_scales = numpy_helper.to_array(g.weights[-2])  # before the zero points, which were added last
        scale = g.constant(np.float32(0.03) * weight_scales)
        bias = g.node("DequantizeLinear", g.constant(g.rng.integers(-1000, 1000, n, np.int32)), scale, axis=0)
        hidden = g.node("Relu", g.node("Gemm", g.pair("x", 0.03, np.uint8(120)), w, bias, transB=1))
        yield f"QDQ Gemm, bias, Relu u8 s8 {m}x{k}x{n} per channel", g.model(g.pair(hidden, 1.0, np.uint8(0))), g.x
    for side, channels, filters, window, groups in WINDOWS:
        for signs, zero in (("u8 s8", np.uint8(120)), ("s8 s8", np.int8(3))):
            g = Graph(floats(1, channels, side, side))
            w = g.dequantized(g.weight(filters, channels // groups, window, window), axis=0, per_channel=True)
            pad = [window // 2] * 4
            hidden = g.node("Conv", g.pair("x", 0.03, zero), w, pads=pad, group=groups)
            name = f"QDQ Conv {signs} {window}x{window} {side}x{side}x{channels} to {filters}"
            lowest = np.iinfo(zero.dtype).min  # no result of ReLU is negative
            yield name, g.model(g.pair(g.node("Relu", hidden), 1.0, zero.dtype.type(lowest))), g.x


def integers() -> Iterator[Case]:
    """Yield models of the operators whose operands are integers, with scales and zero points as inputs."""
    for m, k, n in SHAPES:
        g = Graph(levels(m, k))
        product = g.node("MatMulInteger", "x", g.constant(g.weight(k, n)), g.constant(np.uint8(120)))
        yield f"MatMulInteger {m}x{k}x{n}", g.model(product, TensorProto.INT32), g.x
    for per_channel in (False, True):
        for m, k, n in SHAPES:
            g = Graph(levels(m, k))
            scale = g.scales(n) if per_channel else np.float32(0.015)
            zero = np.zeros(n if per_channel else (), np.int8)
            # Scale and zero point of x; weights with theirs; those of the result.
            values = (np.float32(0.03), np.uint8(120), g.weight(k, n), scale, zero, np.float32(1.0), np.uint8(128))
            product = g.node("QLinearMatMul", "x", *(g.constant(v) for v in values))
            name = f"QLinearMatMul {m}x{k}x{n}{' per channel' if per_channel else ''}"
            yield name, g.model(product, TensorProto.UINT8), g.x
    for side, channels, filters, window, groups in WINDOWS:
        g = Graph(levels(1, channels, side, side))
        w = g.weight(filters, channels // groups, window, window)
        values = (np.float32(0.03), np.uint8(120), w, g.scales(filters), np.zeros(filters, np.int8), np.float32(1.0),
                  np.uint8(128))  # fmt: skip
        product = g.node("QLinearConv", "x", *(g.constant(v) for v in values), pads=[window // 2] * 4, group=groups)
        name = f"QLinearConv {window}x{window} {side}x{side}x{channels} to {filters}"
        yield name, g.model(product, TensorProto.UINT8), g.x


def dynamic() -> Iterator[Case]:
    """Yield models whose scale and zero point of activations are computed from each call's argument."""
    for m, k, n in SHAPES:
        g = Graph(floats(m, k))
        # Names of the results end in 0 (quantized values), 1 (scale) and 2 (zero point).
        q = g.node("DynamicQuantizeLinear", "x", outputs=3)
        x_scale, x_zero = q[:-1] + "1", q[:-1] + "2"
        product = g.node("MatMulInteger", q, g.constant(g.weight(k, n)), x_zero, g.constant(np.int8(0)))
        scale = g.node("Mul", x_scale, g.constant(np.float32(0.015)))
        floats_of_product = g.node("Cast", product, to=TensorProto.FLOAT)
        yield f"dynamic MatMulInteger {m}x{k}x{n}", g.model(g.node("Mul", floats_of_product, scale)), g.x


def few_bits() -> Iterator[Case]:
    """Yield products with weights of 4 and 8 bits that have a scale for each block of 32."""
    for m, k, n in ((1, 2048, 2048), (1, 4096, 4096), (4, 4096, 4096), (32, 2048, 2048), (128, 2048, 2048)):
        for bits, zeros in ((4, False), (4, True), (8, False)):
            g = Graph(floats(m, k))
            blocks = n * k // 32
            weights = g.rng.integers(0, 256, (n, k // 32, 4 * bits), np.uint8)  # 32 of `bits` bits: 4 * bits bytes
            operands = [weights, g.scales(blocks)]
            if zeros:
                operands.append(g.rng.integers(0, 256, blocks // 2, np.uint8))  # zero points: two of 4 bits in a byte
            names = [g.constant(operand) for operand in operands]
            product = g.node("MatMulNBits", "x", *names, domain="com.microsoft", K=k, N=n, bits=bits, block_size=32)
            name = f"{FEW_BITS} {m}x{k}x{n}"
            if bits == 8:
                name += ", 8 bits"
            if zeros:
                name += ", zero points"
            yield name, g.model(product), g.x


def read_rate() -> float:
    """Return the bytes of an array beyond all caches that one thread sums in a second of CPU time, at best."""
    array = np.ones(READ_BYTES // 8, np.int64)
    times = []
    for _ in range(9):
        begin = time.process_time()
        array.sum()
        times.append(time.process_time() - begin)
    return READ_BYTES / min(times)


def session(model: bytes, workers: int) -> ort.InferenceSession:
    """Load a model in onnxruntime, without log messages."""
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = workers, 1, 4
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def openvino_call(model: bytes, x: Array, workers: int, group_size: int) -> Call | None:
    """Return a call of a model in OpenVINO, with f32 where the model is not quantized; None where it cannot run.

    group_size: number of activations that OpenVINO quantizes with one scale, for products with weights of few bits; 0
    keeps the activations in f32.
    """
    try:
        request = openvino.compiled(model, workers, group_size).create_infer_request()
    except ModuleNotFoundError:
        return None
    except RuntimeError as error:
        print(f"OpenVINO cannot compile the model: {str(error)[-200:]}")
        return None
    return lambda: request.infer([x], share_inputs=True, share_outputs=True)


def roof_rows(name: str, model: bytes, x: Array, workers: int, machine: Roof) -> list[Row]:
    """Return rows of the least times that the machine allows for a case.

    The times assume products of bytes. A model with weights of few bits has a second row, for activations of f32.

    Moved bytes are those of the model and of its input. Operations are products and their sums alone: not the rounding
    of f32 to bytes, nor the scaling of sums.
    """
    count, moved = operations(model), len(model) + x.nbytes  # moved: bytes
    of_bytes = machine.seconds(count, moved, multiplies_bytes=True)
    if not name.startswith(FEW_BITS):
        return [Row("a call", ROOF, of_bytes, size=name, workers=workers)]
    # An activation of f32, rounded to 24 bits, may be multiplied as three bytes, which can be faster than f32.
    of_three_bytes = machine.seconds(3 * count, moved, multiplies_bytes=True)
    of_floats = min(machine.seconds(count, moved), of_three_bytes)
    return [
        Row("a call", ROOF, of_floats, size=name, workers=workers),
        Row("a call", ROOF, of_bytes, size=name, workers=workers, against=BYTES),
    ]


def contenders(name: str, model: bytes, x: Array, workers: int) -> tuple[dict[str, Call], Array]:
    """Return the calls of a case by contender, and how much our results differ from those of onnxruntime.

    A model with weights of few bits has two contenders more, whose activations are quantized to 8 bits.
    """
    device = pd.device(f"cpu?workers={workers}")
    has_few_bits = name.startswith(FEW_BITS)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        file.write_bytes(model)
        ours = device.load(pd.compile(file, targets="cpu", cpu="native")).main.prepare(x)
        options = {"targets": "cpu", "cpu": "native", "activation_bits": 8}
        with_8_bits = device.load(pd.compile(file, **options)).main.prepare(x) if has_few_bits else None
    theirs = session(model, workers)
    (expected,) = theirs.run(None, {"x": x})
    calls: dict[str, Call] = {OURS: ours, "onnxruntime": lambda: theirs.run(None, {"x": x})}
    if (call := openvino_call(model, x, workers, group_size=0)) is not None:
        calls["openvino"] = call
    if with_8_bits is not None:
        calls[BYTES] = with_8_bits
        if (call := openvino_call(model, x, workers, group_size=GROUP)) is not None:
            calls["openvino, activations of 8 bits"] = call
    return calls, np.abs(np.asarray(ours(), np.float64) - expected)


def main() -> None:
    """Measure each model, and print its rows, the share of differing results, and the roof."""
    arguments = parser(__doc__)
    arguments.add_argument("--workers", type=int, default=1)
    arguments.add_argument("--seconds", type=float, default=0.2, help="of each contender and case")
    arguments.add_argument("--only", default="", help="cases whose name has this")
    args = arguments.parse_args()
    method = (
        "Least times, of the CPU with one worker; contenders alternate, with pauses, since threads of onnxruntime spin "
        "after a call."
    )
    figures = Figures("Quantized models", method)
    with tempfile.TemporaryDirectory() as folder:
        machine = roof(args.workers, Path(folder))
    for name, model, x in (*pairs(), *networks(), *integers(), *dynamic(), *few_bits()):
        if args.only not in name:
            continue
        calls, differences = contenders(name, model, x, args.workers)
        # CPU time of one thread is not disturbed by other processes; of several it would be their sum.
        clock = time.process_time if args.workers == 1 else time.perf_counter
        samples = measure(calls, args.seconds, pause=PAUSE, clock=clock)
        rows: list[Row] = []
        for sample in samples:
            against = BYTES if "8 bits" in sample.name else OURS
            rows += rows_of("a call", [sample], name, args.workers, least=True, against=against)
        # Print the rows, and how close they are to the limits of the machine.
        print(table(rows))
        print(f"  results that differ: {np.mean(differences > 0):.2%}, by at most {differences.max():.2g}", flush=True)
        if name.startswith(FEW_BITS):
            weights = len(model) / rows[0].value / 1e9
            print(f"  weights and scales: {weights:.1f} GB/s; a sum reads {read_rate() / 1e9:.1f} GB/s", flush=True)
        least = roof_rows(name, model, x, args.workers, machine)
        shares = (f"{row.value / own.value:.0%} of {own.contender}" for row in least for own in rows
                  if own.contender == row.against)  # fmt: skip
        print(f"  the roof is {', '.join(shares)}", flush=True)
        figures.rows += [*rows, *least]
    if args.json:
        figures.save(args.json)


if __name__ == "__main__":
    main()
