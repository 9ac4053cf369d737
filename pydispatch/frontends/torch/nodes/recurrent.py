"""Conversions of the recurrent networks LSTM, GRU and RNN."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from pydispatch.frontends.torch.nodes.products import linear
from pydispatch.frontends.torch.registry import converts, register
from pydispatch.graph.builder import Builder
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise as ew
from pydispatch.operations import shapes, slicing
from pydispatch.operations.formulas import Element, formulas
from pydispatch.operations.sequences import over_steps

Tensors = Sequence[Tensor]

_MAX_UNROLLED_STEPS = 8
"""Longest sequence whose steps are unrolled. Longer ones are a loop: unrolling makes compile time grow."""


@dataclass(frozen=True)
class _Weights:
    """Weights of one layer in one direction, for a cell with 4 (LSTM), 3 (GRU) or 1 (RNN) gates.

    Attributes:
        inputs: Weights of the inputs, [gates * hidden, inputs].
        hidden: Weights of the previous step's output, [gates * hidden, output].
        input_bias: Bias of the product with `inputs`, [gates * hidden], or None.
        hidden_bias: Bias of the product with `hidden`, [gates * hidden], or None.
        projection: Matrix [output, hidden] that maps the hidden state to the output; None if both are the same.
    """

    inputs: Tensor
    hidden: Tensor
    input_bias: Tensor | None
    hidden_bias: Tensor | None
    projection: Tensor | None

    @classmethod
    def of(cls, params: Sequence[Tensor], has_biases: bool) -> _Weights:
        """Return weights from PyTorch's list: inputs, hidden, two biases if `has_biases`, perhaps the projection."""
        input_bias, hidden_bias = params[2:4] if has_biases else (None, None)
        projection = params[4 if has_biases else 2 :]
        return cls(params[0], params[1], input_bias, hidden_bias, projection[0] if projection else None)


Cell = Callable[[Builder, Tensor, list[Tensor], _Weights], "list[Tensor]"]
"""Function that emits one step: cell(builder, products of inputs by their weights, with bias [batch, gates * hidden],
state, weights) -> new state. A state is a list of tensors [batch, ...], of which the first is the output."""


def _hidden_product(builder: Builder, state: list[Tensor], weights: _Weights) -> Tensor:
    """Return the product of the previous output by the hidden weights, plus the bias: [batch, gates * hidden]."""
    return linear(builder, state[0], weights.hidden, weights.hidden_bias)


def _split_gates(builder: Builder, x: Tensor, count: int) -> list[Tensor]:
    """Split x [batch, count * hidden] into `count` gates [batch, hidden]."""
    size = x.shape[1] // count
    return slicing.split(builder, x, axis=1, sizes=[size] * count)


def _lstm_cell(builder: Builder, x: Tensor, state: list[Tensor], weights: _Weights) -> list[Tensor]:
    """Emit a step of an LSTM. The gates are in the order input, forget, cell, output.

    x: product of the input by its weights, plus the bias, [batch, 4 * hidden]. state: [h, c], output and cell state of
    the previous step. Return the next [h, c].
    """

    def next_output_and_cell(i: Element, f: Element, g: Element, o: Element, c: Element) -> list[Element]:
        """Return the output and the new cell state c of one element, from its gates i, f, g and o."""
        cell = f.unary("logistic") * c + i.unary("logistic") * g.unary("tanh")
        return [o.unary("logistic") * cell.unary("tanh"), cell]

    gates = _split_gates(builder, ew.binary(builder, "add", x, _hidden_product(builder, state, weights)), count=4)
    output, cell = formulas(builder, next_output_and_cell, *gates, state[1])
    if weights.projection is not None:
        output = linear(builder, output, weights.projection)
    return [output, cell]


def _gru_cell(builder: Builder, x: Tensor, state: list[Tensor], weights: _Weights) -> list[Tensor]:
    """Emit a step of a GRU. The gates are in the order reset, update, new.

    x: product of the input by its weights, plus the bias, [batch, 3 * hidden]. state: [h], the hidden state.
    """

    def next_hidden(
        r: Element, z: Element, n: Element, hr: Element, hz: Element, hn: Element, h: Element
    ) -> list[Element]:
        """Return the new state of one element: (1 - update) * new + update * h, for the old state h.

        r, z, n: products of the input for the reset gate, the update gate and the candidate `new`. hr, hz, hn: products
        of the old state for the same three; the reset gate scales hn.
        """
        new = (n + (r + hr).unary("logistic") * hn).unary("tanh")
        update = (z + hz).unary("logistic")
        return [new + update * (h - new)]

    return formulas(
        builder,
        next_hidden,
        *_split_gates(builder, x, count=3),
        *_split_gates(builder, _hidden_product(builder, state, weights), count=3),
        state[0],
    )


def _simple_cell(
    function: Callable[[Element], Element], builder: Builder, x: Tensor, state: list[Tensor], weights: _Weights
) -> list[Tensor]:
    """Emit a step of an RNN: `function`, its activation, of the sum of both products.

    x: product of the input by its weights, plus the bias, [batch, hidden]. state: [h], the hidden state.
    """
    product = _hidden_product(builder, state, weights)
    return formulas(builder, lambda of_input, of_state: [function(of_input + of_state)], x, product)


def _direction(
    builder: Builder, cell: Cell, x: Tensor, state: list[Tensor], weights: _Weights, backwards: bool
) -> tuple[Tensor, list[Tensor]]:
    """Run one layer in one direction over x [steps, batch, features]. Return its outputs [steps, batch, output] and its
    final state. backwards: whether the steps are computed from the last to the first.
    """
    projected = linear(builder, x, weights.inputs, weights.input_bias)

    def step(inputs: Tensor, carried: list[Tensor]) -> list[Tensor]:
        """Emit one step with the weights of this direction."""
        return cell(builder, inputs, carried, weights)

    return over_steps(builder, projected, state, step, backwards=backwards, unrolled=_MAX_UNROLLED_STEPS)


def _network(
    builder: Builder, cell: Cell, x: Tensor, states: Sequence[Tensor], params: Tensors, has_biases: bool,
    num_layers: int, bidirectional: bool, batch_first: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Run a recurrent network: all steps of all layers. Return its outputs and final states.

    The output of a layer is the input of the next one. If `bidirectional`, each layer runs over the steps forwards and
    backwards, with separate weights, and its output has the features of both runs: first those of the forward run.

    For example, let an LSTM of hidden size 16 with 2 layers in two directions run over x [5, 3, 8]: 5 steps, batch 3.
    Both states, h and c, are [4, 3, 16], `params` has 4 times the weights of one run, and the outputs are [5, 3, 32].

    Args:
        builder: The builder.
        cell: Function that emits one step, such as `_lstm_cell`.
        x: [steps, batch, features], or [batch, steps, features] if `batch_first`, or [steps, features].
        states: Initial state tensors of `cell`, each [layers * directions, batch, size], or [layers * directions, size]
            if x has no batch. The directions of a layer are adjacent.
        params: Weights of each layer and direction, in the order of the states: inputs, hidden, the two biases if
            `has_biases`, and optionally the projection; see `_Weights`.
        has_biases: Whether there are biases.
        num_layers: Number of layers.
        bidirectional: Whether layers have two directions.
        batch_first: Whether a batch axis of x, and of the outputs, is before that of the steps.

    Returns:
        The outputs of the last layer, in the format of x, then the final value of each of `states`.
    """
    directions = 2 if bidirectional else 1
    weights_per_direction, remainder = divmod(len(params), num_layers * directions)
    weight_count = 4 if has_biases else 2  # without the projection
    if remainder or weights_per_direction not in (weight_count, weight_count + 1):
        raise builder.fail(f"{num_layers} layer(s) in {directions} direction(s) with {len(params)} weights")

    # Bring x and the states into the form [steps, batch, features] and [layers * directions, batch, size].
    is_batched = x.rank == 3
    if not is_batched:
        x, states = shapes.expand_dims(builder, x, axes=[1]), [shapes.expand_dims(builder, s, axes=[1]) for s in states]
    elif batch_first:
        x = shapes.transpose(builder, x, [1, 0, 2])

    # Run the layers. `final_states` has the list of final states of each layer and direction.
    final_states: list[list[Tensor]] = []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            index = layer * directions + direction
            weights = params[index * weights_per_direction : (index + 1) * weights_per_direction]
            state = [_element(builder, s, index) for s in states]
            own_weights = _Weights.of(weights, has_biases)
            output, state = _direction(builder, cell, x, state, own_weights, backwards=direction == 1)
            outputs.append(output)
            final_states.append(state)
        x = slicing.concat(builder, outputs, axis=2) if bidirectional else outputs[0]

    # For each state tensor, stack its final values of all layers and directions.
    final = [slicing.stack(builder, list(column), axis=0) for column in zip(*final_states, strict=True)]
    if not is_batched:
        return shapes.squeeze(builder, x, axes=[1]), *(shapes.squeeze(builder, s, axes=[1]) for s in final)
    return shapes.transpose(builder, x, [1, 0, 2]) if batch_first else x, *final


def _element(builder: Builder, x: Tensor, index: int) -> Tensor:
    """Return x[index]."""
    return shapes.squeeze(builder, slicing.slice_axis(builder, x, axis=0, start=index, limit=index + 1), axes=[0])


def _check_no_dropout(builder: Builder, dropout: float, train: bool) -> None:
    """Raise CompileError if dropout is active, as it is in training."""
    if train and dropout > 0:
        raise builder.fail("dropout of recurrent layers is unsupported", "export the model after `model.eval()`")


@converts("aten.lstm.input")
def lstm(
    builder: Builder, input: Tensor, hx: Tensors, params: Tensors, has_biases: bool, num_layers: int, dropout: float,
    train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Run an LSTM. Return the outputs of all steps, the final hidden states and the final cell states.

    hx: the initial hidden states and cell states. params: weights of each layer and direction: inputs, hidden, the two
    biases if `has_biases`, and optionally the projection.
    """
    _check_no_dropout(builder, dropout, train)
    return _network(builder, _lstm_cell, input, hx, params, has_biases, num_layers, bidirectional, batch_first)


def _single_state_network(
    cell: Cell, builder: Builder, input: Tensor, hx: Tensor, params: Tensors, has_biases: bool, num_layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Run a network whose cell has one state tensor. Return the outputs and the final states; see `_network`."""
    _check_no_dropout(builder, dropout, train)
    return _network(builder, cell, input, [hx], params, has_biases, num_layers, bidirectional, batch_first)


def _single_state_cell(
    cell: Cell, builder: Builder, input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return the state after one step of a cell with one state tensor, `hx`; w_ih, b_ih: weights and bias of the input,
    w_hh, b_hh: of the state.
    """
    w = _Weights(inputs=w_ih, hidden=w_hh, input_bias=b_ih, hidden_bias=b_hh, projection=None)
    return cell(builder, linear(builder, input, w_ih, b_ih), [hx], w)[0]


@converts("aten.lstm_cell")
def lstm_cell(
    builder: Builder,
    input: Tensor,
    hx: Tensors,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the output and the cell state after one step of an LSTM.

    input: [batch, inputs]. hx: the previous output and cell state, [batch, hidden] each. w_ih, b_ih: weights
    [4 * hidden, inputs] and bias for the input. w_hh, b_hh: weights [4 * hidden, hidden] and bias for the previous
    output.
    """
    w = _Weights(inputs=w_ih, hidden=w_hh, input_bias=b_ih, hidden_bias=b_hh, projection=None)
    gate_inputs = linear(builder, input, w_ih, b_ih)  # `_lstm_cell` does not read the input weights of w
    output, cell = _lstm_cell(builder, gate_inputs, list(hx), w)
    return output, cell


_SINGLE_STATE_CELLS: dict[str, Cell] = {
    "gru": _gru_cell,
    "rnn_tanh": partial(_simple_cell, lambda e: e.unary("tanh")),
    "rnn_relu": partial(_simple_cell, lambda e: e.max(0.0)),
}
"""Steps of networks that carry one state, by the name of the operator."""

register({
    **{f"aten.{name}.input": partial(_single_state_network, cell) for name, cell in _SINGLE_STATE_CELLS.items()},
    **{f"aten.{name}_cell": partial(_single_state_cell, cell) for name, cell in _SINGLE_STATE_CELLS.items()},
})  # fmt: skip
