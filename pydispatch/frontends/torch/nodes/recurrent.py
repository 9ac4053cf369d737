"""Conversions of the recurrent networks LSTM, GRU and RNN."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydispatch.frontends.torch.nodes.products import linear
from pydispatch.frontends.torch.trace import Conversion
from pydispatch.graph.builder import Builder
from pydispatch.graph.sizes import Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import control, shapes
from pydispatch.operations import elementwise as ew
from pydispatch.operations.formulas import Element, formulas

Tensors = Sequence[Tensor]

_MAX_UNROLLED_STEPS = 8
"""Longest sequence whose steps are unrolled. Longer ones become a loop, because unrolling makes compile time grow."""


@dataclass(frozen=True)
class _Weights:
    """Weights of one layer in one direction. `projection` maps the hidden state to the output; None for
    most networks.
    """

    inputs: Tensor
    hidden: Tensor
    input_bias: Tensor | None
    hidden_bias: Tensor | None
    projection: Tensor | None


Cell = Callable[[Builder, Tensor, list[Tensor], _Weights], "list[Tensor]"]
"""Function that emits one step: cell(b, products of inputs by their weights, state, weights) -> new state.
The first tensor of a state is the output."""


def _hidden_product(b: Builder, state: list[Tensor], weights: _Weights) -> Tensor:
    """Return the product of the last output by the hidden weights, plus the bias."""
    return linear(b, state[0], weights.hidden, weights.hidden_bias)


def _split_gates(b: Builder, x: Tensor, count: int) -> list[Tensor]:
    """Split the columns of x into `count` gates of equal size."""
    size = x.shape[1] // count
    return shapes.split(b, x, 1, [size] * count)


def _lstm_cell(b: Builder, x: Tensor, state: list[Tensor], weights: _Weights) -> list[Tensor]:
    """Emit a step of an LSTM. The gates are in the order input, forget, cell, output."""

    def written(i: Element, f: Element, g: Element, o: Element, c: Element) -> list[Element]:
        cell = f.unary("logistic") * c + i.unary("logistic") * g.unary("tanh")
        return [o.unary("logistic") * cell.unary("tanh"), cell]

    gates = _split_gates(b, ew.binary(b, "add", x, _hidden_product(b, state, weights)), 4)
    output, cell = formulas(b, written, *gates, state[1])
    if weights.projection is not None:
        output = linear(b, output, weights.projection)
    return [output, cell]


def _gru_cell(b: Builder, x: Tensor, state: list[Tensor], weights: _Weights) -> list[Tensor]:
    """Emit a step of a GRU. The gates are in the order reset, update, new."""

    def written(r: Element, z: Element, n: Element, hr: Element, hz: Element, hn: Element, h: Element) -> list[Element]:
        new = (n + (r + hr).unary("logistic") * hn).unary("tanh")
        update = (z + hz).unary("logistic")
        return [new + update * (h - new)]

    return formulas(
        b,
        written,
        *_split_gates(b, x, 3),
        *_split_gates(b, _hidden_product(b, state, weights), 3),
        state[0],
    )


def _simple_cell(function: Callable[[Element], Element]) -> Cell:
    """Return the cell of an RNN with the given activation function."""

    def cell(b: Builder, x: Tensor, state: list[Tensor], weights: _Weights) -> list[Tensor]:
        return formulas(b, lambda a, b: [function(a + b)], x, _hidden_product(b, state, weights))

    return cell


def _direction(
    b: Builder, cell: Cell, x: Tensor, state: list[Tensor], weights: _Weights, backwards: bool
) -> tuple[Tensor, list[Tensor]]:
    """Run one layer in one direction over x [steps, batch, features]. Return its outputs and its final state."""
    steps = x.shape[0]
    projected = linear(b, x, weights.inputs, weights.input_bias)
    if isinstance(steps, int) and steps <= _MAX_UNROLLED_STEPS:
        outputs = []
        for n in range(steps)[::-1] if backwards else range(steps):
            state = cell(
                b,
                shapes.squeeze(b, shapes.slice_axis(b, projected, 0, n, n + 1), [0]),
                state,
                weights,
            )
            outputs.append(state[0])
        return shapes.stack(b, outputs[::-1] if backwards else outputs, 0), state

    def step(index: Size, carried: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        row = shapes.squeeze(b, shapes.slice_axis(b, projected, 0, index, index + 1), [0])
        new_state = cell(b, row, carried, weights)
        return new_state, new_state[:1]

    rows = [(state[0].dtype, state[0].shape)]
    final_state, (stacked,) = control.scan(b, steps, state, step, rows=rows, backwards=backwards)
    return stacked, final_state


def _network(
    b: Builder, cell: Cell, x: Tensor, states: Sequence[Tensor], params: Tensors, has_biases: bool, num_layers: int,
    bidirectional: bool, batch_first: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Run all layers of a network. Return the outputs of the last layer, then the final states of all layers and
    directions.

    `params` has the weights of each layer and direction in turn: inputs, hidden, the two biases if `has_biases`, and
    optionally the projection.
    """
    directions = 2 if bidirectional else 1
    weights_per_direction, remainder = divmod(len(params), num_layers * directions)
    weight_count = 4 if has_biases else 2
    if remainder or weights_per_direction not in (weight_count, weight_count + 1):
        raise b.fail(f"{num_layers} layer(s) in {directions} direction(s) with {len(params)} weights")
    is_batched = x.rank == 3
    if not is_batched:
        x, states = shapes.expand_dims(b, x, [1]), [shapes.expand_dims(b, s, [1]) for s in states]
    elif batch_first:
        x = shapes.transpose(b, x, [1, 0, 2])
    final_states: list[list[Tensor]] = []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            index = layer * directions + direction
            weights = params[index * weights_per_direction : (index + 1) * weights_per_direction]
            biases: Sequence[Tensor | None] = weights[2:4] if has_biases else (None, None)
            projection = weights[weight_count] if weights_per_direction > weight_count else None
            w = _Weights(weights[0], weights[1], biases[0], biases[1], projection)
            state = [shapes.squeeze(b, shapes.slice_axis(b, s, 0, index, index + 1), [0]) for s in states]
            output, state = _direction(b, cell, x, state, w, backwards=bool(direction))
            outputs.append(output)
            final_states.append(state)
        x = shapes.concat(b, outputs, 2) if bidirectional else outputs[0]
    final = [shapes.stack(b, list(column), 0) for column in zip(*final_states, strict=True)]
    if not is_batched:
        return shapes.squeeze(b, x, [1]), *(shapes.squeeze(b, s, [1]) for s in final)
    return shapes.transpose(b, x, [1, 0, 2]) if batch_first else x, *final


def _check_no_dropout(b: Builder, dropout: float, train: bool) -> None:
    """Raise CompileError if dropout is active, as it is in training."""
    if train and dropout > 0:
        raise b.fail("dropout of recurrent layers is unsupported", "export the model after `model.eval()`")


def lstm(
    b: Builder, input: Tensor, hx: Tensors, params: Tensors, has_biases: bool, num_layers: int, dropout: float,
    train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    _check_no_dropout(b, dropout, train)
    return _network(b, _lstm_cell, input, hx, params, has_biases, num_layers, bidirectional, batch_first)


def _single_state_network(cell: Cell) -> Conversion:
    """Return the conversion of a network whose cell has one state tensor."""

    def convert(
        b: Builder, input: Tensor, hx: Tensor, params: Tensors, has_biases: bool, num_layers: int, dropout: float,
        train: bool, bidirectional: bool, batch_first: bool,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        _check_no_dropout(b, dropout, train)
        return _network(b, cell, input, [hx], params, has_biases, num_layers, bidirectional, batch_first)

    return convert


def _single_state_cell(cell: Cell) -> Conversion:
    """Return the conversion of an operator that computes one step of a cell with one state tensor."""

    def convert(
        b: Builder,
        input: Tensor,
        hx: Tensor,
        w_ih: Tensor,
        w_hh: Tensor,
        b_ih: Tensor | None = None,
        b_hh: Tensor | None = None,
    ) -> Tensor:
        w = _Weights(w_ih, w_hh, b_ih, b_hh, None)
        return cell(b, linear(b, input, w_ih, b_ih), [hx], w)[0]

    return convert


def lstm_cell(
    b: Builder,
    input: Tensor,
    hx: Tensors,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the output and the cell state of one step."""
    w = _Weights(w_ih, w_hh, b_ih, b_hh, None)
    output, cell = _lstm_cell(b, linear(b, input, w_ih, b_ih), list(hx), w)
    return output, cell


_tanh = _simple_cell(lambda e: e.unary("tanh"))
_relu = _simple_cell(lambda e: e.max(0.0))

RECURRENT: dict[str, Conversion] = {
    "aten.lstm.input": lstm,
    "aten.gru.input": _single_state_network(_gru_cell),
    "aten.rnn_tanh.input": _single_state_network(_tanh),
    "aten.rnn_relu.input": _single_state_network(_relu),
    "aten.lstm_cell": lstm_cell,
    "aten.gru_cell": _single_state_cell(_gru_cell),
    "aten.rnn_tanh_cell": _single_state_cell(_tanh),
    "aten.rnn_relu_cell": _single_state_cell(_relu),
}
