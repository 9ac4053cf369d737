"""Tracer of TOSA programs, with access to attributes, and to operands that were attributes before TOSA 1.0.

`older releases` are those before TOSA 1.0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, DenseIntOrFPElementsAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute, Operation

from pydispatch.errors import Location
from pydispatch.frontends.mlir import trace
from pydispatch.frontends.tosa.types import dtype_of, shape_of
from pydispatch.graph.constants import elements_of
from pydispatch.graph.dtypes import DType
from pydispatch.graph.sizes import Expr, Size
from pydispatch.graph.values import Tensor
from pydispatch.ir.core.enumeration import Enumeration
from pydispatch.ir.dialects.tosa.attributes import ZeroPoints

Results = trace.Results
"""Result of a conversion: a tensor, or several."""
Convert = Callable[..., Results]
"""Function convert(tracer, operation, *operands) that emits an operation, and returns the tensors of its results."""
LARGEST = (1 << 31) - 1
"""Largest size that TOSA permits."""


class TosaTracer(trace.MlirTracer):
    """Translator of a module in TOSA into builder calls, operation by operation.

    Conversions of operators read attributes by its methods, and operands that were attributes before TOSA 1.0.
    """

    dialect = "TOSA"
    terminators = frozenset({"func.return", "tosa.yield"})

    def dtype_of(self, type: Attribute, location: Location | None = None) -> DType:
        """Return the element type of a tensor type. Raise CompileError, at the location, for a type that is not
        supported.
        """
        return dtype_of(type, location)

    def shape_of(self, type: Attribute) -> Sequence[int | None] | None:
        """Return the sizes of a tensor type, with None for each dynamic size; return None if the rank is not known."""
        return shape_of(type)

    # -- operands

    def require_rank(self, x: Tensor, rank: int, what: str = "the operand") -> None:
        """Raise CompileError unless a tensor has rank `rank`; `what` names the tensor in the error."""
        if x.rank != rank:
            raise self.b.fail(f"{what} is {x}, expected a tensor of rank {rank}")

    def same_type(self, *tensors: Tensor) -> None:
        """Raise CompileError unless all tensors have the same element type."""
        if len({x.dtype for x in tensors}) > 1:
            raise self.b.fail(f"the operands {', '.join(map(str, tensors))} differ in their elements")

    def sizes_of(
        self, op: Operation, inputs: Sequence[Tensor], index: int, name: str, count: int | None = None
    ) -> list[Size]:
        """Return a list of sizes: operand `index` if present, else the attribute `name`, which older releases have
        instead.

        inputs: operands of the operation. Raise CompileError if the operand is not known while compiling, if a number
        is beyond LARGEST, or if there are not `count` numbers; None permits any number of them.
        """
        if index < len(inputs):
            numbers = inputs[index].known_integers()
            if numbers is None:
                raise self.b.fail(f"the {name} must be known while compiling")
        else:
            numbers = list(self.integers(op, name))
        if count is not None and len(numbers) != count:
            raise self.b.fail(f"the {name} has {len(numbers)} number(s), expected {count}")
        self._require_in_range(name, numbers)
        return numbers

    def _require_in_range(self, name: str, numbers: Sequence[Size]) -> None:
        """Raise CompileError if a number exceeds TOSA's range of sizes: products of such numbers may not fit 64 bits.

        name: what the numbers are, for the error.
        """
        if any(not isinstance(n, Expr) and abs(n) > LARGEST for n in numbers):
            raise self.b.fail(f"{name}: {list(numbers)} has a number beyond {LARGEST}")

    def zero_point(
        self, op: Operation, inputs: Sequence[Tensor], index: int, name: str, dtype: DType, of: str = ""
    ) -> Tensor:  # fmt: skip
        """Return a zero point, the integer that stands for 0 in a quantized tensor, as a tensor of one element.

        Since TOSA 1.0 it is an operand. Older releases have attributes instead: the entry `of` of `quantization_info`,
        or the integer `name` if there is no `quantization_info`. For a `tosa.negate` without this operand and with
        `quantization_info = #tosa.unary_quant<input_zp = 7, output_zp = -2>`, the name "input1_zp" and of="input_zp"
        give [7]. A zero point that is missing is 0.

        Args:
            op: The operation.
            inputs: Its operands.
            index: Index of the operand that is the zero point.
            name: Name of the zero point, as an attribute and in errors.
            dtype: Element type of the result if it is from an attribute. An operand has its own.
            of: Name in `quantization_info` if that differs from `name`.
        """
        if index < len(inputs):
            if any(isinstance(n, Expr) or n != 1 for n in inputs[index].shape):
                raise self.b.fail(f"the {name} is {inputs[index]}, expected one number")
            return inputs[index]
        value = op.properties.get(name)
        quantized = op.properties.get("quantization_info")
        if isinstance(quantized, ZeroPoints):
            value = quantized.values.data.get(of or name)
        zero = value.value.data if isinstance(value, IntegerAttr) else 0
        return self.b.constant([zero], dtype)

    # -- attributes

    def integers(self, op: Operation, name: str, count: int | None = None, least: int | None = None) -> tuple[int, ...]:
        """Return the attribute `name`, a list of integers. Raise CompileError unless it has `count` numbers, none of
        them below `least`; None omits a check.
        """
        value = op.properties.get(name)
        if isinstance(value, DenseArrayBase):
            numbers = tuple(int(n) for n in value.get_values())
        elif isinstance(value, ArrayAttr) and all(isinstance(n, IntegerAttr) for n in value):
            numbers = tuple(n.value.data for n in value)
        else:
            raise self.b.fail(f"'{op.name}' needs {name}, a list of integers")
        if count is not None and len(numbers) != count:
            raise self.b.fail(f"{name} has {len(numbers)} number(s), expected {count}")
        if least is not None and any(n < least for n in numbers):
            raise self.b.fail(f"{name}: {list(numbers)} has a number below {least}")
        self._require_in_range(name, numbers)
        return numbers

    def integer(self, op: Operation, name: str, default: int | None = None) -> int:
        """Return the attribute `name`, an integer, or a bool as 0 or 1; `default` if it is missing.

        Raise CompileError for another attribute, and for a missing one without a default.
        """
        value = op.properties.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, IntegerAttr):
            raise self.b.fail(f"'{op.name}' needs {name}, an integer")
        # A true i1 is stored as -1.
        return abs(value.value.data) if value.type.width.data == 1 else value.value.data

    def axis(self, op: Operation, x: Tensor) -> int:
        """Return the attribute `axis`, counted from 0. Raise CompileError if x does not have this axis."""
        axis = self.integer(op, "axis")
        if not 0 <= axis < x.rank:
            raise self.b.fail(f"{x} has no axis {axis}")
        return axis

    def word(self, op: Operation, name: str, default: str) -> str:
        """Return the attribute `name`, a keyword such as "IGNORE"; `default` if it is missing."""
        value = op.properties.get(name)
        return value.data if isinstance(value, Enumeration | StringAttr) else default

    def text(self, op: Operation, *names: str) -> str:
        """Return the first of these string attributes that is present; "" without one."""
        values = (op.properties.get(name) for name in names)
        return next((value.data for value in values if isinstance(value, StringAttr)), "")

    def constant(self, op: Operation) -> Tensor:
        """Return the constant tensor of a `tosa.const` or `tosa.const_shape`, whose attribute older releases call
        `value`.
        """
        value = op.properties.get("values") or op.properties.get("value")
        if not isinstance(value, DenseIntOrFPElementsAttr):
            raise self.b.fail(f"'{op.name}' needs values, the elements of a tensor")
        dtype = dtype_of(value.type)
        return Tensor(dtype, tuple(value.get_shape()), known=elements_of(value, dtype))
