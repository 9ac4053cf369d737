"""Operations on tensors and on lists of sizes.

Releases before 1.0 have zero points, shifts, shapes and permutations as attributes where 1.0 has operands, or the other
way round: both are read.
"""

from __future__ import annotations

from typing import Any

from xdsl.ir import Operation

from pydispatch.ir.dialects.tosa.base import (
    ANY,
    MANY,
    NAN,
    NUMBER,
    NUMBERS,
    RESIZE,
    ROUNDING,
    TEXT,
    ZERO_POINTS,
    operation,
)

UNARY = (
    "abs", "bitwise_not", "cast", "ceil", "clz", "cos", "erf", "exp", "floor", "identity", "log", "logical_not",
    "reciprocal", "rsqrt", "sigmoid", "sin", "tanh",
)  # fmt: skip
"""Operations without properties, named without their dialect, on each element of one operand."""
BINARY = (
    "add", "bitwise_and", "bitwise_or", "bitwise_xor", "div", "equal", "greater", "greater_equal", "intdiv",
    "logical_and", "logical_left_shift", "logical_or", "logical_right_shift", "logical_xor", "pow", "sub", "table",
)  # fmt: skip
"""Operations on two operands, element by element; `table` looks up elements of the first operand in the second."""
REDUCTIONS = ("reduce_all", "reduce_any", "reduce_prod", "reduce_product", "reduce_sum")
"""Reductions of one axis whose only property is that axis; those by max and min also have a NaN mode. The product has
two names, `reduce_prod` and `reduce_product`."""
ON_SIZES = ("add", "sub", "mul", "div_ceil", "div_floor", "mod", "max", "min")
"""Operations on two lists of sizes, element by element: `tosa.add_shape` and so on."""

ELEMENTWISE: list[type[Operation]] = [
    *(operation(name, 1) for name in UNARY),
    *(operation(name, 2) for name in BINARY),
    operation("arithmetic_right_shift", 2, round=NUMBER),
    operation("maximum", 2, nan_mode=NAN),
    operation("minimum", 2, nan_mode=NAN),
    operation("mul", (2, 3), shift=NUMBER),
    operation("negate", (1, 3), input1_zp=NUMBER, output_zp=NUMBER, quantization_info=ZERO_POINTS),
    operation("select", 3),
    operation(
        "clamp", 1, min_val=ANY, max_val=ANY, nan_mode=NAN, min_int=NUMBER, max_int=NUMBER, min_fp=ANY, max_fp=ANY
    ),
    operation(
        "rescale", (1, 5), rounding_mode=ROUNDING, scale32=NUMBER, per_channel=NUMBER, input_unsigned=NUMBER,
        output_unsigned=NUMBER, double_round=NUMBER, multiplier=NUMBERS, shift=NUMBERS, input_zp=NUMBER,
        output_zp=NUMBER,
    ),
]  # fmt: skip
"""Operations whose result has the shape of the operands, but for broadcasting. Arguments of `operation`: the name, the
number of operands or (least, greatest), and the constraint of each property."""

_POOL: dict[str, Any] = {"kernel": NUMBERS, "stride": NUMBERS, "pad": NUMBERS}
"""Constraints of the properties of a pooling by a window."""
_ZEROS: dict[str, Any] = {"input_zp": NUMBER, "weight_zp": NUMBER, "quantization_info": ZERO_POINTS}
"""Constraints of the zero points of a convolution or matrix product. TOSA before 1.0 has them as properties, later
releases as operands."""
_CONV: dict[str, Any] = {
    "pad": NUMBERS,
    "stride": NUMBERS,
    "dilation": NUMBERS,
    "acc_type": ANY,
    "local_bound": NUMBER,
    **_ZEROS,
}
"""Constraints of the properties of a convolution. `acc_type` is the accumulator's type. `local_bound` asks for the
error bound of a direct dot product, which fast algorithms exceed."""
_AVERAGE: dict[str, Any] = {"acc_type": ANY, "input_zp": NUMBER, "output_zp": NUMBER, "quantization_info": ZERO_POINTS}
"""Constraints of the properties of an average pooling beside the window: type of the sum, and zero points."""

PRODUCTS: list[type[Operation]] = [
    operation("conv2d", (3, 5), **_CONV),
    operation("conv3d", (3, 5), **_CONV),
    operation("depthwise_conv2d", (3, 5), **_CONV),
    operation(
        "transpose_conv2d", (3, 5), out_pad=NUMBERS, stride=NUMBERS, out_shape=NUMBERS, acc_type=ANY,
        local_bound=NUMBER, **_ZEROS,
    ),
    operation("matmul", (2, 4), a_zp=NUMBER, b_zp=NUMBER, quantization_info=ZERO_POINTS),
    operation("fully_connected", 3, **_ZEROS),
    operation("avg_pool2d", (1, 3), **_POOL, **_AVERAGE),
    operation("avg_pool2d_adaptive", 6, **_AVERAGE),
    operation("max_pool2d", 1, nan_mode=NAN, **_POOL),
    operation("max_pool2d_adaptive", 4, nan_mode=NAN),
    operation("fft2d", 2, results=2, inverse=NUMBER, local_bound=NUMBER),
    operation("rfft2d", 1, results=2, local_bound=NUMBER),
    operation("argmax", 1, axis=NUMBER, nan_mode=NAN),
    *(operation(name, 1, axis=NUMBER) for name in REDUCTIONS),
    operation("reduce_max", 1, axis=NUMBER, nan_mode=NAN),
    operation("reduce_min", 1, axis=NUMBER, nan_mode=NAN),
]  # fmt: skip
"""Operations that sum or select along axes: convolutions, matrix products, poolings, Fourier transforms, reductions."""

ARRANGEMENTS: list[type[Operation]] = [
    operation("const", 0, values=ANY, value=ANY),
    operation("concat", (1, MANY), axis=NUMBER),
    operation("pad", (2, 3), quantization_info=ZERO_POINTS),
    operation("reshape", (1, 2), new_shape=NUMBERS),
    operation("reverse", 1, axis=NUMBER),
    operation("slice", (1, 3), start=NUMBERS, size=NUMBERS),
    operation("tile", (1, 2), multiples=NUMBERS),
    operation("transpose", (1, 2), perms=NUMBERS),
    operation("gather", 2),
    operation("scatter", 3),
    operation("resize", (1, 4), mode=RESIZE, scale=NUMBERS, offset=NUMBERS, border=NUMBERS),
]
"""Constants, and operations that move elements without computing them, but for the interpolation of `resize`."""

SIZES: list[type[Operation]] = [
    operation("const_shape", 0, values=ANY, value=ANY),
    operation("concat_shape", (0, MANY)),
    operation("dim", 1, axis=NUMBER),
    operation("slice_shape", 3),
    *(operation(f"{name}_shape", 2) for name in ON_SIZES),
]
"""Operations on lists of sizes, values of type `!tosa.shape<n>`. `(0, MANY)`: any number of operands. The value of a
constant is the property `values`, in older releases `value`."""

CALLS: list[type[Operation]] = [
    operation(
        "custom", (0, MANY), results=None, pure=False, operator_name=TEXT, domain_name=TEXT, implementation_attrs=TEXT,
        identifier=TEXT, config=TEXT,
    ),
]  # fmt: skip
"""Calls of operations that TOSA does not define, with any number of operands (0 to MANY) and of results (None)."""

OPERATIONS = [*ELEMENTWISE, *PRODUCTS, *ARRANGEMENTS, *SIZES, *CALLS]
