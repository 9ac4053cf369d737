"""PyTorch models in a process that has PyTorch: compiled into artifacts, and through a `torch.compile` backend."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydispatch.compiler.driver import arguments
from pydispatch.errors import CompileError, InvalidArgumentError, Location
from pydispatch.faults import faults_as_internal_errors
from pydispatch.formats.artifact.artifact import Artifact
from pydispatch.frontends.torch import fx
from pydispatch.frontends.torch.archive import Model
from pydispatch.frontends.torch.frontend import NamedProgram
from pydispatch.frontends.torch.json_value import ProgramFault
from pydispatch.frontends.torch.nodes import CONVERSIONS
from pydispatch.frontends.torch.read import module_of
from pydispatch.frontends.torch.schema import (
    ExportedGraph,
    ExportedProgram,
    GraphInput,
    GraphOutput,
    Symbolic,
    ValueName,
)
from pydispatch.integrations.exported_sizes import size_names
from pydispatch.integrations.torch_views import computed, is_node, shared_roots
from pydispatch.options import OPTIONS, require_known
from pydispatch.packages import importing
from pydispatch.runtime.device import device
from pydispatch.tuning.compile import compile as compile_tuned

_NAME = "torch.compile"
"""Name of the program in errors."""


def from_torch(
    model: Any, args: Sequence[Any] = (), keywords: Mapping[str, Any] | None = None, *, dynamic_shapes: Any = None,
    **options: Any,
) -> Artifact:  # fmt: skip
    """Compile a PyTorch model into an artifact with the function `main`.

    Args:
        model: `torch.nn.Module`, which is exported with example arguments, or `torch.export.ExportedProgram`.
        args: Tuple of the example arguments of a module, also of a single one.
        keywords: Example arguments of a module by name.
        dynamic_shapes: Axes of the arguments with dynamic sizes, in the form that `torch.export.export` takes.
        options: Targets and other options of `pydispatch.compile`.

    Raises:
        CompileError: The model cannot be compiled. Errors of PyTorch's export are raised unchanged.
        InvalidArgumentError: The model or the arguments are of another type, or do not fit each other.
    """
    with importing("from_torch", "torch"):
        import torch
    # A tensor would be unpacked into its rows, of which one may fit a module with one argument.
    if not isinstance(args, Sequence) or isinstance(args, (str, bytes)):
        raise InvalidArgumentError(
            f"args: expected a tuple of example arguments, as in from_torch(model, (x,)), got {type(args).__name__}"
        )
    if keywords is not None and not isinstance(keywords, Mapping):
        raise InvalidArgumentError(
            f"keywords: expected a dict of example arguments by name, got {type(keywords).__name__}"
        )
    program, names = model, dict[str, str]()  # names: of the dynamic sizes, as the user states them
    if isinstance(model, torch.nn.Module):
        _check_example_arguments(model, args, keywords or {})
        program = torch.export.export(model, tuple(args), dict(keywords or {}), dynamic_shapes=dynamic_shapes)
        if dynamic_shapes is not None:
            names = size_names(program, model, args, keywords or {}, dynamic_shapes)
    elif not isinstance(model, torch.export.ExportedProgram):
        raise InvalidArgumentError(
            f"model: expected a torch.nn.Module or an ExportedProgram, got {type(model).__name__}"
        )
    elif args or keywords or dynamic_shapes is not None:
        raise InvalidArgumentError("args: an exported program knows its arguments; give them where it is exported")
    # Operators without a conversion are decomposed into others.
    table = {op: f for op, f in torch.export.default_decompositions().items() if not _has_conversion(op)}
    return compile_tuned(NamedProgram(program.run_decompositions(table), names), **options)


def _check_example_arguments(model: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> None:
    """Raise InvalidArgumentError if the arguments do not fit the parameters of a module's `forward`."""
    try:
        inspect.signature(model.forward).bind(*args, **keywords)
    except TypeError as error:
        raise InvalidArgumentError(
            f"args: the example arguments do not fit {type(model).__name__}.forward: {error}; "
            "give a tuple of them, as in from_torch(model, (x,))"
        ) from None


def _has_conversion(operator: Any) -> bool:
    """Return whether an operator has a conversion, so that it need not be decomposed."""
    name = str(operator)
    return name in CONVERSIONS or name.rpartition(".")[0] in CONVERSIONS


# -- a backend of torch.compile


def backend(
    module: Any, inputs: Sequence[Any], options: Mapping[str, Any] | None = None, mode: str | None = None
) -> Callable[..., Any]:
    """Compile a graph for `torch.compile`, as the backend "pydispatch", and return the compiled function.

    Args:
        module: The graph, a `torch.fx.GraphModule`.
        inputs: Example arguments of the graph.
        options: Options of `pydispatch.compile`, and "device": name of the device that runs the program (default
            "cpu").
        mode: The mode of `torch.compile`, which passes it unless it is "default". The backend has no other one.

    Raises:
        InvalidArgumentError: A mode is stated.
        TypeError: There is no such option.
    """
    if mode is not None:
        raise InvalidArgumentError(
            f"mode={mode!r}: the backend 'pydispatch' has no modes; leave it out, or choose by measurement: "
            "options={'cpu': 'native', 'tune': SECONDS}"
        )
    import torch
    from functorch.compile import make_boxed_func
    from torch._decomp import core_aten_decompositions
    from torch._dynamo.backends.common import aot_autograd

    # Split the options into the device, the user's kernels, and those of `compile`.
    settings = dict(options or {})
    require_known(settings, ("device", *OPTIONS), "the backend 'pydispatch' of torch.compile")
    runs_on = device(settings.pop("device", "cpu"))
    kernels = settings.pop("kernels", None)  # the user's kernels, for reading the graph and for compiling it
    read = arguments.read_options(kernels, weights="embed")

    @faults_as_internal_errors()
    def model_of(graph: Any) -> tuple[_Traced, Any]:
        """Read a graph, and return it with the module of its program."""
        traced = _read_graph(graph)
        return traced, module_of(traced.model, _NAME, read)

    def compiled(graph: Any, example: Sequence[Any]) -> Any:
        """Compile a graph, and return the function that runs it. AOTAutograd calls it for forward and backward graphs,
        with `example` arguments, which are unused: the nodes of the graph have their types.
        """
        traced, module = model_of(graph)
        artifact = compile_tuned(module, kernels=kernels, **settings)
        return make_boxed_func(_Runner(torch, runs_on.load(artifact)["main"], traced))

    # PyTorch decomposes an operator, unless the frontend converts it as it is.
    table = {op: f for op, f in core_aten_decompositions().items() if not _has_conversion(op)}
    compile_graph = aot_autograd(
        fw_compiler=compiled, inference_compiler=compiled, bw_compiler=compiled, decompositions=table
    )
    return compile_graph(module, inputs)


@dataclass(frozen=True)
class _Traced:
    """Graph of AOTAutograd (`torch.compile`) as a model that the frontend for PyTorch reads.

    `_read_graph` creates it, and has an example. `_Runner` passes arguments and builds the outputs of a call by it.

    Attributes:
        model: The model to compile.
        passed: Positions of the graph's inputs that are arguments of the program, in the order of the arguments.
        results: How a call gets each output of the graph, and after these `count` outputs each hidden tensor. A hidden
            tensor is not returned by the graph, but outputs are views of it.
        count: Number of outputs of the graph.
        inputs: Nodes of all inputs of the graph, in order.
    """

    model: Model
    passed: tuple[int, ...]
    results: tuple[_Result, ...]
    count: int
    inputs: tuple[Any, ...]


@dataclass(frozen=True)
class _Result:
    """Origin of an output of a graph of `torch.compile`, or of a hidden tensor: how a call gets its value.

    Attributes:
        kind: "tensor" or "number" for the next result of the program, "input" for an input that is no tensor, such as a
            size, "constant", or "view" of another tensor in `_Traced.results`.
        input_position: For "input", its index among the inputs of the graph.
        root_position: For "view", the index of the viewed tensor in `_Traced.results`, where a call finds its value.
        value: For "constant", its value; for "view", its node in the graph, which a call evaluates to rebuild the view.
        layout: For "tensor", its memory layout in PyTorch, which a call reproduces.
        root: For "view", the node of the viewed tensor; the evaluation of `value` starts from it.
    """

    kind: str
    input_position: int = 0
    root_position: int = 0
    value: Any = None
    layout: _Layout | None = None
    root: Any = None


@dataclass(frozen=True)
class _Layout:
    """Memory layout of a PyTorch tensor.

    Attributes:
        dtype: PyTorch dtype.
        order: Axes from the largest stride to the smallest; None for contiguous tensors.
        repeated: Axes with stride 0 and more than one element.
    """

    dtype: Any
    order: tuple[int, ...] | None = None
    repeated: tuple[int, ...] = ()


def _read_graph(module: Any) -> _Traced:
    """Read a graph of AOTAutograd, and return the model to compile and how a call passes arguments and builds results.

    Outputs that share memory must share it after a call too. Of these, the program returns only the tensor that they
    are views of, and a call rebuilds the views from it. The tensor is `hidden` if the graph does not return it.

    Example: for this graph, where x has the shape (n, 4),

        def forward(n, x):
            a = add(x, 1)
            return view(a, [-1]), t(a), n, None

    the program takes x and returns a, which is hidden. `passed` is (1,), `count` is 4, and the kinds of `results` are
    view, view, input, constant, and tensor for a itself.
    """
    # Inputs: first those of the graph, then the tensors that the module holds, which are constants of the program.
    try:
        graph, constants = fx.graph_of(module)
    except ProgramFault as fault:
        raise CompileError(str(fault), Location(_NAME, line=0, column=0)) from None
    names = [value.name for value in graph.inputs if isinstance(value, ValueName) and value.name not in constants]
    inputs = _graph_inputs(graph, names)
    passed = tuple(position for position, value in enumerate(inputs) if value.kind == "user_input")
    inputs += [GraphInput("tensor_constant", ValueName(name), name) for name in constants]
    # Outputs, and how a call builds them.
    output_nodes = list(_outputs(module))  # nodes, or constants
    computed_outputs, results = _outputs_and_results(graph, output_nodes, names)
    outputs = tuple(GraphOutput("user_output", output) for output in computed_outputs)
    program = ExportedProgram(
        replace(graph, outputs=computed_outputs), tuple(inputs), outputs, ranges={}, guards=(), names=(),
        torch_version="",
    )  # fmt: skip
    placeholders = tuple(node for node in module.graph.nodes if node.op == "placeholder")
    model = Model(_NAME, program, weights={}, constants=constants)
    return _Traced(model, passed, results, count=len(output_nodes), inputs=placeholders)


def _outputs_and_results(
    graph: ExportedGraph, output_nodes: Sequence[Any], names: Sequence[str]
) -> tuple[tuple[Any, ...], tuple[_Result, ...]]:
    """Return the outputs of the program for a graph, and how a call builds each output and then each hidden tensor.

    A hidden tensor is one that the graph does not return, and that outputs are views of. The program returns tensors
    and computed numbers; a call builds views, constants and inputs that are no tensors itself.

    Args:
        graph: The exported graph.
        output_nodes: For each of its outputs the node, or a constant.
        names: Names of the inputs of the graph.
    """
    # Output node that shares memory with another output → the node whose tensor has the memory, perhaps itself.
    roots = shared_roots([node for node in output_nodes if is_node(node)])
    hidden = [node for node in dict.fromkeys(roots.values()) if node not in output_nodes]
    exported = [*graph.outputs, *map(fx.name_of, hidden)]
    nodes = [*output_nodes, *hidden]
    results = tuple(
        _view(node, root=roots[node], nodes=nodes) if roots.get(node, node) is not node
        else _result(output, names, graph, node)
        for output, node in zip(exported, nodes, strict=True)
    )  # fmt: skip
    returned = (output for output, r in zip(exported, results, strict=True) if r.kind in ("tensor", "number"))
    return tuple(returned), results


def _graph_inputs(graph: ExportedGraph, names: Sequence[str]) -> list[GraphInput]:
    """Return the inputs of a graph with their kinds: "user_input" for those that calls pass to the program.

    The program knows "size" inputs from the shapes of tensors. A "token" only orders effects; its value is None.
    """
    sizes = {n for name in names if name in graph.tensors for n in graph.tensors[name].sizes}  # of all tensor inputs
    tokens = {node.positional[0] for node in graph.nodes if node.target.endswith("higher_order.with_effects")}
    inputs = []
    for name in names:
        value = graph.numbers.get(name)
        if ValueName(name) in tokens:
            kind = "token"
        elif isinstance(value, Symbolic) and value in sizes:
            kind = "size"
        else:
            kind = "user_input"
        inputs.append(GraphInput(kind, ValueName(name)))
    return inputs


def _outputs(module: Any) -> Sequence[Any]:
    """Return the nodes and constants that a graph module returns, in order."""
    (node,) = (node for node in module.graph.nodes if node.op == "output")
    return node.args[0] if isinstance(node.args[0], (tuple, list)) else (node.args[0],)


def _result(output: Any, names: Sequence[str], graph: ExportedGraph, node: Any) -> _Result:
    """Return the origin of an output that is no view.

    Args:
        output: The output: the name of a value, or a constant.
        names: Names of the inputs of the graph.
        graph: The graph.
        node: Node of the output, whose metadata has the layout.
    """
    if not isinstance(output, ValueName):
        return _Result("constant", value=output)
    if output.name in graph.tensors:
        return _Result("tensor", layout=_layout(node.meta["val"]))
    if output.name in names:
        return _Result("input", input_position=names.index(output.name))
    return _Result("number")


def _view(node: Any, root: Any, nodes: Sequence[Any]) -> _Result:
    """Return the `_Result` of the output `node`, a view of the node `root`: a call rebuilds it from that node.

    `nodes` are those of `_Traced.results`.
    """
    return _Result("view", root_position=nodes.index(root), value=node, root=root)


def _layout(traced: Any) -> _Layout:
    """Return the layout of a traced tensor: for one that is not contiguous, the order of its axes by their strides.

    A symbolic size counts as its value during tracing.
    """
    sizes, strides = ([n if isinstance(n, int) else n.node.hint for n in values] for values in
                      (traced.shape, traced.stride()))  # fmt: skip
    # A size that depends on data has no value during tracing: None.
    if None in sizes or None in strides or traced.is_contiguous():
        return _Layout(traced.dtype)
    order = tuple(sorted(range(len(sizes)), key=lambda d: -strides[d]))  # axes from the largest stride on
    repeated = tuple(d for d, n in enumerate(sizes) if strides[d] == 0 and n > 1)
    return _Layout(traced.dtype, order, repeated)


class _Runner:
    """Callable that runs a program on PyTorch tensors; arguments and results share memory with the tensors.

    Args:
        torch: The module torch.
        function: The compiled program.
        traced: Which inputs of the graph are its arguments, and how the outputs of the graph are built.
    """

    def __init__(self, torch: Any, function: Callable[..., Any], traced: _Traced) -> None:
        """Take the module torch, the program and the traced graph. For the arguments see the class."""
        self.torch = torch
        self.function = function
        self.traced = traced

    def __call__(self, *inputs: Any) -> list[Any]:
        """Run the program, and return the outputs of the graph: results of the program, inputs, constants, and
        views.
        """
        outputs = self.function(*(self._program_argument(inputs[position]) for position in self.traced.passed))
        remaining = iter(outputs if isinstance(outputs, (tuple, list)) else (outputs,))  # one result is not in a tuple
        results = self.traced.results
        # Views are computed in a second pass, as their tensor may be a later result.
        received = [
            None if result.kind == "view" else self._graph_output(result, inputs, remaining) for result in results
        ]
        known = dict(zip(self.traced.inputs, inputs, strict=True))
        for position, result in enumerate(results):
            if result.kind == "view":
                root = received[result.root_position]
                received[position] = computed(result.value, {**known, result.root: root})
        return received[: self.traced.count]  # without the tensors that only views refer to

    def _program_argument(self, value: Any) -> Any:
        """Return an input as an argument: a contiguous tensor without gradient, or an int64 number."""
        if not isinstance(value, self.torch.Tensor):
            import numpy as np

            return np.asarray(value, np.int64)
        tensor = value.detach() if value.requires_grad else value
        if tensor.is_conj() or tensor.is_neg():  # flags of a tensor whose memory has other values
            tensor = tensor.resolve_conj().resolve_neg()
        return tensor if tensor.is_contiguous() else tensor.contiguous()

    def _graph_output(self, result: _Result, inputs: Sequence[Any], remaining: Iterator[Any]) -> Any:
        """Return an output of the graph that is no view.

        `remaining` yields the results of the program in order; a "tensor" or a "number" takes the next one.
        """
        if result.kind == "constant":
            return result.value
        if result.kind == "input":
            return inputs[result.input_position]
        if result.kind == "number":
            return int(next(remaining))
        assert result.layout is not None
        return self._tensor(next(remaining), result.layout)

    def _tensor(self, array: Any, layout: _Layout) -> Any:
        """Return a result as a tensor with the dtype and memory layout that PyTorch expects.

        NumPy has the elements in row-major order. They are copied so that the strides of the axes decrease in the order
        `layout.order`. Example: a result of the shape (2, 3), whose strides are (3, 1) elements, becomes a tensor with
        the strides (1, 2) for the order (1, 0). Along the axes `layout.repeated` all elements are equal; one of them is
        stored, and the stride is 0.
        """
        import numpy as np

        values = np.asarray(array)
        try:
            tensor = self.torch.from_numpy(values)
        except TypeError:  # an element type of the package ml_dtypes: its bits as an unsigned integer of the same size
            tensor = self.torch.from_numpy(values.view(f"u{values.dtype.itemsize}"))
        if tensor.dtype != layout.dtype:  # the same bits as another type
            tensor = tensor.view(layout.dtype)
        if layout.order is None:
            return tensor
        sizes = tensor.shape
        for axis in layout.repeated:
            tensor = tensor.narrow(axis, 0, 1)
        # Copy with the axes in the order of the strides, then return the axes to their places.
        inverse_order = sorted(range(tensor.ndim), key=layout.order.__getitem__)  # (2, 0, 1) has the inverse (1, 2, 0)
        return tensor.permute(layout.order).contiguous().permute(inverse_order).expand(sizes)
