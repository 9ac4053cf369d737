"""Conversions of function calls, composites and custom calls."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from xdsl.dialects import cf
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    SymbolRefAttr,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from pydispatch.frontends.stablehlo.operators import checks, elementwise, linear, reductions
from pydispatch.frontends.stablehlo.operators.control import same_operands
from pydispatch.frontends.stablehlo.operators.dynamic import sizes_in
from pydispatch.frontends.stablehlo.operators.windows import reduced
from pydispatch.frontends.stablehlo.tracer import Convert, Results, StablehloTracer, callee_of
from pydispatch.frontends.stablehlo.types import dtype_of, shape_of
from pydispatch.graph.dtypes import of_element
from pydispatch.graph.sizes import Expr, Size
from pydispatch.graph.values import Tensor
from pydispatch.ir.dialects.stablehlo.calls import CompositeOp
from pydispatch.operations import custom
from pydispatch.operations import elementwise as ew
from pydispatch.operations.convolutions import Window
from pydispatch.operations.shapes import element, reshape
from pydispatch.operations.slicing import slice_axis


def _shape_assertion(tracer: StablehloTracer, op: Operation, holds: Tensor, *_: Tensor) -> Results:
    """Convert JAX's assertion `holds` on sizes. The other operands, numbers for the message, are not used.

    A constant condition is checked at compile time, other conditions at run time. Argument sizes that an assertion
    states to be equal have one symbol already (see `sizes.py`).
    """
    message = op.properties.get("error_message") or op.attributes.get("error_message")
    text = message.data if isinstance(message, StringAttr) else "an assertion on sizes does not hold"
    if holds.numbers is None:
        tracer.b.add(cf.AssertOp(element(tracer.b, holds), text))
    elif not holds.numbers.reshape(-1)[0]:
        raise tracer.b.fail(text)
    return ()


def _called_computation(tracer: StablehloTracer, op: Operation) -> FuncOp | None:
    """Return the only function that a custom call names as its computation; None if there is no such function."""
    names = op.properties.get("called_computations")
    name = names.data[0] if isinstance(names, ArrayAttr) and len(names) == 1 else None
    return tracer.functions.get(name.root_reference.data) if isinstance(name, SymbolRefAttr) else None


def _dynamic_reduce_window(tracer: StablehloTracer, op: Operation, *operands: Tensor) -> Results:
    """Convert a `reduce_window` with dynamic sizes, whose combining function is called by name.

    operands: n tensors, n initial values, and five integer tensors: the sizes of a window, its strides, the distances
    of neighbouring elements of the tensors (base dilations), the dilations of the window, and the padding.

    Raise CompileError for other operands, and for strides or dilations that are not known at compile time.
    """
    count = (len(operands) - 5) // 2  # all but the five integer tensors
    tensors, starts = operands[:count], operands[count : 2 * count]
    window_operands = operands[2 * count :]
    callee = _called_computation(tracer, op)
    if count < 1 or len(window_operands) != 5 or callee is None:
        raise tracer.b.fail(
            "a dynamic reduce_window takes tensors, first values, five lists of sizes, and names a function"
        )
    rank = tensors[0].rank
    kernel, strides, base, dilations = (sizes_in(tracer, x, "window") for x in window_operands[:4])
    # The padding alternates: low 0, high 0, low 1... `_static` returns sizes as ints, and raises for dynamic ones.
    padding = sizes_in(tracer, reshape(tracer.b, window_operands[4], [2 * rank]), "padding", least=None)
    window = Window(_static(tracer, strides), tuple(padding[::2]), tuple(padding[1::2]), _static(tracer, dilations))
    return reduced(tracer, tensors, starts, kernel, window, _static(tracer, base), tracer.combination(callee.body))


def _static(tracer: StablehloTracer, sizes: list[Size]) -> tuple[int, ...]:
    """Return strides or dilations as integers. Raise CompileError if one is dynamic or less than 1."""
    if any(isinstance(n, Expr) or n < 1 for n in sizes):
        raise tracer.b.fail(f"strides and dilations are numbers from 1, got {sizes}")
    return tuple(int(n) for n in sizes)  # type: ignore[arg-type]


def _numeric_attributes(tracer: StablehloTracer, config: Attribute | None) -> dict[str, Tensor]:
    """Return the numeric attributes of a custom call by name, as constants with their types.

    config: the dictionary of attributes, if the call has one. Its other attributes are not passed to kernels.
    """
    numbers: dict[str, Tensor] = {}
    for name, value in (config.data if isinstance(config, DictionaryAttr) else {}).items():
        if isinstance(value, FloatAttr):
            numbers[name] = tracer.b.constant(value.value.data, of_element(value.type))
        elif isinstance(value, IntegerAttr) and isinstance(value.type, IntegerType):
            dtype = of_element(value.type)
            numbers[name] = tracer.b.constant(bool(value.value.data) if dtype.is_bool else value.value.data, dtype)
    return numbers


def _kernel(
    tracer: StablehloTracer, op: Operation, target: str, operands: Sequence[Tensor], config: Attribute | None
) -> Results:
    """Emit a call of the user's kernel with the name `target`.

    A dynamic size of a result is the size of the first operand along the same axis. config: dictionary whose numbers
    are passed to the kernel.
    """
    results: list[Any] = []  # element type and shape of each result
    for result in op.results:
        shape = shape_of(result.type)
        known: list[Size] = [
            n if n is not None else _size_of_same_axis(tracer, op, operands, axis) for axis, n in enumerate(shape)
        ]
        results.append((dtype_of(result.type), tuple(known)))
    return custom.custom_call(tracer.b, target, operands, results, _numeric_attributes(tracer, config))


def _size_of_same_axis(tracer: StablehloTracer, op: Operation, operands: Sequence[Tensor], axis: int) -> Size:
    """Return the size of the first operand along an axis, used as the size of a kernel's result along the same axis
    where the type of the result has a dynamic size.

    Raise CompileError if there is no such axis.
    """
    if not operands or axis >= operands[0].rank:
        raise tracer.b.fail(f"the size of axis {axis} of {op.results[0].type} is not known")
    return operands[0].shape[axis]


def _of_mhlo(name: str, tracer: StablehloTracer, op: Operation, *operands: Tensor) -> Tensor:
    """Convert the CHLO operation `name`, such as "acos", that a portable artifact encodes as a custom call."""
    function = elementwise.SCALAR_FUNCTIONS[f"chlo.{name}"]
    return ew.apply(tracer.b, lambda s, *arguments: function(s, op, *arguments), *operands)


def _top_k(tracer: StablehloTracer, op: Operation, x: Tensor, *_: Tensor) -> Results:
    """Convert `mhlo.topk`, whose count and direction are attributes of the call."""
    mhlo_attributes = op.attributes.get("mhlo.attributes")
    data: Any = mhlo_attributes.data if isinstance(mhlo_attributes, DictionaryAttr) else {}
    if "k" not in data:
        raise tracer.b.fail("the call of 'mhlo.topk' has no attribute 'k'")
    largest = "largest" not in data or bool(data["largest"].value.data)
    return reductions.top_k(tracer, op, x, data["k"].value.data, largest)


def _approximate_top_k(tracer: StablehloTracer, op: Operation, *operands: Tensor) -> Results:
    """Convert JAX's `ApproxTopK` exactly: sort by the comparison that the call names, and take the first elements.

    operands: n tensors that are sorted together, and their n initial values, which a sort does not need.
    """
    callee, config = _called_computation(tracer, op), op.attributes.get("mhlo.backend_config")
    axis: Any = config.data.get("reduction_dim") if isinstance(config, DictionaryAttr) else None
    tensors = operands[: len(operands) // 2]
    if callee is None or axis is None or not tensors or len(tensors) != len(op.results):
        raise tracer.b.fail("'ApproxTopK' takes tensors and their first values, and names a function and reduction_dim")
    (along,) = tracer.axes([axis.value.data], "reduction_dim", tensors[0].rank)
    count = shape_of(op.results[0].type)[along]
    if count is None:
        raise tracer.b.fail(f"'ApproxTopK': the size of {op.results[0].type} along axis {along} is not known")
    ordered = reductions.sort_by(tracer, callee.body, along, tensors)
    return [slice_axis(tracer.b, x, along, start=0, limit=count) for x in ordered]


_PLACEMENTS = ("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement",
               "LayoutConstraint", "MoveToHost", "MoveToDevice")  # fmt: skip
"""Targets that state where a tensor is stored. They return their operands."""
TARGETS: dict[str, Convert] = {
    **dict.fromkeys(_PLACEMENTS, same_operands), "shape_assertion": _shape_assertion,
    "stablehlo.dynamic_reduce_window": _dynamic_reduce_window, "mhlo.topk": _top_k,
    "ApproxTopK": _approximate_top_k,
    **{f"mhlo.{name}": partial(_of_mhlo, name) for name in (*elementwise.CHLO_UNARY, "erf_inv", "square")},
    **linear.TARGETS, **checks.TARGETS,
}  # fmt: skip
"""Conversions of custom calls that need no kernel of the user's, by target."""


def _custom_call(tracer: StablehloTracer, op: Operation, *operands: Tensor) -> Results:
    """Convert a custom call by a kernel of the user for its target, or else by a built-in conversion.

    A built-in conversion is not passed the operands that state dynamic sizes of results.
    """
    target: Any = op.properties["call_target_name"]
    name = target.data
    if name in tracer.options.kernels or name not in TARGETS:
        config = op.attributes.get("mhlo.backend_config", op.properties.get("backend_config"))
        return _kernel(tracer, op, name, operands, config)
    shapes: Any = op.attributes.get("indices_of_shape_operands")
    shape_operands = [] if shapes is None else shapes.get_values()
    return TARGETS[name](tracer, op, *(x for index, x in enumerate(operands) if index not in shape_operands))


def _composite(tracer: StablehloTracer, op: Operation, *operands: Tensor) -> Results:
    """Convert a composite: by the user's kernel of its name if there is one, else by inlining its decomposition."""
    assert isinstance(op, CompositeOp)
    if op.name_.data in tracer.options.kernels:
        return _kernel(tracer, op, op.name_.data, operands, op.composite_attributes)
    return tracer.call(callee_of(op), operands)


ROWS: dict[str, Convert] = {
    "func.call": lambda t, op, *operands: t.call(callee_of(op), operands),
    "stablehlo.composite": _composite,
    "stablehlo.custom_call": _custom_call,
}
"""Name of an operation → function that converts it: convert(tracer, operation, operands...) -> results."""
