"""Named operations mean what their formulas say: normalised, run element by element, and compared with NumPy."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from pydispatch import extensions, ir
from pydispatch.compiler.normalize import normalize

sys.path.insert(0, str(Path(__file__).parents[1] / "ir"))
from interpret import run

Array = np.ndarray[Any, Any]
NAMES = {"f32": np.float32, "f64": np.float64, "i8": np.int8, "i32": np.int32, "i1": np.bool_}
CORE = ("linalg.generic", "linalg.yield", "linalg.index")


def normal(text: str) -> ModuleOp:
    """A program behind its normalisation, valid, printed and read again without a change."""
    module = ir.parse(text)
    printed = ir.print_module(module)
    assert ir.print_module(ir.parse(printed)) == printed
    normalize(module)
    ir.verify(module)
    printed = ir.print_module(module)
    assert ir.print_module(ir.parse(printed)) == printed
    left = {op.name for op in module.walk() if op.name.startswith("linalg.")}
    assert left <= set(CORE), left
    return module


def tensor(shape: tuple[int, ...], element: str) -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


def random(rng: np.random.Generator, shape: tuple[int, ...], element: str) -> Array:
    if element.startswith("f"):
        return rng.standard_normal(shape).astype(NAMES[element])
    return rng.integers(-128, 128, shape).astype(NAMES[element])


def call(op: str, inputs: list[tuple[tuple[int, ...], str]], output: tuple[tuple[int, ...], str], seed: int = 0,
         scalars: tuple[int, ...] = ()) -> tuple[list[Array], Array]:  # fmt: skip
    """Runs `op` (`name {attributes}`) on random operands: these, and what comes out."""
    rng = np.random.default_rng(seed)
    values = [*(random(rng, *i) for i in inputs), *(np.int32(s) for s in scalars), random(rng, *output)]
    types = [*(tensor(*i) for i in inputs), *("i32" for _ in scalars)]
    names = [f"%a{n}" for n in range(len(types))]
    out = tensor(*output)
    arguments = ", ".join(f"{n}: {t}" for n, t in zip(names, types, strict=True))
    text = (
        f"func.func @f({arguments}, %o: {out}) -> {out} {{\n  %0 = linalg.{op} ins({', '.join(names)} : "
        f"{', '.join(types)}) outs(%o : {out}) -> {out}\n  return %0 : {out}\n}}\n"
    )
    return values, run(normal(text), "f", *values)[0]


def close(actual: Array, expected: Array) -> None:
    if actual.dtype.kind == "f":
        np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-5)
    else:
        np.testing.assert_array_equal(actual, expected)


def t(a: Array) -> Array:
    return np.swapaxes(a, -1, -2)


def unpacked(a: Array) -> Array:
    """[..., m, n, i, j] -> [..., m * i, n * j]."""
    *batch, m, n, i, j = a.shape
    return np.swapaxes(a, -3, -2).reshape(*batch, m * i, n * j)


M, K, N, B = 3, 5, 2, 2
CONTRACTIONS: dict[str, tuple[list[tuple[int, ...]], tuple[int, ...], Callable[..., Array]]] = {
    "matmul": ([(M, K), (K, N)], (M, N), lambda a, b: a @ b),
    "matmul_transpose_a": ([(K, M), (K, N)], (M, N), lambda a, b: a.T @ b),
    "matmul_transpose_b": ([(M, K), (N, K)], (M, N), lambda a, b: a @ b.T),
    "batch_matmul": ([(B, M, K), (B, K, N)], (B, M, N), lambda a, b: a @ b),
    "batch_matmul_transpose_a": ([(B, K, M), (B, K, N)], (B, M, N), lambda a, b: t(a) @ b),
    "batch_matmul_transpose_b": ([(B, M, K), (B, N, K)], (B, M, N), lambda a, b: a @ t(b)),
    "batch_reduce_matmul": ([(B, M, K), (B, K, N)], (M, N), lambda a, b: (a @ b).sum(0)),
    "matvec": ([(M, K), (K,)], (M,), lambda a, b: a @ b),
    "vecmat": ([(K,), (K, N)], (N,), lambda a, b: a @ b),
    "batch_matvec": ([(B, M, K), (B, K)], (B, M), lambda a, b: (a @ b[..., None])[..., 0]),
    "batch_vecmat": ([(B, K), (B, K, N)], (B, N), lambda a, b: (b.swapaxes(1, 2) @ a[..., None])[..., 0]),
    "dot": ([(K,), (K,)], (), lambda a, b: np.asarray(a @ b)),
}


@pytest.mark.parametrize("elements", [("f32", "f32"), ("i8", "i32"), ("f32", "f64")], ids="->".join)
@pytest.mark.parametrize("name", CONTRACTIONS)
def test_contraction(name: str, elements: tuple[str, str]) -> None:
    shapes, output, formula = CONTRACTIONS[name]
    (a, b, acc), result = call(name, [(s, elements[0]) for s in shapes], (output, elements[1]))
    wide = [x.astype(NAMES[elements[1]]) for x in (a, b)]
    close(result, acc + formula(*wide))


@pytest.mark.parametrize("batch", [(), (2,)])
def test_tiled_matmul(batch: tuple[int, ...]) -> None:
    shapes = [(*batch, 2, 3, 2, 4), (*batch, 3, 3, 5, 4)]
    name = "batch_mmt4d" if batch else "mmt4d"
    (a, b, acc), result = call(name, [(s, "f32") for s in shapes], ((*batch, 2, 3, 2, 5), "f32"))
    close(unpacked(result), unpacked(acc) + unpacked(a) @ t(unpacked(b)))


@pytest.mark.parametrize("batch", [(), (2,)])
def test_quantized_matmul(batch: tuple[int, ...]) -> None:
    name = "quantized_batch_matmul" if batch else "quantized_matmul"
    (a, b, _, _, acc), result = call(
        name, [((*batch, M, K), "i8"), ((*batch, K, N), "i8")], ((*batch, M, N), "i32"), scalars=(3, -7)
    )
    close(result, acc + (a.astype(np.int32) - 3) @ (b.astype(np.int32) + 7))


def test_unsigned_matmul() -> None:
    (a, b, acc), result = call(
        "matmul {cast = #linalg.type_fn<cast_unsigned>}", [((M, K), "i8"), ((K, N), "i8")], ((M, N), "i32")
    )
    close(result, acc + a.view(np.uint8).astype(np.int32) @ b.view(np.uint8).astype(np.int32))


def test_matmul_with_maps() -> None:
    maps = "indexing_maps = [" + ", ".join(f"affine_map<(m, n, k) -> ({r})>" for r in ("k", "n, k", "m, n")) + "]"
    (a, b, acc), result = call(f"matmul {maps}", [((K,), "f32"), ((N, K), "f32")], ((M, N), "f32"))
    close(result, acc + (b @ a)[None, :])
    (a, b, acc), result = call(
        "contract indexing_maps = [affine_map<(i, j, k) -> (k, i)>, affine_map<(i, j, k) -> (j, k)>, "
        "affine_map<(i, j, k) -> (j, i)>]", [((K, M), "f32"), ((N, K), "f32")], ((N, M), "f32"),
    )  # fmt: skip
    close(result, acc + b @ a)


def windows(layout: str, image: Array, kernel: tuple[int, ...], output: tuple[int, ...], strides: list[int],
            dilations: list[int]) -> Any:  # fmt: skip
    """For each offset in the window: the part of the image that the output sees, in the layout of the image."""
    places = [layout.index(c) for c in layout if c in "dhw"]
    for offset in itertools.product(*(range(k) for k in kernel)):
        index: list[Any] = [slice(None)] * len(layout)
        for place, o, size, s, d in zip(places, offset, output, strides, dilations, strict=True):
            index[place] = slice(o * d, o * d + (size - 1) * s + 1, s)
        yield offset, image[tuple(index)]


CONVOLUTIONS = [
    "conv_1d_nwc_wcf", "conv_1d_ncw_fcw", "conv_2d_nhwc_hwcf", "conv_2d_nhwc_fhwc", "conv_2d_nchw_fchw",
    "conv_2d_nhwc_hwcf_q", "conv_2d_nchw_fchw_q", "conv_2d_ngchw_fgchw", "conv_2d_ngchw_gfchw", "conv_2d_nhwgc_gfhwc",
    "conv_3d_ndhwc_dhwcf", "conv_3d_ncdhw_fcdhw", "depthwise_conv_1d_nwc_wc", "depthwise_conv_1d_nwc_wcm",
    "depthwise_conv_1d_ncw_cw", "depthwise_conv_2d_nhwc_hwc", "depthwise_conv_2d_nhwc_hwcm",
    "depthwise_conv_2d_nchw_chw", "depthwise_conv_2d_nhwc_hwc_q", "depthwise_conv_2d_nhwc_hwcm_q",
    "depthwise_conv_3d_ndhwc_dhwc", "depthwise_conv_3d_ndhwc_dhwcm", "depthwise_conv_3d_ncdhw_cdhw",
]  # fmt: skip
SIZES = {"n": 2, "c": 3, "f": 2, "g": 2, "m": 2}


def attributes(rank: int, strides: list[int], dilations: list[int]) -> str:
    return f"{{dilations = dense<{dilations}> : tensor<{rank}xi64>, strides = dense<{strides}> : vector<{rank}xi64>}}"


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(name: str) -> None:
    quantized = name.endswith("_q")
    layout, weights = name.removesuffix("_q").split("_")[-2:]
    spatial = [c for c in layout if c in "dhw"]
    rank = len(spatial)
    strides, dilations, kernel, output = [2, 1, 2][:rank], [1, 2, 1][:rank], (3, 2, 1)[:rank], (2, 3, 2)[:rank]
    reach = dict(zip(spatial, ((o - 1) * s + (k - 1) * d + 1 for o, s, k, d in zip(
        output, strides, kernel, dilations, strict=True)), strict=True))  # fmt: skip
    depthwise = name.startswith("depthwise")
    result_layout = (layout if depthwise else layout.replace("c", "f")) + ("m" if "m" in weights else "")
    size = dict(SIZES)
    shape = tuple(reach.get(c) or size[c] for c in layout)
    kernel_size, output_size = dict(zip(spatial, kernel, strict=True)), dict(zip(spatial, output, strict=True))
    kernel_shape = tuple(kernel_size.get(c) or size[c] for c in weights)
    output_shape = tuple(output_size.get(c) or size[c] for c in result_layout)
    elements = ("i8", "i32") if quantized else ("f32", "f32")
    values, result = call(
        f"{name} {attributes(rank, strides, dilations)}", [(shape, elements[0]), (kernel_shape, elements[0])],
        (output_shape, elements[1]), scalars=(2, 5) if quantized else (),
    )  # fmt: skip
    image, weight, expected = (values[i].astype(NAMES[elements[1]]) for i in (0, 1, -1))
    if quantized:
        image, weight = image - 2, weight - 5
    for offset, part in windows(layout, image, kernel, output, strides, dilations):
        at = tuple(offset[spatial.index(c)] if c in spatial else slice(None) for c in weights)
        rest = "".join(c for c in weights if c not in spatial)
        expected = expected + np.einsum(f"{layout},{rest}->{result_layout}", part, weight[at])
    close(result, expected)


@pytest.mark.parametrize("kind", ["sum", "max", "min", "max_unsigned", "min_unsigned"])
@pytest.mark.parametrize("layout", ["nwc", "ncw", "nhwc", "nchw", "ndhwc", "ncdhw"])
def test_pooling(layout: str, kind: str) -> None:
    rank = len(layout) - 2
    strides, dilations, kernel, output = [2, 1, 2][:rank], [1, 2, 1][:rank], (3, 2, 1)[:rank], (2, 3, 2)[:rank]
    spatial = [c for c in layout if c in "dhw"]
    reach = [(o - 1) * s + (k - 1) * d + 1 for o, s, k, d in zip(output, strides, kernel, dilations, strict=True)]
    shape = tuple(reach[spatial.index(c)] if c in spatial else SIZES[c] for c in layout)
    output_shape = tuple(output[spatial.index(c)] if c in spatial else SIZES[c] for c in layout)
    element = "i32" if kind.endswith("unsigned") else "f32"
    values, result = call(
        f"pooling_{layout}_{kind} {attributes(rank, strides, dilations)}", [(shape, element), (kernel, element)],
        (output_shape, element),
    )  # fmt: skip
    image, expected = values[0], values[-1]
    if element == "i32":
        image, expected, result = (x.view(np.uint32) for x in (image, expected, result))
    combine = {"sum": np.add, "max": np.maximum, "min": np.minimum}[kind.removesuffix("_unsigned")]
    for _, part in windows(layout, image, kernel, output, strides, dilations):
        expected = combine(expected, part)
    close(result, expected)


ELEMENTWISE: dict[str, Callable[..., Array]] = {
    "abs": np.abs, "ceil": np.ceil, "floor": np.floor, "negf": np.negative, "exp": np.exp, "square": np.square,
    "reciprocal": np.reciprocal, "round": lambda a: np.copysign(np.floor(np.abs(a) + 0.5), a), "tanh": np.tanh,
    "erf": np.vectorize(math.erf, otypes=[np.float32]), "add": np.add, "sub": np.subtract, "mul": np.multiply,
    "div": np.divide, "max": np.maximum, "min": np.minimum, "copy": lambda a: a,
}  # fmt: skip


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise(name: str) -> None:
    formula = ELEMENTWISE[name]
    count = 1 if name in ("copy",) or name not in ("add", "sub", "mul", "div", "max", "min") else 2
    values, result = call(name, [((2, 3), "f32")] * count, ((2, 3), "f32"))
    close(result, formula(*values[:-1]))
    if name in ("copy", "max", "min"):
        return
    values, result = call(f"elementwise <{name}>", [((2, 3), "f32")] * count, ((2, 3), "f32"), seed=1)
    close(result, formula(*values[:-1]))


def test_elementwise_of_positive_numbers() -> None:
    formulas = {"log": np.log, "sqrt": np.sqrt, "rsqrt": lambda a: 1 / np.sqrt(a)}
    value = np.random.default_rng(0).random((2, 3), np.float32) + 0.5
    for name, formula in formulas.items():
        text = f"""func.func @f(%a: tensor<2x3xf32>) -> tensor<2x3xf32> {{
          %e = tensor.empty() : tensor<2x3xf32>
          %0 = linalg.elementwise kind=#linalg.elementwise_kind<{name}> ins(%a : tensor<2x3xf32>)
              outs(%e : tensor<2x3xf32>) -> tensor<2x3xf32>
          return %0 : tensor<2x3xf32>
        }}"""
        close(run(normal(text), "f", value)[0], formula(value))


@pytest.mark.parametrize("name", ["add", "sub", "mul", "max", "min", "div_unsigned"])
def test_elementwise_of_integers(name: str) -> None:
    (a, b, _), result = call(name, [((2, 3), "i32")] * 2, ((2, 3), "i32"), seed=3)
    formulas = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
    if name == "div_unsigned":
        assert b.all()
        close(result, (a.view(np.uint32) // b.view(np.uint32)).view(np.int32))
    else:
        close(result, formulas[name](a, b))


def test_every_row_is_an_operation_of_its_dialect() -> None:
    """A row whose name nothing has would never run, nor one of a dialect that its table is not for."""
    context = ir.context()
    for part in extensions.parts("conversions"):
        for name in part.load():
            assert context.get_optional_op(name) is not None, name
            assert name.partition(".")[0] in part.dialects, part.place
