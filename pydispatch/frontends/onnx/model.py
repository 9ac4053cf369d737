"""Dataclasses for the protobuf messages of an ONNX file. Only the fields that the compiler reads are declared, with
their field numbers from onnx.proto.
"""

# ruff: noqa: RUF009 (the calls in these classes declare fields)

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pydispatch.frontends.onnx.protobuf import BYTES, DOUBLE, FLOAT, INT, TEXT, Message, many, message, messages, one


@dataclass
class StringStringEntryProto(Message):
    """A key and a value, both strings."""

    key: str = one(1, TEXT)
    value: str = one(2, TEXT)


@dataclass
class OperatorSetIdProto(Message):
    """An imported operator set: its domain and version. The domains "" and "ai.onnx" are the same."""

    domain: str = one(1, TEXT)
    version: int = one(2, INT)


@dataclass
class TensorProto(Message):
    """A tensor. Its elements are in exactly one of the data fields, or in an external file next to the model.

    `one` declares a field with a single value, `many` and `messages` a repeated field; the first argument is the field
    number. `tensors.array_of` reads the elements.
    """

    dims: np.ndarray[Any, Any] = many(1, INT)  # sizes of the axes
    data_type: int = one(2, INT)  # code of the element type (`tensors.dtype_of`)
    float_data: np.ndarray[Any, Any] = many(4, FLOAT)  # elements of f32, and of c64 as pairs
    int32_data: np.ndarray[Any, Any] = many(5, INT)  # elements of types that have no field of their own
    string_data: list[Any] = many(6, BYTES)  # not supported
    int64_data: np.ndarray[Any, Any] = many(7, INT)  # elements of i64
    name: str = one(8, TEXT)
    raw_data: memoryview = one(9, BYTES)  # elements of any type as little-endian bytes
    double_data: np.ndarray[Any, Any] = many(10, DOUBLE)  # elements of f64, and of c128 as pairs
    uint64_data: np.ndarray[Any, Any] = many(11, INT)  # elements of u32 and u64
    # Location of the elements in an external file: entries with the keys "location", "offset" and "length".
    external_data: list[StringStringEntryProto] = messages(13, lambda: StringStringEntryProto)
    data_location: int = one(14, INT)  # 1 if the elements are in an external file


@dataclass
class SparseTensorProto(Message):
    """A sparse tensor. Only the name of its values is read, for the error message that refuses it."""

    values: TensorProto | None = message(1, lambda: TensorProto)


@dataclass
class DimensionProto(Message):
    """The size of one axis: a number (the last `dim_value`, if it is repeated), a symbolic name, or unknown."""

    dim_value: np.ndarray[Any, Any] = many(1, INT)
    dim_param: str = one(2, TEXT)


@dataclass
class TensorShapeProto(Message):
    """The shape of a tensor: one dimension per axis."""

    dim: list[DimensionProto] = messages(1, lambda: DimensionProto)


@dataclass
class TensorTypeProto(Message):
    """The element type and shape of a tensor. A `shape` of None means that the rank is unknown."""

    elem_type: int = one(1, INT)
    shape: TensorShapeProto | None = message(2, lambda: TensorShapeProto)


@dataclass
class OtherTypeProto(Message):
    """Any type other than a dense tensor. Its contents are not read; only its presence matters."""


@dataclass
class TypeProto(Message):
    """The type of a value. Exactly one of the fields is set."""

    tensor_type: TensorTypeProto | None = message(1, lambda: TensorTypeProto)
    sequence_type: OtherTypeProto | None = message(4, lambda: OtherTypeProto)
    map_type: OtherTypeProto | None = message(5, lambda: OtherTypeProto)
    opaque_type: OtherTypeProto | None = message(7, lambda: OtherTypeProto)
    sparse_tensor_type: OtherTypeProto | None = message(8, lambda: OtherTypeProto)
    optional_type: OtherTypeProto | None = message(9, lambda: OtherTypeProto)


@dataclass
class ValueInfoProto(Message):
    """The name of a value and its declared type."""

    name: str = one(1, TEXT)
    type: TypeProto | None = message(2, lambda: TypeProto)


@dataclass
class AttributeProto(Message):
    """A constant attribute of a node. `type` is the code of the field that holds the value (`call.type_of`), 0 in files
    of old versions. Inside a function, `ref_attr_name` may instead refer to an attribute of the calling node.
    """

    name: str = one(1, TEXT)
    f: float = one(2, FLOAT)
    i: int = one(3, INT)
    s: memoryview = one(4, BYTES)
    t: TensorProto | None = message(5, lambda: TensorProto)
    g: GraphProto | None = message(6, lambda: GraphProto)
    floats: np.ndarray[Any, Any] = many(7, FLOAT)
    ints: np.ndarray[Any, Any] = many(8, INT)
    strings: list[memoryview] = many(9, BYTES)
    tensors: list[TensorProto] = messages(10, lambda: TensorProto)
    graphs: list[GraphProto] = messages(11, lambda: GraphProto)
    type: int = one(20, INT)
    ref_attr_name: str = one(21, TEXT)
    sparse_tensor: SparseTensorProto | None = message(22, lambda: SparseTensorProto)


@dataclass
class NodeProto(Message):
    """A call of an operator, or of the model's own function with this name, domain and `overload`. The name "" in
    `input` or `output` marks an optional operand or result that is omitted.
    """

    input: list[str] = many(1, TEXT)
    output: list[str] = many(2, TEXT)
    name: str = one(3, TEXT)
    op_type: str = one(4, TEXT)
    attribute: list[AttributeProto] = messages(5, lambda: AttributeProto)
    domain: str = one(7, TEXT)
    overload: str = one(8, TEXT)


@dataclass
class GraphProto(Message):
    """A graph. Its nodes are in topological order: each node follows the producers of its operands.

    `initializer` has constants by their names; one with the name of an input is that input's default. `value_info` has
    the types of other values, as far as the file states them.
    """

    node: list[NodeProto] = messages(1, lambda: NodeProto)
    name: str = one(2, TEXT)
    initializer: list[TensorProto] = messages(5, lambda: TensorProto)
    input: list[ValueInfoProto] = messages(11, lambda: ValueInfoProto)
    output: list[ValueInfoProto] = messages(12, lambda: ValueInfoProto)
    value_info: list[ValueInfoProto] = messages(13, lambda: ValueInfoProto)
    sparse_initializer: list[SparseTensorProto] = messages(15, lambda: SparseTensorProto)


@dataclass
class FunctionProto(Message):
    """An operator that is defined in the model itself, by a list of nodes.

    `attribute` names its attributes without defaults, `attribute_proto` has those with defaults. Functions of the same
    name and domain differ in `overload`.
    """

    name: str = one(1, TEXT)
    input: list[str] = many(4, TEXT)
    output: list[str] = many(5, TEXT)
    attribute: list[str] = many(6, TEXT)
    node: list[NodeProto] = messages(7, lambda: NodeProto)
    opset_import: list[OperatorSetIdProto] = messages(9, lambda: OperatorSetIdProto)
    domain: str = one(10, TEXT)
    attribute_proto: list[AttributeProto] = messages(11, lambda: AttributeProto)
    overload: str = one(13, TEXT)


@dataclass
class ModelProto(Message):
    """The root message of an ONNX file: a graph, model-local functions, and the imported operator sets."""

    ir_version: int = one(1, INT)
    producer_name: str = one(2, TEXT)
    graph: GraphProto | None = message(7, lambda: GraphProto)
    opset_import: list[OperatorSetIdProto] = messages(8, lambda: OperatorSetIdProto)
    functions: list[FunctionProto] = messages(25, lambda: FunctionProto)
