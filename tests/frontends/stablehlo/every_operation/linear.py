"""Products, convolutions, factors of matrices, transforms, normalization, random numbers."""

from __future__ import annotations

import numpy as np

from every_operation.elements import Array, Element
from every_operation.rows import Row, by

IMAGE, KERNEL = "ones:1x4x4x1", "ones b:1x2x1x1"
CONVOLUTION = (
    "dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64, "
    "batch_group_count = 1 : i64"
)


def contracted(x: Array, y: Array) -> Array:
    """Rows by columns."""
    total = x[:, :1] * y[:1]
    for k in range(1, x.shape[1]):
        total = total + x[:, k : k + 1] * y[k : k + 1]
    return total


def convolved(x: Array, w: Array, *_: Array) -> Array:
    """Each element with the one to its right."""
    return x[:, :, :-1] * w[0, 0, 0, 0] + x[:, :, 1:] * w[0, 1, 0, 0]


def factor(e: Element, x: Array) -> Array:
    return np.linalg.cholesky(wide_of(e, x))


def definite(e: Element) -> Array:
    """A Hermitian matrix that is positive definite, of numbers that small types have."""
    x = np.array([[4, 2, 0], [2, 5, 2], [0, 2, 2]], np.float64)
    if e.kind == "complex":
        x = x + np.array([[0, 1j, 0], [-1j, 0, 0.5j], [0, -0.5j, 0]])
    return e.narrow(x)


def triangle(e: Element) -> Array:
    x = np.array([[2, 0, 0], [1, 1, 0], [-1, 2, 4]], np.float64)
    return e.narrow(x + (np.array([[0, 0, 0], [1j, 0, 0], [0, -1j, 1j]]) if e.kind == "complex" else 0))


def wide_of(e: Element, x: Array) -> Array:
    return x.astype(np.complex128 if e.kind == "complex" else np.float64)


def solved(e: Element, a: Array, y: Array) -> Array:
    return np.linalg.solve(wide_of(e, a), wide_of(e, y))


def solved_adjoint(e: Element, a: Array, y: Array) -> Array:
    """x of x adjoint(a) = y."""
    return np.linalg.solve(wide_of(e, a).conj(), wide_of(e, y).T).T


def normalized(e: Element, x: Array, scale: Array, offset: Array, mean: Array, variance: Array) -> Array:
    return (x - mean) / np.sqrt(variance + 0.5) * scale + offset


def trained(e: Element, x: Array, scale: Array, offset: Array) -> tuple[Array, Array, Array]:
    mean, variance = x.mean(0), ((x - x.mean(0)) ** 2).mean(0)
    return normalized(e, x, scale, offset, mean, variance), mean, variance


def gradient(e: Element, x: Array, scale: Array, mean: Array, variance: Array, above: Array) -> tuple[Array, ...]:
    root = np.sqrt(variance + 0.5)
    unit = (x - mean) / root
    of_scale, of_offset = (above * unit).sum(0), above.sum(0)
    n = x.shape[0]
    return scale / root / n * (n * above - of_offset - unit * of_scale), of_scale, of_offset


def at_least_16(e: Element) -> bool:
    return e.kind == "complex" or (e.kind == "float" and e.bits >= 16)


def has_parts(e: Element) -> bool:
    return e.name in ("f32", "f64")


AT = "epsilon = 5.0e-01 : f32, feature_index = 1 : i64"
FEATURES = ("small:2", "small c:2", "small d:2", "ones:2")
SOLVE = "left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>"
ADJOINT = "left_side = false, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose ADJOINT>"


ROWS = [
    Row("dot", "stablehlo.dot $0, $1", ("ones:3x2", "ones c:2x3"), ("3x3x$E",), by(contracted), units=1),
    Row(
        "dot_general",
        "stablehlo.dot_general $0, $1, batching_dims = [] x [], contracting_dims = [1] x [0]",
        ("ones:3x2", "ones c:2x3"),
        ("3x3x$E",),
        by(contracted),
        units=1,
    ),
    Row(
        "convolution",
        f'"stablehlo.convolution"($0, $1) <{{{CONVOLUTION}}}>',
        (IMAGE, KERNEL),
        ("1x4x3x1x$E",),
        by(convolved),
        units=1,
    ),
    Row(
        "dynamic_conv",
        f'"stablehlo.dynamic_conv"($0, $1, $2) <{{{CONVOLUTION}}}>',
        (IMAGE, KERNEL, np.zeros((2, 2), np.int64)),
        ("1x4x3x1x$E",),
        by(convolved),
        units=1,
    ),
    Row(
        "cholesky",
        "stablehlo.cholesky $0, lower = true",
        (definite,),
        ("3x3x$E",),
        lambda e, x: np.tril(factor(e, x)),
        "float complex",
        8,
        at_least_16,
    ),
    Row(
        "triangular_solve",
        f'"stablehlo.triangular_solve"($0, $1) <{{{SOLVE}}}>',
        (triangle, "small:3x2"),
        ("3x2x$E",),
        solved,
        "float complex",
        16,
        at_least_16,
    ),
    Row(
        "triangular_solve",
        f'"stablehlo.triangular_solve"($0, $1) <{{{ADJOINT}}}>',
        (triangle, "small:2x3"),
        ("2x3x$E",),
        solved_adjoint,
        "float complex",
        16,
        at_least_16,
    ),
    *(
        Row("fft", f"stablehlo.fft $0, type = {kind}, length = [6]", ("small:4x6",), ("4x6x$E",), by(f), "complex", 32)
        for kind, f in (
            ("FFT", lambda x: np.fft.fft(x.astype(np.complex128))),
            ("IFFT", lambda x: np.fft.ifft(x.astype(np.complex128))),
        )
    ),
    Row(
        "fft",
        "stablehlo.fft $0, type = RFFT, length = [6]",
        ("small:4x6",),
        ("4x4xcomplex<$E>",),
        by(lambda x: np.fft.rfft(x.astype(np.float64))),
        "float",
        16,
        has_parts,
    ),
    Row(
        "batch_norm_inference",
        f'"stablehlo.batch_norm_inference"($0, $1, $2, $3, $4) <{{{AT}}}>',
        ("small:4x2", *FEATURES),
        ("4x2x$E",),
        normalized,
        "float",
        16,
        at_least_16,
    ),
    Row(
        "batch_norm_training",
        f'"stablehlo.batch_norm_training"($0, $1, $2) <{{{AT}}}>',
        ("small:4x2", *FEATURES[:2]),
        ("4x2x$E", "2x$E", "2x$E"),
        trained,
        "float",
        32,
        at_least_16,
    ),
    Row(
        "batch_norm_grad",
        f'"stablehlo.batch_norm_grad"($0, $1, $2, $3, $4) <{{{AT}}}>',
        ("small:4x2", "small:2", "small c:2", "ones:2", "small e:4x2"),
        ("4x2x$E", "2x$E", "2x$E"),
        gradient,
        "float",
        64,
        at_least_16,
    ),
]
