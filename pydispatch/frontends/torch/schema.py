"""Typed data of an exported program of torch.export.

A program is a graph of nodes in topological order. A node calls an operator (`torch.ops.aten.add.Tensor`) with
constants, names of values, and lists of both. A value is an input of the graph or a result of an earlier node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Union

from pydispatch.graph.dtypes import DType


@dataclass(frozen=True)
class ValueName:
    """Reference to a value of the graph: a tensor, or a number that depends on sizes."""

    name: str


@dataclass(frozen=True)
class OpaqueArgument:
    """Argument that does not affect the result, such as a memory format, layout or device; or the name of an operator.

    Attributes:
        kind: Kind of the argument: memory format, layout, device, object or operator.
        text: Name of the operator, of the object's class, or else the JSON value as text, for messages.
    """

    kind: str
    text: str


@dataclass(frozen=True)
class Symbolic:
    """Size that is an expression over symbols, as text in sympy's format, such as `2*s0 + 1`."""

    text: str


Argument = Union[
    None,
    bool,
    int,
    float,
    complex,
    str,
    DType,
    ValueName,
    OpaqueArgument,
    "ExportedGraph",
    "tuple[Argument, ...]",
    "dict[str, Argument]",
]
"""Argument of an operator, input or output of a graph: a constant, a reference to a value, or a nested graph."""
SizeText = int | Symbolic
"""Size in the file: a number, or an expression."""


@dataclass(frozen=True)
class TensorMeta:
    """Type and layout of a tensor, as an exported program of PyTorch states them.

    Attributes:
        dtype: Element type.
        sizes: Size of each axis.
        strides: Distance of neighbours along each axis in the storage, in elements.
        offset: Index of the first element in the storage.
    """

    dtype: DType
    sizes: tuple[SizeText, ...]
    strides: tuple[SizeText, ...]
    offset: SizeText


@dataclass(frozen=True)
class ExportedNode:
    """Node of a graph of an exported program: the call of an operator.

    Attributes:
        target: Name of the operator, such as `torch.ops.aten.add.Tensor`.
        positional: Positional arguments.
        parameters: Parameter name of each positional argument; "" if it is not known.
        keywords: Keyword arguments, by parameter name.
        results: Name of each result; a tuple of names for a list of tensors; None or a constant if it has no name.
        name: Name of the node.
        module: Path of the module that contains the call, such as `layer1.0.conv2`; "" if it is not known.
        line: Line of the stack trace with the location in the model's sources, for messages; "" if it is not known.
    """

    target: str
    positional: tuple[Argument, ...]
    parameters: tuple[str, ...]
    keywords: dict[str, Argument]
    results: tuple[Argument, ...]
    name: str
    module: str
    line: str


@dataclass(frozen=True)
class ExportedGraph:
    """Graph of an exported program: its operator calls, inputs and outputs.

    Attributes:
        inputs: Names of its arguments. An input may also be a constant: then no node reads the value passed for it.
        outputs: Returned values: names of values, tuples of names, or constants.
        nodes: Calls of operators, in the order in which they run.
        tensors: Types of values that are tensors, by name.
        numbers: Values that are sizes: a number or an expression of symbols, by the name of the value.
    """

    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    nodes: tuple[ExportedNode, ...]
    tensors: dict[str, TensorMeta]
    numbers: dict[str, SizeText]


@dataclass(frozen=True)
class GraphInput:
    """Input of the main graph, as the signature describes it.

    Attributes:
        kind: user_input, parameter, buffer, tensor_constant or constant_input; token, an empty tensor that orders
            effects; or size, the size of another input.
        argument: Name of the input in the graph; for a user_input it may be a constant.
        target: Name in the model of a parameter, buffer or tensor_constant; "" for other kinds.
        value: Value of a constant_input; None for other kinds.
    """

    kind: str
    argument: Argument
    target: str = ""
    value: Argument = None


@dataclass(frozen=True)
class GraphOutput:
    """Output of the main graph, as the signature describes it.

    Attributes:
        kind: user_output; token, which orders effects; or buffer_mutation, parameter_mutation, user_input_mutation,
            gradient_to_parameter, gradient_to_user_input.
        argument: Name of the output in the graph; for a user_output it may be a constant.
        target: Name of the buffer, parameter or input that is updated with this value, or whose gradient it is; "" for
            other kinds.
    """

    kind: str
    argument: Argument
    target: str = ""


@dataclass(frozen=True)
class SymbolRange:
    """Inclusive bounds of a size; None means unbounded."""

    least: int | None
    most: int | None


@dataclass(frozen=True)
class ExportedProgram:
    """Exported program of PyTorch, the contents of models/model.json in a `.pt2` file.

    Attributes:
        graph: The main graph.
        inputs: Kind of each input of the graph, in the graph's order: an argument of the model, a weight, and so on.
        outputs: Kind of each output of the graph, in the graph's order.
        ranges: Bounds of sizes, by their symbols.
        guards: Conditions on sizes, as code of Python, that the exporter assumed.
        names: Names of the model's arguments; empty if the file does not state them.
        torch_version: Version of PyTorch that exported the model; "unknown" if the file does not state it.
        size_names: Names that the user gave sizes (`torch.export.Dim`), by their symbols. Empty for a `.pt2` file: it
            does not have them.
    """

    graph: ExportedGraph
    inputs: tuple[GraphInput, ...]
    outputs: tuple[GraphOutput, ...]
    ranges: dict[str, SymbolRange]
    guards: tuple[str, ...]
    names: tuple[str, ...]
    torch_version: str
    size_names: Mapping[str, str] = field(default_factory=dict)
