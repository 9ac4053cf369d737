"""Walks a TOSA program once, in order, and writes what each operation computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, DenseIntOrFPElementsAttr, IntegerAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from pydispatch.frontends.graph.builder import Builder
from pydispatch.frontends.graph.constants import elements_of
from pydispatch.frontends.graph.dtypes import DType
from pydispatch.frontends.graph.sizes import Expr, Size
from pydispatch.frontends.graph.values import Tensor
from pydispatch.frontends.tosa.types import dtype_of, shape_of
from pydispatch.ir.core.enumeration import Enumeration
from pydispatch.ir.dialects.tosa.attributes import ZeroPoints

Results = Tensor | Sequence[Tensor]
Convert = Callable[["Tracer", Operation, list[Tensor]], Results]
"""convert(tracer, operation, operands) -> results."""
LARGEST = (1 << 31) - 1
"""The largest size."""
ENDS = ("func.return", "tosa.yield")


class Tracer:
    """What is known while a program is walked. table: name of an operation -> its conversion."""

    def __init__(self, b: Builder, module: ModuleOp, table: Mapping[str, Convert]) -> None:
        self.b = b
        self._table = table
        self._functions = {op.sym_name.data: op for op in module.ops if isinstance(op, func.FuncOp)}
        self._values: dict[SSAValue, Tensor] = {}
        self._open: list[str] = []

    # -- functions and blocks

    def call(self, name: str, arguments: Sequence[Tensor]) -> list[Tensor]:
        """What a function of the module gives; it is traced into its caller."""
        callee = self._functions.get(name)
        if callee is None or callee.body.blocks.first is None:
            raise self.b.fail(f"there is no function @{name} with a body in this module")
        if name in self._open:
            raise self.b.fail(f"@{name} calls itself: {' -> '.join([*self._open, name])}")
        if len(callee.body.blocks) != 1:
            raise self.b.fail(f"@{name} has {len(callee.body.blocks)} blocks, expected one")
        self._open.append(name)
        try:
            return self.block(callee.body.block, arguments)
        finally:
            self._open.pop()

    def block(self, block: Block, arguments: Sequence[Tensor]) -> list[Tensor]:
        """What the last operation of a block passes on."""
        if len(block.args) != len(arguments):
            raise self.b.fail(f"{len(arguments)} value(s) are passed to a region of {len(block.args)} argument(s)")
        self._values.update(zip(block.args, arguments, strict=True))
        for op in block.ops:
            if op.name in ENDS:
                return [self.value(operand) for operand in op.operands]
            self._trace(op)
        raise self.b.fail("a block ends without passing on its values")

    def value(self, value: SSAValue) -> Tensor:
        """The tensor that a value is."""
        if value not in self._values:
            raise self.b.fail("a value is used before it is computed")
        return self._values[value]

    def _trace(self, op: Operation) -> None:
        with self.b.at(op):
            convert = self._table.get(op.name)
            if convert is None:
                raise self.b.fail(f"'{op.name}' is not supported in a TOSA program")
            made = convert(self, op, [self.value(operand) for operand in op.operands])
            results = [made] if isinstance(made, Tensor) else list(made)
            if len(results) != len(op.results):
                raise self.b.fail(f"'{op.name}' has {len(op.results)} result(s), expected {len(results)}")
            for result, tensor in zip(op.results, results, strict=True):
                self._values[result] = self.checked(tensor, result.type)

    def checked(self, tensor: Tensor, type: Attribute) -> Tensor:
        """The tensor, which must have the declared type; sizes that only the type states are taken from it."""
        declared = shape_of(type)
        fits = tensor.dtype == dtype_of(type) and (declared is None or tensor.rank == len(declared))
        if not fits or any(
            not isinstance(n, Expr) and m is not None and n != m
            for n, m in zip(tensor.shape, declared or tensor.shape, strict=False)
        ):
            raise self.b.fail(f"the result is {tensor}, but its type is {type}")
        if declared is None:
            return tensor
        return self.b.as_shape(tensor, [n if m is None else m for n, m in zip(tensor.shape, declared, strict=True)])

    # -- operands and results

    def dtype(self, op: Operation, number: int = 0) -> DType:
        """The element type that a result is declared with."""
        return dtype_of(op.results[number].type)

    def rank(self, x: Tensor, rank: int, what: str = "the operand") -> None:
        """An error unless a tensor has a rank."""
        if x.rank != rank:
            raise self.b.fail(f"{what} is {x}, expected a tensor of rank {rank}")

    def same_type(self, *tensors: Tensor) -> None:
        """An error unless all have one element type."""
        if len({x.dtype for x in tensors}) > 1:
            raise self.b.fail(f"the operands {', '.join(map(str, tensors))} differ in their elements")

    def listed(self, op: Operation, x: Sequence[Tensor], at: int, name: str, count: int | None = None) -> list[Size]:
        """A list of sizes: an operand, or an attribute as releases before 1.0 have it."""
        if at < len(x):
            found = x[at].sizes()
            if found is None:
                raise self.b.fail(f"the {name} must be known while compiling")
        else:
            found = list(self.numbers(op, name))
        if count is not None and len(found) != count:
            raise self.b.fail(f"the {name} has {len(found)} number(s), expected {count}")
        self._bounded(name, found)
        return found

    def _bounded(self, name: str, numbers: Sequence[Size]) -> None:
        """An error for a number that no size of TOSA has: products of them would not fit into 64 bits."""
        if any(not isinstance(n, Expr) and abs(n) > LARGEST for n in numbers):
            raise self.b.fail(f"{name}: {list(numbers)} has a number beyond {LARGEST}")

    def zero_point(
        self, op: Operation, x: Sequence[Tensor], at: int, name: str, dtype: DType, of: str = ""
    ) -> Tensor:  # fmt: skip
        """A zero point: an operand, or an attribute as releases before 1.0 have it. of: its name there."""
        if at < len(x):
            if x[at].known is None and any(isinstance(n, Expr) or n != 1 for n in x[at].shape):
                raise self.b.fail(f"the {name} is {x[at]}, expected one number")
            return x[at]
        value = op.properties.get(name)
        quantized = op.properties.get("quantization_info")
        if isinstance(quantized, ZeroPoints):
            value = quantized.values.data.get(of or name)
        number = value.value.data if isinstance(value, IntegerAttr) else 0
        return self.b.constant([number], dtype)

    # -- attributes

    def numbers(self, op: Operation, name: str, count: int | None = None, least: int | None = None) -> tuple[int, ...]:
        """An attribute that is a list of integers: `count` of them, none below `least`."""
        value = op.properties.get(name)
        if isinstance(value, DenseArrayBase):
            found = tuple(int(n) for n in value.get_values())
        elif isinstance(value, ArrayAttr) and all(isinstance(n, IntegerAttr) for n in value):
            found = tuple(n.value.data for n in value)
        else:
            raise self.b.fail(f"'{op.name}' needs {name}, a list of integers")
        if count is not None and len(found) != count:
            raise self.b.fail(f"{name} has {len(found)} number(s), expected {count}")
        if least is not None and any(n < least for n in found):
            raise self.b.fail(f"{name}: {list(found)} has a number below {least}")
        self._bounded(name, found)
        return found

    def number(self, op: Operation, name: str, default: int | None = None) -> int:
        """An attribute that is an integer or a truth value."""
        value = op.properties.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, IntegerAttr):
            raise self.b.fail(f"'{op.name}' needs {name}, an integer")
        return abs(value.value.data) if value.type.width.data == 1 else value.value.data

    def axis(self, op: Operation, x: Tensor) -> int:
        """The attribute `axis`, which x must have."""
        axis = self.number(op, "axis")
        if not 0 <= axis < x.rank:
            raise self.b.fail(f"{x} has no axis {axis}")
        return axis

    def word(self, op: Operation, name: str, default: str) -> str:
        """An attribute that is a word of an enumeration."""
        value = op.properties.get(name)
        return value.data if isinstance(value, Enumeration | StringAttr) else default

    def text(self, op: Operation, *names: str) -> str:
        """An attribute that is text, by the first of its names that is there."""
        found = (op.properties.get(name) for name in names)
        return next((value.data for value in found if isinstance(value, StringAttr)), "")

    def constant(self, op: Operation) -> Tensor:
        """The elements of a constant."""
        value = op.properties.get("values") or op.properties.get("value")
        if not isinstance(value, DenseIntOrFPElementsAttr):
            raise self.b.fail(f"'{op.name}' needs values, the elements of a tensor")
        dtype = dtype_of(value.type)
        return Tensor(dtype, tuple(value.get_shape()), known=elements_of(value, dtype))
