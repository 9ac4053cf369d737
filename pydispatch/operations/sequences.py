"""Steps over sequences, of which recurrent networks consist."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pydispatch.graph.builder import Builder
from pydispatch.graph.dtypes import I64
from pydispatch.graph.sizes import Expr, Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import control, elementwise, reductions, shapes, slicing
from pydispatch.operations.formulas import formula

Step = Callable[[Tensor, list[Tensor]], list[Tensor]]
"""Function that emits one step: step(inputs of the step, states) -> new states, of which state 0 is the output."""


def row(builder: Builder, x: Tensor, n: Size) -> Tensor:
    """Return x[n]: row n along the first axis, with that axis removed."""
    return shapes.reshape(builder, slicing.slice_axis(builder, x, axis=0, start=n, limit=n + 1), x.shape[1:])


def over_steps(
    builder: Builder, inputs: Tensor, states: Sequence[Tensor], step: Step, *, backwards: bool, unrolled: int,
    lengths: Tensor | None = None,
) -> tuple[Tensor, list[Tensor]]:  # fmt: skip
    """Run steps over `inputs` [steps, batch, ...]. Return the outputs [steps, ...] and the final states.

    The output of a step is its first state. For a step that returns [state + input], the inputs [1, 2, 3] of one
    sequence and the state 0, the outputs are [1, 3, 6] and the final state is 6. Backwards they are [6, 5, 3], and 6;
    with the length 2 they are [1, 3, 0], and 3.

    Args:
        builder: The builder.
        inputs: The inputs of all steps.
        states: Initial states, [batch, ...]. State 0 has the type of an output.
        step: Emits a step: step(inputs of the step, states) returns the new states, of which state 0 is the output.
        backwards: Whether the steps run from the last input to the first; output n is still that of input n.
        unrolled: Largest number of steps that are unrolled. More of them, or a dynamic number, are a loop, which takes
            less compile time.
        lengths: Length of each sequence of the batch, [batch]: beyond it, states do not change and outputs are 0. The
            states are then [batch, m]. None: all sequences have all steps.
    """
    b, steps = builder, inputs.shape[0]

    def run(step_index: Size, old: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Do a step from the states `old`. Return the new states, and a list with the output alone: the first state.

        The step reads row `step_index` of `inputs`. With `lengths`, sequences that are not longer than `step_index`
        keep their old states, and their output is 0.
        """
        new = step(row(b, inputs, step_index), old)
        if lengths is None:
            return new, new[:1]
        index = reductions.size_as(b, step_index, I64)  # compared with the length of each sequence, [batch, 1]
        is_valid = formula(b, lambda n, i: n.to(I64) > i, shapes.expand_dims(b, lengths, axes=[1]), index)
        selected = [elementwise.select(b, is_valid, after, before) for after, before in zip(new, old, strict=True)]
        output = formula(b, lambda valid, value: valid.where(value, 0.0), is_valid, new[0])
        return selected, [output]

    carried = list(states)
    # `stack` below needs an output: no steps are a loop of no iterations.
    if isinstance(steps, Expr) or not 0 < steps <= unrolled:
        rows = [(carried[0].dtype, carried[0].shape)]  # an output is state 0
        ends, (stacked,) = control.scan(b, steps, carried, run, rows=rows, backwards=backwards)
        return stacked, ends
    outputs: dict[int, Tensor] = {}
    for index in reversed(range(steps)) if backwards else range(steps):
        carried, (outputs[index],) = run(index, carried)
    return slicing.stack(b, [outputs[index] for index in range(steps)], axis=0), carried
