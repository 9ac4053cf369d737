"""Operations that move elements, those with sizes as operands among them."""

from __future__ import annotations

from typing import Any

import numpy as np

from every_operation.elements import Array, Element
from every_operation.rows import Row, by

NUMBERS = "sint uint float complex"


def numbers(*given: Any) -> Array:
    return np.array(given, np.int64)


def padded(e: Element, x: Array, value: Array, low: Any, high: Any, interior: Any) -> Array:
    size = [a + c + n + (n - 1) * i for n, a, c, i in zip(x.shape, low, high, interior, strict=True)]
    whole = np.full([n + 2 * 8 for n in size], value[()], x.dtype)
    whole[
        tuple(slice(8 + a, 8 + a + n + (n - 1) * i, i + 1) for n, a, i in zip(x.shape, low, interior, strict=True))
    ] = x
    made = whole[tuple(slice(8, 8 + n) for n in size)]
    return made.copy()


def put(x: Array, update: Array, *starts: Array) -> Array:
    made = x.copy()
    at = [int(np.clip(s, 0, n - m)) for s, n, m in zip(starts, x.shape, update.shape, strict=True)]
    made[tuple(slice(a, a + m) for a, m in zip(at, update.shape, strict=True))] = update
    return made


def taken(x: Array, *starts: Array) -> Array:
    at = [int(np.clip(s, 0, n - m)) for s, n, m in zip(starts, x.shape, (2, 3), strict=True)]
    return x[at[0] : at[0] + 2, at[1] : at[1] + 3]


def counted(e: Element, axis: int, shape: tuple[int, ...]) -> Array:
    grid = np.indices(shape)[axis]
    return grid.astype(object) if e.is_integer else grid.astype(np.float64)


GATHER = (
    "dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], "
    "index_vector_dim = 1>"
)
STARTS = np.array([[2], [0], [7], [-3]], np.int32)
A, V = "edges:4x5", "small b:"
SAME = """func.func private @same(%x: tensor<4x5x$E>) -> tensor<4x5x$E> {
  return %x : tensor<4x5x$E>
}
"""


def gathered(e: Element, x: Array, starts: Array, *_: Array) -> Array:
    return x[np.clip(starts[:, 0], 0, 3)][:, :3]


ROWS = [
    Row(
        "broadcast_in_dim",
        "stablehlo.broadcast_in_dim $0, dims = [0, 2]",
        (A,),
        ("4x3x5x$E",),
        by(lambda x: np.repeat(x[:, None], 3, 1)),
    ),
    Row(
        "broadcast",
        "stablehlo.broadcast $0, sizes = [2, 3]",
        (A,),
        ("2x3x4x5x$E",),
        by(lambda x: np.broadcast_to(x, (2, 3, 4, 5))),
    ),
    Row(
        "concatenate",
        "stablehlo.concatenate $0, $1, dim = 0",
        (A, "edges b:2x5"),
        ("6x5x$E",),
        by(lambda *x: np.concatenate(x)),
    ),
    Row("reshape", "stablehlo.reshape $0", (A,), ("2x10x$E",), by(lambda x: x.reshape(2, 10))),
    Row("reverse", "stablehlo.reverse $0, dims = [0, 1]", (A,), ("4x5x$E",), by(lambda x: x[::-1, ::-1])),
    Row("slice", "stablehlo.slice $0 [1:4:2, 2:5]", (A,), ("2x3x$E",), by(lambda x: x[1:4:2, 2:5])),
    Row("transpose", "stablehlo.transpose $0, dims = [1, 0]", (A,), ("5x4x$E",), by(np.transpose)),
    Row(
        "pad",
        "stablehlo.pad $0, $1, low = [1, -1], high = [0, 2], interior = [1, 0]",
        (A, V),
        ("8x6x$E",),
        lambda e, x, v: padded(e, x, v, (1, -1), (0, 2), (1, 0)),
    ),
    Row(
        "get_dimension_size",
        "stablehlo.get_dimension_size $0, dim = 1",
        (A,),
        ("i32",),
        by(lambda x: np.array(5, object)),
    ),
    Row("iota", "stablehlo.iota dim = 1", (), ("2x3x$E",), lambda e: counted(e, 1, (2, 3)), NUMBERS),
    Row(
        "dynamic_iota",
        "stablehlo.dynamic_iota $0, dim = 0",
        (numbers(3, 2),),
        ("3x2x$E",),
        lambda e, n: counted(e, 0, (3, 2)),
        NUMBERS,
    ),
    Row(
        "dynamic_slice",
        "stablehlo.dynamic_slice $0, $1, $2, sizes = [2, 3]",
        (A, np.array(1), np.array(9)),
        ("2x3x$E",),
        by(taken),
    ),
    Row(
        "dynamic_update_slice",
        "stablehlo.dynamic_update_slice $0, $1, $2, $3",
        (A, "edges c:2x3", np.array(-1), np.array(1)),
        ("4x5x$E",),
        by(put),
    ),
    Row(
        "gather",
        f'"stablehlo.gather"($0, $1) <{{{GATHER}, slice_sizes = array<i64: 1, 3>}}>',
        (A, STARTS),
        ("4x3x$E",),
        gathered,
    ),
    Row(
        "dynamic_gather",
        f'"stablehlo.dynamic_gather"($0, $1, $2) <{{{GATHER}}}>',
        (A, STARTS, numbers(1, 3)),
        ("4x3x$E",),
        gathered,
    ),
    Row(
        "dynamic_reshape",
        "stablehlo.dynamic_reshape $0, $1",
        (A, numbers(2, 10)),
        ("?x?x$E",),
        by(lambda x, n: x.reshape(2, 10)),
    ),
    Row(
        "dynamic_broadcast_in_dim",
        "stablehlo.dynamic_broadcast_in_dim $0, $1, dims = [1, 2]",
        (A, numbers(2, 4, 5)),
        ("2x4x5x$E",),
        by(lambda x, n: np.broadcast_to(x, (2, 4, 5))),
    ),
    Row(
        "dynamic_pad",
        "stablehlo.dynamic_pad $0, $1, $2, $3, $4",
        (A, V, numbers(0, 1), numbers(2, 0), numbers(0, 2)),
        ("6x14x$E",),
        lambda e, x, v, *_: padded(e, x, v, (0, 1), (2, 0), (0, 2)),
    ),
    Row(
        "real_dynamic_slice",
        "stablehlo.real_dynamic_slice $0, $1, $2, $3",
        (A, numbers(0, 1), numbers(3, 5), numbers(2, 2)),
        ("2x2x$E",),
        by(lambda x, *_: x[0:3:2, 1:5:2]),
    ),
    Row(
        "set_dimension_size",
        "stablehlo.set_dimension_size $0, $1, dim = 0",
        (A, np.array(2, np.int32)),
        ("?x5x$E",),
        by(lambda x, n: x[:2]),
    ),
    Row(
        "composite",
        'stablehlo.composite "my.op" $0 {decomposition = @same}',
        (A,),
        ("4x5x$E",),
        by(lambda x: x),
        functions=SAME,
    ),
    Row("custom_call", "stablehlo.custom_call @Sharding($0)", (A,), ("4x5x$E",), by(lambda x: x)),
]

ROWS += [
    Row(name, f"stablehlo.{name}", (), ("ui32",), lambda e: np.array(0, object), "uint", holds=lambda e: e.bits == 32)
    for name in ("partition_id", "replica_id")
]


def _bits(e: Element) -> list[Row]:
    """As unsigned integers of as many bits, as several of half as many, and those joined."""
    if e.kind in ("bool", "quantized"):
        return [Row("bitcast_convert", "stablehlo.bitcast_convert $0", (A,), ("4x5x$E",), by(lambda x: x))]
    if e.name == "complex<f64>":
        return [
            Row(
                "bitcast_convert",
                "stablehlo.bitcast_convert $0",
                (A,),
                ("4x5x2xcomplex<f32>",),
                lambda e, x: e.narrow(x).view(np.complex64).reshape(4, 5, 2),
            )
        ]
    if e.kind == "complex" or e.bits == 6:
        return [Row("bitcast_convert", "stablehlo.bitcast_convert $0", (A,), ("4x5x$E",), by(lambda x: x))]
    mask = (1 << e.bits) - 1
    rows = [Row("bitcast_convert", "stablehlo.bitcast_convert $0", (A,), (f"4x5xui{e.bits}",), _unsigned)]
    if e.bits > 4:
        half = e.bits // 2
        rows.append(
            Row(
                "bitcast_convert",
                "stablehlo.bitcast_convert $0",
                (A,),
                (f"4x5x2xui{half}",),
                lambda e, x: np.stack([_unsigned(e, x) & (mask >> half), _unsigned(e, x) >> half], -1),
            )
        )
    return rows


def _unsigned(e: Element, x: Array) -> Array:
    array = e.narrow(x)
    bits = array.view(f"u{array.dtype.itemsize}").astype(object)
    return bits & ((1 << e.bits) - 1)


def rows(e: Element) -> list[Row]:
    return [*ROWS, *_bits(e)]
