"""Builder for normalization rules: it inserts operations before the replaced one, with the same source location."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    SymbolRefAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from pydispatch.ir.core.locations import set_location
from pydispatch.ir.core.rewriting import erase_op
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.core.walk import walk
from pydispatch.ir.dialects.flow.calls import CallOp

OpT = TypeVar("OpT", bound=Operation)


class Build:
    """Builder that inserts operations before `op` and then replaces `op`.

    Attributes:
        op: Operation that is replaced.
        inserted: The inserted operations, in order; `normalize` visits them, too.
        reassociate: Whether sums and products of floats may be reordered.
        has_invocations: Whether a target may distribute a kernel over invocations, the threads of a GPU. One loop over
            a whole row would leave most of them idle.
    """

    def __init__(self, op: Operation, reassociate: bool = True, has_invocations: bool = True) -> None:
        """Begin with no operation inserted before `op`, the operation to replace.

        reassociate, has_invocations: whether floats may be summed in another order, and whether a target is a GPU.
        """
        self.op, self.reassociate, self.has_invocations = op, reassociate, has_invocations
        self.inserted: list[Operation] = []
        self._indices: dict[int, SSAValue] = {}  # index → its constant, which `index` emitted

    def add(self, new: OpT) -> OpT:
        """Insert an operation before the replaced one, with the same source location, and return it."""
        block = self.op.parent
        assert block is not None
        for inner in walk(new):
            set_location(inner, self.op)
        block.insert_op_before(new, self.op)
        self.inserted.append(new)
        return new

    def index(self, value: int) -> SSAValue:
        """Return a constant of type index; emit it on first use."""
        if value not in self._indices:
            self._indices[value] = self.add(arith.ConstantOp(IntegerAttr(value, IndexType()))).result
        return self._indices[value]

    def dim(self, value: SSAValue, axis: int) -> SSAValue:
        """Return the size of a tensor along `axis` as an index value: a constant, an operand that states it, or a
        `tensor.dim`.
        """
        assert isinstance(value.type, TensorType)
        size = value.type.get_shape()[axis]
        if size != DYNAMIC:
            return self.index(size)
        if isinstance(value, OpResult) and isinstance(value.op, tensor.EmptyOp | tensor.SplatOp):
            # The operands of such an operation are the dynamic sizes of the tensor, by dimension.
            dynamic_axes = [d for d, s in enumerate(value.type.get_shape()) if s == DYNAMIC]
            sizes = value.op.dynamic_sizes if isinstance(value.op, tensor.EmptyOp) else value.op.dynamicSizes
            return sizes[dynamic_axes.index(axis)]
        return self.add(tensor.DimOp(value, self.index(axis))).result

    def dynamic_dims(self, value: SSAValue) -> list[SSAValue]:
        """Return the dynamic sizes of a tensor as values, by dimension."""
        assert isinstance(value.type, TensorType)
        return [self.dim(value, d) for d, size in enumerate(value.type.get_shape()) if size == DYNAMIC]

    def empty(self, type: TensorType[Attribute], dynamic: Sequence[SSAValue]) -> SSAValue:
        """Emit a tensor whose elements are not set, and return it. dynamic: its dynamic sizes, by dimension."""
        return self.add(tensor.EmptyOp(list(dynamic), type)).tensor

    def scalar(self, value: float, type: Attribute) -> SSAValue:
        """Return a constant number."""
        attribute = FloatAttr(value, type) if isinstance(type, AnyFloat) else IntegerAttr(int(value), type)  # type: ignore[call-overload]
        return self.add(arith.ConstantOp(attribute)).result

    def splat(self, value: float, type: TensorType[Attribute], dynamic: Sequence[SSAValue]) -> SSAValue:
        """Return a tensor of equal numbers. dynamic: its dynamic sizes, in order."""
        return self.add(tensor.SplatOp(self.scalar(value, type.element_type), list(dynamic), type)).result

    def expand(self, value: SSAValue, type: TensorType[Attribute], groups: Sequence[Sequence[int]]) -> SSAValue:
        """Return the tensor with more dimensions.

        Args:
            value: Tensor.
            type: Type of the result. It has the dynamic sizes of `value`, in the same order.
            groups: For each dimension of `value`, the dimensions of the result that it becomes: [[0], [1, 2]] for
                `4x6` -> `4x2x3`.
        """
        sizes = list(type.get_shape())
        return self.add(tensor.ExpandShapeOp(value, self.dynamic_dims(value), _groups(groups), sizes, type)).result

    def collapse(self, value: SSAValue, type: TensorType[Attribute], groups: Sequence[Sequence[int]]) -> SSAValue:
        """Return the tensor with fewer dimensions: dimension d of the result joins the dimensions `groups[d]`."""
        collapse = tensor.CollapseShapeOp(
            operands=[value], result_types=[type], properties={"reassociation": _groups(groups)}
        )  # fmt: skip
        return self.add(collapse).result

    def floats(self, values: Sequence[float], type: TensorType[Attribute]) -> SSAValue:
        """Return a constant tensor of floats. values: its elements in row-major order."""
        return self.add(arith.ConstantOp(DenseIntOrFPElementsAttr.from_list(cast(Any, type), values))).result

    def host_command(
        self, name: str, arguments: Sequence[SSAValue], results: Sequence[Attribute],
        result_dims: Sequence[SSAValue] = (), tied: Sequence[int] = (),
    ) -> Sequence[SSAValue]:  # fmt: skip
        """Emit a call of a host command, code that the host runs between dispatches, and return its results.

        Args:
            name: Name of the command.
            arguments: Tensors and scalars. The dynamic sizes of the tensors are passed, too.
            results: Types of the results.
            result_dims: Dynamic sizes of all results, concatenated.
            tied: For each result the index of the argument that it is written into, or -1.
        """
        dims = [dim for value in arguments if isinstance(value.type, TensorType) for dim in self.dynamic_dims(value)]
        properties: dict[str, Attribute] = {
            "callee": SymbolRefAttr(name),
            "declared": FunctionType.from_lists([v.type for v in arguments], list(results)),
        }
        if any(argument >= 0 for argument in tied):
            properties["tied_operands"] = DenseArrayBase.from_list(i64, list(tied))
        call = CallOp(operands=[arguments, dims, result_dims], result_types=[results], properties=properties)
        return self.add(call).results

    def replace(self, *values: SSAValue) -> None:
        """Replace the results of `op` by `values`, and erase `op`.

        Erase its operands, too, if they are empty tensors without other uses: they only stated the shape of a result.
        """
        for old, new in zip(self.op.results, values, strict=True):
            new.name_hint = new.name_hint or old.name_hint
            old.replace_all_uses_with(new)
        operands = list(self.op.operands)
        erase_op(self.op)
        for value in operands:
            owner = value.owner
            if isinstance(owner, tensor.EmptyOp) and owner.parent is not None and not list(owner.tensor.uses):
                erase_op(owner)


def _groups(groups: Sequence[Sequence[int]]) -> ArrayAttr[ArrayAttr[IntegerAttr]]:
    """Return groups of dimensions as the attribute of `expand_shape` and `collapse_shape`."""
    return ArrayAttr([ArrayAttr([IntegerAttr(d, i64) for d in group]) for group in groups])


Row = Callable[[Operation, Build], None]
"""Rule for one operation: it emits the replacement of the operation with the builder, and calls `Build.replace`."""
