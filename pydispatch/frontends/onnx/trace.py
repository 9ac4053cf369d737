"""Tracer of an ONNX model: visits the nodes in order and emits the operations that compute them."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

from pydispatch.errors import CompileError, CompileWarning
from pydispatch.frontends.onnx import custom, declarations, model
from pydispatch.frontends.onnx.call import NodeCall
from pydispatch.frontends.onnx.custom import UserKernels, kernel_name
from pydispatch.frontends.onnx.functions import DEPTH, bound_node
from pydispatch.frontends.onnx.scope import Values
from pydispatch.frontends.onnx.tensors import Files, ModelFault, array_of
from pydispatch.frontends.source import ReadOptions
from pydispatch.graph.builder import Builder
from pydispatch.graph.faults import guarded
from pydispatch.graph.sizes import UndecidedError
from pydispatch.graph.values import Tensor
from pydispatch.logs import caller_level

Conversion = Callable[..., Any]
"""Function that emits one operator. It is passed a `NodeCall` and the operands, None for an omitted one, and returns
one result or a sequence of results."""

_MAX_FOLDED_ELEMENTS = 1024
"""Maximum number of elements of a tensor of the file that becomes a constant in the program, whose elements are known
at compile time. Larger tensors are weights."""
_MIN_OPSET, _MAX_OPSET = 1, 26
_VARIADIC = 1 << 30  # the maximum number of operands of a variadic operator
_TESTED_OPSETS = range(11, 24)
"""Versions of the operator set whose results the tests compare with onnxruntime; for the others a warning is given."""


class OnnxTracer:
    """Translator of an ONNX model into builder calls. The frontend creates one for each model, and calls `main` once.

    Attributes:
        builder: Builder of the program.
        source: The model.
        external_files: Files next to the model that have elements of weights.
        operators: Conversions of each domain by operator name.
        options: Options of the reader: input shapes, constants and kernels from the caller.
        functions: Functions of the model by (domain, name, overload).
        kernels: Names of the kernels that the user supplies.
        inputs: Inputs of the main graph that are arguments of the program, by name.
        depth: Number of graphs and functions that contain the current node.
    """

    def __init__(
        self,
        builder: Builder,
        source: model.ModelProto,
        external: Files,
        operators: Mapping[str, Mapping[str, Conversion]],
        options: ReadOptions,
    ) -> None:
        """Index the functions of `source`. No operation is emitted before `main` is called.

        `external` reads the files next to the model, `operators` has the conversions of each domain by operator name.
        """
        self.builder = builder
        self.source = source
        self.external_files = external
        self.operators = operators
        self.options = options
        self.functions = {(_domain(f.domain), f.name, f.overload): f for f in source.functions}
        self.kernels = UserKernels(options.kernels)
        self.inputs: Mapping[str, Tensor] = {}  # arguments of the program by name, once `main` has declared them
        self.depth = 0  # number of graphs and functions that contain the current node

    def main(self) -> None:
        """Emit the function `main` of the program.

        The constants and shapes that the caller supplies replace inputs and input shapes of the graph.

        Raise CompileError if the graph has no outputs, or two inputs or two outputs of one name.
        """
        graph = self.source.graph
        if graph is None or not graph.output:
            raise self.builder.fail("the model has no graph with outputs")
        opsets = self._opsets(self.source.opset_import)  # version of the operators of each domain
        # Raise for inputs that the caller describes, but the graph lacks.
        declarations.check_names(self.builder, graph, [*self.options.inputs, *self.options.constants])
        values = self._begin(graph)
        # Emit the nodes, and return the outputs in the types and shapes that the graph declares.
        results = self.graph(graph, values, outer=None, opsets=opsets)
        outputs: dict[str, Tensor] = {}
        for info, result in zip(graph.output, results, strict=True):
            if info.name in outputs:
                raise self.builder.fail(f"the graph has two outputs '{info.name}'")
            outputs[info.name] = declarations.as_declared(self.builder, result, info)
        self.builder.finish("main", outputs)
        # Record why kernels of the user match no node, so that a message about an unused kernel can say it.
        self.builder.hint_kernels(self.kernels.hints())

    def _begin(self, graph: model.GraphProto) -> dict[str, Tensor]:
        """Begin the function `main`, and return its arguments, and the constants that the caller supplies, by name.

        Inputs whose elements the file or the caller supplies are no arguments. An input whose shape the caller states
        is an argument although the file has elements for it.
        """
        inputs, constants = self.options.inputs, self.options.constants
        initial = ({tensor.name for tensor in graph.initializer} - inputs.keys()) | set(constants)
        arguments = [
            declarations.declare_input(self.builder, info, inputs.get(info.name))
            for info in graph.input
            if info.name not in initial
        ]
        if len({a.name for a in arguments}) != len(arguments):
            raise self.builder.fail("two inputs of the graph have the same name")
        values = dict(zip((a.name for a in arguments), self.builder.begin(arguments), strict=True))
        self.inputs = dict(values)
        for info in graph.input:
            if info.name in constants:
                values[info.name] = declarations.constant_input(self.builder, info, constants[info.name])
        return values

    # -- graphs

    def graph(
        self, graph: model.GraphProto, inputs: Mapping[str, Tensor], outer: Values | None, opsets: Mapping[str, int]
    ) -> list[Tensor]:
        """Emit the nodes of a graph at the current insertion point and return the graph's outputs.

        Args:
            graph: The graph.
            inputs: The graph's inputs by name; they replace initializers of the same names.
            outer: The values of the enclosing graph, which a subgraph may use; None for the main graph.
            opsets: The operator set version of each domain.

        Raises:
            CompileError: The graph has sparse initializers, an output that no node computes, or a node that is not
                supported.
        """
        if graph.sparse_initializer:
            raise self.builder.fail("the graph has sparse initializers; store them dense")
        # The values that are known before the nodes: initializers, then inputs. `stated` has the types that the graph
        # declares for values of nodes and for its outputs.
        stated = {info.name: info for info in (*graph.value_info, *graph.output)}
        values = Values(outer, graph.node, stated)
        for tensor_ in graph.initializer:
            if tensor_.name not in inputs:
                constant = self.constant(tensor_, tensor_.name, is_weight=outer is None)
                self._define(values, tensor_.name, constant)
        for name, value in inputs.items():
            self._define(values, name, value)
        self._nodes(graph.node, values, opsets)
        return [self._value(values, info.name, "the graph's output") for info in graph.output]

    def _nodes(self, nodes: Sequence[model.NodeProto], values: Values, opsets: Mapping[str, int]) -> None:
        """Emit nodes in order and define their outputs in `values`.

        Errors name the node, or its operator and index if it has no name. `guarded` adds the operator, turns
        UndecidedError and ModelFault, whose texts are complete messages, into CompileError, and turns other exceptions
        that operands cause, such as ValueError, into a CompileError with the operand types. `opsets` has the operator
        set version of each domain.
        """
        self.depth += 1  # nesting of graphs and functions; not restored after an error, which ends the trace
        if self.depth > DEPTH:
            raise self.builder.fail(f"graphs and functions are nested deeper than {DEPTH}")
        for index, node in enumerate(nodes):
            types = partial(self._types, node, values)
            layer = node.name or f"{node.op_type}_{index}"
            with self.builder.at(layer), guarded(self.builder, node.op_type, types, (UndecidedError, ModelFault)):
                self._node(node, layer, values, opsets)
        self.depth -= 1

    def _types(self, node: model.NodeProto, values: Values) -> str:
        """Return the types of a node's operands as text for error messages; "None" for an omitted one."""
        return ", ".join(str(values.find(name)) for name in node.input)

    def _node(self, node: model.NodeProto, layer: str, values: Values, opsets: Mapping[str, int]) -> None:
        """Emit one node, and define its outputs in `values`.

        The node is computed by the first of these that exists: a kernel of the user for its operator; a function of the
        model with the operator's name, which is inlined; the conversion of the operator. A node of an imported domain
        without conversions and without such a function always needs a kernel.

        Args:
            node: The node.
            layer: Name of the node in messages.
            values: Values of the graph by name, to which the outputs are added.
            opsets: Operator set version of each domain.

        Raises:
            CompileError: The model does not import the domain of the operator, or the operator is not supported with
                these operands and attributes.
        """
        operands = self._operands(node, values)
        domain = _domain(node.domain)
        attributes = self._attributes(node)
        function = self.functions.get((domain, node.op_type, node.overload))
        # A domain without conversions has only operators that kernels of the user compute.
        is_custom = domain in opsets and domain not in self.operators and function is None

        def convert() -> Sequence[Tensor | None]:
            """Inline `function`, the model's own for this operator, if there is one; else convert the operator."""
            if function is not None:
                return self._function(function, operands, attributes)
            if domain not in opsets:
                raise self.builder.fail(f"{node.op_type}: the model imports no operators of the domain '{domain}'")
            return self._converted(NodeCall(self, node, attributes, opsets[domain], values, opsets), domain, operands)

        kernel = self.kernels.named(domain, node, layer)
        if is_custom or kernel is not None:
            name = kernel or kernel_name(domain, node)
            # `custom.call` derives the types of the results from what the kernel replaces, if anything.
            replaced = None if is_custom else convert
            results: Sequence[Tensor | None] = custom.call(self, name, node, operands, attributes, values, replaced)
        else:
            results = convert()
        self._define_outputs(node, results, values)

    def _converted(self, call: NodeCall, domain: str, operands: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        """Convert an operator, and return its results. Raise CompileError if it does not read all attributes."""
        results = self._conversion(domain, call.node, operands)(call, *operands)
        call.check_all_read()
        return [results] if isinstance(results, Tensor) else results

    def _operands(self, node: model.NodeProto, values: Values) -> list[Tensor | None]:
        """Return the operands of a node, with None for omitted ones, but without omitted ones at the end."""
        operands = [self._value(values, name, "its operand") if name else None for name in node.input]
        while operands and operands[-1] is None:
            operands.pop()
        return operands

    def _define_outputs(self, node: model.NodeProto, results: Sequence[Tensor | None], values: Values) -> None:
        """Add the results of a node to `values` under the names of its outputs; an unused output has the name ""."""
        if len(node.output) > len(results):
            raise self.builder.fail(f"{node.op_type}: {len(node.output)} outputs are named; it has {len(results)}")
        for name, result in zip(node.output, results, strict=False):
            if name:
                if result is None:
                    raise self.builder.fail(f"{node.op_type}: its output '{name}' is not supported")
                self._define(values, name, result)

    def _conversion(self, domain: str, node: model.NodeProto, operands: Sequence[Tensor | None]) -> Conversion:
        """Return the conversion of a node's operator. Raise CompileError if the operator is unknown or the number of
        operands is wrong.
        """
        conversion = self.operators.get(domain, {}).get(node.op_type)
        if conversion is None:
            name = kernel_name(domain, node)
            raise self.builder.fail(
                f"operator {name}({', '.join(map(str, operands))}) is not known",
                f"give the kernel that computes it: kernels={{'{name}': ...}}",
            )
        # Check the number of operands. An operand in the middle may be omitted (None) only if it is optional.
        min_count, max_count = _arity(conversion)
        required = _required_positions(conversion)
        missing = len(operands) < min_count or any(operands[n] is None for n in required if n < len(operands))
        if missing or len(operands) > max_count:
            if min_count == max_count:
                expected = f"{min_count}"
            elif max_count == _VARIADIC:
                expected = f"{min_count} or more"
            else:
                expected = f"{min_count} to {max_count}"
            count = sum(operand is not None for operand in operands)
            raise self.builder.fail(f"{node.op_type}: {count} operands are given, {expected} are expected")
        return conversion

    def _attributes(self, node: model.NodeProto) -> dict[str, model.AttributeProto]:
        """Return the attributes of a node by name. Raise CompileError for duplicates and for unresolved references to
        attributes of a function.
        """
        attributes: dict[str, model.AttributeProto] = {}
        for attribute in node.attribute:
            if attribute.name in attributes:
                raise self.builder.fail(f"{node.op_type}: attribute '{attribute.name}' is given twice")
            if attribute.ref_attr_name:
                raise self.builder.fail(
                    f"{node.op_type}: attribute '{attribute.name}' refers to '{attribute.ref_attr_name}' "
                    "of a function; it is in none"
                )
            attributes[attribute.name] = attribute
        return attributes

    def _function(
        self,
        function: model.FunctionProto,
        operands: Sequence[Tensor | None],
        attributes: dict[str, model.AttributeProto],
    ) -> list[Tensor]:
        """Inline the body of a model-local function at a call and return the function's outputs.

        Nodes of the body may refer to attributes of the function: they take those of the call, else the function's
        defaults.

        Raise CompileError if the call has more operands than the function has inputs, or the functions of the model are
        inlined too often.
        """
        if len(operands) > len(function.input):
            raise self.builder.fail(
                f"function {function.name}: {len(operands)} operands are given, {len(function.input)} are expected"
            )
        self.builder.count_inlined(function.name)
        # Copies of the body's nodes in which references to attributes are replaced by the attributes of the call, and
        # inputs that the call omits are removed from the operands.
        bound = {attribute.name: attribute for attribute in function.attribute_proto} | attributes
        present = [(name, x) for name, x in zip(function.input, operands, strict=False) if x is not None]
        omitted = set(function.input) - {name for name, _ in present}
        # `_too_deep` creates the error for subgraphs that are nested too deeply.
        nodes = [bound_node(node, bound, omitted, self._too_deep) for node in function.node]
        # Emit them in a scope of their own: a function does not see the values of its caller.
        values = Values(None, nodes)
        for name, operand in present:
            self._define(values, name, operand)
        self._nodes(nodes, values, self._opsets(function.opset_import))
        return [self._value(values, name, f"the output of function {function.name}") for name in function.output]

    # -- values

    def constant(self, tensor: model.TensorProto, what: str, *, is_weight: bool = False) -> Tensor:
        """Return a tensor of the file as a constant if it has at most _MAX_FOLDED_ELEMENTS, else as a weight.

        If the weights are left out of the program, small ones are weights, too, such as biases. Numbers of rank 0 and
        small integers remain constants, as they are factors and shapes rather than weights.

        Args:
            tensor: The tensor.
            what: Its name in errors and among the weights.
            is_weight: Whether it is an initializer of the main graph, whose names are unique. Others are never left
                out.
        """
        try:
            dtype, array = array_of(tensor, self.external_files)
        except ModelFault as fault:
            raise self.builder.fail(f"tensor '{what}': {fault}") from None
        is_left_out = is_weight and self.builder.weights == "external" and dtype.is_float and array.ndim > 0
        if array.size <= _MAX_FOLDED_ELEMENTS and not is_left_out:
            return self.builder.constant(array, dtype)
        return self.builder.weight(what, array, dtype, is_own=not is_weight)

    def _define(self, values: Values, name: str, value: Tensor) -> None:
        """Bind a name of the current graph to a value. Raise CompileError if the name is already bound."""
        if name in values.by_name:
            raise self.builder.fail(f"the value '{name}' is defined twice")
        values.by_name[name] = value

    def _value(self, values: Values, name: str, what: str) -> Tensor:
        """Return the value of a name. Raise CompileError if no earlier node defines it; `what` says in the message how
        the name is used.
        """
        tensor_ = values.find(name)
        if tensor_ is None:
            if name in values.producers:
                raise self.builder.fail(
                    f"{what} '{name}' is computed by a later node", "a graph has no cycles, and its nodes are in order"
                )
            raise self.builder.fail(f"{what} '{name}' is defined nowhere")
        return tensor_

    # -- operator sets and nesting

    def _opsets(self, imports: Sequence[model.OperatorSetIdProto]) -> dict[str, int]:
        """Return the version of each imported domain, by its canonical name ("" for ai.onnx).

        Raise CompileError for unsupported versions of ai.onnx, and warn about untested ones.
        """
        versions = {_domain(opset.domain): opset.version for opset in imports}
        version = versions.get("", _MIN_OPSET)
        if not _MIN_OPSET <= version <= _MAX_OPSET:
            raise self.builder.fail(
                f"the model uses version {version} of the operators; versions {_MIN_OPSET} to {_MAX_OPSET} are known",
                "onnx.version_converter.convert_version makes a model of another version",
            )
        if "" in versions and version not in _TESTED_OPSETS:
            warnings.warn(
                f"the model uses version {version} of ONNX's operators; versions {_TESTED_OPSETS[0]} to "
                f"{_TESTED_OPSETS[-1]} are tested. Compare its results with onnxruntime, or convert it with "
                "onnx.version_converter.convert_version",
                CompileWarning,
                stacklevel=caller_level(),  # the warning names the line that called this package
            )
        return versions

    def _too_deep(self) -> CompileError:
        """Return the error for graphs that are nested too deep."""
        return self.builder.fail(f"graphs are nested deeper than {DEPTH}")


def _domain(name: str) -> str:
    """Return the canonical name of an operator domain: "" for ai.onnx."""
    return "" if name == "ai.onnx" else name


@cache
def _required_positions(conversion: Conversion) -> list[int]:
    """Return the positions of the operands that a node may not omit.

    They are those of the conversion's parameters that have no default and whose annotation does not allow None.
    """
    required = [
        p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty and "None" not in str(p.annotation)
        for p in _parameters(conversion)
    ]
    return [n for n, is_required in enumerate(required) if is_required]


@cache
def _arity(conversion: Conversion) -> tuple[int, int]:
    """Return the minimum and maximum number of operands of a conversion's operator; the maximum is _VARIADIC for a
    variable number.
    """
    parameters = _parameters(conversion)
    is_variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    return 1 + max(_required_positions(conversion), default=-1), _VARIADIC if is_variadic else len(parameters)


def _parameters(conversion: Conversion) -> list[inspect.Parameter]:
    """Return the parameters of a conversion that stand for operands: all but the NodeCall."""
    return list(inspect.signature(conversion).parameters.values())[1:]
