"""Conversion of torch.fx graphs to the typed data of schema.py. PyTorch is not imported; its objects are inspected."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydispatch.frontends.torch.archive import StoredArray
from pydispatch.frontends.torch.json_value import ProgramFault
from pydispatch.frontends.torch.schema import (
    Argument,
    ExportedGraph,
    ExportedNode,
    OpaqueArgument,
    SizeText,
    Symbolic,
    TensorMeta,
    ValueName,
)
from pydispatch.graph.dtypes import DTYPES, DType

_DTYPES = {
    "uint8": "u8", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "float16": "f16", "float32": "f32",
    "float64": "f64", "complex64": "c64", "complex128": "c128", "bool": "bool", "bfloat16": "bf16", "uint16": "u16",
    "uint32": "u32", "uint64": "u64", "float8_e4m3fn": "f8E4M3FN", "float8_e5m2": "f8E5M2",
    "float8_e4m3fnuz": "f8E4M3FNUZ", "float8_e5m2fnuz": "f8E5M2FNUZ", "float8_e8m0fnu": "f8E8M0FNU",
}  # fmt: skip
"""PyTorch's names of element types -> the names of DTYPES."""

_CONSTANT_TYPES = (bool, int, float, complex, str)
"""Python types whose values become arguments in the typed data unchanged."""


def dtype_of(dtype: Any) -> DType:
    """Return the DType of a torch.dtype. Raise ProgramFault if it is not supported."""
    name = str(dtype).removeprefix("torch.")
    if name not in _DTYPES:
        raise ProgramFault(f"element type {name} is not supported")
    return DTYPES[_DTYPES[name]]


def graph_of(module: Any) -> tuple[ExportedGraph, dict[str, StoredArray]]:
    """Return the graph of a `torch.fx.GraphModule`, and the tensors that the module holds, by the names of their
    inputs.

    Each tensor of the module becomes an input of the graph, after the inputs of `forward`. Nodes must have example
    values in `node.meta["val"]`, tensors without elements that state types and shapes.
    """
    reader = _GraphReader(module)
    return reader.graph(), reader.constants


def name_of(node: Any) -> ValueName:
    """Return the name of a node's tensor in the graph; for a node that selects result n of `node`, `node.n`."""
    source: Any = node.args[0] if node.args else None
    if isinstance(getattr(source, "meta", {}).get("val"), (tuple, list)):  # the node selects one of several results
        return ValueName(f"{source.name}.{node.args[1]}")
    return ValueName(node.name)


class _GraphReader:
    """Reader that converts one GraphModule of torch.fx to the data of `schema.py`, in tables that `graph` fills."""

    def __init__(self, module: Any) -> None:
        """Create a reader of the GraphModule `module`. Its tables are empty until `graph` is called."""
        self.module = module
        self.constants: dict[str, StoredArray] = {}  # name of a node that reads a tensor of the module -> its elements
        self.selections: dict[Any, Argument] = {}  # node that selects one of several results -> name of that result
        self.tensors: dict[str, TensorMeta] = {}  # name of a node -> type of its result
        self.numbers: dict[str, SizeText] = {}  # name of a node that is a number -> the number

    def graph(self) -> ExportedGraph:
        """Return the graph of the module. Its inputs are the placeholders, then the tensors that the module holds.

        Nodes that select one of several results (getitem) are left out: arguments name that result directly. Raise
        ProgramFault for nodes of unknown kinds.
        """
        inputs: list[Argument] = []
        outputs: Argument = ()
        nodes: list[ExportedNode] = []
        # `_node` records the getitem nodes that select its results in `selections`, before the loop reaches them. The
        # conversion of arguments records the tensors of the module in `constants`.
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                self._describe(node.name, node.meta.get("val"))
                inputs.append(ValueName(node.name))
            elif node.op == "output":
                outputs = self._argument(node.args[0])
            elif node.op == "call_function" and node not in self.selections:
                nodes.append(self._node(node))
            elif node.op not in ("get_attr", "call_function"):
                raise ProgramFault(f"node '{node.name}' is a '{node.op}', which is not supported")
        inputs += map(ValueName, self.constants)
        output_list = outputs if isinstance(outputs, tuple) else (outputs,)
        return ExportedGraph(
            inputs=tuple(inputs), outputs=output_list, nodes=tuple(nodes), tensors=self.tensors, numbers=self.numbers
        )

    def _node(self, node: Any) -> ExportedNode:
        """Return one call as an ExportedNode, with its module path and source line from the node's metadata.

        The path is that of the innermost module that contains the call, the line that of the innermost stack frame: the
        last entries of the metadata. Either is "" if the metadata lacks it.
        """
        stack = node.meta.get("nn_module_stack") or {}
        path = next(reversed(stack.values()))[0] if stack else ""
        lines = str(node.meta.get("stack_trace") or "").splitlines()
        frames = [line.strip() for line in lines if line.lstrip().startswith("File ")]
        positional = tuple(self._argument(a) for a in node.args)
        return ExportedNode(
            target=_target(node.target),
            positional=positional,
            parameters=_parameters(node.target, len(positional)),
            keywords={key: self._argument(a) for key, a in node.kwargs.items()},
            results=self._results(node),
            name=node.name,
            module=_module_path(path),
            line=frames[-1] if frames else "",
        )

    def _results(self, node: Any) -> tuple[Argument, ...]:
        """Return the names of a node's results.

        A single result has the name of the node; result n of several is called `<name of the node>.n`. The nodes that
        select one of several results (getitem) are recorded in `selections`. If the operator returns a list, the return
        value is one item: the tuple of the names in the list.

        Raise ProgramFault if a node takes all results at once, instead of selecting one.
        """
        value = node.meta.get("val")
        if not isinstance(value, (tuple, list)):
            self._describe(node.name, value)
            return (ValueName(node.name),)
        names = tuple(ValueName(f"{node.name}.{n}") for n in range(len(value)))
        for name, item in zip(names, value, strict=True):
            self._describe(name.name, item)
        for user in node.users:
            if _target(user.target) != "_operator.getitem":
                raise ProgramFault(
                    f"node '{user.name}' takes all results of '{node.name}' at once, which is not supported"
                )
            self.selections[user] = names[user.args[1]]  # getitem(node, index)
        returns: Sequence[Any] = getattr(getattr(node.target, "_schema", None), "returns", ())
        is_list = len(returns) == 1 and "List" in str(returns[0].type)
        return (names,) if is_list else names

    def _describe(self, name: str, value: Any) -> None:
        """Record the type of a tensor, or the value of a size, under its name; nothing for other example values."""
        if hasattr(value, "dtype") and hasattr(value, "shape"):
            sizes = tuple(_size(n) for n in value.shape)
            strides = tuple(_size(n) for n in value.stride())
            self.tensors[name] = TensorMeta(dtype_of(value.dtype), sizes, strides, _size(value.storage_offset()))
        elif hasattr(value, "node") or (isinstance(value, int) and not isinstance(value, bool)):  # a SymInt has a node
            self.numbers[name] = _size(value)

    def _argument(self, value: Any) -> Argument:
        """Return an argument of a node as typed data; an OpaqueArgument if it is of no known kind."""
        if value is None or isinstance(value, _CONSTANT_TYPES):
            return value
        if isinstance(value, (tuple, list)):
            return tuple(self._argument(item) for item in value)
        if isinstance(value, Mapping):
            return {str(key): self._argument(item) for key, item in value.items()}
        if hasattr(value, "op") and hasattr(value, "graph"):  # a torch.fx.Node
            return self._node_argument(value)
        kind = type(value).__name__
        if kind == "dtype":
            return dtype_of(value)
        if kind == "SymInt" and isinstance(size := _size(value), int):  # a symbolic size whose value is known
            return size
        return OpaqueArgument(kind, str(value))

    def _node_argument(self, node: Any) -> Argument:
        """Return the argument that stands for `node`, an operand of another node.

        - A node that selects one of several results (getitem): the name of that result, such as `split.1`.
        - A get_attr node, which reads an attribute of the module: the graph of a nested GraphModule, such as a branch
          of `cond`; for a tensor the node's name, under which the tensor is recorded in `constants`.
        - Any other node: its name.

        Raise ProgramFault for a nested graph that holds tensors of its own.
        """
        if node.op != "get_attr":
            return self.selections.get(node) or ValueName(node.name)
        attribute = self.module
        for name_in_path in node.target.split("."):
            attribute = getattr(attribute, name_in_path)
        if hasattr(attribute, "graph"):
            graph, constants = graph_of(attribute)
            if constants:  # they would be inputs of the nested graph, for which its node has no operands
                name = next(iter(constants))
                raise ProgramFault(f"node '{node.name}' is a graph that holds a tensor, '{name}'; make it an operand")
            return graph
        if node.name not in self.constants:
            self._describe(node.name, attribute)
            self.constants[node.name] = _elements(attribute)
        return ValueName(node.name)


def _elements(tensor: Any) -> StoredArray:
    """Return a copy of the elements of a PyTorch tensor, row-major, with pending conjugations and negations applied."""
    dtype, torch = dtype_of(tensor.dtype), importlib.import_module("torch")
    modes = importlib.import_module("torch.utils._python_dispatch")
    with modes._disable_current_modes():  # backends are called in a mode in which tensors have no elements
        flat = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
        raw = flat.view(torch.uint8).numpy().copy()  # as bytes, because NumPy lacks types such as bfloat16
    return StoredArray(dtype, raw.view(dtype.numpy).reshape(tuple(tensor.shape)))


def _size(n: Any) -> SizeText:
    """Return a size of an example value, an int or SymInt: a number, or sympy's expression as text."""
    if isinstance(n, int) and not hasattr(n, "node"):  # a SymInt has a node, with its expression
        return n
    expression = n.node.expr
    return int(expression) if expression.is_number else Symbolic(_text(expression))


def _text(expression: Any) -> str:
    """Return a sympy expression as text in the format of `.pt2` files."""
    return str(importlib.import_module("sympy").srepr(expression))


def _target(target: Any) -> str:
    """Return the name of an operator or function as `.pt2` files spell it.

    Examples are `torch.ops.aten.add.Tensor`, `torch.ops.higher_order.cond`, `torch.sym_max` and `_operator.getitem`.
    """
    if hasattr(target, "_schema"):  # an OpOverload, whose text is `aten.add.Tensor`
        return f"torch.ops.{target}"
    if hasattr(target, "namespace") and str(getattr(target, "namespace", "")) == "higher_order":
        return f"torch.ops.higher_order.{target}"
    module = getattr(target, "__module__", "") or ""
    return f"{'torch' if module.startswith('torch') else module}.{getattr(target, '__name__', target)}"


def _parameters(target: Any, count: int) -> tuple[str, ...]:
    """Return the names of the first `count` parameters of an operator; "" for those that its schema lacks."""
    arguments: Sequence[Any] = getattr(getattr(target, "_schema", None), "arguments", ())
    return tuple(a.name for a in arguments[:count]) + ("",) * (count - len(arguments))


def _module_path(path: str) -> str:
    """Return the dotted path of a module for fx's spellings `L['self'].layer1[0]` and `L__self___layer1`."""
    text = re.sub(r"^L\['\w+'\]", "", path).replace("['", ".").replace("']", "")
    # A module that is called again has a suffix such as @1.
    return text.replace("[", ".").replace("]", "").partition("@")[0].strip(".")
