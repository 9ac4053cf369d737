"""Operators that run graphs: If, Loop and Scan."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pydispatch.frontends.onnx import model
from pydispatch.frontends.onnx.call import NodeCall
from pydispatch.frontends.onnx.registry import ONNX
from pydispatch.frontends.onnx.tensors import code_of
from pydispatch.graph.dtypes import BOOL, I64
from pydispatch.graph.sizes import Expr, Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import control, elementwise, reductions, shapes, slicing
from pydispatch.operations.indexing import reverse

_UNROLLED = 64  # maximum number of iterations that are unrolled; more of them make compile time grow
_MOST_BUFFERED_ROWS = 1 << 24
"""Maximum number of iterations for whose rows a loop with a computed condition allocates memory before it runs.

If it is larger, more loops need memory that the machine does not have; if smaller, more loops copy rows to append one.
"""
_BOOL_CODE = code_of(BOOL)
"""ONNX's number of the element type bool."""


def _run(call: NodeCall, graph: model.GraphProto, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Emit a graph that is an attribute of the node, for inputs in the order it declares; return its outputs."""
    if len(graph.input) != len(inputs):
        raise call.fail(f"its graph has {len(graph.input)} inputs, and gets {len(inputs)}")
    return call.tracer.graph(
        graph, dict(zip((i.name for i in graph.input), inputs, strict=True)), call.values, call.opsets
    )


@ONNX.converts("If")
def _if(call: NodeCall, condition: Tensor) -> list[Tensor]:
    """Return the results of the branch that the condition selects; both are emitted unless it is constant."""
    then_branch, else_branch = call.graph("then_branch"), call.graph("else_branch")
    known = call.maybe_numbers(condition)
    if known is not None:
        return _run(call, then_branch if bool(known.reshape(-1)[0]) else else_branch, inputs=[])
    # The advice of the error if the results of the two branches differ in type or rank.
    how_to_fix = call.known_by(call.node.input[0])  # such as ", or give it where the model is compiled: ...", or ""
    remedy = f"one branch alone is taken where the condition is known{how_to_fix}"
    branches = (lambda: _run(call, then_branch, inputs=[])), (lambda: _run(call, else_branch, inputs=[]))
    return control.if_(call.b, condition, *branches, remedy)


@ONNX.converts("Loop")
def _loop(
    call: NodeCall, limit: Tensor | None = None, condition: Tensor | None = None, *carried: Tensor
) -> list[Tensor]:
    """Run a graph until its condition is false, or `limit` times. Return the final carried tensors, and the stacks.

    An iteration is passed its index, the condition, and the carried tensors. It returns the condition for the next
    iteration, the carried tensors for it, and rows that are stacked along a new axis 0. For example, a body
    (i, go, x) -> (go, x + 1, x) with the limit 3 and x = 5 has the results 8 and [5, 6, 7].

    There are three ways to emit it:
        1. `_counted`, if the condition stays true: the number of iterations is `limit`.
        2. `_unrolled`, if all conditions are known while compiling and there are few iterations.
        3. `_ConditionalLoop`, a loop whose condition is computed at run time.
    """
    graph = call.graph("body")
    count = len(carried)
    stack_count = len(graph.output) - 1 - count  # without the condition and the carried tensors
    if stack_count < 0 or len(graph.input) != 2 + count:  # inputs: index, condition, carried tensors
        raise call.fail(f"its graph has {len(graph.input)} inputs and {len(graph.output)} outputs for {count} tensors")
    is_first_true = condition is None or (condition.numbers is not None and bool(condition.numbers.all()))
    runs = None if limit is None else call.sizes(limit, "M")[0]
    if is_first_true and _keeps_condition(graph) and runs is not None:
        return _counted(call, graph, runs, list(carried), stack_count)
    # `_unrolled` returns None if a condition is known only at run time: the loop is then emitted as a loop.
    if (
        isinstance(runs, int)
        and runs <= _UNROLLED
        and (unrolled := _unrolled(call, graph, runs, condition, list(carried), stack_count))
    ):
        return unrolled
    return _ConditionalLoop(call, graph, runs, condition, list(carried)).emit(stack_count)


def _keeps_condition(graph: model.GraphProto) -> bool:
    """Return whether an iteration that is passed a true condition is known to return a true one.

    This is so if it returns the condition that it was passed, or a true constant. The condition is the second input of
    a loop's body, after the index of the iteration, and its first output.
    """
    name = graph.output[0].name
    producers = {output: node for node in graph.node for output in node.output}
    while name in producers and producers[name].op_type == "Identity" and producers[name].input:
        name = producers[name].input[0]
    if name == graph.input[1].name:
        return True
    node = producers.get(name)
    if node is not None:
        return node.op_type == "Constant" and any(a.t is not None and _is_true(a.t) for a in node.attribute)
    return any(t.name == name and _is_true(t) for t in graph.initializer)


def _is_true(tensor: model.TensorProto) -> bool:
    """Return whether a constant of the model is the bool true."""
    return tensor.data_type == _BOOL_CODE and (bytes(tensor.raw_data) == b"\1" or tensor.int32_data.tolist() == [1])


def _counted(
    call: NodeCall, graph: model.GraphProto, runs: Size, carried: list[Tensor], stack_count: int
) -> list[Tensor]:
    """Emit a loop whose condition is always true; a small constant number of iterations is unrolled.

    Args:
        call: The node.
        graph: Body of the loop.
        runs: Number of iterations.
        carried: Carried tensors before the first iteration.
        stack_count: Number of results of an iteration that are stacked.
    """
    b, true = call.b, call.b.constant(elements=True, dtype=BOOL)

    def run_body(iteration: Tensor, tensors: list[Tensor]) -> list[Tensor]:
        """Emit one iteration. Return its outputs without the condition, which is the first one and always true."""
        return _run(call, graph, [iteration, true, *tensors])[1:]

    # A few iterations, one after the other.
    if not isinstance(runs, Expr) and runs <= _UNROLLED:
        columns: list[list[Tensor]] = [[] for _ in range(stack_count)]  # for each stack its rows, one per iteration
        for iteration in range(runs):
            outputs = run_body(b.constant(iteration, I64), carried)
            for column, row in zip(columns, outputs[len(carried) :], strict=True):
                column.append(row)
            carried = outputs[: len(carried)]
        if stack_count and not runs:  # without rows, `stack` does not know their types
            return [*carried, *_empty_stacks(call, lambda: run_body(b.constant(0, I64), carried), stack_count)]
        return [*carried, *(slicing.stack(b, column, axis=0) for column in columns)]

    def run(iteration: Size, tensors: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Emit one iteration. Return the tensors for the next one, and the rows to stack."""
        outputs = run_body(reductions.size_as(b, iteration, I64), tensors)
        return outputs[: len(carried)], outputs[len(carried) :]

    # More iterations, or a dynamic number of them, are a loop. In ONNX an iteration may change the shapes of carried
    # tensors.
    ends, stacks = control.scan(b, runs, carried, run, shapes_vary=True)
    return [*ends, *stacks]


def _empty_stacks(call: NodeCall, run: Callable[[], list[Tensor]], stack_count: int) -> list[Tensor]:
    """Return the stacks of a loop that never runs: tensors of 0 rows, of the types of the last `stack_count` results
    that `run` would return.
    """
    row_types = control.rows_of(call.b, lambda: run()[-stack_count:])
    return [control.rows_buffer(call.b, count=0, row=row_type) for row_type in row_types]


def _unrolled(
    call: NodeCall,
    graph: model.GraphProto,
    runs: int,
    condition: Tensor | None,
    carried: list[Tensor],
    stack_count: int,
) -> list[Tensor] | None:
    """Unroll a loop whose conditions are known at compile time: emit its iterations until a condition is false.

    Return None if a condition is not known, or if no iteration runs and the types of the rows are therefore unknown.
    The caller then emits a loop; operations that were emitted before remain without uses.

    Args:
        call: The node.
        graph: Body of the loop.
        runs: Maximum number of iterations.
        condition: Condition of the first iteration; None for true.
        carried: Carried tensors before the first iteration.
        stack_count: Number of results of an iteration that are stacked.
    """
    b = call.b
    columns: list[list[Tensor]] = [[] for _ in range(stack_count)]  # for each stack its rows, one per iteration
    for iteration in range(runs):
        if condition is not None:
            known = call.maybe_numbers(condition)
            if known is None:
                return None
            if not known.all():
                break
        continues = condition if condition is not None else b.constant(elements=True, dtype=BOOL)
        condition, *outputs = _run(call, graph, [b.constant(iteration, I64), continues, *carried])
        for column, row in zip(columns, outputs[len(carried) :], strict=True):
            column.append(row)
        carried = outputs[: len(carried)]
    if stack_count and not columns[0]:
        return None
    return [*carried, *(slicing.stack(b, column, axis=0) for column in columns)]


class _ConditionalLoop:
    """Loop that ends when a condition, which is computed at run time, is false, or after `runs` iterations.

    The loop carries, in this order: the index of the iteration, whether it runs, the carried tensors, and a buffer for
    each stacked result. Buffers have a row for each iteration that may run; at the end, they are cut to those that did.
    If too many iterations may run, the buffers are empty before the loop, and each iteration appends a row.

    Attributes:
        call: The node.
        graph: Body of the loop.
        runs: Maximum number of iterations; None for no maximum.
        start: What the loop carries before the first iteration, without the buffers.
        buffered_rows: Number of rows of a buffer before the loop; None if iterations append rows to it.
    """

    def __init__(
        self, call: NodeCall, graph: model.GraphProto, runs: Size | None, condition: Tensor | None,
        carried: list[Tensor],
    ) -> None:  # fmt: skip
        """Emit the constants that the loop begins with. condition: that of the first iteration; None for true."""
        self.call, self.graph, self.runs = call, graph, runs
        appends = runs is None or (isinstance(runs, int) and runs > _MOST_BUFFERED_ROWS)
        self.buffered_rows = None if appends else runs
        first = condition if condition is not None else call.b.constant(elements=True, dtype=BOOL)
        first = shapes.reshape(call.b, first, [])
        self.start = [call.b.constant(0, I64), first, *carried]

    def emit(self, stack_count: int) -> list[Tensor]:
        """Emit the loop; return the final carried tensors and the `stack_count` stacked results."""
        b = self.call.b
        # `rows_of` emits an iteration into a block that is discarded, and returns the types of its rows.
        row_types = control.rows_of(b, lambda: self._run(self.start)[1]) if stack_count else []
        count = 0 if self.buffered_rows is None else self.buffered_rows
        buffers = [control.rows_buffer(b, count, row_type) for row_type in row_types]
        iterations, _, *ends = control.while_(
            b, [*self.start, *buffers], self._goes_on, self._iteration, shapes_vary=True
        )
        if not stack_count or self.buffered_rows is None:
            return ends
        rows = b.size_of(b.scalar(iterations), hint="runs")
        carried, stacks = ends[:-stack_count], ends[-stack_count:]
        return [*carried, *(slicing.slice_axis(b, t, axis=0, start=0, limit=rows) for t in stacks)]

    def _run(self, tensors: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Emit one iteration for its index, its condition and the carried tensors; buffers in `tensors` are not used.

        Return these values for the next iteration, and the rows to stack.
        """
        b = self.call.b
        iteration, continues, *old = tensors[: len(self.start)]
        continues, *outputs = _run(self.call, self.graph, [iteration, continues, *old])
        following = elementwise.binary(b, "add", iteration, b.constant(1, I64))
        return [following, shapes.reshape(b, continues, []), *outputs[: len(old)]], outputs[len(old) :]

    def _iteration(self, tensors: list[Tensor]) -> list[Tensor]:
        """Emit one iteration for all that the loop carries, and return it for the next one.

        A row is appended to its buffer, unless the buffer has all rows: then that of this iteration is set.
        """
        b = self.call.b
        following, added = self._run(tensors)
        buffers = tensors[len(self.start) :]
        if self.buffered_rows is None:
            buffers = [
                slicing.concat(b, [t, shapes.expand_dims(b, row, axes=[0])], axis=0)
                for t, row in zip(buffers, added, strict=True)
            ]
        elif buffers:
            index = b.size_of(b.scalar(tensors[0]), hint="i")
            buffers = [control.with_row(b, t, index, row) for t, row in zip(buffers, added, strict=True)]
        return [*following, *buffers]

    def _goes_on(self, tensors: list[Tensor]) -> Tensor:
        """Return whether another iteration follows: its condition holds, and the limit `runs` is not reached."""
        iteration, continues = tensors[:2]
        if self.runs is None:
            return continues
        b = self.call.b
        limit = reductions.size_as(b, self.runs, I64)
        return elementwise.binary(b, "and", continues, elementwise.compare(b, "lt", iteration, limit))


@ONNX.converts("Scan")
def _scan(call: NodeCall, *operands: Tensor | None) -> list[Tensor]:
    """Run a graph for each slice of some operands along an axis, and stack its results.

    The last `num_scan_inputs` operands are scanned; the others are the initial carried tensors. Return the final
    carried tensors, then the stacked results. Attributes state, for each scanned operand and each stack, its axis and
    whether it runs backwards: operands are transposed and reversed first, and stacks at the end.
    """
    graph, scanned = call.graph("body"), call.integer("num_scan_inputs")
    if call.version < 9:
        return _scan_of_batches(call, graph, scanned, *operands)
    tensors = [t for t in operands if t is not None]
    carried, sequences, stack_count = _divide_operands(call, graph, scanned, tensors)
    axes = call.integers("scan_input_axes", [0] * scanned)
    backwards = call.integers("scan_input_directions", [0] * scanned)  # 1 for backwards, also of the stacks
    out_axes, out_backwards = (
        call.integers(f"scan_output_{name}", [0] * stack_count) for name in ("axes", "directions")
    )
    if {len(axes), len(backwards)} != {scanned} or {len(out_axes), len(out_backwards)} != {stack_count}:
        raise call.fail(
            f"it has {len(axes)} axes and {len(backwards)} directions for {scanned} scanned operand(s), and "
            f"{len(out_axes)} axes and {len(out_backwards)} directions for {stack_count} stacked result(s)"
        )
    fronts = [_with_axis_first(call, *sequence) for sequence in zip(sequences, axes, backwards, strict=True)]
    carried, stacks = _scanned(call, graph, carried, fronts, stack_count)
    return [*carried, *(_with_rows_at(call, *stack) for stack in zip(stacks, out_axes, out_backwards, strict=True))]


def _with_axis_first(call: NodeCall, t: Tensor, axis: int, backwards: int) -> Tensor:
    """Return a scanned tensor with its scanned axis first, which is reversed if `backwards` is not 0."""
    axis = call.axis(axis, t.rank)
    front = shapes.transpose(call.b, t, [axis, *(d for d in range(t.rank) if d != axis)])
    return reverse(call.b, front, axes=[0]) if backwards else front


def _with_rows_at(call: NodeCall, t: Tensor, axis: int, backwards: int) -> Tensor:
    """Return a stacked result with its rows along `axis` instead of axis 0, reversed if `backwards` is not 0."""
    t = reverse(call.b, t, axes=[0]) if backwards else t
    axis = call.axis(axis, t.rank)
    return shapes.transpose(call.b, t, [*range(1, axis + 1), 0, *range(axis + 1, t.rank)])


def _divide_operands(
    call: NodeCall, graph: model.GraphProto, scanned: int, operands: list[Tensor]
) -> tuple[list[Tensor], list[Tensor], int]:
    """Return the carried operands, the last `scanned` operands, and how many results of an iteration are stacked."""
    count = len(operands) - scanned
    stack_count = len(graph.output) - count
    if not 0 < scanned <= len(operands) or stack_count < 0:
        raise call.fail(f"it scans {scanned} of {len(operands)} operands")
    return operands[:count], operands[count:], stack_count


def _scanned(
    call: NodeCall, graph: model.GraphProto, carried: list[Tensor], sequences: list[Tensor], stack_count: int
) -> tuple[list[Tensor], list[Tensor]]:
    """Run a graph for each index of the first axes of `sequences`, on the slices there.

    Return the carried tensors after the last iteration, and `stack_count` stacks of the rows of all iterations.
    """
    b, carried_count, runs = call.b, len(carried), sequences[0].shape[0]

    def run(iteration: Size, tensors: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Emit the iteration for one slice of each scanned tensor. Return the tensors that are carried to the next
        one, and the rows to stack.
        """
        slices = [
            shapes.reshape(b, slicing.slice_axis(b, t, axis=0, start=iteration, limit=iteration + 1), t.shape[1:])
            for t in sequences
        ]
        outputs = _run(call, graph, [*tensors, *slices])
        return outputs[:carried_count], outputs[carried_count:]

    # A loop, or the iterations one after the other if they are few. In ONNX an iteration may change the shapes of the
    # carried tensors.
    if isinstance(runs, Expr) or not 0 < runs <= _UNROLLED:
        return control.scan(b, runs, carried, run, shapes_vary=True)
    columns: list[list[Tensor]] = [[] for _ in range(stack_count)]
    for iteration in range(runs):
        carried, row_tensors = run(iteration, carried)
        for column, row in zip(columns, row_tensors, strict=True):
            column.append(row)
    return carried, [slicing.stack(b, column, axis=0) for column in columns]


def _scan_of_batches(
    call: NodeCall, graph: model.GraphProto, scanned: int, lengths: Tensor | None = None, *operands: Tensor | None
) -> list[Tensor]:
    """Convert Scan of version 8: a scan for each sequence of a batch, whose results are stacked along axis 0.

    The operands are [batch, ...], and the last `scanned` of them [batch, sequence, ...]. `lengths`, the length of each
    sequence, is an optional first operand. The sequences are unrolled: raise CompileError for a dynamic batch, for more
    than _UNROLLED sequences, and if there are `lengths`.
    """
    if lengths is not None:
        raise call.fail("sequences of different lengths are not supported before version 9; convert the model to that")
    tensors = [t for t in operands if t is not None]
    carried, sequences, stack_count = _divide_operands(call, graph, scanned, tensors)
    backwards = call.integers("directions", [0] * scanned)
    batches = tensors[0].shape[0]
    if isinstance(batches, Expr) or not 0 < batches <= _UNROLLED or len(backwards) != scanned:
        raise call.fail(f"before version 9 its batches are written one by one: 1 to {_UNROLLED}, not {batches}")
    # Scan each sequence on its own, on slices of the operands without the axis of the batch; then stack the results.
    sequences = [reverse(call.b, t, axes=[1]) if back else t for t, back in zip(sequences, backwards, strict=True)]
    by_batch = []  # for each sequence of the batch the final carried tensors, then the stacks
    for n in range(batches):
        own_carried, own_sequences = (
            [
                shapes.squeeze(call.b, slicing.slice_axis(call.b, t, axis=0, start=n, limit=n + 1), axes=[0])
                for t in group
            ]
            for group in (carried, sequences)
        )
        ends, stacks = _scanned(call, graph, own_carried, own_sequences, stack_count)
        by_batch.append([*ends, *stacks])
    return [slicing.stack(call.b, column, axis=0) for column in zip(*by_batch, strict=True)]
