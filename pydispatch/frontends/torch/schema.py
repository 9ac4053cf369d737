"""Typed data of an exported program of torch.export.

A program is a graph of nodes in topological order. A node calls an operator (`torch.ops.aten.add.Tensor`) with
constants, names of values, and lists of both. A value is an input of the graph or a result of an earlier node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from pydispatch.graph.dtypes import DType


@dataclass(frozen=True)
class ValueName:
    """Reference to a value of the graph: a tensor, or a number that depends on sizes."""

    name: str


@dataclass(frozen=True)
class OpaqueArgument:
    """Argument that does not affect the result, such as a memory format, layout or device; or the name of an operator.

    `kind` is its tag in the file.
    """

    kind: str
    text: str


@dataclass(frozen=True)
class Symbolic:
    """Size that is an expression over symbols, as text in sympy's format."""

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
SizeText = int | Symbolic


@dataclass(frozen=True)
class TensorMeta:
    """Type and layout of a tensor in the file.

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
    """Call of an operator.

    Attributes:
        target: Name of the operator.
        positional: Positional arguments.
        parameters: Names of the positional arguments.
        keywords: Keyword arguments.
        results: Names of the results; an operator that returns a list has a tuple of names.
        name: Name of the node.
        module: Path of the module that contains the call.
        line: Location in the model's sources, for messages.
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
    """Graph of operator calls.

    Attributes:
        inputs: Names of its arguments.
        outputs: What it returns: names of values, or constants.
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
        argument: Name of the input in the graph.
        target: Name in the model, for weights.
        value: Value, for a constant_input.
    """

    kind: str
    argument: Argument
    target: str = ""
    value: Argument = None


@dataclass(frozen=True)
class GraphOutput:
    """Output of the main graph, as the signature describes it.

    Attributes:
        kind: user_output, token, buffer_mutation, parameter_mutation or user_input_mutation.
        argument: Name of the output in the graph.
        target: The buffer, parameter or input that is updated with this value.
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
    """Contents of models/model.json.

    Attributes:
        graph: The main graph.
        inputs: What each of its inputs is, such as an argument of the model or a weight.
        outputs: What each of its outputs is.
        ranges: Bounds of sizes, by their symbols.
        guards: Conditions on sizes, as code of Python, that the exporter assumed.
        names: Names of the model's arguments if the file states them.
        torch_version: Version of PyTorch that exported the model.
    """

    graph: ExportedGraph
    inputs: tuple[GraphInput, ...]
    outputs: tuple[GraphOutput, ...]
    ranges: dict[str, SymbolRange]
    guards: tuple[str, ...]
    names: tuple[str, ...]
    torch_version: str
