"""Walks an exported program once, in order, and writes what each node computes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydispatch.errors import CompileError
from pydispatch.frontends.graph.builder import Builder
from pydispatch.frontends.graph.faults import guarded
from pydispatch.frontends.graph.sizes import Expr, Size, UndecidedError, is_static
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.ops import elementwise, shapes
from pydispatch.frontends.ops.custom import custom_call
from pydispatch.frontends.torch.arguments import ArgumentError, bind, shown
from pydispatch.frontends.torch.expressions import evaluate, symbol_name
from pydispatch.frontends.torch.memory import TensorMemory, TensorView
from pydispatch.frontends.torch.schema import Argument, ExportedGraph, ExportedNode, TensorMeta, ValueName

Conversion = Callable[..., Any]
"""function(tracer, arguments of the operator...) -> what the node gives: a tensor, a number, or several of them."""

Inverse = Callable[..., Tensor]
"""function(tracer, whole, written, number of the result, arguments after the first...) -> the whole after the write."""

_ATEN = "torch.ops."
_OWN = ("aten.", "prims.", "_operator.", "higher_order.", "math.", "torch.", "builtins.")


class Tracer:
    """Translator of the graphs of one program into builder calls.

    Attributes:
        conversions: conversions by the name of the operator, `aten.sum.dim_IntList`, or `aten.sum` for all overloads.
        views: operators whose results are views of their first argument, with the inverse of the view; None if the
            result may be a copy.
        symbols: sizes of the arguments, by the symbols in the file.
        kernels: operators of other libraries for which the user supplies kernels, for example `torchvision::nms`.
    """

    def __init__(
        self, builder: Builder, conversions: Mapping[str, Conversion], views: Mapping[str, Inverse | None],
        symbols: dict[str, Size], kernels: Collection[str] = (),
    ) -> None:  # fmt: skip
        self.b = builder
        self.conversions = conversions
        self.views = views
        self.symbols = symbols
        self.kernels = frozenset(kernels)

    def graph(self, graph: ExportedGraph, inputs: Sequence[Any]) -> list[Any]:
        """Write a graph. inputs: a tensor, memory or number for each of its inputs. Gives its outputs, with memory."""
        values: dict[str, Any] = {}
        for argument, value in zip(graph.inputs, inputs, strict=True):
            if isinstance(argument, ValueName):
                memory = TensorMemory(value) if isinstance(value, Tensor) else value
                if isinstance(memory, TensorMemory):
                    memory.layout = graph.tensors.get(argument.name)
                values[argument.name] = memory
        for node in graph.nodes:
            with self.b.at(f"{node.module}.{node.name}" if node.module else node.name):
                self._node(graph, node, values)
        return [self._value(output, values, graph) for output in graph.outputs]

    def tensors(self, graph: ExportedGraph, inputs: Sequence[Any]) -> list[Tensor]:
        """Write a graph whose outputs are all tensors, and return its outputs. CompileError for other outputs."""
        outputs = [
            output.tensor if isinstance(output, TensorMemory) else output for output in self.graph(graph, inputs)
        ]
        for output in outputs:
            if not isinstance(output, Tensor):
                raise self.b.fail(f"a graph gives {shown(output)}; expected a tensor")
        return outputs

    # -- nodes

    def _node(self, graph: ExportedGraph, node: ExportedNode, values: dict[str, Any]) -> None:
        """Write a node. Whatever a file can make wrong in it is a CompileError that names it."""
        operator = node.target.removeprefix(_ATEN)
        positional = [self._value(argument, values, graph) for argument in node.positional]
        keywords = {name: self._value(argument, values, graph) for name, argument in node.keywords.items()}
        operands = [*positional, *keywords.values()]
        stated = (UndecidedError, ArgumentError)
        with guarded(self.b, operator, lambda: ", ".join(map(shown, operands)), stated, node.line or None):
            if self._is_custom(operator):
                results = self._custom(graph, node, positional, keywords)
            else:
                results = self._call(operator, positional, keywords)
            self._define(graph, node, results, values)

    def _call(self, operator: str, positional: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[Any, ...]:
        conversion, in_place = self._conversion(operator, positional, keywords)
        bound = bind(conversion, self, positional, keywords)
        converted = conversion(*bound.args, **bound.kwargs)
        results = converted if isinstance(converted, tuple) else (converted,)
        if in_place:
            memory = positional[0] if positional else None
            if not isinstance(memory, TensorMemory):
                raise ArgumentError("its first argument is no tensor that could be written")
            memory.write(self._as_written(results[0], memory.tensor))
            return (memory,)
        name = _without_overload(operator)
        if name in self.views and positional and isinstance(positional[0], TensorMemory):
            return self._as_views(name, conversion, positional[0], bound.args, bound.kwargs, results)
        return results

    def _conversion(
        self, operator: str, positional: Sequence[Any], keywords: Mapping[str, Any]
    ) -> tuple[Conversion, bool]:
        """Return the conversion of an operator, and whether its result is written to its first argument."""
        name = _without_overload(operator)
        for key in (operator, name):
            if key in self.conversions:
                return self.conversions[key], False
        if writes(operator):
            for key in (operator.replace(f"{name}.", f"{name[:-1]}.", 1), name[:-1]):
                if key in self.conversions:
                    return self.conversions[key], True
        operands = ", ".join(shown(value) for value in (*positional, *keywords.values()))
        raise self.b.fail(
            f"operator {operator}({operands}) is not supported",
            "`program.run_decompositions()`, before it is saved, may express it by others",
        )

    def _is_custom(self, operator: str) -> bool:
        name = _without_overload(operator)
        if operator.startswith(_OWN):
            return False
        return _qualified(name) in self.kernels or (name not in self.conversions and operator not in self.conversions)

    def _custom(
        self, graph: ExportedGraph, node: ExportedNode, positional: Sequence[Any], keywords: Mapping[str, Any]
    ) -> tuple[Any, ...]:
        """Call a user's kernel, and return the results with the types that the file states."""
        name = _qualified(_without_overload(node.target))
        arguments = {**dict(zip(node.parameters, positional, strict=True)), **keywords}
        tensors = {key: value.tensor for key, value in arguments.items() if isinstance(value, TensorMemory)}
        numbers = {key: value for key, value in arguments.items() if isinstance(value, (bool, int, float))}
        for key, value in arguments.items():
            if key not in tensors and key not in numbers and value is not None:
                raise self.b.fail(f"operator {name}: '{key}' is {shown(value)}; kernels take tensors and numbers")
        results = []
        for target in node.results:
            meta = graph.tensors.get(target.name) if isinstance(target, ValueName) else None
            if meta is None:
                raise self.b.fail(f"operator {name} gives what is no tensor")
            shape = [evaluate(n, self.symbols) for n in meta.sizes]
            if any(n is None for n in shape):
                raise self.b.fail(f"operator {name} gives a tensor whose size it decides, which is not supported")
            results.append((meta.dtype, tuple(n for n in shape if n is not None)))
        return tuple(custom_call(self.b, name, list(tensors.values()), results, numbers, list(tensors)))

    def _as_written(self, value: Tensor, there: Tensor) -> Tensor:
        return shapes.broadcast_to(self.b, elementwise.convert(self.b, value, there.dtype), there.shape)

    def _as_views(
        self, name: str, conversion: Conversion, base: TensorMemory, args: Sequence[Any], kwargs: Mapping[str, Any],
        results: Sequence[Any],
    ) -> tuple[Any, ...]:  # fmt: skip
        """Return the results of an operator as views of its first argument."""
        inverse, rest = self.views[name], args[2:]
        several = len(results) == 1 and isinstance(results[0], list)

        def view(output_index: int, tensor: Tensor) -> TensorView:
            def take(whole: Tensor) -> Tensor:
                outputs = conversion(self, whole, *rest, **kwargs)
                return outputs[output_index] if isinstance(outputs, (list, tuple)) else outputs

            put = None if inverse is None else (
                lambda whole, written: inverse(self, whole, written, output_index, *rest, **kwargs)
            )  # fmt: skip
            return TensorView(base, tensor, take, put, self._unclear)

        if several:
            return ([view(n, tensor) for n, tensor in enumerate(results[0])],)
        return tuple(view(n, tensor) for n, tensor in enumerate(results))

    def _unclear(self) -> CompileError:
        return self.b.fail(
            "memory is written in place that by its strides may or may not be shared with another tensor",
            "export the model with `program.run_decompositions()`, which leaves nothing in place",
        )

    # -- values

    def _value(self, argument: Argument, values: Mapping[str, Any], graph: ExportedGraph) -> Any:
        if isinstance(argument, ValueName):
            if argument.name not in values:
                later = any(_names(node.results, argument.name) for node in graph.nodes)
                why = "a later node computes it: nodes must be in order, without cycles" if later else "nothing does"
                raise self.b.fail(f"'{argument.name:.120}' is used before anything computed it ({why})")
            if isinstance(missing := values[argument.name], _NotConverted):
                text = f"result {missing.index} of {missing.operator} is used, and it is not converted"
                raise self.b.fail(text, "results are numbered from 0; those that nothing uses need no conversion")
            return values[argument.name]
        if isinstance(argument, tuple):
            return tuple(self._value(item, values, graph) for item in argument)
        return argument

    def _define(self, graph: ExportedGraph, node: ExportedNode, results: Sequence[Any], values: dict[str, Any]) -> None:
        """Give the results of a node their names. Their types are those that the file states."""
        if len(node.results) > len(results):
            raise ArgumentError(f"{len(node.results)} results are named; it has {len(results)}")
        for index, (target, result) in enumerate(zip(node.results, results, strict=False)):
            if isinstance(result, Saved):
                result = self._saved(graph, target, result.tensor)
            if result is None and isinstance(target, ValueName):
                values[target.name] = _NotConverted(node.target.removeprefix(_ATEN), index)
            elif isinstance(target, tuple):
                if not isinstance(result, (list, tuple)) or len(target) != len(result):
                    raise ArgumentError(f"a list of {len(target)} results is named; it gives {shown(result)}")
                for name, item in zip(target, result, strict=True):
                    self._name(graph, name, item, values)
            elif target is not None:
                self._name(graph, target, result, values)

    def _saved(self, graph: ExportedGraph, target: Argument, tensor: Tensor) -> Tensor | None:
        """Return a saved result in the type that the graph states; None where the graph states another shape."""
        meta = graph.tensors.get(target.name) if isinstance(target, ValueName) else None
        converted = tensor if meta is None else elementwise.convert(self.b, tensor, meta.dtype)
        return converted if meta is None or _agrees(converted, meta) else None

    def _name(self, graph: ExportedGraph, name: Argument, result: Any, values: dict[str, Any]) -> None:
        if not isinstance(name, ValueName):
            return  # a number that was known when the model was exported
        if name.name in values:
            raise ArgumentError(f"'{name.name:.120}' is computed twice")
        meta = graph.tensors.get(name.name)
        if meta is not None:
            tensor = result.tensor if isinstance(result, TensorMemory) else result
            if not isinstance(tensor, Tensor) or not _agrees(tensor, meta):
                raise ArgumentError(f"it gives {shown(result)}, and the file says {_meta_text(meta)}")
            if not isinstance(result, TensorMemory):
                result = TensorMemory(self._with_sizes(tensor, meta))
            result.layout = meta
        values[name.name] = result

    def _with_sizes(self, tensor: Tensor, meta: TensorMeta) -> Tensor:
        """Return a tensor with the sizes that PyTorch has inferred, where more of them are known than here."""
        if is_static(tensor.shape):
            return tensor
        shape: list[Size] = []
        for here, there in zip(tensor.shape, meta.sizes, strict=True):
            known = evaluate(there, self.symbols)
            if known is None and isinstance(here, Expr) and (name := symbol_name(there)) is not None:
                self.symbols.setdefault(name, here)  # a size that the node computes
            shape.append(here if known is None else known)
        return self.b.as_shape(tensor, shape)


@dataclass(frozen=True)
class Saved:
    """A result that PyTorch saves for gradients, whose element type and shape depend on the device of the model.

    It is converted to the element type that the graph states. Where the graph states another shape, it counts as not
    converted.
    """

    tensor: Tensor


@dataclass(frozen=True)
class _NotConverted:
    """A result that the conversion of an operator does not give."""

    operator: str
    index: int


def writes(operator: str) -> bool:
    """Return whether an operator writes its first argument: the name of such an operator ends with one underscore."""
    name = _without_overload(operator)
    return name.endswith("_") and not name.endswith("__")


def _without_overload(operator: str) -> str:
    """`aten.add.Tensor` as `aten.add`; names of other operators have no overload."""
    name = operator.removeprefix(_ATEN)
    return name.rpartition(".")[0] if name.count(".") >= 2 else name


def _qualified(name: str) -> str:
    """`mylib.swish` as `mylib::swish`, the name that users know."""
    return "::".join(name.split(".", 1))


def _names(results: Sequence[Argument], name: str) -> bool:
    return any(r == ValueName(name) or (isinstance(r, tuple) and ValueName(name) in r) for r in results)


def _agrees(tensor: Tensor, meta: TensorMeta) -> bool:
    """Return whether the type and the shape of a tensor are those in the file, as far as its sizes are known."""
    return (
        tensor.dtype == meta.dtype
        and tensor.rank == len(meta.sizes)
        and all(isinstance(n, Expr) or not isinstance(m, int) or n == m
                for n, m in zip(tensor.shape, meta.sizes, strict=True))
    )  # fmt: skip


def _meta_text(meta: TensorMeta) -> str:
    return f"{meta.dtype}[{', '.join(str(n) if isinstance(n, int) else '?' for n in meta.sizes)}]"
