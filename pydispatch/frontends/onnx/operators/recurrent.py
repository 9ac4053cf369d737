"""Conversions of the recurrent networks LSTM, GRU and RNN."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydispatch.frontends.onnx.call import NodeCall
from pydispatch.frontends.onnx.registry import ONNX
from pydispatch.graph.sizes import Size
from pydispatch.graph.values import Tensor
from pydispatch.operations import activations, elementwise, products, shapes, slicing
from pydispatch.operations.formulas import Element, formula
from pydispatch.operations.normalization import wide
from pydispatch.operations.sequences import Step, over_steps, row

Activation = Callable[[Element], Element]
"""Function of one element."""
Product = Callable[[Tensor], Tensor]
"""Function that multiplies rows [..., k] by the weights of one direction: it returns [..., gates * hidden], in a type
that is wide enough for their sums."""
_MAX_UNROLLED_STEPS = 512  # longest sequence that is unrolled; longer ones are loops, so that compile time is bounded

_ACTIVATIONS: dict[str, tuple[Callable[..., Element], tuple[float, ...]]] = {
    "relu": (activations.relu, ()),
    "tanh": (lambda v: v.unary("tanh"), ()),
    "sigmoid": (lambda v: v.unary("logistic"), ()),
    "affine": (lambda v, alpha, beta: v * alpha + beta, (1.0, 0.0)),
    "leakyrelu": (activations.leaky_relu, (0.01,)),
    "thresholdedrelu": (activations.thresholded_relu, (1.0,)),
    "scaledtanh": (lambda v, alpha, beta: (v * beta).unary("tanh") * alpha, (1.0, 1.0)),
    "hardsigmoid": (activations.hard_sigmoid, (0.2, 0.5)),
    "elu": (activations.elu, (1.0,)),
    "softsign": (activations.softsign, ()),
    "softplus": (activations.softplus, ()),
}
"""Name in lower case → activation function, and the defaults of its parameters: (), (alpha,) or (alpha, beta)."""


def _activations(call: NodeCall, defaults: Sequence[str], directions: int) -> list[list[Activation]]:
    """Return for each direction the list of its activation functions, from the node's attributes.

    `defaults` names the functions of one direction that are used if the node names none; it also states their number.

    Raise CompileError if the node names another number of functions, or one that is not known.
    """
    names = call.texts("activations", []) or list(defaults) * directions
    alphas, betas = call.reals("activation_alpha", []), call.reals("activation_beta", [])
    if len(names) != len(defaults) * directions:
        raise call.fail(f"{len(names)} activations are given; expected {len(defaults) * directions}")
    limit = call.real("clip") if call.has("clip") else None
    functions: list[Activation] = []
    for name in names:
        if name.lower() not in _ACTIVATIONS:
            raise call.fail(f"activation '{name:.40}' is not known")
        function, default_parameters = _ACTIVATIONS[name.lower()]  # the defaults of its alpha, and of its beta
        # The attributes list the alphas and betas of those activations only that have them, in order: this one takes
        # the next of each list.
        parameters = [
            stated.pop(0) if stated else default
            for stated, default in zip((alphas, betas), default_parameters, strict=False)
        ]
        functions.append(_bind_parameters(function, parameters, limit))  # clips its input to [-limit, limit]
    return [functions[n * len(defaults) : (n + 1) * len(defaults)] for n in range(directions)]


def _bind_parameters(function: Callable[..., Element], numbers: Sequence[float], limit: float | None) -> Activation:
    """Return an activation with its parameters bound, whose input is clipped to [-limit, limit] unless
    limit is None.
    """

    def activation(value: Element) -> Element:
        """Clip the element, and apply the function."""
        return function(value if limit is None else value.max(-limit).min(limit), *numbers)

    return activation


def _recurrent(
    call: NodeCall, x: Tensor, input_products: Sequence[Product], hidden: Size, bias: Tensor | None,
    lengths: Tensor | None, initial: Sequence[Tensor | None], gates: int, cell: Callable[[int, Tensor | None], Step],
) -> list[Tensor]:  # fmt: skip
    """Run a recurrent cell over x [length, batch, inputs] in one or both directions.

    Args:
        call: The node.
        x: The sequences.
        input_products: For each direction the product of inputs by its weights.
        hidden: Size of the hidden state.
        bias: Input bias and recurrence bias, [directions, 2 * gates * hidden].
        lengths: Length of each sequence, [batch].
        initial: Initial states, [directions, batch, hidden]; None for zeros.
        gates: Number of gates of the cell, the new state included: blocks of `hidden` results of a product.
        cell: Returns the step function from a direction's index (0, or 1 for backwards in a bidirectional network) and
            its recurrence bias [gates * hidden] or None.

    Returns:
        The outputs [length, directions, batch, hidden], then each final state [directions, batch, hidden]. With the
        attribute layout=1, the batch is the first axis of x, of the states and of the results.
    """
    b, count = call.b, len(input_products)
    is_reverse = call.text("direction", "forward", ("forward", "reverse", "bidirectional")) == "reverse"
    call.ignore("hidden_size", "output_sequence")
    by_batch = call.version >= 14 and call.flag("layout")
    x = shapes.transpose(b, x, [1, 0, 2]) if by_batch else x
    states = [_initial_state(call, t, count, batch=x.shape[1], hidden=hidden, by_batch=by_batch, x=x) for t in initial]

    # Run each direction. The products of all inputs by their weights, plus the input bias, are computed before, in one
    # product. The steps, which `cell` emits, add the products of the states and the recurrence bias.
    outputs, final_states = [], []  # both per direction
    for n, input_product in enumerate(input_products):
        backwards = is_reverse or n == 1
        inputs = input_product(x)
        input_bias, recurrence_bias = _split_bias(call, bias, n, gates, hidden)
        if input_bias is not None:
            inputs = formula(b, lambda v, k: v + k.to(v.dtype), inputs, input_bias)
        step = cell(n, recurrence_bias)
        # More than _MAX_UNROLLED_STEPS steps are a loop. `row(b, t, n)` is t[n].
        output, ends = over_steps(
            b, elementwise.convert(b, inputs, x.dtype), [row(b, t, n) for t in states], step, backwards=backwards,
            unrolled=_MAX_UNROLLED_STEPS, lengths=lengths,
        )  # fmt: skip
        outputs.append(output)
        final_states.append(ends)

    # Stack the results of the directions.
    all_outputs = slicing.stack(b, outputs, axis=1)
    final = [slicing.stack(b, [ends[n] for ends in final_states], axis=0) for n in range(len(states))]
    if by_batch:
        all_outputs = shapes.transpose(b, all_outputs, [2, 0, 1, 3])
        final = [shapes.transpose(b, t, [1, 0, 2]) for t in final]
    return [all_outputs, *final]


def _split_bias(
    call: NodeCall, bias: Tensor | None, n: int, gates: int, hidden: Size
) -> tuple[Tensor | None, Tensor | None]:
    """Return the input bias and the recurrence bias of direction `n`; None for both if there is no bias.

    bias: [directions, 2 * gates * hidden], the input biases of all gates before the recurrence biases.
    """
    if bias is None:
        return None, None
    own = row(call.b, bias, n)
    middle = hidden * gates
    return slicing.slice_axis(call.b, own, axis=0, start=0, limit=middle), slicing.slice_axis(
        call.b, own, axis=0, start=middle, limit=middle + middle
    )


def _initial_state(
    call: NodeCall, t: Tensor | None, count: int, batch: Size, hidden: Size, by_batch: bool, x: Tensor
) -> Tensor:
    """Return an initial state t as [directions, batch, hidden]; zeros if it is None.

    Args:
        call: The node.
        t: The state, or None.
        count: Number of directions.
        batch: Number of sequences.
        hidden: Size of the hidden state.
        by_batch: Whether the batch is the first axis of t.
        x: Input of the network, whose type the zeros have.
    """
    if t is None:
        return shapes.full(call.b, 0.0, (count, batch, hidden), x.dtype)
    return shapes.transpose(call.b, t, [1, 0, 2]) if by_batch else t


def _split_gates(call: NodeCall, t: Tensor, count: int) -> list[Tensor]:
    """Split the last axis of t into the slices of `count` gates, which are of equal size."""
    width = t.shape[-1]
    gate_size = width // count
    return slicing.split(call.b, t, t.rank - 1, [gate_size] * count)


def _product_by(call: NodeCall, weights: Tensor) -> Product:
    """Return the product by the transpose of weights [m, k]."""
    return lambda rows: products.matmul(call.b, rows, shapes.transpose(call.b, weights), wide(rows.dtype))


def _input_products(call: NodeCall, x: Tensor, w: Tensor, r: Tensor, gates: int) -> list[Product]:
    """Return for each direction the product of inputs by its weights w [directions, gates * hidden, inputs].

    Raise CompileError if x, w or the recurrence weights r [directions, gates * hidden, hidden] have other ranks, or the
    weights do not fit the directions and gates.
    """
    count, hidden = direction_count(call), r.shape[-1]
    if x.rank != 3 or w.rank != 3 or r.rank != 3 or w.shape[0] != count:
        raise call.fail(f"its operands are {x}, {w} and {r}; expected 3 axes and {count} direction(s)")
    if w.shape[1] != gates * hidden:
        raise call.fail(f"its weights are {w} and {r}; expected {gates} gates of {hidden}")
    return [_product_by(call, row(call.b, w, n)) for n in range(count)]


def _recurrent_product(call: NodeCall, h: Tensor, product: Product, bias: Tensor | None) -> Tensor:
    """Return the product of the old state h [batch, hidden] by recurrence weights, plus a bias, in the type of h."""
    if bias is None:
        return elementwise.convert(call.b, product(h), h.dtype)
    return formula(call.b, lambda v, k: (v + k.to(v.dtype)).to(h.dtype), product(h), bias)


def direction_count(call: NodeCall) -> int:
    """Return 2 for a bidirectional network, else 1."""
    return 2 if call.text("direction", "forward") == "bidirectional" else 1


@ONNX.converts("RNN")
def _rnn(
    call: NodeCall, x: Tensor, w: Tensor, r: Tensor, bias: Tensor | None = None, lengths: Tensor | None = None,
    h: Tensor | None = None,
) -> list[Tensor]:  # fmt: skip
    """Lower RNN: in each step, h = f(w x + r h + bias), where f is by default tanh.

    x is [length, batch, inputs], w [directions, hidden, inputs], r [directions, hidden, hidden], `lengths` the length
    of each sequence, and the operand h the initial state; None stands for zeros. Return h after all steps and after the
    last one.
    """
    functions = _activations(call, ["Tanh"], direction_count(call))

    def cell(n: int, own_bias: Tensor | None) -> Step:
        """Return the step of direction n, with its recurrence bias (None without biases)."""
        (f,) = functions[n]  # the activation of direction n
        product = _product_by(call, row(call.b, r, n))

        def step(inputs: Tensor, states: list[Tensor]) -> list[Tensor]:
            """Return the new hidden state, from the inputs times their weights and the old state."""
            return [
                formula(call.b, lambda u, v: f(u + v), inputs, _recurrent_product(call, states[0], product, own_bias))
            ]

        return step

    input_products = _input_products(call, x, w, r, gates=1)
    return _recurrent(call, x, input_products, r.shape[2], bias, lengths, [h], gates=1, cell=cell)


@dataclass(frozen=True)
class _GruCell:
    """Cell of a GRU in one direction: `step` emits its state after one more element of the sequences.

    The new state is (1 - update gate) * candidate + update gate * old state. The weights and biases of the gates begin
    with the update gate; the reset gate follows.

    Attributes:
        call: The node.
        gate_activation: Activation of both gates.
        state_activation: Activation of the candidate, from which the new state is interpolated.
        gate_product: Product by the recurrence weights of the gates, [2 * hidden, hidden].
        gate_bias: Recurrence bias of the gates; None without biases.
        candidate_product: Product by the recurrence weights of the candidate, [hidden, hidden].
        candidate_bias: Recurrence bias of the candidate; None without biases.
        resets_product: Whether the reset gate scales the product of the old state with the weights of the candidate,
            instead of the old state.
    """

    call: NodeCall
    gate_activation: Activation
    state_activation: Activation
    gate_product: Product
    gate_bias: Tensor | None
    candidate_product: Product
    candidate_bias: Tensor | None
    resets_product: bool

    def step(self, inputs: Tensor, states: list[Tensor]) -> list[Tensor]:
        """Return the new hidden state, from the inputs times their weights and the old state."""
        b, f = self.call.b, self.gate_activation
        (old,) = states
        # The argument of each gate is the sum of a part from the inputs and a part from the old state. `candidate` is
        # the part from the inputs for the new state.
        update, reset, candidate = _split_gates(self.call, inputs, count=3)
        own_product = _recurrent_product(self.call, old, self.gate_product, self.gate_bias)
        own_update, own_reset = _split_gates(self.call, own_product, count=2)
        update_gate = formula(b, lambda u, v: f(u + v), update, own_update)
        reset_gate = formula(b, lambda u, v: f(u + v), reset, own_reset)
        new = self._new_state(candidate, reset_gate, old)
        # The interpolation of both states: (1 - update gate) * new + update gate * old.
        return [formula(b, lambda k, u, v: (1.0 - k) * u + k * v, update_gate, new, old)]

    def _new_state(self, candidate: Tensor, reset_gate: Tensor, old: Tensor) -> Tensor:
        """Return the candidate for the new state: the state activation of the inputs' part plus the old state's part,
        which the reset gate scales.

        Args:
            candidate: The inputs' part: the inputs times their weights for the candidate, plus the bias.
            reset_gate: Values of the reset gate, from 0 (the old state is left out) to 1.
            old: The old state.
        """
        b, g = self.call.b, self.state_activation
        # The gate scales the old state's part after the product with the weights, or the old state before it.
        if self.resets_product:
            hidden_part = _recurrent_product(self.call, old, self.candidate_product, self.candidate_bias)
            return formula(b, lambda u, k, v: g(u + k * v), candidate, reset_gate, hidden_part)
        reset_state = elementwise.binary(b, "mul", reset_gate, old)
        hidden_part = _recurrent_product(self.call, reset_state, self.candidate_product, self.candidate_bias)
        return formula(b, lambda u, v: g(u + v), candidate, hidden_part)


@ONNX.converts("GRU")
def _gru(
    call: NodeCall, x: Tensor, w: Tensor, r: Tensor, bias: Tensor | None = None, lengths: Tensor | None = None,
    h: Tensor | None = None,
) -> list[Tensor]:  # fmt: skip
    """Lower GRU, a recurrent cell with an update gate and a reset gate.

    x is [length, batch, inputs], w [directions, 3 * hidden, inputs], r [directions, 3 * hidden, hidden], `lengths` the
    length of each sequence, and h the initial state; None stands for zeros. The rows of w, r and the bias are in blocks
    of `hidden` for update gate, reset gate and new state. Return h after all steps and after the last one.

    With the attribute `linear_before_reset`, the reset gate scales the product of the old state with the weights of the
    new state. Without it, the reset gate scales the old state before that product.
    """
    functions = _activations(call, ["Sigmoid", "Tanh"], direction_count(call))
    resets_product = call.flag("linear_before_reset")

    def cell(n: int, own_bias: Tensor | None) -> Step:
        """Return the step of direction n, with its recurrence bias (None without biases)."""
        # The first 2 * hidden rows are those of the two gates, the others those of the candidate for the new state.
        hidden = r.shape[2]
        gate_product, candidate_product = (
            _product_by(call, weights) for weights in _split_rows(call, row(call.b, r, n), hidden + hidden)
        )
        gate_bias = candidate_bias = None
        if own_bias is not None:
            gate_bias, candidate_bias = _split_rows(call, own_bias, hidden + hidden)
        f, g = functions[n]  # the activations of the gates and of the candidate in direction n
        return _GruCell(call, f, g, gate_product, gate_bias, candidate_product, candidate_bias, resets_product).step

    input_products = _input_products(call, x, w, r, gates=3)
    return _recurrent(call, x, input_products, r.shape[2], bias, lengths, [h], gates=3, cell=cell)


def _split_rows(call: NodeCall, t: Tensor, count: Size) -> tuple[Tensor, Tensor]:
    """Return the first `count` elements of t along axis 0, and the others."""
    return (
        slicing.slice_axis(call.b, t, axis=0, start=0, limit=count),
        slicing.slice_axis(call.b, t, axis=0, start=count, limit=t.shape[0]),
    )


@dataclass(frozen=True)
class _LstmCell:
    """Cell of an LSTM in one direction: `step` emits its states after one more element of the sequences.

    From an input x, the hidden state h and the cell state c it computes, with biases added to all products:
        i = gate_activation(x Wi + h Ri + c * Pi)                             input gate
        f = gate_activation(x Wf + h Rf + c * Pf), or 1 - i if is_coupled     forget gate
        new c = i * cell_activation(x Wc + h Rc) + f * c
        o = gate_activation(x Wo + h Ro + new c * Po)                         output gate
        new h = o * output_activation(new c)

    Attributes:
        call: The node.
        gate_activation: Activation of the gates.
        cell_activation: Activation of what is added to the cell state.
        output_activation: Activation of the cell state, which the output gate scales.
        product: Product by the recurrence weights of the gates input, output and forget and of the new cell state, one
            after the other.
        bias: Recurrence bias, [4 * hidden]; None without biases.
        peepholes: Weights of the cell state for the gates input, output and forget; None if these do not read it.
        is_coupled: Whether the forget gate is 1 minus the input gate.
    """

    call: NodeCall
    gate_activation: Activation
    cell_activation: Activation
    output_activation: Activation
    product: Product
    bias: Tensor | None
    peepholes: Sequence[Tensor] | None
    is_coupled: bool

    def step(self, inputs: Tensor, states: list[Tensor]) -> list[Tensor]:
        """Return the new hidden state and cell state, [batch, hidden] each.

        `inputs` [batch, 4 * hidden] are the inputs times their weights plus their bias, `states` the old hidden state
        and cell state.
        """
        b, g, k = self.call.b, self.cell_activation, self.output_activation
        hidden, cell_state = states
        # For each gate and for the new cell state a pair: what the inputs and the old hidden state contribute.
        input_part, output_part, forget_part, cell_part = zip(
            _split_gates(self.call, inputs, count=4),
            _split_gates(self.call, _recurrent_product(self.call, hidden, self.product, self.bias), count=4),
            strict=True,
        )
        input_gate = self._gate(*input_part, cell_state, peephole=0)
        if self.is_coupled:
            forget_gate = formula(b, lambda v: 1.0 - v, input_gate)
        else:
            forget_gate = self._gate(*forget_part, cell_state, peephole=2)
        # Input gate i times the candidate g(u + v), u and v its parts from inputs and hidden state, plus forget gate j
        # times the old cell state s.
        new = formula(b, lambda i, u, v, s, j: i * g(u + v) + j * s, input_gate, *cell_part, cell_state, forget_gate)
        output_gate = self._gate(*output_part, new, peephole=1)
        return [formula(b, lambda o, s: o * k(s), output_gate, new), new]

    def _gate(self, u: Tensor, v: Tensor, cell_state: Tensor, peephole: int) -> Tensor:
        """Return a gate: the activation of u + v, or of u + v + cell_state * peephole weights.

        u and v are what the input and the old hidden state contribute. peephole: index of the gate among the peepholes.
        """
        b, f = self.call.b, self.gate_activation
        if self.peepholes is None:
            return formula(b, lambda a, e: f(a + e), u, v)
        return formula(b, lambda a, e, s, p: f(a + e + s * p), u, v, cell_state, self.peepholes[peephole])


@ONNX.converts("LSTM")
def _lstm(
    call: NodeCall, x: Tensor, w: Tensor, r: Tensor, bias: Tensor | None = None, lengths: Tensor | None = None,
    h: Tensor | None = None, state: Tensor | None = None, peepholes: Tensor | None = None,
) -> list[Tensor]:  # fmt: skip
    """Lower LSTM, a recurrent cell with a hidden state and a cell state.

    x is [length, batch, inputs], w [directions, 4 * hidden, inputs], r [directions, 4 * hidden, hidden], `lengths` the
    length of each sequence; h and `state` are the initial hidden and cell states; None stands for zeros. The rows of w,
    r and the bias are in blocks of `hidden` for input, output and forget gate and new cell state. `peepholes`
    [directions, 3 * hidden] are weights of the cell state for the gates input, output and forget, in this order.

    Return the hidden state after all steps, and the last hidden and cell states.
    """
    input_products = _input_products(call, x, w, r, gates=4)
    hidden_products = [_product_by(call, row(call.b, r, n)) for n in range(len(input_products))]
    return lstm(call, x, input_products, hidden_products, r.shape[2], bias, lengths, h, state, peepholes)


def lstm(
    call: NodeCall, x: Tensor, input_products: Sequence[Product], hidden_products: Sequence[Product], hidden: Size,
    bias: Tensor | None, lengths: Tensor | None, h: Tensor | None, state: Tensor | None, peepholes: Tensor | None,
) -> list[Tensor]:  # fmt: skip
    """Lower an LSTM whose weights are multiplied by `input_products` and `hidden_products`, one for each direction.

    `hidden` is the size of the hidden state; the other operands and the results are those of the operator LSTM.
    """
    functions = _activations(call, ["Sigmoid", "Tanh", "Tanh"], len(input_products))
    is_coupled = call.flag("input_forget")

    def cell(n: int, own_bias: Tensor | None) -> Step:
        """Return the step of direction n, with its recurrence bias (None without biases)."""
        f, g, k = functions[n]  # the activations of the gates, the cell state and the output in direction n
        own_peepholes = None if peepholes is None else _split_gates(call, row(call.b, peepholes, n), count=3)
        return _LstmCell(call, f, g, k, hidden_products[n], own_bias, own_peepholes, is_coupled).step

    return _recurrent(call, x, input_products, hidden, bias, lengths, [h, state], gates=4, cell=cell)
