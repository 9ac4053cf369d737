"""Tracer of StableHLO programs, with conversions of regions on single elements, of quantized types and of
attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp, SymbolRefAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from pydispatch.errors import Location
from pydispatch.frontends.mlir import trace
from pydispatch.frontends.source import ReadOptions
from pydispatch.frontends.stablehlo.types import dtype_of, quantization_of, shape_of
from pydispatch.graph.builder import Builder
from pydispatch.graph.constants import elements_of
from pydispatch.graph.dtypes import DType, of_element
from pydispatch.graph.values import Tensor
from pydispatch.ir.dialects.stablehlo.attributes import integers
from pydispatch.ir.dialects.stablehlo.collectives import EXCHANGES
from pydispatch.ir.dialects.stablehlo.records import Record
from pydispatch.operations.reals import Scalar
from pydispatch.operations.reductions import Combine
from pydispatch.operations.scalars import Scalars
from pydispatch.operations.shapes import element

Results = trace.Results
"""Result of a conversion: a tensor, or several."""
Convert = Callable[..., Results]
"""Function convert(tracer, operation, *operands) -> results."""
ScalarFunction = Callable[[Scalars, Sequence[Scalar]], list[Scalar]]
"""Function that emits what a region computes for single elements: function(scalars, arguments) -> results."""

ONE_DEVICE = "it exchanges data with other devices or the host, and a program runs on one device: lower it unsharded"
"""Note of the error about an exchange that one device cannot make."""


class StablehloTracer(trace.MlirTracer):
    """Translator of a module in StableHLO and CHLO into builder calls, operation by operation.

    table: conversions by the names of operations. scalars: functions function(scalars, operation, *elements) -> element
    by the names of operations, for regions of reductions, sorts and scatters.
    """

    dialect = "StableHLO"
    terminators = frozenset({"func.return", "stablehlo.return"})

    def __init__(
        self, builder: Builder, module: ModuleOp, options: ReadOptions, table: Mapping[str, Convert],
        scalars: Mapping[str, Callable[..., Scalar]],
    ) -> None:  # fmt: skip
        """Create a tracer that has converted no operation yet.

        `table` has the conversions of operations by name, `scalars` those of operations on single elements.
        """
        super().__init__(builder, module, table)
        self.options = options
        self._scalar_table = scalars
        self._dequantized_op: Operation | None = None  # the operation that `on_real_numbers` converts
        self._tuples: dict[SSAValue, Sequence[SSAValue]] = {}  # value of a tuple type -> its elements
        self.probes: dict[str, list[tuple[Operation | None, Tensor]]] = {}
        """Tensors that each `interpreter.probe` recorded, with the operation whose block contains the probe."""

    def operation(self, op: Operation) -> None:
        """Convert an operation. Tuples have no tensors: the values of their elements are recorded, and the result of a
        `get_tuple_element` is one of these values.
        """
        if op.name == "stablehlo.tuple":
            self._tuples[op.results[0]] = list(op.operands)
        elif op.name == "stablehlo.get_tuple_element":
            with self.b.at(op):
                self._take_from_tuple(op)
        else:
            super().operation(op)

    def _take_from_tuple(self, op: Operation) -> None:
        """Bind the result of `get_tuple_element` to the element's value, which may be a tuple again."""
        elements, index = self._tuples.get(op.operands[0]), self.integer(op, "index")
        if elements is None:
            raise self.b.fail("a tuple that no 'stablehlo.tuple' of this block made is not supported",
                              "pass its elements on as values of their own")  # fmt: skip
        if not 0 <= index < len(elements):
            raise self.b.fail(f"a tuple of {len(elements)} element(s) has no element {index}")
        element, result = elements[index], op.results[0]
        if element.type != result.type:
            raise self.b.fail(f"element {index} of the tuple is {element.type}, but the result's type is {result.type}")
        if element in self._tuples:
            self._tuples[result] = self._tuples[element]
        else:
            self.values[result] = self.value(element)

    def dtype_of(self, type: Attribute, location: Location | None = None) -> DType:
        """Return the element type of a tensor type; for a quantized one the stored type."""
        return dtype_of(type, location)

    def shape_of(self, type: Attribute) -> Sequence[int | None]:
        """Return the sizes of a tensor type; None for a dynamic size."""
        return shape_of(type)

    def why_not(self, op: Operation) -> str | None:
        """Return why an operation has no conversion, as a note for the error; None unless it exchanges data with other
        devices.
        """
        if op.name not in EXCHANGES:
            return None
        return ONE_DEVICE

    # -- regions on single elements

    def scalar_function(self, region: Region) -> ScalarFunction:
        """Return the function on single elements that a region computes, such as the body of a reduction or sort.

        The arguments of the region are tensors of rank 0, in place of which the function takes elements.
        """
        block = self.block_of(region)
        return lambda s, arguments: self._scalars(s, block, arguments)

    def combination(self, region: Region) -> Combine:
        """Return the function combine(scalars, running values, elements) -> new running values of a region."""
        function = self.scalar_function(region)
        return lambda s, running, elements: function(s, [*running, *elements])

    def _scalars(self, scalars: Scalars, block: Block, arguments: Sequence[Scalar]) -> list[Scalar]:
        """Emit the operations of a block on single elements, and return the values that its terminator passes on.

        scalars: emits the operations. arguments: the elements in the place of the block's arguments. Constants become
        numbers; operations that only reshape return their operand. A value from outside of the block must be a scalar.
        Raise CompileError for an operation that is not elementwise.
        """
        if len(arguments) != len(block.args):
            raise self.b.fail(f"a region of {len(block.args)} argument(s) gets {len(arguments)} element(s)")
        values = dict(zip(block.args, arguments, strict=True))  # of the block, so far
        for op in block.ops:
            with self.b.at(op):
                operands = [values[v] if v in values else self._captured(v) for v in op.operands]
                if op.name in self.terminators:
                    return operands
                if op.name in ("func.call", "stablehlo.composite"):
                    results = self._scalars_of_call(scalars, op, operands)
                elif op.name == "stablehlo.constant":
                    constant = self.constant(op)
                    assert constant.numbers is not None
                    results = [scalars.const(constant.numbers.reshape(-1)[0].item(), constant.dtype)]
                elif op.name in self._scalar_table:
                    results = [self._scalar_table[op.name](scalars, op, *operands)]
                elif op.name in _SAME_ELEMENT:  # reshapes: of a single element, nothing changes
                    results = operands[:1]
                else:
                    raise self.b.fail(f"'{op.name}' is not supported on single elements, as in this region")
                values.update(zip(op.results, results, strict=True))
        raise self.b.fail("a region ends without passing on its values")

    def _scalars_of_call(self, scalars: Scalars, op: Operation, operands: list[Scalar]) -> list[Scalar]:
        """Inline the function that a call or composite on single elements refers to, and return its results."""
        return self._scalars(scalars, self.block_of(self.callee(callee_of(op)).body), operands)

    def _captured(self, value: SSAValue) -> Scalar:
        """Return a scalar that a region captures from outside; all elements that it computes share this scalar.

        Raise CompileError if the value has axes or is complex.
        """
        tensor = self.value(value)
        if tensor.rank or tensor.dtype.is_complex:
            raise self.b.fail("a region on single elements uses a tensor from outside of it")
        return Scalar(tensor.dtype, (element(self.b, tensor),))

    # -- attributes

    def constant(self, op: Operation) -> Tensor:
        """Return the tensor of a constant operation."""
        value = op.properties["value"]
        if not isinstance(value, DenseIntOrFPElementsAttr):
            raise self.b.fail(f"a constant of {type(value).__name__} is not supported")
        dtype = dtype_of(value.type)
        return Tensor(dtype, tuple(value.get_shape()), known=elements_of(value, dtype))

    def dtype(self, op: Operation, index: int = 0) -> DType:
        """Return the element type of a result.

        For a quantized result this is the stored type; within `on_real_numbers(op)` it is the type of the real numbers.
        """
        type = op.results[index].type
        quantization = quantization_of(type)
        if quantization is not None and self._dequantized_op is op:
            return of_element(quantization.expressed)
        return self.dtype_of(type)

    @contextmanager
    def on_real_numbers(self, op: Operation) -> Iterator[None]:
        """Let a `with` block convert `op`, whose types are quantized, as an operation on the real numbers that the
        stored integers represent: `dtype` returns the types of these numbers.
        """
        self._dequantized_op = op
        try:
            yield
        finally:
            self._dequantized_op = None

    def integers(self, op: Operation, name: str, default: Sequence[int] | None = None) -> tuple[int, ...]:
        """Return a property that is a list of integers; `default` if it is missing, () if that is None."""
        value = op.properties.get(name)
        if value is None and default is not None:
            return tuple(default)
        return integers(value)

    def listed(
        self, op: Operation, name: str, count: int, least: int | None = None, default: int | None = None
    ) -> tuple[int, ...]:
        """Return a property that is a list of `count` integers; if it is missing, all are `default`.

        Raise CompileError for another count, also if it is missing without a default, or an integer below `least`.
        """
        defaults = None if default is None else [default] * count
        return self.entries(self.integers(op, name, defaults), count, name, least)

    def padding(self, op: Operation, rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the padding before each of `rank` axes, and that after each of them.

        The property alternates them: before axis 0, after axis 0, before axis 1 and so on. A single number applies to
        all, and without the property there is no padding.
        """
        values = integers(op.properties.get("padding"))
        values = values * (2 * rank) if len(values) == 1 else values or (0,) * (2 * rank)
        self.entries(values, 2 * rank, "padding")  # raises for another count
        return values[::2], values[1::2]

    def integer(self, op: Operation, name: str, default: int = 0) -> int:
        """Return a property that is an integer or a bool; `default` if it is missing."""
        value: Any = op.properties.get(name)
        return default if value is None else int(value.value.data)

    def record(self, op: Operation, name: str) -> Any:
        """Return a property that is a record of dimension numbers, as a NamedTuple of its fields."""
        value = op.properties[name]
        if not isinstance(value, Record):
            raise self.b.fail(f"{name} is {value}")
        return value.data

    def axis(self, op: Operation, name: str, rank: int) -> int:
        """Return a property that is an axis of a tensor. Raise CompileError unless it is in [0, rank)."""
        return self.axes([self.integer(op, name)], name, rank)[0]

    def axes(self, axes: Sequence[int], what: str, rank: int, distinct: bool = True) -> tuple[int, ...]:
        """Return `axes` as a tuple. Raise CompileError if one is not in [0, rank) or, with `distinct`, repeated; `what`
        names them in the error.
        """
        for axis in axes:
            if not 0 <= axis < rank:
                raise self.b.fail(f"{what}: a tensor of rank {rank} has no axis {axis}")
        if distinct and len(set(axes)) != len(axes):
            raise self.b.fail(f"{what}: {list(axes)} names an axis twice")
        return tuple(axes)

    def entries(self, numbers: Sequence[int], count: int, what: str, least: int | None = None) -> tuple[int, ...]:
        """Return a list as a tuple. Raise CompileError unless it has `count` numbers, none of them below `least`;
        `what` names it in the error.
        """
        if len(numbers) != count:
            raise self.b.fail(f"{what} has {len(numbers)} entries, expected {count}")
        if least is not None and any(n < least for n in numbers):
            raise self.b.fail(f"{what}: {list(numbers)} has a number below {least}")
        return tuple(numbers)


_SAME_ELEMENT = frozenset({"stablehlo.reshape", "stablehlo.broadcast_in_dim", "stablehlo.broadcast",
                           "stablehlo.transpose", "stablehlo.optimization_barrier"})  # fmt: skip
"""Operations that return the only element of a scalar tensor unchanged."""


def callee_of(op: Operation) -> str:
    """Return the name of the function that a call or a composite refers to."""
    symbol = op.properties["callee" if op.name == "func.call" else "decomposition"]
    assert isinstance(symbol, SymbolRefAttr)
    return symbol.root_reference.data
