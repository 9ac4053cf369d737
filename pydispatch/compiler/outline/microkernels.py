"""External functions that a kernel calls as microkernels: their declarations, objects, and strides as arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, BoolAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute, Region

from pydispatch.errors import CompileError
from pydispatch.ir.core.locations import location_of, set_location
from pydispatch.ir.dialects import iree_codegen
from pydispatch.ir.dialects.hal import dialect as hal


class Microkernels:
    """Collector of the microkernels (external functions) that one kernel calls, and of the objects that define them.

    The builder of the kernel calls `declare` and `add_objects` for each microkernel, and `all_objects` at the end.

    Attributes:
        declarations: (symbol, type as text) → declaration.
        objects: Objects to link for all targets.
        objects_by_target: Target → objects to link for only that target.
    """

    def __init__(self) -> None:
        """Begin without microkernels and objects."""
        self.declarations: dict[tuple[str, str], func.FuncOp] = {}
        self.objects: list[Attribute] = []
        self.objects_by_target: dict[Attribute, list[Attribute]] = {}

    def declare(
        self, op: iree_codegen.UkernelGenericOp, inputs: Sequence[Attribute], outputs: Sequence[Attribute]
    ) -> func.FuncOp:
        """Return the declaration of the external function that `op` calls, created once for each type.

        If a symbol is called with several types, the second declaration is named `symbol.1`, the third `symbol.2`; the
        attribute hal.import.name then states the symbol.

        Args:
            op: The microkernel.
            inputs, outputs: Types of the arguments and results of the function.
        """
        symbol = op.u_kernel_fn_name.data
        attributes = dict(op.fn_def_attrs.data) if op.fn_def_attrs is not None else {}  # that the program states
        type_text = f"{[str(t) for t in inputs]} {[str(t) for t in outputs]} {sorted(map(str, attributes.items()))}"
        key = (symbol, type_text)
        if key not in self.declarations:
            other_types = sum(1 for name, _ in self.declarations if name == symbol)
            name = f"{symbol}.{other_types}" if other_types else symbol
            declaration = func.FuncOp(name, (list(inputs), list(outputs)), Region(), "private")
            # Memrefs are passed as bare pointers: offsets and strides are arguments of their own.
            declaration.attributes.update({"llvm.bareptr": BoolAttr.from_bool(True), **attributes})
            if other_types:
                declaration.attributes.setdefault("hal.import.name", StringAttr(symbol))
            set_location(declaration, op)
            self.declarations[key] = declaration
        return self.declarations[key]

    def add_objects(self, op: iree_codegen.UkernelGenericOp) -> None:
        """Add the objects that a call states: a list for all targets, or one for each target."""
        attribute = op.attributes.get("hal.executable.objects")
        if isinstance(attribute, ArrayAttr):
            self.objects += [o for o in attribute.data if o not in self.objects]
        elif isinstance(attribute, hal.ExecutableObjectsAttr):
            for target, objects in zip(attribute.targets.data, attribute.objects.data, strict=True):
                known = self.objects_by_target.setdefault(target, [])
                known += [o for o in cast("ArrayAttr[Attribute]", objects).data if o not in known]

    def all_objects(self) -> Attribute | None:
        """Return the objects that the microkernels are linked with; None if there are none.

        The result is an array of the objects for all targets, or an attribute with an array for each target. If there
        are objects of both kinds, the attribute is the last element of the array.
        """
        by_target = self.objects_by_target
        if not by_target:
            return ArrayAttr(self.objects) if self.objects else None
        arrays = [ArrayAttr(objects) for objects in by_target.values()]
        per_target = hal.ExecutableObjectsAttr(ArrayAttr(list(by_target)), ArrayAttr(arrays))
        return ArrayAttr([*self.objects, per_target]) if self.objects else per_target


def strided_dims(op: iree_codegen.UkernelGenericOp, index: int, rank: int) -> list[int]:
    """Return the dimensions, in order, of tensor operand `index` whose strides are passed to the microkernel.

    The microkernel gets the base pointer and the offset of each tensor, then these strides. For a second operand of
    rank 2

    - `strided_outer_dims(1)` gives [0]: the outermost dimension of each tensor
    - `strided_dims([[], [0, 1]])` gives [0, 1]: the list of the second operand
    - neither of them gives [0, 1]: all dimensions

    Raises CompileError if `strided_dims` has no list for the operand, or lists dimensions that it does not have.

    Args:
        op: The microkernel.
        index: Index of the operand among the tensors of `ins` and `outs`, without scalars.
        rank: Rank of the operand.
    """
    if op.num_strided_outer_dims is not None:
        return list(range(min(rank, int(op.num_strided_outer_dims.value.data))))
    if op.strided_dims is None:
        return list(range(rank))
    lists = op.strided_dims.data  # a list of dimensions for each tensor
    if index >= len(lists):
        raise CompileError(f"strided_dims gives nothing for operand {index} of rank {rank}", location_of(op))
    attribute = lists[index]
    entries = attribute.data if isinstance(attribute, ArrayAttr) else ()
    dims = [int(d.value.data) for d in entries if isinstance(d, IntegerAttr)]
    if any(not 0 <= d < rank for d in dims):
        raise CompileError(f"strided_dims gives {dims} for operand {index} of rank {rank}", location_of(op))
    return dims
