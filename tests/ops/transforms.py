"""Programs with Fourier and Winograd transforms of tensors, and what NumPy says of them."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
from harness import Array, Body, Value

EPSILON = {"f16": 1e-2, "f32": 1e-5, "f64": 1e-12}


def stage(body: Body, number: int, real: Value, imaginary: Value, factors: list[Value]) -> tuple[Value, Value]:
    constant = body.value(f"arith.constant {number} : index", None, "index")
    name, types = f"%v{len(body.lines)}", body.type_of(real, imaginary)
    given = [constant, *factors]
    body.line(
        f"{name}:2 = iree_linalg_ext.fft ins({', '.join(map(str, given))} : {body.type_of(*given)}) "
        f"outs({real}, {imaginary} : {types}) : {types}"
    )
    return real._replace(name=f"{name}#0"), imaginary._replace(name=f"{name}#1")


def fourier(body: Body, batch: Sequence[int], stages: int, element: str, rng: random.Random) -> None:
    """All stages of a transform of 2^stages elements, some with factors."""
    n = 1 << stages
    parts = [body.random.uniform(-1, 1, (*batch, n)) for _ in range(2)]
    reversed_bits = [int(f"{i:0{stages}b}"[::-1], 2) for i in range(n)]
    real, imaginary = (body.input(part[..., reversed_bits], element, known=1) for part in parts)
    for number in range(1, stages + 1):
        half = 1 << number - 1
        powers = np.exp(-1j * np.pi * np.arange(half) / half)
        factors = []
        if rng.random() < 0.5:
            factors = [body.input(part, element, known=1) for part in (powers.real, powers.imag)]
        real, imaginary = stage(body, number, real, imaginary, factors)
    wanted = np.fft.fft(parts[0] + 1j * parts[1])
    epsilon = EPSILON[element] * stages
    for value, part in ((real, wanted.real), (imaginary, wanted.imag)):
        body.expect(value, part, rtol=epsilon, atol=epsilon * np.sqrt(n))


def convolution(image: Array, filters: Array) -> Array:
    """[n, h, w, c] by [h, w, c, f]."""
    windows = np.lib.stride_tricks.sliding_window_view(image, filters.shape[:2], (1, 2))
    return np.einsum("nhwcij,ijcf->nhwf", windows, filters)


def transform(body: Body, name: str, attributes: str, source: Value, shape: Sequence[int], element: str) -> Value:
    out = body.empty(shape, element)
    return body.value(
        f"iree_linalg_ext.winograd.{name}_transform {attributes} ins({source} : {body.type_of(source)}) "
        f"outs({out} : {body.type_of(out)}) -> {body.type_of(out)}",
        shape, element,
    )  # fmt: skip


def winograd(body: Body, tile: int, kernel: int, inner: bool, element: str, rng: random.Random) -> None:
    """A convolution of a random size and layout by transformed tiles. inner: their numbers are the last dimensions."""
    whole = tile + kernel - 1
    n, c, f = rng.randint(1, 3), rng.choice([1, 3, 8]), rng.choice([1, 4, 5])
    h, w = (rng.randint(kernel, kernel + 12) for _ in "hw")
    image, filters = body.random.uniform(-1, 1, (n, h, w, c)), body.random.uniform(-1, 1, (kernel, kernel, c, f))
    channels_first, filters_first = rng.random() < 0.5, rng.random() < 0.5
    places = "image_dimensions([2, 3])" if channels_first else "image_dimensions([1, 2])"
    words = f"output_tile_size({tile}) kernel_size({kernel})"
    at = " input_tile_dimensions([{}])".format if inner else (lambda _: "")
    x = body.input(image.transpose(0, 3, 1, 2) if channels_first else image, element)
    k = body.input(filters.transpose(3, 2, 0, 1) if filters_first else filters, element)
    rows, columns = (-(-(size - kernel + 1) // tile) for size in (h, w))
    tiles = (whole, whole)

    def shape(*others: int) -> tuple[int, ...]:
        return (*others, *tiles) if inner else (*tiles, *others)

    result = "f64" if element == "f64" else "f32"
    xt = transform(body, "input", f"{words} {places}{at('4, 5')}", x, shape(n, rows, columns, c), result)
    layout = "kernel_dimensions([2, 3])" if filters_first else "kernel_dimensions([0, 1])"
    kt = transform(body, "filter", f"{words} {layout}{at('2, 3')}", k, shape(c, f), result)
    maps = ["nhwcab", "cfab", "nhwfab"] if inner else ["abnhwc", "abcf", "abnhwf"]
    loops = "abnhwfc"
    written = [f"({', '.join(loops)}) -> ({', '.join(m)})" for m in maps]
    zero = body.filled(0.0, shape(n, rows, columns, f), result)
    (product,) = body.generic(written, "ppppppr", [xt, kt], [zero], f"""
      %m = arith.mulf %a0, %a1 : {result}
      %s = arith.addf %o0, %m : {result}
      linalg.yield %s : {result}""")  # fmt: skip
    plain = (n, f, rows * tile, columns * tile) if channels_first else (n, rows * tile, columns * tile, f)
    made = transform(body, "output", f"{words} {places}{at('4, 5')}", product, plain, element)
    # The rows and columns of whole tiles: beyond the image there are zeros.
    missing = [count * tile + kernel - 1 - size for count, size in ((rows, h), (columns, w))]
    padded = np.pad(image, ((0, 0), (0, missing[0]), (0, missing[1]), (0, 0)))
    wanted = convolution(padded, filters)
    # Of larger tiles, differences of large numbers are taken.
    epsilon = {"f16": 6e-2, "f32": 2e-4, "f64": 1e-10}[element] * (10 if whole > 8 else 1)
    body.expect(made, wanted.transpose(0, 3, 1, 2) if channels_first else wanted, rtol=epsilon, atol=epsilon * c)


def packing(body: Body) -> None:
    """A matrix in tiles, and back."""
    source, numbers = body.numbers((5, 7), "f32")
    pad = body.scalar(9.0, "f32")
    packed = body.value(
        f"iree_linalg_ext.pack {source} padding_value({pad} : f32) outer_dims_perm = [1, 0] inner_dims_pos = [1, 0] "
        f"inner_tiles = [4, 2] into {body.empty((2, 3, 4, 2), 'f32')} : (tensor<5x7xf32> tensor<2x3x4x2xf32>) "
        "-> tensor<2x3x4x2xf32>", (2, 3, 4, 2), "f32",
    )  # fmt: skip
    back = body.value(
        f"iree_linalg_ext.unpack {packed} outer_dims_perm = [1, 0] inner_dims_pos = [1, 0] inner_tiles = [4, 2] into "
        f"{body.empty((5, 7), 'f32')} : (tensor<2x3x4x2xf32> tensor<5x7xf32>) -> tensor<5x7xf32>", (5, 7), "f32",
    )  # fmt: skip
    whole = np.pad(numbers, ((0, 1), (0, 1)), constant_values=9.0)
    body.expect(packed, whole.reshape(3, 2, 2, 4).transpose(2, 0, 3, 1))
    body.expect(back, numbers)
