"""Derivatives of loops over a number of iterations: a loop over the same iterations from the last to the first.

The derivative of an iteration needs the carried values before this iteration. The loop stores those that the derivative
reads, a row for each iteration. The second loop, the backward loop, reads them, and repeats the operations of the
iteration.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, TensorType, UnrealizedConversionCastOp
from xdsl.ir import Block, Operation, Region, SSAValue

from pydispatch.derivatives.cotangents import Cotangents, Rule, is_float
from pydispatch.derivatives.rules.regions import erase_unused, repeated
from pydispatch.graph.dtypes import DType, of_element
from pydispatch.graph.sizes import Shape, Size
from pydispatch.graph.values import Tensor
from pydispatch.ir.core.rewriting import move_before
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.operations import control, elementwise
from pydispatch.operations.sequences import row
from pydispatch.programs.trace import Trace


def _for(cotangents: Cotangents, op: Operation) -> None:
    """Add the cotangents of the initial values of a loop, and of the values from outside that its body uses.

    A backward loop after the loop computes them. In a loop that multiplies the carried value x by w, from outside,

        %r = scf.for %i = 0 to 3 iter_args(%x = %x0) { %y = mul %x, %w; scf.yield %y }

    %dr is the cotangent of the result. The backward loop carries the cotangent of x, and sums up that of w:

        %dx0, %dw = scf.for %i = 0 to 3 iter_args(%d = %dr, %sum = zeros) {
          %x = the value of x before iteration 2 - %i; scf.yield %d * %w, %sum + %d * %x }

    Raise CompileError if the body uses a number that was read from an array outside of it.
    """
    assert isinstance(op, scf.ForOp)
    trace = cotangents.trace
    used = (operand for inner in op.body.walk() for operand in inner.operands)
    # Values that depend on an input. Values of the body are not active here: `_backward_body` differentiates them.
    captured = list(dict.fromkeys(value for value in used if value in cotangents.active))
    if not all(isinstance(value.type, TensorType) for value in captured):
        raise cotangents.refuse(
            "a loop that uses a number read from an array", "read it in the loop, or pass it on as an array: x[:1]"
        )
    floats = [index for index, value in enumerate(op.iter_args) if is_float(value)]  # others have no cotangents
    # The initial values of the backward loop: for carried values the cotangents of the results, for captured ones 0.
    of_results = [cotangents.of(op.results[index]) or cotangents.zeros(op.results[index]) for index in floats]
    zero_sums = [cotangents.zeros(value) for value in captured]
    initial = [trace.value(tensor) for tensor in (*of_results, *zero_sums)]
    count = op.ub  # all loops of programs count from 0 by 1, so the upper bound is the number of iterations
    last = trace.add(arith.SubiOp(count, trace.index(1))).result
    targets = [*(op.iter_args[index] for index in floats), *captured]  # the values that `initial` has cotangents of
    # The body may need the carried values before each iteration: it replaces `op` by a loop that stores them.
    body = _backward_body(cotangents, op, floats, captured, initial, last)
    backward = trace.add(scf.ForOp(trace.index(0), count, trace.index(1), initial, Region(body)))
    for value, result in zip(targets, backward.results, strict=True):
        like = cotangents.program_tensor(value)
        cotangents.add(value, trace.wrap(like.dtype, like.shape, result))


def _backward_body(
    cotangents: Cotangents, op: scf.ForOp, floats: Sequence[int], captured: Sequence[SSAValue],
    initial: Sequence[SSAValue], last: SSAValue,
) -> Block:  # fmt: skip
    """Return the body of the backward loop, and make the loop store the carried values that this body reads.

    The cotangent of a value is the gradient of the program's result with respect to it. The backward loop counts up
    from 0: its iteration i differentiates iteration `last` - i of the loop. Its body has as arguments the index i, the
    cotangents of the carried values `floats` after that iteration, and the sums so far of the cotangents of `captured`.
    It yields the cotangents of the carried values before that iteration, and the new sums.

    If an iteration computes y = x * w from the carried value x and the captured value w, the body of (i, dy, sum) is:

        x = row last - i of the stored values of x
        y = x * w                                       # the repeated iteration; erased, since no derivative reads y
        yield dy * w, sum + dy * x

    Args:
        cotangents: Cotangents of the program, with those of the results of the loop.
        op: The loop, which is replaced if it has to store values.
        floats: Indices of the carried values that are floats.
        captured: Values from outside that the body uses and that have cotangents.
        initial: Initial values of the backward loop, for `floats` and then for `captured`; only their types are read.
        last: Index of the last iteration.
    """
    trace = cotangents.trace
    likes = [cotangents.program_tensor(value) for value in op.iter_args]
    body = Block(arg_types=[IndexType(), *(value.type for value in initial)])
    *operations, end = op.body.block.ops
    with trace.inside(body):
        # Repeat the iteration. Its carried values are placeholders, casts to the same type, until it is known which of
        # them are read.
        iteration = trace.add(arith.SubiOp(last, body.args[0])).result
        before = [trace.add(UnrealizedConversionCastOp.get([value], [value.type])) for value in op.iter_args]
        carried = [
            trace.wrap(like.dtype, like.shape, marker.results[0]) for like, marker in zip(likes, before, strict=True)
        ]
        arguments = op.body.block.args
        replacements: list[SSAValue] = [iteration, *(marker.results[0] for marker in before)]
        values: dict[SSAValue, SSAValue] = dict(zip(arguments, replacements, strict=True))
        clones = repeated(trace, operations, values)

        # Differentiate it: cotangents of its results become cotangents of its carried and captured values. The seeds
        # are the values that it yields, with their cotangents: arguments 1, 2, ... of the body, after the index.
        variables = [trace.value(carried[index]) for index in floats]  # the iteration is a function of these
        of_iteration = Cotangents(trace, [*variables, *captured], cotangents.rules)
        seeds = []
        for index, cotangent in zip(floats, body.args[1 : len(floats) + 1], strict=True):
            yielded, like = end.operands[index], likes[index]
            seeds.append((values.get(yielded, yielded), trace.wrap(like.dtype, like.shape, cotangent)))
        of_iteration.pull_back(clones, seeds)

        # Carry these cotangents to the next iteration; those of captured values are added up.
        results = [_total(of_iteration, variable) for variable in variables]
        for value, total in zip(captured, body.args[len(floats) + 1 :], strict=True):
            like = cotangents.program_tensor(value)
            so_far = trace.wrap(like.dtype, like.shape, total)
            results.append(elementwise.binary(trace, "add", so_far, _total(of_iteration, value)))
        yielded_values = [
            control.cast_to(trace, trace.value(result), value.type)
            for result, value in zip(results, initial, strict=True)
        ]
        trace.add(scf.YieldOp(*yielded_values))
    # Placeholders that no operation reads are erased, and then have no parent. `_store` replaces the others; it uses
    # `iteration`, whose operation stays even if nothing reads it yet.
    erase_unused([inner for inner in body.ops if inner.results and inner is not iteration.owner])
    _store(trace, op, [marker if marker.parent is not None else None for marker in before], iteration)
    return body


def _total(cotangents: Cotangents, value: SSAValue) -> Tensor:
    """Return the cotangent of a value; zeros without one."""
    return cotangents.of(value) or cotangents.zeros(value)


def _store(
    trace: Trace, op: scf.ForOp, readers: Sequence[UnrealizedConversionCastOp | None], iteration: SSAValue
) -> None:
    """Make a loop store carried values before each iteration, and the backward loop read them.

    For 3 iterations and a carried value f32[8], the loop fills a buffer f32[3, 8]. The placeholder in the backward
    loop is replaced by row `iteration` of the buffer.

    Args:
        trace: Builder of the program.
        op: The loop.
        readers: For each carried value its placeholder in the backward loop, which is replaced by the stored value;
            None if the value is not read.
        iteration: Index of the differentiated iteration, a value in the body of the backward loop.
    """
    used = {position: reader for position, reader in enumerate(readers) if reader is not None}
    if not used:
        return
    for reader, buffer in zip(used.values(), _storing(trace, op, list(used)), strict=True):
        block = Block()
        # The operations, with the constants that they use, are emitted into a block of their own, from which they move
        # to the placeholder: `trace` adds operations only at the end of a block.
        with trace.outside(), trace.inside(block):
            stored = trace.value(row(trace, buffer, trace.size_of(iteration, "i")))
            value = control.cast_to(trace, stored, reader.results[0].type)
        move_before(block, reader)
        trace.replace(reader, [value])


def _storing(trace: Trace, op: scf.ForOp, positions: Sequence[int]) -> list[Tensor]:
    """Replace a loop by one that also stores carried values before each iteration.

    The new loop also carries a buffer for each of these values, with a row for each iteration. For positions [0]:

        %r = scf.for %i = 0 to 3 iter_args(%x = %x0) { ...; scf.yield %y }

    becomes

        %b0 = tensor.empty : tensor<3x8xf32>
        %r, %stored = scf.for %i = 0 to 3 iter_args(%x = %x0, %b = %b0) {
          ...; %b1 = %b with row %i replaced by %x; scf.yield %y, %b1 }

    Operations are emitted outside of the open scopes of the trace, which would add new constants at the end of the
    program: after the loop, which could not use them.

    Args:
        trace: Builder of the program.
        op: The loop, which is erased.
        positions: Indices of the carried values to store.

    Returns:
        The filled buffers.
    """
    # The empty buffers, whose operations move before the loop at the end.
    carried = [op.iter_args[position] for position in positions]
    setup = Block()
    with trace.outside(), trace.inside(setup):
        count = _count(trace, op)
        rows = [(_dtype_of(value), _shape(trace, value)) for value in carried]  # type and shape of each value
        buffers = [control.rows_buffer(trace, count, of_row) for of_row in rows]
    # The body stores the values in the buffers and yields these, too.
    block, end = op.body.block, op.body.block.last_op
    assert isinstance(end, scf.YieldOp) and op.parent is not None
    end.detach()
    with trace.outside(), trace.inside(block):
        index = trace.size_of(block.args[0], "i")
        filled = []
        for position, (dtype, shape), buffer in zip(positions, rows, buffers, strict=True):
            value = trace.wrap(dtype, shape, block.args[position + 1])  # argument 0 is the index
            so_far = block.insert_arg(trace.value(buffer).type, len(block.args))
            filled.append(control.with_row(trace, trace.wrap(dtype, buffer.shape, so_far), index, value))
        trace.add(scf.YieldOp(*end.operands, *map(trace.value, filled)))
    end.erase()
    # The new loop takes over the body.
    initial = [*op.iter_args, *map(trace.value, buffers)]
    new_loop = scf.ForOp(op.lb, op.ub, op.step, initial, op.detach_region(op.body))
    new_loop.location = op.location
    move_before(setup, op)
    op.parent.insert_op_before(new_loop, op)
    results, stored = new_loop.results[: len(op.results)], new_loop.results[len(op.results) :]
    trace.replace(op, results)
    return [trace.wrap(buffer.dtype, buffer.shape, value) for buffer, value in zip(buffers, stored, strict=True)]


def _count(trace: Trace, op: scf.ForOp) -> Size:
    """Return the number of iterations of a loop, which counts from 0 by 1 as all loops of programs."""
    owner = op.ub.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return int(owner.value.value.data)
    return trace.size_of(op.ub, "count")


def _dtype_of(value: SSAValue) -> DType:
    """Return the element type of a tensor."""
    assert isinstance(value.type, TensorType)
    return of_element(value.type.element_type)


def _shape(trace: Trace, value: SSAValue) -> Shape:
    """Return the shape of a tensor. Its dynamic sizes are those that the trace has recorded, else the value's own."""
    known = trace.shapes.get(value)
    if known is not None:
        return known
    assert isinstance(value.type, TensorType)
    sizes = value.type.get_shape()
    return tuple(control.size_at(trace, value, axis) if n == DYNAMIC else n for axis, n in enumerate(sizes))


LOOP_RULES: dict[str, Rule] = {"scf.for": _for}
"""Name of an operation → its derivative."""
