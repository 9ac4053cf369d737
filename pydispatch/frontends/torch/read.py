"""Conversion of the model in a `.pt2` file to a program with one function, `main`."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from pydispatch.frontends.source import ReadOptions
from pydispatch.frontends.torch.archive import Model, StoredArray
from pydispatch.frontends.torch.expressions import evaluate, symbol_name
from pydispatch.frontends.torch.guards import check_guards
from pydispatch.frontends.torch.memory import TensorMemory
from pydispatch.frontends.torch.nodes import CONVERSIONS, SHARING, VIEWS
from pydispatch.frontends.torch.promotion import as_tensor
from pydispatch.frontends.torch.schema import GraphInput, GraphOutput, SizeText, SymbolRange, ValueName
from pydispatch.frontends.torch.trace import Tracer, written_values
from pydispatch.graph.builder import Builder, Input
from pydispatch.graph.dtypes import F32, I64
from pydispatch.graph.size_functions import minimum
from pydispatch.graph.sizes import Expr, Size, symbol
from pydispatch.graph.values import Tensor

_MIN_TRACED_SIZE = 2
"""Lower bound that PyTorch states for every dynamic size, because tracing specializes sizes 0 and 1. It is no
restriction: PyTorch itself accepts calls with smaller sizes."""

_MAX_FOLDED_ELEMENTS = 1024
"""Maximum number of elements of a constant that becomes part of the program, so that it can determine shapes and
indices at compile time. Larger constants are weights."""


def module_of(model: Model, filename: str, options: ReadOptions) -> ModuleOp:
    """Return the program of a model. Raise CompileError, which names the file (`filename`) and the layer, for
    unsupported contents.
    """
    builder = Builder(filename, options.weights)
    _Program(model, builder, options.kernels).write()
    return builder.module


class _Program:
    """Converter of one model, a `.pt2` file or an exported program, to a program with the function `main`.

    Attributes:
        model: The model.
        program: Its exported program.
        b: Builder of the new program.
        symbols: Size that each symbol of the exported program stands for.
        tracer: Tracer of the graphs.
        weights: Weights by the id() of their stored arrays, so that tied weights share memory: the tensor of the
            weight when a call begins, and its memory, which graphs update.
        updated: Names of the weights that outputs update.
        written: Names of the values that nodes of the main graph write in place, themselves or through views.
    """

    def __init__(self, model: Model, builder: Builder, kernels: Collection[str]) -> None:
        """Create a converter of `model` that has emitted nothing yet; `write` emits the program with `builder`.

        kernels: names of operators that user kernels compute.
        """
        self.model = model
        self.program = model.program
        self.b = builder
        self.symbols: dict[str, Size] = {}  # symbol of the file, such as s0 -> the dynamic size that it is bound to
        self.tracer = Tracer(builder, CONVERSIONS, VIEWS, SHARING, self.symbols, kernels)
        self.weights: dict[int, tuple[Tensor, TensorMemory]] = {}  # id(array) -> (weight, its memory)
        # Weights that outputs update, by their names in the model; and values that nodes write, by names in the graph.
        self.updated = {o.target for o in self.program.outputs if o.kind in ("buffer_mutation", "parameter_mutation")}
        self.written = written_values(self.program.graph, VIEWS)

    def write(self) -> None:
        """Emit the function `main`.

        Its results are the updated arguments, then the model's outputs. Updated weights are stored at the end. Inputs
        of the model that are constants, not named values, are no arguments of `main`.
        """
        user_inputs = [
            spec for spec in self.program.inputs if spec.kind == "user_input" and isinstance(spec.argument, ValueName)
        ]
        # The graph may write its arguments: each tensor is a memory, which has its current value.
        arguments = [TensorMemory(x) if isinstance(x, Tensor) else x for x in self._declare_arguments(user_inputs)]
        outputs = self.tracer.graph(self.program.graph, self._graph_inputs(arguments))
        # The updated value of an argument is returned under the name of the argument.
        results = {
            _name(spec): memory.tensor
            for spec, memory in zip(user_inputs, arguments, strict=True)
            if isinstance(memory, TensorMemory) and memory.write_count
        }
        self._collect_outputs(outputs, results)
        for weight, memory in self.weights.values():
            if memory.write_count:
                self.b.store(weight, memory.tensor)
        self.b.hint_kernels(self.tracer.kernel_hints())
        self.b.finish("main", results)

    def _graph_inputs(self, arguments: list[Any]) -> list[Any]:
        """Return the value of each input of the graph, in order.

        The kind of an input, which the signature states, determines its value: the next of `arguments` (those of
        `main`), a size of another argument, a constant, or a weight. A token is a value without contents that only
        orders side effects. Raise CompileError if the signature contradicts the graph.
        """
        remaining = iter(arguments)
        values: list[Any] = []
        if len(self.program.inputs) != len(self.program.graph.inputs):
            raise self.b.fail("the signature and the graph have different inputs")
        for spec, argument in zip(self.program.inputs, self.program.graph.inputs, strict=True):
            values.append(self._graph_input(spec, remaining))
            # The signature and the graph must agree in the name of the input.
            if isinstance(spec.argument, ValueName) and isinstance(argument, ValueName) and spec.argument != argument:
                raise self.b.fail(
                    f"input '{argument.name:.120}' of the graph is '{spec.argument.name:.120}' in the signature"
                )
        return values

    def _graph_input(self, spec: GraphInput, arguments: Iterator[Any]) -> Any:
        """Return the value of an input of the graph; `arguments` are those of `main` that remain."""
        if spec.kind == "user_input":  # an argument of the model; one that is a constant is no argument of `main`
            return next(arguments) if isinstance(spec.argument, ValueName) else spec.argument
        if spec.kind == "size":
            return evaluate(self.program.graph.numbers[_name(spec)], self.symbols)
        if spec.kind == "constant_input":
            return spec.value
        if spec.kind == "token":
            return self.b.constant([], F32)  # no node reads a token
        return self._weight(spec)  # a parameter, buffer or constant of the file

    # -- inputs

    def _declare_arguments(self, user_inputs: list[GraphInput]) -> list[Any]:
        """Declare an argument of `main` for each of `user_inputs`, bind the symbols of their sizes, and return the
        arguments: tensors, and sizes for numbers.

        A symbol is the name of a dynamic size in the file, such as s0. For example, an argument x of the sizes
        [s0, 2*s0] binds s0 to the size of its axis 0, and adds a runtime check that the size of axis 1 is 2*s0. Checks
        are added after all symbols are bound: a size may be an expression over symbols of later arguments.
        """
        names = list(self.program.names)
        # The file states no names, or an argument is a list, whose tensors have no own names: use names of the graph.
        if len(names) != len(user_inputs):
            names = [_name(spec) for spec in user_inputs]

        graph = self.program.graph
        inputs = [self._input(spec, name) for spec, name in zip(user_inputs, names, strict=True)]
        # Bind the symbols of their sizes. `bounds`: lower bounds in the file, except those that tracing states for all.
        arguments: list[Any] = []
        sizes: list[tuple[str, SizeText, Size]] = []  # (message with {a} for the run-time size, declared size, size)
        bounds = {self._name_of(symbol): limits.least for symbol, limits in self.program.ranges.items()
                  if limits.least is not None and limits.least > _MIN_TRACED_SIZE}  # fmt: skip
        for tensor, spec, name in zip(self.b.begin(inputs, bounds), user_inputs, names, strict=True):
            meta = graph.tensors.get(_name(spec))
            if meta is None:
                declared_number = graph.numbers.get(_name(spec))
                size = self.b.size_of(self.b.scalar(tensor), least=None)
                if declared_number is not None:
                    self._bind_symbol(declared_number, size)
                    sizes.append((f"argument '{name}' is {{a}}", declared_number, size))
                arguments.append(size)
                continue
            arguments.append(tensor)
            for axis, (n, size) in enumerate(zip(meta.sizes, tensor.shape, strict=True)):
                self._bind_symbol(n, size)
                sizes.append((f"argument '{name}' has {{a}} elements along axis {axis}", n, size))
        for what, declared_size, size in sizes:
            self._check_size(what, declared_size, size)
        shapes = {name: x.shape for name, x in zip(names, arguments, strict=True) if isinstance(x, Tensor)}
        graph_names = map(_name, user_inputs)  # those of parts of a list or dict, such as x_0
        shapes |= {name: x.shape for name, x in zip(graph_names, arguments, strict=True) if isinstance(x, Tensor)}
        check_guards(self.b, self.program.guards, shapes)
        return arguments

    def _input(self, spec: GraphInput, name: str) -> Input:
        """Return the declaration of an argument: a tensor, or a scalar for a number."""
        meta = self.program.graph.tensors.get(_name(spec))
        if meta is None:  # a number
            return Input(name, I64, shape=())
        return Input(name, meta.dtype, tuple(self._size(n, name, d) for d, n in enumerate(meta.sizes)))

    def _check_size(self, what: str, declared_size: SizeText, size: Size) -> None:
        """Add a runtime check of an argument's size against its declared size.

        If the declared size is a symbol, such as s0, the size must equal the value that the symbol is bound to, and be
        in the symbol's range in the file. If the declared size is a number or an expression, such as 2*s0, the size
        must equal its value. An expression without a known value is not checked.

        Args:
            what: Beginning of the message of the error, such as "argument 'x' has {a} elements along axis 0". At run
                time {a} is replaced by the size.
            declared_size: Size in the file.
            size: Size in the program.
        """
        name = symbol_name(declared_size)
        if name is None:
            term = evaluate(declared_size, self.symbols)
            if term is not None:
                # The message has the values of both sizes, {a} and {b}, when a call fails.
                self.b.require_equal(size, term, f"{what}, and {term} is {{b}}: PyTorch exported them as equal")
            return
        shown = self._name_of(name)
        self.b.require_equal(
            size, self.symbols[name], f"{what}, and the size {shown} is {{b}}: PyTorch exported them as equal"
        )
        limits = self.program.ranges.get(name, SymbolRange(None, most=None))
        if isinstance(size, Expr) and (declared := size.as_symbol()) is not None:
            size = symbol(declared.name, least=None)  # without its declared bounds, since these are to be checked
        expected = f"at least {limits.least or 0}" + ("" if limits.most is None else f" and at most {limits.most}")
        message = f"{what}; the size {shown} is {expected}"
        # A lower bound that tracing states for every size is no restriction. {a} is the size if a check fails.
        if limits.least is not None and limits.least > _MIN_TRACED_SIZE:
            self.b.require_equal(minimum(size, limits.least), limits.least, message)
        if limits.most is not None:
            self.b.require_equal(size, minimum(size, limits.most), message)

    def _size(self, size: SizeText, name: str, axis: int) -> int | str:
        """Return a declared size for `Input`: a number, or the name that the user gave it, else that of its symbol; for
        other expressions, a name composed of those of the argument and the axis.
        """
        if isinstance(size, int):
            return size
        symbol = symbol_name(size)
        return f"{name}_size{axis}" if symbol is None else self._name_of(symbol)

    def _name_of(self, symbol: str) -> str:
        """Return the name that the user gave the size of a symbol, else the symbol."""
        return self.program.size_names.get(symbol, symbol)

    def _bind_symbol(self, declared_size: SizeText, size: Size) -> None:
        """Bind the symbol of a size in the file, if it is a single symbol that is not bound yet."""
        name = symbol_name(declared_size)
        if name is not None:
            self.symbols.setdefault(name, size)

    def _weight(self, spec: GraphInput) -> Tensor | TensorMemory:
        """Return a parameter, buffer or constant of the file: a tensor if it becomes a constant of the program, or the
        memory of a weight, which graphs may write.

        A small tensor that no call changes becomes a constant if the file calls it a constant, or if its elements are
        no floats, such as a buffer of indices: shapes may then be computed from it at compile time. All others are
        weights; weights that are one array in the file (tied weights) share a memory. Raise CompileError if the file
        has another type or shape than the graph.
        """
        array = self._array(spec)
        meta = self.program.graph.tensors.get(_name(spec))
        if meta is None or meta.dtype != array.dtype or meta.sizes != array.array.shape:
            shown = f"{array.dtype}{list(array.array.shape)}"
            raise self.b.fail(f"the file has {shown} for '{spec.target:.120}', and its graph says something else")
        # The model's outputs update a weight, or nodes of the graph write it in place.
        is_state = spec.target in self.updated or _name(spec) in self.written
        is_constant = not is_state and (spec.kind == "tensor_constant" or not array.dtype.is_float)
        if is_constant and array.array.size <= _MAX_FOLDED_ELEMENTS:
            return self.b.constant(array.array, array.dtype)
        if id(array) not in self.weights:
            tensor = self.b.weight(spec.target, array.array, array.dtype)
            self.weights[id(array)] = tensor, TensorMemory(tensor)  # tied weights are the same StoredArray
        return self.weights[id(array)][1]

    def _array(self, spec: GraphInput) -> StoredArray:
        """Return the stored array of an input. Raise CompileError if the file has none."""
        for arrays in (self.model.weights, self.model.constants):
            if spec.target in arrays:
                return arrays[spec.target]
        raise self.b.fail(f"the file has no elements of the {spec.kind.replace('_', ' ')} '{spec.target:.120}'")

    # -- outputs

    def _collect_outputs(self, values: list[Any], results: dict[str, Tensor]) -> None:
        """Add the model's outputs that are tensors or numbers to `results`, under names that are not used yet.

        An output that updates a weight is written to the weight instead. Outputs that are None, and tokens (values
        without contents that only order side effects), are dropped.

        Args:
            values: Outputs of the main graph.
            results: Results of `main` so far, the updated arguments, by name.

        Raises:
            CompileError: The signature has another number of outputs, or one is neither a tensor nor a number.
        """
        specs = self.program.outputs
        if len(specs) != len(values):
            raise self.b.fail("the signature and the graph have different outputs")
        for spec, value in zip(specs, values, strict=True):
            if isinstance(value, TensorMemory):
                value = value.tensor
            if value is None or spec.kind == "token":
                continue
            if not isinstance(value, (Tensor, Expr, bool, int, float)):
                raise self.b.fail("the model returns what is neither a tensor nor a number")
            if spec.kind in ("buffer_mutation", "parameter_mutation"):
                self._update_weight(spec, as_tensor(self.b, value))
                continue
            name = spec.argument.name if isinstance(spec.argument, ValueName) else "constant"
            results[_unused(spec.target or name, results)] = as_tensor(self.b, value)

    def _update_weight(self, spec: GraphOutput, value: Tensor) -> None:
        """Write a new value to the weight that an output updates."""
        array = self.model.weights.get(spec.target) or self.model.constants.get(spec.target)
        if array is None or id(array) not in self.weights:
            raise self.b.fail(f"the program updates '{spec.target:.120}', which is none of its inputs")
        weight, memory = self.weights[id(array)]
        if value.dtype != weight.dtype or value.rank != weight.rank:
            raise self.b.fail(f"'{spec.target:.120}' is {weight}; the program updates it by {value}")
        memory.write(self.b.as_shape(value, weight.shape))


def _name(spec: GraphInput) -> str:
    """Return the name of an input in the graph."""
    assert isinstance(spec.argument, ValueName)
    return spec.argument.name


def _unused(name: str, names: dict[str, Tensor]) -> str:
    """Return `name`, with the lowest suffix _1, _2, ... if necessary, so that it is not one of `names`."""
    candidate, suffix = name, 0
    while candidate in names:
        suffix += 1
        candidate = f"{name}_{suffix}"
    return candidate
