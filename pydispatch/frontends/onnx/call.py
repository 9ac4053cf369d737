"""A node while it is converted: its attributes with their types checked, its version, and what errors say of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from xdsl.ir import SSAValue

from pydispatch.errors import CompileError
from pydispatch.frontends.graph.builder import Builder
from pydispatch.frontends.graph.sizes import Expr, Size
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.onnx import model
from pydispatch.frontends.onnx.scope import Values
from pydispatch.frontends.onnx.tensors import ModelFault

_TYPES = {1: "f", 2: "i", 3: "s", 4: "t", 5: "g", 6: "floats", 7: "ints", 8: "strings", 9: "tensors", 10: "graphs"}
_TYPE_NAMES = {"f": "a float", "i": "an integer", "s": "a string", "t": "a tensor", "g": "a graph", "floats": "floats",
               "ints": "integers", "strings": "strings", "tensors": "tensors", "graphs": "graphs"}  # fmt: skip

_REQUIRED: Any = object()


def type_of(attribute: model.AttributeProto) -> str:
    """Return the name of the field that holds an attribute's value. Old files do not state it: then the field that is
    set.
    """
    if attribute.type:
        if attribute.type not in _TYPES:
            raise ModelFault(f"attribute '{attribute.name}' has type {attribute.type}, which no supported operator has")
        return _TYPES[attribute.type]
    for name in ("floats", "ints", "strings", "tensors", "graphs", "t", "g", "s", "f"):
        value = getattr(attribute, name)
        if value is not None and (len(value) if hasattr(value, "__len__") else value):
            return name
    return "i"


class NodeContext(Protocol):
    """Interface of the graph traversal that operator conversions use."""

    builder: Builder
    inputs: Mapping[str, Tensor]
    """The inputs of the model that are arguments."""

    def constant(self, tensor: model.TensorProto, what: str) -> Tensor:
        """Return a tensor of the file. what: its name in errors."""

    def read_indices(self, of: Tensor) -> list[SSAValue]:
        """Return the elements of a vector of integers, read in each call, as values of type index."""

    def graph(
        self, graph: model.GraphProto, inputs: Mapping[str, Tensor], outer: Values | None, opsets: Mapping[str, int]
    ) -> list[Tensor]:
        """Write a graph in place. inputs: its inputs by name; outer: the values around it."""


class NodeCall:
    """A node of an operator.

    version: of the operator set. results: how many outputs the node names. b: the builder that the conversion writes
    with.
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
        self.tracer = tracer
        self.b: Builder = tracer.builder
        self.node = node
        self.version = version
        self.values = values
        self.opsets = opsets
        self.results = len(node.output)
        self.attributes = attributes
        self._read: set[str] = set()

    # -- attributes

    def has(self, name: str) -> bool:
        """Return whether an attribute is given."""
        self._read.add(name)
        return name in self.attributes

    def integer(self, name: str, default: Any = _REQUIRED) -> int:
        """Return an integer attribute. Without a default the attribute is required."""
        return self._get(name, "i", default)

    def flag(self, name: str, default: bool = False) -> bool:
        """Return an integer attribute as a truth value."""
        return bool(self._get(name, "i", default))

    def real(self, name: str, default: Any = _REQUIRED) -> float:
        """Return a float attribute."""
        return self._get(name, "f", default)

    def text(self, name: str, default: Any = _REQUIRED, choices: Sequence[str] = ()) -> str:
        """Return a string attribute, one of `choices` when these are given."""
        value = self._get(name, "s", default)
        text = value if isinstance(value, str) else _decoded(value)
        if choices and text not in choices:
            raise self.fail(f"attribute '{name}' is '{text:.60}'; known are {', '.join(choices)}")
        return text

    def integers(self, name: str, default: Any = _REQUIRED) -> list[int]:
        """Return an attribute that is a list of integers."""
        return [int(n) for n in self._get(name, "ints", default)]

    def maybe_integers(self, name: str) -> list[int] | None:
        """Return an attribute that is a list of integers; None when it is left out."""
        return self.integers(name) if self.has(name) else None

    def reals(self, name: str, default: Any = _REQUIRED) -> list[float]:
        """Return an attribute that is a list of floats."""
        return [float(n) for n in self._get(name, "floats", default)]

    def texts(self, name: str, default: Any = _REQUIRED) -> list[str]:
        """Strings."""
        return [n if isinstance(n, str) else _decoded(n) for n in self._get(name, "strings", default)]

    def tensor(self, name: str) -> Tensor:
        """Return a tensor attribute as a constant."""
        return self.tracer.constant(self._get(name, "t", _REQUIRED), self.node.name)

    def graph(self, name: str) -> model.GraphProto:
        """Return a graph attribute, which the operator runs."""
        return self._get(name, "g", _REQUIRED)

    def ignore(self, *names: str) -> None:
        """Mark attributes as read that do not affect the conversion."""
        self._read |= set(names)

    def check_all_read(self) -> None:
        """Check that the conversion has read every attribute of the node; raise CompileError otherwise.

        An attribute that was not read may change the meaning of the node.
        """
        left = sorted(set(self.attributes) - self._read)
        if left:
            raise self.fail(f"attribute '{left[0]}' is not known to version {self.version} of the operator")

    def _get(self, name: str, field: str, default: Any) -> Any:
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
        if value is None:
            raise self.fail(f"attribute '{name}' is {_TYPE_NAMES[kind]}, which the file does not have")
        return value

    # -- operands

    def numbers(self, of: Tensor, what: str) -> np.ndarray[Any, Any]:
        """Return the elements of an operand that decides the form of the result.

        CompileError when they are computed.
        """
        elements = self.maybe_numbers(of)
        if elements is None:
            what = next((name for name in self.node.input if name and self.values.find(name) is of), what)
            raise self.fail(
                f"its operand '{what}' is computed, but it must be known while the model is compiled",
                f"make it an initializer{self.known_by(what)}",
            )
        return elements

    def known_by(self, name: str) -> str:
        """Return how a caller makes a value known, as the end of a note; empty where no constant would."""
        origins = [n for n in self.values.origins(name) if n in self.tracer.inputs]
        origins = [n for n in origins if self.values.find(n) is self.tracer.inputs[n]]
        constants = ", ".join(f"'{n}': array" for n in origins)
        return f", or give it where the model is compiled: constants={{{constants}}}" if origins else ""

    def maybe_numbers(self, of: Tensor) -> np.ndarray[Any, Any] | None:
        """Return the elements of an operand, None when they are computed."""
        return of.weight.array if of.weight is not None else of.numbers

    def maybe_sizes(self, of: Tensor) -> list[Size] | None:
        """Return the elements of a vector of sizes, None when they are computed."""
        return of.sizes() if of.weight is None else [int(n) for n in of.weight.array.reshape(-1)]

    def sizes(self, of: Tensor, what: str) -> list[Size]:
        """Return the elements of a vector of sizes; those that are computed are read back in each call."""
        known = self.maybe_sizes(of)
        if known is not None:
            return known
        if of.rank > 1 or isinstance(of.shape[0] if of.rank else 1, Expr):
            raise self.fail(f"its operand '{what}' has the type {of}; expected a vector whose length is known")
        return [self.b.size_of(value) for value in self.tracer.read_indices(of)]

    def axis(self, axis: int, rank: int, what: str = "axis") -> int:
        """Return an axis counted from the front."""
        if not -rank <= axis < rank:
            raise self.fail(f"{what} {axis} is not within the {rank} axes of its operand")
        return axis % rank

    def axes(self, axes: Sequence[int], rank: int, what: str = "axes") -> list[int]:
        """Return distinct axes, counted from the front."""
        result = [self.axis(int(axis), rank, what) for axis in axes]
        if len(set(result)) != len(result):
            raise self.fail(f"{what} {list(axes)} name an axis twice")
        return result

    def fail(self, message: str, note: str | None = None) -> CompileError:
        """Return the error that this node cannot be compiled."""
        return self.b.fail(f"{self.node.op_type}: {message}", note)


def _decoded(data: memoryview) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError:
        raise ModelFault("an attribute is no UTF-8 text") from None
