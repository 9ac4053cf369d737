"""Recurrent networks: a cell over the steps of a sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydispatch.frontends.graph.sizes import Size
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import control, shapes
from pydispatch.frontends.ops import elementwise as ew
from pydispatch.frontends.ops.formulas import Element, formulas
from pydispatch.frontends.torch.nodes.products import linear
from pydispatch.frontends.torch.trace import Conversion, Tracer

Tensors = Sequence[Tensor]

_UNROLLED = 8
"""Steps of a sequence that are written one after the other; longer ones become a loop."""


@dataclass(frozen=True)
class _Weights:
    """The weights of one layer in one direction. projection: of the hidden state, for networks that have one."""

    inputs: Tensor
    hidden: Tensor
    input_bias: Tensor | None
    hidden_bias: Tensor | None
    projection: Tensor | None


Cell = Callable[[Tracer, Tensor, list[Tensor], _Weights], "list[Tensor]"]
"""cell(tracer, products of a step's inputs, state, weights) -> the next state; its first tensor is the output."""


def _hidden(t: Tracer, state: list[Tensor], w: _Weights) -> Tensor:
    return linear(t, state[0], w.hidden, w.hidden_bias)


def _gates(t: Tracer, x: Tensor, count: int) -> list[Tensor]:
    size = x.shape[1] // count
    return shapes.split(t.b, x, 1, [size] * count)


def _lstm_cell(t: Tracer, x: Tensor, state: list[Tensor], w: _Weights) -> list[Tensor]:
    def written(i: Element, f: Element, g: Element, o: Element, c: Element) -> list[Element]:
        cell = f.of("logistic") * c + i.of("logistic") * g.of("tanh")
        return [o.of("logistic") * cell.of("tanh"), cell]

    gates = _gates(t, ew.binary(t.b, "add", x, _hidden(t, state, w)), 4)
    output, cell = formulas(t.b, written, *gates, state[1])
    if w.projection is not None:
        output = linear(t, output, w.projection)
    return [output, cell]


def _gru_cell(t: Tracer, x: Tensor, state: list[Tensor], w: _Weights) -> list[Tensor]:
    def written(r: Element, z: Element, n: Element, hr: Element, hz: Element, hn: Element, h: Element) -> list[Element]:
        new = (n + (r + hr).of("logistic") * hn).of("tanh")
        kept = (z + hz).of("logistic")
        return [new + kept * (h - new)]

    return formulas(t.b, written, *_gates(t, x, 3), *_gates(t, _hidden(t, state, w), 3), state[0])


def _simple_cell(function: Callable[[Element], Element]) -> Cell:
    def cell(t: Tracer, x: Tensor, state: list[Tensor], w: _Weights) -> list[Tensor]:
        return formulas(t.b, lambda a, b: [function(a + b)], x, _hidden(t, state, w))

    return cell


def _direction(
    t: Tracer, cell: Cell, x: Tensor, state: list[Tensor], w: _Weights, backwards: bool
) -> tuple[Tensor, list[Tensor]]:
    """Compute one layer in one direction over x [steps, batch, features]: return its outputs, and the state after the
    last step.
    """
    steps = x.shape[0]
    given = linear(t, x, w.inputs, w.input_bias)
    if isinstance(steps, int) and steps <= _UNROLLED:
        outputs = []
        for n in range(steps)[::-1] if backwards else range(steps):
            state = cell(t, shapes.squeeze(t.b, shapes.slice_axis(t.b, given, 0, n, n + 1), [0]), state, w)
            outputs.append(state[0])
        return shapes.stack(t.b, outputs[::-1] if backwards else outputs, 0), state

    def step(at: Size, carried: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        row = shapes.squeeze(t.b, shapes.slice_axis(t.b, given, 0, at, at + 1), [0])
        made = cell(t, row, carried, w)
        return made, made[:1]

    rows = [(state[0].dtype, state[0].shape)]
    after, (stacked,) = control.scan(t.b, steps, state, step, rows=rows, backwards=backwards)
    return stacked, after


def _network(
    t: Tracer, cell: Cell, x: Tensor, states: Sequence[Tensor], params: Tensors, has_biases: bool, num_layers: int,
    bidirectional: bool, batch_first: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Compute all layers: return the outputs of the last layer, and the state of each layer after its last step."""
    directions = 2 if bidirectional else 1
    each, rest = divmod(len(params), num_layers * directions)
    plain = 4 if has_biases else 2
    if rest or each not in (plain, plain + 1):
        raise t.b.fail(f"{num_layers} layer(s) in {directions} direction(s) with {len(params)} weights")
    batched = x.rank == 3
    if not batched:
        x, states = shapes.expand_dims(t.b, x, [1]), [shapes.expand_dims(t.b, s, [1]) for s in states]
    elif batch_first:
        x = shapes.transpose(t.b, x, [1, 0, 2])
    after: list[list[Tensor]] = []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            number = layer * directions + direction
            weights = params[number * each : (number + 1) * each]
            biases: Sequence[Tensor | None] = weights[2:4] if has_biases else (None, None)
            projection = weights[plain] if each > plain else None
            w = _Weights(weights[0], weights[1], biases[0], biases[1], projection)
            state = [shapes.squeeze(t.b, shapes.slice_axis(t.b, s, 0, number, number + 1), [0]) for s in states]
            made, state = _direction(t, cell, x, state, w, backwards=bool(direction))
            outputs.append(made)
            after.append(state)
        x = shapes.concat(t.b, outputs, 2) if bidirectional else outputs[0]
    found = [shapes.stack(t.b, list(column), 0) for column in zip(*after, strict=True)]
    if not batched:
        return shapes.squeeze(t.b, x, [1]), *(shapes.squeeze(t.b, s, [1]) for s in found)
    return shapes.transpose(t.b, x, [1, 0, 2]) if batch_first else x, *found


def _without_dropout(t: Tracer, dropout: float, train: bool) -> None:
    if train and dropout > 0:
        raise t.b.fail("dropout of recurrent layers is unsupported", "export the model after `model.eval()`")


def lstm(
    t: Tracer, input: Tensor, hx: Tensors, params: Tensors, has_biases: bool, num_layers: int, dropout: float,
    train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    _without_dropout(t, dropout, train)
    return _network(t, _lstm_cell, input, hx, params, has_biases, num_layers, bidirectional, batch_first)


def _of_one_state(cell: Cell) -> Conversion:
    def convert(
        t: Tracer, input: Tensor, hx: Tensor, params: Tensors, has_biases: bool, num_layers: int, dropout: float,
        train: bool, bidirectional: bool, batch_first: bool,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        _without_dropout(t, dropout, train)
        return _network(t, cell, input, [hx], params, has_biases, num_layers, bidirectional, batch_first)

    return convert


def _cell_operator(cell: Cell) -> Conversion:
    def convert(
        t: Tracer,
        input: Tensor,
        hx: Tensor,
        w_ih: Tensor,
        w_hh: Tensor,
        b_ih: Tensor | None = None,
        b_hh: Tensor | None = None,
    ) -> Tensor:
        w = _Weights(w_ih, w_hh, b_ih, b_hh, None)
        return cell(t, linear(t, input, w_ih, b_ih), [hx], w)[0]

    return convert


def lstm_cell(
    t: Tracer,
    input: Tensor,
    hx: Tensors,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    w = _Weights(w_ih, w_hh, b_ih, b_hh, None)
    output, cell = _lstm_cell(t, linear(t, input, w_ih, b_ih), list(hx), w)
    return output, cell


_tanh = _simple_cell(lambda e: e.of("tanh"))
_relu = _simple_cell(lambda e: e.at_least(0.0))

RECURRENT: dict[str, Conversion] = {
    "aten.lstm.input": lstm,
    "aten.gru.input": _of_one_state(_gru_cell),
    "aten.rnn_tanh.input": _of_one_state(_tanh),
    "aten.rnn_relu.input": _of_one_state(_relu),
    "aten.lstm_cell": lstm_cell,
    "aten.gru_cell": _cell_operator(_gru_cell),
    "aten.rnn_tanh_cell": _cell_operator(_tanh),
    "aten.rnn_relu_cell": _cell_operator(_relu),
}
