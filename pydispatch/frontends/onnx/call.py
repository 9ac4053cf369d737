"""The node that an operator conversion works on: typed access to attributes and operands, and error messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from pydispatch.errors import CompileError
from pydispatch.frontends.onnx import model
from pydispatch.frontends.onnx.scope import Values
from pydispatch.frontends.onnx.tensors import ModelFault
from pydispatch.graph.builder import Builder
from pydispatch.graph.sizes import Expr, Size, symbols_of
from pydispatch.graph.values import Tensor
from pydispatch.operations.chosen_axes import ChosenAxes
from pydispatch.operations.host_integers import HostInteger, Integer, read_integers

_TYPES = {1: "f", 2: "i", 3: "s", 4: "t", 5: "g", 6: "floats", 7: "ints", 8: "strings", 9: "tensors", 10: "graphs"}
"""Code of an attribute type (`AttributeProto.type`) → the field of AttributeProto that holds the value."""
_TYPE_NAMES = {"f": "a float", "i": "an integer", "s": "a string", "t": "a tensor", "g": "a graph", "floats": "floats",
               "ints": "integers", "strings": "strings", "tensors": "tensors", "graphs": "graphs"}  # fmt: skip
"""Field of AttributeProto → what errors call its value."""

_REQUIRED: Any = object()
"""Argument for a parameter `default` that makes an attribute required: it is an error if the node omits it."""


def type_of(attribute: model.AttributeProto) -> str:
    """Return the name of the AttributeProto field that holds an attribute's value.

    Files of old ONNX versions do not state the type; then the result is the field that is set, "i" if none is.
    """
    if attribute.type:
        if attribute.type not in _TYPES:
            raise ModelFault(f"attribute '{attribute.name}' has type {attribute.type}, which no supported operator has")
        return _TYPES[attribute.type]
    for name in ("floats", "ints", "strings", "tensors", "graphs", "t", "g", "s", "f"):
        value = getattr(attribute, name)
        # An absent field is None, empty or 0.
        if value is not None and (len(value) if hasattr(value, "__len__") else value):
            return name
    return "i"


class NodeContext(Protocol):
    """Interface of the tracer that operator conversions use."""

    builder: Builder
    inputs: Mapping[str, Tensor]
    """The graph inputs that are arguments of the program, by name."""

    def constant(self, tensor: model.TensorProto, what: str) -> Tensor:
        """Return a tensor of the file as a constant or weight. `what` is its name in errors."""

    def graph(
        self, graph: model.GraphProto, inputs: Mapping[str, Tensor], outer: Values | None, opsets: Mapping[str, int]
    ) -> list[Tensor]:
        """Emit a subgraph at the current insertion point and return its outputs.

        Args:
            graph: The subgraph.
            inputs: Its inputs by name.
            outer: Values of the enclosing graph, which it may use too; None for no enclosing graph.
            opsets: Operator set version of each domain.
        """


class NodeCall:
    """Node of an ONNX model that is being converted: the converter of its operator reads attributes and operands by it.

    Attributes:
        tracer: Translator of the model, which also converts tensors and subgraphs that are attributes.
        b: Builder that the conversion emits operations with.
        node: The node of the model.
        version: Version of the operator set that the node's domain is imported with.
        values: Values of the graph that contains the node, by name.
        opsets: Versions of all imported operator sets by domain, for graphs within the node.
        results: Length of the node's list of outputs; trailing outputs may be missing from it.
        attributes: Attributes of the node by name.
    """

    def __init__(
        self,
        tracer: NodeContext,
        node: model.NodeProto,
        attributes: dict[str, model.AttributeProto],
        version: int,
        values: Values,
        opsets: Mapping[str, int],
    ) -> None:
        """Store the node, no attribute of which counts as read yet.

        `version` is that of the node's operator set, `opsets` has that of each domain. `attributes` and `values`, those
        of the graph, are by name.
        """
        self.tracer = tracer
        self.b: Builder = tracer.builder
        self.node = node
        self.version = version
        self.values = values
        self.opsets = opsets
        self.results = len(node.output)
        self.attributes = attributes
        self._read: set[str] = set()  # names of the attributes that the conversion has read

    # -- attributes

    def has(self, name: str) -> bool:
        """Return whether the node has an attribute `name`, and mark it as read (`check_all_read`)."""
        self._read.add(name)
        return name in self.attributes

    def integer(self, name: str, default: Any = _REQUIRED) -> int:
        """Return an integer attribute. It is required if no default is passed."""
        return self._attribute_value(name, "i", default)

    def flag(self, name: str, default: bool = False) -> bool:
        """Return an integer attribute as a bool; `default` if the node omits it."""
        return bool(self._attribute_value(name, "i", default))

    def real(self, name: str, default: Any = _REQUIRED) -> float:
        """Return a float attribute. It is required if no default is passed."""
        return self._attribute_value(name, "f", default)

    def text(self, name: str, default: Any = _REQUIRED, choices: Sequence[str] = ()) -> str:
        """Return a string attribute. It is required if no default is passed. Raise CompileError if `choices` is not
        empty and does not contain it.
        """
        value = self._attribute_value(name, "s", default)
        text = value if isinstance(value, str) else _decode_utf8(value)
        if choices and text not in choices:
            raise self.fail(f"attribute '{name}' is '{text:.60}'; known are {', '.join(choices)}")
        return text

    def integers(self, name: str, default: Any = _REQUIRED) -> list[int]:
        """Return an attribute that is a list of integers. It is required if no default is passed."""
        return [int(n) for n in self._attribute_value(name, "ints", default)]

    def maybe_integers(self, name: str) -> list[int] | None:
        """Return an attribute that is a list of integers; None if the node omits it."""
        return self.integers(name) if self.has(name) else None

    def reals(self, name: str, default: Any = _REQUIRED) -> list[float]:
        """Return an attribute that is a list of floats. It is required if no default is passed."""
        return [float(n) for n in self._attribute_value(name, "floats", default)]

    def texts(self, name: str, default: Any = _REQUIRED) -> list[str]:
        """Return an attribute that is a list of strings. It is required if no default is passed."""
        return [n if isinstance(n, str) else _decode_utf8(n) for n in self._attribute_value(name, "strings", default)]

    def tensor(self, name: str) -> Tensor:
        """Return a required tensor attribute as a constant or, if it is large, a weight with the node's name."""
        return self.tracer.constant(self._attribute_value(name, "t", _REQUIRED), self.node.name)

    def graph(self, name: str) -> model.GraphProto:
        """Return the subgraph that is stored in an attribute."""
        return self._attribute_value(name, "g", _REQUIRED)

    def ignore(self, *names: str) -> None:
        """Mark attributes as read, so that `check_all_read` accepts them, although the conversion does not use them."""
        self._read |= set(names)

    def check_all_read(self) -> None:
        """Raise CompileError if the node has an attribute that the conversion has not read, because it may change the
        node's meaning.
        """
        left = sorted(set(self.attributes) - self._read)
        if left:
            raise self.fail(f"attribute '{left[0]}' is not known to version {self.version} of the operator")

    def _attribute_value(self, name: str, field: str, default: Any) -> Any:
        """Return the value of an attribute, or `default` if the node omits it, and mark it as read.

        `field` is the AttributeProto field that must hold the value. Raise CompileError if another field does, or if
        the attribute is missing and `default` is _REQUIRED.
        """
        self._read.add(name)
        attribute = self.attributes.get(name)
        if attribute is None:
            if default is _REQUIRED:
                raise self.fail(f"attribute '{name}' is missing")
            return default
        kind = type_of(attribute)
        if kind != field:
            raise self.fail(f"attribute '{name}' is {_TYPE_NAMES[kind]}; expected {_TYPE_NAMES[field]}")
        value = getattr(attribute, field)
        if value is None:  # the attribute states its type, but has no value of it
            raise self.fail(f"attribute '{name}' is {_TYPE_NAMES[kind]}, which the file does not have")
        return value

    # -- operands

    def known_by(self, name: str) -> str:
        """Return the end of an error's note: what to pass in `constants` and `inputs` so that the value `name` is
        constant.

        These are elements of inputs of the program, and sizes of inputs if the value depends on them. The text is empty
        if no input contributes to the value.
        """
        inputs = self.tracer.inputs
        origins = {n: value for n in self.values.origins(name) if (value := self.values.find(n)) is not None}
        symbolic = [n for value in origins.values() if value.is_symbolic for n in value.known_integers() or ()]
        symbols = set().union(*map(symbols_of, symbolic))  # names of the sizes on which the value depends
        # A value of a nested graph may hide the input of the same name.
        elements = [f"'{n}': array" for n, value in origins.items() if value is inputs.get(n)]
        shapes = [
            f"'{n}': {tuple(1 if symbols & symbols_of(size) else _stated(size) for size in x.shape)}"
            for n, x in inputs.items()
            if any(symbols & symbols_of(size) for size in x.shape)
        ]
        note = ""
        if elements:
            note += f", or give it where the model is compiled: constants={{{', '.join(elements)}}}"
        if shapes:
            note += f", or state the sizes on which it depends, such as inputs={{{', '.join(shapes)}}}"
        return note

    def maybe_numbers(self, of: Tensor) -> np.ndarray[Any, Any] | None:
        """Return the elements of an operand as numbers; None if they depend on dynamic sizes or on a computation."""
        return of.weight.array if of.weight is not None else of.numbers

    def maybe_sizes(self, of: Tensor) -> list[Size] | None:
        """Return the elements of a vector or scalar as ints or expressions of dynamic sizes; None if they are computed
        at run time.
        """
        return of.known_integers() if of.weight is None else [int(n) for n in of.weight.array.reshape(-1)]

    def integers_of(self, of: Tensor, what: str) -> list[Integer]:
        """Return the elements of a vector or scalar: ints or size expressions if they are known at compile time.

        Other elements are HostIntegers, which the host reads back in each call.

        Raise CompileError if the vector's length is dynamic, because ranks and numbers of results depend on it; `what`
        names the operand if it has no name in the model.
        """
        known = self.maybe_sizes(of)
        if known is not None:
            return list(known)
        if of.rank > 1 or isinstance(of.shape[0] if of.rank else 1, Expr):
            what = next((name for name in self.node.input if name and self.values.find(name) is of), what)
            raise self.fail(
                f"its operand '{what}' has the type {of}: the number of its elements decides the rank of a result, so "
                "it must be known while the model is compiled",
                f"state its length in the model{self.known_by(what)}",
            )
        return list(read_integers(self.b, of))

    def sizes(self, of: Tensor, what: str) -> list[Size]:
        """Return the elements of a vector as sizes; `what` names the operand in errors.

        The host reads a computed vector back in each call, which fails if an element is negative. Negative constants
        are returned as they are, since -1 has a meaning for some operators, such as Reshape.
        """
        integers = self.integers_of(of, what)
        for n in integers:
            if isinstance(n, HostInteger):
                (n >= 0).require(f"{self.node.op_type}: its operand '{what}' has a negative size")
        return [n.size() if isinstance(n, HostInteger) else n for n in integers]

    def axes_of(self, of: Tensor, rank: int, what: str = "axes") -> list[int] | ChosenAxes:
        """Return the axes that the operand `of` lists, as non-negative indices of the axes of a tensor of rank `rank`.

        An operand that is computed at run time becomes ChosenAxes. An axis that is listed twice is an error.
        """
        integers = self.integers_of(of, what)
        computed = [n for n in integers if isinstance(n, HostInteger)]
        if computed:  # then all are: an operand is constant or computed as a whole
            return ChosenAxes(self.b, computed, rank)
        return self.axes([int(n) for n in integers], rank, what)  # type: ignore[arg-type]

    def axis(self, axis: int, rank: int, what: str = "axis") -> int:
        """Return the non-negative index of an axis that may count from the end (-1 is the last) of `rank` axes.

        Raise CompileError, in which `what` names the axis, if it is out of range.
        """
        if not -rank <= axis < rank:
            raise self.fail(f"{what} {axis} is not within the {rank} axes of its operand")
        return axis % rank

    def axes(self, axes: Sequence[int], rank: int, what: str = "axes") -> list[int]:
        """Return the non-negative indices of axes that may count from the end of `rank` axes, in the order of `axes`.

        Raise CompileError, in which `what` names the axes, if one is out of range or stated twice.
        """
        result = [self.axis(int(axis), rank, what) for axis in axes]
        if len(set(result)) != len(result):
            raise self.fail(f"{what} {list(axes)} name an axis twice")
        return result

    def fail(self, message: str, note: str | None = None) -> CompileError:
        """Return a CompileError about this node; the caller raises it."""
        return self.b.fail(f"{self.node.op_type}: {message}", note)


def _stated(size: Size) -> int | str:
    """Return a size as callers state it: a number, or the name of a dynamic size."""
    return str(size) if isinstance(size, Expr) else size


def _decode_utf8(data: memoryview) -> str:
    """Decode a string attribute. Raise ModelFault if it is no valid UTF-8."""
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError:
        raise ModelFault("an attribute is no UTF-8 text") from None
