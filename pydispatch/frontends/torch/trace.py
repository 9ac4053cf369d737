"""Tracer of an exported program: visits the nodes in order and emits the operations that compute them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydispatch.errors import CompileError
from pydispatch.frontends.kernel_hints import missing_operator
from pydispatch.frontends.torch.arguments import ArgumentError, bind, shown
from pydispatch.frontends.torch.expressions import evaluate, symbol_name
from pydispatch.frontends.torch.memory import TensorMemory, TensorView
from pydispatch.frontends.torch.registry import Conversion, Inverse, Sharing
from pydispatch.frontends.torch.schema import Argument, ExportedGraph, ExportedNode, TensorMeta, ValueName
from pydispatch.graph.builder import Builder
from pydispatch.graph.faults import guarded
from pydispatch.graph.sizes import Expr, Size, UndecidedError, is_static
from pydispatch.graph.values import Tensor
from pydispatch.operations import elementwise, shapes
from pydispatch.operations.custom import custom_call

_OPS_PREFIX = "torch.ops."
"""Prefix of the names of operators in files, which names in this package lack."""
_PYTORCH_NAMESPACES = ("aten.", "prims.", "_operator.", "higher_order.", "math.", "torch.", "builtins.")
"""Prefixes of the names of PyTorch's own operators, for which users supply no kernels."""


class Tracer:
    """Translator of the graphs of one program into builder calls; `graph` translates one, also the bodies of loops.

    Tensors of the graph are memories (`TensorMemory`), because nodes may write them in place, or views of these.

    Attributes:
        b: Builder of the program.
        conversions: Conversions by the name of the operator, `aten.sum.dim_IntList`, or `aten.sum` for all overloads.
        views: Operators whose results are views of their first argument, with the inverse of the view: a function that
            writes new contents of the view back into the base. None if the result may be a copy.
        sharing: For view operators that may return copies, the function that decides whether a result is a view.
        symbols: Sizes of the program, by the symbols in the file. Sizes that nodes compute are added.
        kernels: Operators of other libraries for which the user supplies kernels, for example `torchvision::nms`.
    """

    def __init__(
        self, builder: Builder, conversions: Mapping[str, Conversion], views: Mapping[str, Inverse | None],
        sharing: Mapping[str, Sharing], symbols: dict[str, Size], kernels: Collection[str] = (),
    ) -> None:  # fmt: skip
        """Create a tracer that has emitted nothing yet. The arguments are the attributes of the class."""
        self.b = builder
        self.conversions = conversions
        self.views = views
        self.sharing = sharing
        self.symbols = symbols
        self.kernels = frozenset(kernels)
        self._layers: dict[str, str] = {}  # operator, as users write it → name of the first layer that uses it

    def graph(self, graph: ExportedGraph, inputs: Sequence[Any]) -> list[Any]:
        """Emit the nodes of a graph at the current insertion point and return its outputs.

        `inputs` has one tensor, TensorMemory or number for each input of the graph. Tensors among the outputs are
        returned as TensorMemory, so that a write to the memory of an input is visible to the caller.
        """
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
        """Emit a graph whose outputs must all be tensors, and return them. Raise CompileError for other outputs.

        Of an output that is a TensorMemory, its tensor after the last write is returned.
        """
        outputs = [
            output.tensor if isinstance(output, TensorMemory) else output for output in self.graph(graph, inputs)
        ]
        for output in outputs:
            if not isinstance(output, Tensor):
                raise self.b.fail(f"a graph gives {shown(output)}; expected a tensor")
        return outputs

    # -- nodes

    def _node(self, graph: ExportedGraph, node: ExportedNode, values: dict[str, Any]) -> None:
        """Emit one node, and add its results to `values`, the values of the graph so far by name.

        Errors in the node's arguments or results become a CompileError that names the node.
        """
        operator = node.target.removeprefix(_OPS_PREFIX)
        self._layers.setdefault(_qualified(_without_overload(operator)), node.module or node.name)
        positional = [self._value(argument, values, graph) for argument in node.positional]
        keywords = {name: self._value(argument, values, graph) for name, argument in node.keywords.items()}
        operands = [*positional, *keywords.values()]
        complete = (UndecidedError, ArgumentError)  # their messages need no description of the operands
        with guarded(self.b, operator, lambda: ", ".join(map(shown, operands)), complete, note=node.line or None):
            if self._is_custom(operator):
                results = self._custom(graph, node, positional, keywords)
            else:
                results = self._call(operator, positional, keywords, _list_length(node))
            self._define(graph, node, results, values)

    def _call(
        self, operator: str, positional: Sequence[Any], keywords: Mapping[str, Any], list_length: int | None
    ) -> tuple[Any, ...]:
        """Emit an operator by its conversion and return its results.

        The conversion computes new tensors. For two kinds of operators, these are connected to the first argument x:
        - An in-place operator, `aten.add_(x, y)`, writes the new tensor to the memory of x and returns that memory.
        - A view operator, `aten.select(x, 0, 1)`, returns views of x: a later write to a view also changes x.

        Args:
            operator: Name with the overload, such as `aten.add_.Tensor`.
            positional: Positional arguments: TensorMemory for tensors, numbers, constants, and tuples of these.
            keywords: Keyword arguments, by parameter name.
            list_length: Length of the list that the model takes as the result; None if the result is no list.

        Raises:
            ArgumentError: The arguments do not fit the conversion, or an in-place operator has no tensor to write to.
        """
        conversion, is_in_place = self._conversion(operator, positional, keywords)
        bound = bind(conversion, self, positional, {**keywords, "list_length": list_length})
        converted = conversion(*bound.args, **bound.kwargs)
        results = converted if isinstance(converted, tuple) else (converted,)
        if is_in_place:
            memory = positional[0] if positional else None
            if not isinstance(memory, TensorMemory):
                raise ArgumentError("its first argument is no tensor that could be written")
            memory.write(self._convert_like(results[0], memory.tensor))
            return (memory,)
        name = operator if operator in self.views else _without_overload(operator)
        if name in self.views and positional and isinstance(positional[0], TensorMemory):
            # An operator such as aten.reshape returns a view or a copy, depending on the strides of x. Its `decide`
            # returns True for a view, False for a copy, None if the strides are not known. Other operators have no
            # `decide` and always return views.
            memory, decide = positional[0], self.sharing.get(name)
            is_view = decide(self, memory, results[0], {**keywords, **bound.arguments}) if decide else True
            if is_view is not False:
                # The inverse writes a view back to x: for the view v = x[2:5] it returns x with elements 2 to 4
                # replaced by v. A result that is a view or a copy (None) is a view without an inverse: writing it is
                # a CompileError, and so is reading it after a write to x. `_as_views` uses `conversion` to compute a
                # view again after a write to x.
                inverse = self.views[name] if is_view else None
                return self._as_views(inverse, conversion, memory, bound.args, bound.kwargs, results)
        return results

    def _conversion(
        self, operator: str, positional: Sequence[Any], keywords: Mapping[str, Any]
    ) -> tuple[Conversion, bool]:
        """Return the conversion of an operator, and whether the operator is in place.

        A conversion is registered under the operator's name with or without an overload; the one with it comes first.
        An in-place operator, such as aten.add_, has the conversion of its functional form, aten.add.

        positional, keywords: arguments, for the message. Raise CompileError for an operator without a conversion.
        """
        name = _without_overload(operator)
        for key in (operator, name):
            if key in self.conversions:
                return self.conversions[key], False
        if writes(operator):  # drop the underscore: aten.add_.Tensor -> aten.add.Tensor, then aten.add
            for key in (operator.replace(f"{name}.", f"{name[:-1]}.", 1), name[:-1]):
                if key in self.conversions:
                    return self.conversions[key], True
        operands = ", ".join(shown(value) for value in (*positional, *keywords.values()))
        raise self.b.fail(
            f"operator {operator}({operands}) is not supported",
            "`program.run_decompositions()`, before an exported program is saved, may express it by others; with "
            "torch.compile, torch.compiler.disable leaves a function that calls it to PyTorch",
        )

    def _is_custom(self, operator: str) -> bool:
        """Return whether a user kernel computes an operator.

        That is an operator that is not PyTorch's own, for which the user supplies a kernel or which has no conversion.
        """
        name = _without_overload(operator)
        if _is_of_pytorch(operator):
            return False
        return _qualified(name) in self.kernels or (name not in self.conversions and operator not in self.conversions)

    def kernel_hints(self) -> dict[str, str]:
        """Return the reason why no node of the graphs uses a kernel of the user, for each such kernel by its name."""
        custom = {name: layer for name, layer in self._layers.items() if not _is_of_pytorch(name)}
        return {
            name: "operators of PyTorch itself are replaced by patterns (docs/match-and-replace.md)"
            if _is_of_pytorch(name)
            else missing_operator(name, custom)
            for name in self.kernels - custom.keys()
        }

    def _custom(
        self, graph: ExportedGraph, node: ExportedNode, positional: Sequence[Any], keywords: Mapping[str, Any]
    ) -> tuple[Any, ...]:
        """Emit a call of a user kernel, and return its results, whose types and sizes are those in the file.

        positional, keywords: arguments of the node. Tensors and numbers are passed to the kernel under the names of the
        parameters; arguments that are None are left out. Raise CompileError for other arguments, and for results that
        are no tensors or of sizes that the kernel decides.
        """
        # The arguments by the names of the operator's parameters.
        name = _qualified(_without_overload(node.target))
        arguments = {**dict(zip(node.parameters, positional, strict=True)), **keywords}
        tensors = {key: value.tensor for key, value in arguments.items() if isinstance(value, TensorMemory)}
        numbers = {key: value for key, value in arguments.items() if isinstance(value, (bool, int, float))}
        for key, value in arguments.items():
            if key not in tensors and key not in numbers and value is not None:
                raise self.b.fail(f"operator {name}: '{key}' is {shown(value)}; kernels take tensors and numbers")
        # The types and shapes of the results. A size that is an expression of unknown symbols has no value (None).
        results = []
        for target in node.results:
            meta = graph.tensors.get(target.name) if isinstance(target, ValueName) else None
            if meta is None:
                raise self.b.fail(f"operator {name} has a result that is no tensor; kernels compute tensors only")
            shape = [evaluate(n, self.symbols) for n in meta.sizes]
            if any(n is None for n in shape):
                raise self.b.fail(f"operator {name} gives a tensor whose size it decides, which is not supported")
            results.append((meta.dtype, tuple(n for n in shape if n is not None)))
        # The last argument is the names of the tensors.
        return tuple(custom_call(self.b, name, list(tensors.values()), results, numbers, list(tensors)))

    def _convert_like(self, value: Tensor, target: Tensor) -> Tensor:
        """Convert and broadcast a value to the type and shape of the tensor that it overwrites."""
        return shapes.broadcast_to(self.b, elementwise.convert(self.b, value, target.dtype), target.shape)

    def _as_views(
        self, inverse: Inverse | None, conversion: Conversion, base: TensorMemory, args: Sequence[Any],
        kwargs: Mapping[str, Any], results: Sequence[Any],
    ) -> tuple[Any, ...]:  # fmt: skip
        """Return the results of a view operator as views of its first argument, the base.

        A view shares the memory of the base: an in-place write to one of them changes the other. Example for
        v = x[2:5]: `results` is the slice of the current x. Once x is written, `conversion(builder, x, ...)` computes
        the slice again. Once v is written, `inverse(builder, x, v, 0, ...)` returns x with v in place of elements 2
        to 4; 0 is the index of v among the results.

        Args:
            inverse: Function that writes a view back into the base; None if PyTorch may have returned copies instead,
                depending on strides.
            conversion: Conversion of the operator.
            base: Memory of the first argument.
            args: Positional arguments of the conversion: the builder or tracer, the first argument, and others.
            kwargs: Keyword arguments of the conversion.
            results: Results of the conversion: tensors, or a single list of tensors.
        """
        context, other_args = args[0], args[2:]  # the builder or tracer, and the arguments after the base
        has_list_result = len(results) == 1 and isinstance(results[0], list)

        def view(output_index: int, tensor: Tensor) -> TensorView:
            """Return output `output_index` of the operator, `tensor`, as a view.

            `base`, `conversion`, `inverse` and the arguments are those of the enclosing method. A write to the view
            changes the base by `inverse`. Without an inverse it is unknown whether PyTorch's result was a view or a
            copy, so an access whose result depends on that raises the error of `_ambiguous_alias`.
            """

            def take(whole: Tensor) -> Tensor:
                """Compute the output again from the current contents of the base."""
                outputs = conversion(context, whole, *other_args, **kwargs)
                return outputs[output_index] if isinstance(outputs, (list, tuple)) else outputs

            # put(whole, written) returns the base `whole` with the view's elements replaced by `written`.
            put = None if inverse is None else (
                lambda whole, written: inverse(context, whole, written, output_index, *other_args, **kwargs)
            )  # fmt: skip
            return TensorView(base, tensor, take, put, ambiguous=self._ambiguous_alias)

        if has_list_result:
            return ([view(n, tensor) for n, tensor in enumerate(results[0])],)
        return tuple(view(n, tensor) for n, tensor in enumerate(results))

    def _ambiguous_alias(self) -> CompileError:
        """Return the error for an in-place write to memory that another tensor may or may not share, depending on
        strides.
        """
        return self.b.fail(
            "an in-place operation writes memory that another tensor may or may not share, depending on its strides",
            "export the model with `program.run_decompositions()`, which leaves nothing in place",
        )

    # -- values

    def _value(self, argument: Argument, values: Mapping[str, Any], graph: ExportedGraph) -> Any:
        """Return the value of a node's argument: a value of `values` by name, a tuple of values, or a constant itself.

        Raise CompileError for a name without a value, or whose value the conversion does not compute.
        """
        if isinstance(argument, ValueName):
            if argument.name not in values:
                later = any(_contains_name(node.results, argument.name) for node in graph.nodes)
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
        """Add the results of a node to `values` under their names in the file; results that have no name are dropped.

        `node.results` has a target for each result in the file. A target is a name; a tuple of names if the result is a
        list of tensors, as for `aten.split`; or None or a constant for a result without a name. For the targets
        (`values`, `indices`) of `aten.topk`, two tensors are added under these names. `results`, those of the
        conversion, may have more entries than the file has targets: the last ones are dropped.

        Raise ArgumentError if the results contradict the number or the types in the file.
        """
        if len(node.results) > len(results):
            raise ArgumentError(f"{len(node.results)} results are named; it has {len(results)}")
        for index, (target, result) in enumerate(zip(node.results, results, strict=False)):
            if isinstance(result, Saved):  # only a backward pass reads it; None if its shape is not that in the file
                result = self._saved(graph, target, result.tensor)
            # None: the conversion does not compute this result. It is an error only if another node uses it.
            if result is None and isinstance(target, ValueName):
                values[target.name] = _NotConverted(node.target.removeprefix(_OPS_PREFIX), index)
            elif isinstance(target, tuple):
                if not isinstance(result, (list, tuple)) or len(target) != len(result):
                    raise ArgumentError(f"a list of {len(target)} results is named; it gives {shown(result)}")
                for name, item in zip(target, result, strict=True):
                    self._define_name(graph, name, item, values)
            elif target is not None:
                self._define_name(graph, target, result, values)

    def _saved(self, graph: ExportedGraph, target: Argument, tensor: Tensor) -> Tensor | None:
        """Return the tensor of a `Saved` result, which only a backward pass reads, converted to the element type in the
        file; None if the file has another shape.
        """
        meta = graph.tensors.get(target.name) if isinstance(target, ValueName) else None
        converted = tensor if meta is None else elementwise.convert(self.b, tensor, meta.dtype)
        return converted if meta is None or _agrees(converted, meta) else None

    def _define_name(self, graph: ExportedGraph, name: Argument, result: Any, values: dict[str, Any]) -> None:
        """Add one result to `values` under its name, wrapped in TensorMemory if it is a tensor.

        The TensorMemory lets later nodes write the tensor in place. Its `layout` is the type with strides and offset in
        the file. A number, such as a size, is added as it is. For example, let the result be an f32[n, 4] of the name
        `add`, whose shape in the file is [s0, 4]. Then `values["add"]` is a TensorMemory, and the tensor in it has the
        shape [value of s0, 4].

        Raise ArgumentError if the name is bound already or the type contradicts the file.
        """
        if not isinstance(name, ValueName):
            return  # the file has a constant, or None, instead of a name: the result is dropped
        if name.name in values:
            raise ArgumentError(f"'{name.name:.120}' is computed twice")
        meta = graph.tensors.get(name.name)
        if meta is not None:  # the file has a tensor of this name
            tensor = result.tensor if isinstance(result, TensorMemory) else result
            if not isinstance(tensor, Tensor) or not _agrees(tensor, meta):
                raise ArgumentError(f"it gives {shown(result)}, and the file says {_meta_text(meta)}")
            if not isinstance(result, TensorMemory):
                result = TensorMemory(self._with_sizes(tensor, meta))
            result.layout = meta
        values[name.name] = result

    def _with_sizes(self, tensor: Tensor, meta: TensorMeta) -> Tensor:
        """Return the tensor with its dynamic sizes replaced by the values of the sizes that the file states for them.

        meta: type of the tensor in the file. If the file states a symbol without a value, such as s3, the tensor's size
        becomes the value of the symbol in `symbols`. A size whose expression has no value stays as it is. In the loop,
        `here` is a size of the tensor, and `there` the size of the same axis in the file.
        """
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
    """Result that PyTorch saves for the backward pass, whose element type and shape depend on the device of the model.

    Its elements are converted to the type in the file. If the shape in the file differs, operators that use the result
    are refused, as for a result that the conversion does not compute.
    """

    tensor: Tensor


@dataclass(frozen=True)
class _NotConverted:
    """Placeholder for a result that the conversion of an operator does not provide. Its use is an error.

    operator: name of the operator. index: which of its results it is.
    """

    operator: str
    index: int


def writes(operator: str) -> bool:
    """Return whether an operator writes to its first argument: its name ends with exactly one underscore (`add_`)."""
    name = _without_overload(operator)
    return name.endswith("_") and not name.endswith("__")


def written_values(graph: ExportedGraph, views: Collection[str]) -> set[str]:
    """Return the names of the values of a graph that its nodes may write in place, themselves or through views.

    A node with an inner graph, such as a loop, may write all of its arguments if the inner graph writes any value.

    `views`: names of the operators whose results may be views of their first argument.
    """
    names: set[str] = set()
    for node in reversed(graph.nodes):  # a view is written after the node that returns it
        arguments = (*node.positional, *node.keywords.values())
        is_alias = _without_overload(node.target) in views and any(r in names for r in _names_in(node.results))
        if any(isinstance(inner, ExportedGraph) and written_values(inner, views) for inner in arguments):
            names.update(_names_in(arguments))
        elif writes(node.target) or is_alias:
            names.update(_names_in(arguments[:1]))
    return names


def _names_in(arguments: Sequence[Argument]) -> Iterator[str]:
    """Yield the names of values among arguments or results, also those in lists."""
    for argument in arguments:
        if isinstance(argument, ValueName):
            yield argument.name
        elif isinstance(argument, tuple):
            yield from _names_in(argument)


def _without_overload(operator: str) -> str:
    """Return the name of an operator without its overload: `aten.add` for `torch.ops.aten.add.Tensor`."""
    name = operator.removeprefix(_OPS_PREFIX)
    return name.rpartition(".")[0] if name.count(".") >= 2 else name


def _list_length(node: ExportedNode) -> int | None:
    """Return the length of the list that a node returns; None if its result is no single list."""
    return len(node.results[0]) if len(node.results) == 1 and isinstance(node.results[0], tuple) else None


def _is_of_pytorch(name: str) -> bool:
    """Return whether an operator, such as `aten.add` or `aten::add`, is one that users supply no kernels for."""
    return name.replace("::", ".").startswith(_PYTORCH_NAMESPACES)


def _qualified(name: str) -> str:
    """Return the name of an operator, without its overload, as users write it: `mylib::swish` for `mylib.swish`."""
    return "::".join(name.split(".", 1))


def _contains_name(results: Sequence[Argument], name: str) -> bool:
    """Return whether a value name is among the results of a node, directly or in a list."""
    return name in _names_in(results)


def _agrees(tensor: Tensor, meta: TensorMeta) -> bool:
    """Return whether a tensor has the type and rank in the file, and its static sizes equal the static sizes there."""
    return (
        tensor.dtype == meta.dtype
        and tensor.rank == len(meta.sizes)
        and all(isinstance(n, Expr) or not isinstance(m, int) or n == m
                for n, m in zip(tensor.shape, meta.sizes, strict=True))
    )  # fmt: skip


def _meta_text(meta: TensorMeta) -> str:
    """Return the type of a tensor in the file as text for errors; symbolic sizes are shown as `?`."""
    return f"{meta.dtype}[{', '.join(str(n) if isinstance(n, int) else '?' for n in meta.sizes)}]"
