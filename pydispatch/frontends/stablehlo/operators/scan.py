"""Conversion of CHLO's scan: to a recurrence if its region is elementwise, else to a loop."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, TensorType
from xdsl.ir import Block, Operation

from pydispatch.frontends.stablehlo.operators.elementwise import SCALAR_FUNCTIONS
from pydispatch.frontends.stablehlo.tracer import Convert, Results, StablehloTracer
from pydispatch.frontends.stablehlo.types import shape_of
from pydispatch.graph.sizes import Expr, Size
from pydispatch.graph.values import Tensor
from pydispatch.ir.dialects.chlo.scan import ScanOp
from pydispatch.operations import control, scans, shapes, slicing
from pydispatch.operations.reals import Scalar
from pydispatch.operations.scalars import Scalars


def _scan(tracer: StablehloTracer, op: Operation, *operands: Tensor) -> Results:
    """Run the region for each slice of the inputs along an axis.

    Return the outputs of all runs, joined along that axis, and the final carried values. operands: the inputs, then the
    initial carried values. An elementwise region becomes one kernel in which each element of a slice runs its own
    recurrence; any other region becomes a loop over slices.

    Raise CompileError if there are no inputs, their sizes along the axis differ, or the region takes another number of
    values.
    """
    assert isinstance(op, ScanOp)
    count = len(op.inputs)
    inputs, inits = operands[:count], operands[count:]
    if not inputs:
        raise tracer.b.fail("'chlo.scan' needs an input, whose dimension says how often the region runs")
    axis = tracer.axis(op, "dimension", inputs[0].rank)
    for x in inputs:
        if x.rank <= axis or x.shape[axis] != inputs[0].shape[axis]:
            raise tracer.b.fail(f"'chlo.scan' of {inputs[0]} and {x}: dimension {axis} differs")
    backwards = bool(tracer.integer(op, "is_reverse"))
    block = tracer.block_of(op.body)
    if len(block.args) != len(operands):
        raise tracer.b.fail(f"the region of 'chlo.scan' takes {len(operands)} value(s), got {len(block.args)}")
    length = inputs[0].shape[axis]
    is_static = not isinstance(length, Expr) and length > 0
    scan = _recurrence if is_static and _computes_elements(block, op) else _loop_over_slices
    return scan(tracer, op, inputs, inits, axis, backwards)


def _recurrence(
    tracer: StablehloTracer, op: ScanOp, inputs: Sequence[Tensor], inits: Sequence[Tensor], axis: int, backwards: bool
) -> Results:
    """Emit one kernel, in which each element of a slice runs the elementwise region as its own recurrence."""
    function, output_count = tracer.scalar_function(op.body), len(op.outputs)

    def step(scalars: Scalars, elements: list[Scalar], carried: list[Scalar]) -> scans.Stepped:
        """Return the outputs and the next carried elements of one position, as two lists."""
        results = function(scalars, [*elements, *carried])
        return results[:output_count], results[output_count:]

    types = [tracer.dtype(op, n) for n in range(output_count)]
    results, ends = scans.recurrence(tracer.b, inputs, inits, axis, step, types, backwards)
    return [*results, *ends]


def _loop_over_slices(
    tracer: StablehloTracer, op: ScanOp, inputs: Sequence[Tensor], inits: Sequence[Tensor], axis: int, backwards: bool
) -> Results:
    """Emit a loop that runs the region for each slice."""

    def body(index: Size, carried: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Run the region on the slices at `index`. Return the next carried tensors and the outputs, as two lists."""
        slices = [
            shapes.squeeze(tracer.b, slicing.slice_axis(tracer.b, x, axis, index, index + 1), [axis]) for x in inputs
        ]
        results = tracer.region(op.body, [*slices, *carried])
        return results[len(op.outputs) :], results[: len(op.outputs)]

    ends, stacked = control.scan(tracer.b, inputs[0].shape[axis], inits, body, backwards=backwards)
    return [*(_moved(tracer, x, axis) for x in stacked), *ends]  # outputs are stacked along axis 0


def _moved(tracer: StablehloTracer, x: Tensor, axis: int) -> Tensor:
    """Move the first axis of x to position `axis`."""
    order = list(range(1, x.rank))
    order.insert(axis, 0)
    return shapes.transpose(tracer.b, x, order)


def _computes_elements(block: Block, op: ScanOp) -> bool:
    """Return whether the region of a scan is elementwise.

    That is so if it consists of elementwise operations and constants of one number, all values have the shape of a
    slice, and no value from outside is used. All inputs and outputs of the scan must have one shape as well, which a
    single kernel loops over.
    """
    # The operations of the region. Its shapes must be static, and `shape` is that of a slice.
    shape = list(shape_of(block.args[0].type))
    terminator = block.last_op
    if None in shape or terminator is None:
        return False
    for inner in block.ops:
        types = [v.type for v in (*inner.operands, *inner.results)]
        if not all(isinstance(ty, TensorType) and list(shape_of(ty)) == shape for ty in types):
            return False
        if inner.name == "stablehlo.constant":
            value = inner.properties["value"]
            if not isinstance(value, DenseIntOrFPElementsAttr) or not (value.is_splat() or not shape):
                return False
        elif inner is not terminator and inner.name not in SCALAR_FUNCTIONS:
            return False
    # The values that they use, and the inputs and outputs of the scan.
    inside = {*block.args, *(result for inner in block.ops for result in inner.results)}
    outputs = [list(shape_of(v.type)) for v in op.outputs]
    inputs = [list(shape_of(v.type)) for v in op.inputs]
    uses_inside_only = all(v in inside for inner in block.ops for v in inner.operands)
    return uses_inside_only and all(s == inputs[0] for s in outputs + inputs)


ROWS: dict[str, Convert] = {"chlo.scan": _scan}
"""Name of an operation → function that converts it: convert(tracer, operation, operands...) -> results."""
