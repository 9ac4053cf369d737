"""The messages of an ONNX file, with the fields that a compiler asks for. Numbers of fields are those of onnx.proto."""

# ruff: noqa: RUF009 (the calls in these classes declare fields)

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pydispatch.frontends.onnx.protobuf import BYTES, DOUBLE, FLOAT, INT, TEXT, Message, many, message, messages, one


@dataclass
class Entry(Message):
    """A pair of texts."""

    key: str = one(1, TEXT)
    value: str = one(2, TEXT)


@dataclass
class Opset(Message):
    """A domain ("" and "ai.onnx" are the same) and the version of its operators that a model uses."""

    domain: str = one(1, TEXT)
    version: int = one(2, INT)


@dataclass
class Tensor(Message):
    """Elements in one of the fields for data, or in a file beside the model."""

    dims: np.ndarray[Any, Any] = many(1, INT)
    data_type: int = one(2, INT)
    float_data: np.ndarray[Any, Any] = many(4, FLOAT)
    int32_data: np.ndarray[Any, Any] = many(5, INT)
    string_data: list[Any] = many(6, BYTES)
    int64_data: np.ndarray[Any, Any] = many(7, INT)
    name: str = one(8, TEXT)
    raw_data: memoryview = one(9, BYTES)
    double_data: np.ndarray[Any, Any] = many(10, DOUBLE)
    uint64_data: np.ndarray[Any, Any] = many(11, INT)
    external_data: list[Entry] = messages(13, lambda: Entry)
    data_location: int = one(14, INT)


@dataclass
class SparseTensor(Message):
    """Elements with their places; only its name is looked at."""

    values: Tensor | None = message(1, lambda: Tensor)


@dataclass
class Dimension(Message):
    """A size: a number (the last of `dim_value`), a name, or neither."""

    dim_value: np.ndarray[Any, Any] = many(1, INT)
    dim_param: str = one(2, TEXT)


@dataclass
class Shape(Message):
    """The sizes of a tensor."""

    dim: list[Dimension] = messages(1, lambda: Dimension)


@dataclass
class TensorType(Message):
    """An element type and a shape; None is an unknown rank."""

    elem_type: int = one(1, INT)
    shape: Shape | None = message(2, lambda: Shape)


@dataclass
class Other(Message):
    """A type that is none of a tensor; only that it is there matters."""


@dataclass
class Type(Message):
    """The type of a value: one of the fields."""

    tensor_type: TensorType | None = message(1, lambda: TensorType)
    sequence_type: Other | None = message(4, lambda: Other)
    map_type: Other | None = message(5, lambda: Other)
    opaque_type: Other | None = message(7, lambda: Other)
    sparse_tensor_type: Other | None = message(8, lambda: Other)
    optional_type: Other | None = message(9, lambda: Other)


@dataclass
class ValueInfo(Message):
    """The name and type of a value."""

    name: str = one(1, TEXT)
    type: Type | None = message(2, lambda: Type)


@dataclass
class Attribute(Message):
    """A constant of a node, in the field that `type` names; `ref_attr_name` in a function stands for one of its
    caller."""

    name: str = one(1, TEXT)
    f: float = one(2, FLOAT)
    i: int = one(3, INT)
    s: memoryview = one(4, BYTES)
    t: Tensor | None = message(5, lambda: Tensor)
    g: Graph | None = message(6, lambda: Graph)
    floats: np.ndarray[Any, Any] = many(7, FLOAT)
    ints: np.ndarray[Any, Any] = many(8, INT)
    strings: list[memoryview] = many(9, BYTES)
    tensors: list[Tensor] = messages(10, lambda: Tensor)
    graphs: list[Graph] = messages(11, lambda: Graph)
    type: int = one(20, INT)
    ref_attr_name: str = one(21, TEXT)
    sparse_tensor: SparseTensor | None = message(22, lambda: SparseTensor)


@dataclass
class Node(Message):
    """A call of an operator; "" among the inputs and outputs is one that is left out."""

    input: list[str] = many(1, TEXT)
    output: list[str] = many(2, TEXT)
    name: str = one(3, TEXT)
    op_type: str = one(4, TEXT)
    attribute: list[Attribute] = messages(5, lambda: Attribute)
    domain: str = one(7, TEXT)
    overload: str = one(8, TEXT)


@dataclass
class Graph(Message):
    """Nodes in an order in which each comes after what it uses."""

    node: list[Node] = messages(1, lambda: Node)
    name: str = one(2, TEXT)
    initializer: list[Tensor] = messages(5, lambda: Tensor)
    input: list[ValueInfo] = messages(11, lambda: ValueInfo)
    output: list[ValueInfo] = messages(12, lambda: ValueInfo)
    value_info: list[ValueInfo] = messages(13, lambda: ValueInfo)
    sparse_initializer: list[SparseTensor] = messages(15, lambda: SparseTensor)


@dataclass
class Function(Message):
    """An operator that the model itself defines."""

    name: str = one(1, TEXT)
    input: list[str] = many(4, TEXT)
    output: list[str] = many(5, TEXT)
    attribute: list[str] = many(6, TEXT)
    node: list[Node] = messages(7, lambda: Node)
    opset_import: list[Opset] = messages(9, lambda: Opset)
    domain: str = one(10, TEXT)
    attribute_proto: list[Attribute] = messages(11, lambda: Attribute)
    overload: str = one(13, TEXT)


@dataclass
class Model(Message):
    """A file: a graph, functions, and the versions of the operators that they use."""

    ir_version: int = one(1, INT)
    producer_name: str = one(2, TEXT)
    graph: Graph | None = message(7, lambda: Graph)
    opset_import: list[Opset] = messages(8, lambda: Opset)
    functions: list[Function] = messages(25, lambda: Function)
