"""Cotangents of the values of a program: the gradients that reverse mode accumulates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from xdsl.dialects import tensor
from xdsl.dialects.builtin import AnyFloat, TensorType
from xdsl.ir import Operation, SSAValue

from pydispatch.errors import CompileError
from pydispatch.graph.dtypes import of_element
from pydispatch.graph.sizes import Size, differ
from pydispatch.graph.values import Tensor
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.operations import elementwise, shapes
from pydispatch.programs.trace import Trace

Rule = Callable[["Cotangents", Operation], None]
"""Derivative of an operation: rule(cotangents, operation) emits operations that compute the cotangents of its operands
from those of its results, and adds them to `cotangents`. The emitted operations follow all others of the program."""

_REMEDY = (
    "compute it with a kernel that names its backward one, pydispatch.vjp(kernel, backward); "
    "docs/derivatives.md lists what has a derivative"
)
"""Note of the error for an operation without a derivative."""

_REFUSALS = {
    "scf.while": (
        "a loop that runs while a condition holds",
        "give pydispatch.loop a number of iterations, and let values stay as they are once the condition fails: "
        "numpy.where(condition, new, old)",
    ),
    "pyd.recurrence": ("the derivative of a running product", _REMEDY),
}
"""Operations without a derivative: description in messages, and the remedy. Operations that are not listed are
described by their names, with the remedy `_REMEDY`."""


class Cotangents:
    """Table of the cotangents of SSA values while the program of the gradients is built; they are added up in it.

    The cotangent of a value is the gradient of the program's result with respect to it: a tensor of the same type and
    shape. A value that is used several times has the sum of the cotangents of its uses. `pull_back` is called once; it
    calls a rule for each operation, which reads the cotangents of the results by `of`, and adds those of the operands.

    Attributes:
        trace: Builder of the program.
        active: Values of floats that depend on an input. Other values have no cotangents. It begins as the inputs, and
            `pull_back` adds the other values.
        rules: Rules by the name of the operation.
    """

    def __init__(self, trace: Trace, inputs: Sequence[SSAValue], rules: Mapping[str, Rule]) -> None:
        """Begin without cotangents; only the inputs are active."""
        self.trace, self.rules = trace, rules
        self.active = set(inputs)
        self._by_value: dict[SSAValue, Tensor] = {}  # value → the sum of its cotangents so far
        self._tensors: dict[SSAValue, Tensor] = {}  # results of `program_tensor`

    def pull_back(self, ops: Sequence[Operation], seeds: Iterable[tuple[SSAValue, Tensor | None]]) -> None:
        """Compute the cotangents of the inputs from those of the results of a program, by its operations in reverse.

        Args:
            ops: All operations that the results depend on, in the order in which they run.
            seeds: Pairs of a result of the operations and its cotangent; None for a result without one.

        Raises:
            CompileError: An operation that depends on an input, and that results depend on, has no rule.
        """
        # Mark the float values that depend on an input (`active`): only these get cotangents.
        for op in ops:
            # A loop or a branch depends on the values that operations in its regions use.
            if any(operand in self.active for inner in op.walk() for operand in inner.operands):
                self.active |= {result for result in op.results if is_float(result)}
        # Begin with the cotangents of the results, and go back from each operation to its operands.
        for value, seed in seeds:
            if seed is not None:
                self.add(value, seed)
        for op in reversed(ops):
            # All uses of the results come later in the program: their cotangents are complete.
            if any(self.of(result) for result in op.results):
                with self.trace.at(op):
                    self._pull_back(op)

    def _pull_back(self, op: Operation) -> None:
        """Add the cotangents of the operands of an operation by its rule. Raise CompileError if it has none."""
        rule = self.rules.get(op.name)
        if rule is None:
            description, remedy = _REFUSALS.get(op.name, (f"'{op.name}'", _REMEDY))
            raise self.refuse(description, remedy)
        rule(self, op)

    def of(self, value: SSAValue) -> Tensor | None:
        """Return the sum of the cotangents that were added for a value; None if none was added: it is zero."""
        return self._by_value.get(value)

    def add(self, value: SSAValue, cotangent: Tensor) -> None:
        """Add a term to the cotangent of a value; ignore it if the value does not depend on an input."""
        if value not in self.active:
            return
        known = self._by_value.get(value)
        self._by_value[value] = cotangent if known is None else elementwise.binary(self.trace, "add", known, cotangent)

    def add_stated(self, rule: str, values: Mapping[str, SSAValue], gradients: Sequence[Tensor]) -> None:
        """Add the results of a derivative that the user has stated as cotangents.

        Args:
            rule: Name, in messages, of the kernel or program that computes the derivative.
            values: Arguments of the function for which the rule computes gradients, by name.
            gradients: Results of the rule: the gradient of each of `values`, in order.

        Raises:
            CompileError: There is not one result for each argument, of its type and shape.
        """
        likes = [self.program_tensor(value) for value in values.values()]  # with the type and shape of each gradient
        if len(gradients) != len(likes) or not all(map(fits, gradients, likes)):
            expected = ", ".join(f"{name}: {like}" for name, like in zip(values, likes, strict=True))
            raise self.trace.fail(
                f"the derivative '{rule}' gives ({', '.join(map(str, gradients))}); expected those of {expected}"
            )
        for value, gradient, like in zip(values.values(), gradients, likes, strict=True):
            self.add(value, with_shape(self.trace, gradient, like.shape, f"a result of the derivative '{rule}'"))

    def program_tensor(self, value: SSAValue) -> Tensor:
        """Return a tensor of the program, an SSA value, as a `Tensor`; the same one for each call.

        Its dynamic sizes are those that the trace has recorded for the value, else new symbols.
        """
        known = self._tensors.get(value)
        if known is None:
            assert isinstance(value.type, TensorType)
            shape = self.trace.shapes.get(value)
            if shape is None:
                shape = tuple(
                    self._extent(value, axis) if n == DYNAMIC else n for axis, n in enumerate(value.type.get_shape())
                )
            known = self._tensors[value] = Tensor(of_element(value.type.element_type), shape, (value,))
        return known

    def _extent(self, value: SSAValue, axis: int) -> Size:
        """Emit the size of a value along an axis, and return it as a new symbol."""
        return self.trace.size_of(self.trace.add(tensor.DimOp(value, self.trace.index(axis))).result)

    def zeros(self, value: SSAValue) -> Tensor:
        """Return a tensor of zeros with the type and the shape of a value."""
        like = self.program_tensor(value)
        return shapes.full(self.trace, 0, like.shape, like.dtype)

    def refuse(self, text: str, remedy: str = _REMEDY) -> CompileError:
        """Return the error for an expression without a derivative, at its line; the caller raises it.

        text: description of the operation, such as "a loop". remedy: note of the error.
        """
        return self.trace.fail(f"this expression has no derivative: there is none of {text}", remedy)


def fits(of: Tensor, like: Tensor) -> bool:
    """Return whether a tensor has the element type and the rank of another one, and no size that is known to differ."""
    return of.dtype == like.dtype and of.rank == like.rank and not any(map(differ, of.shape, like.shape))


def with_shape(trace: Trace, of: Tensor, shape: Sequence[Size], what: str) -> Tensor:
    """Return the tensor `of` with the shape `shape`; sizes that may differ from its own are compared at run time.

    what: name of the tensor in messages.
    """
    for axis, (size, expected) in enumerate(zip(of.shape, shape, strict=True)):
        trace.require_equal(size, expected, f"{what} has the size {{a}} along axis {axis}; expected {{b}}")
    return trace.as_shape(of, shape)


def is_float(value: SSAValue) -> bool:
    """Return whether a value is a float, or a tensor of floats."""
    type = value.type
    return isinstance(type.element_type if isinstance(type, TensorType) else type, AnyFloat)
