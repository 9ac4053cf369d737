"""Splitting of operations on more tensors than a dispatch may bind.

A concatenation becomes a tree of concatenations. An elementwise generic becomes one generic for each operation of its
body; formation fuses these again as far as their tensors fit.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import pairwise
from typing import cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, IndexType, TensorType
from xdsl.dialects.linalg.ops import GenericOp, YieldOp
from xdsl.ir import Block, Operation, OpResult, Region, SSAValue
from xdsl.ir.affine import AffineMap

from pydispatch.compiler.analysis.edit import insert_before
from pydispatch.compiler.analysis.kinds import MOST_SCALARS, arguments_of, inputs_of, needs_dispatch
from pydispatch.compiler.fusion.build import affine_maps, iterator_types
from pydispatch.compiler.kernels.ops.generics import cannot_lower
from pydispatch.errors import CompileWarning
from pydispatch.ir.core.locations import location_of
from pydispatch.ir.core.rewriting import replace_op
from pydispatch.ir.core.walk import walk
from pydispatch.ir.structured import GENERIC, Structured, structured
from pydispatch.ir.values import shape_of
from pydispatch.logs import caller_level

FEW_OPERANDS = 4
"""Operations with up to this number of operands fit one dispatch on every target, even if all sizes are dynamic and
passed as constants, and are not checked."""


def narrow_operations(function: Operation, most_tensors: int) -> None:
    """Split the operations of a host function that read and write more than `most_tensors` tensors, in place.

    Operations with up to FEW_OPERANDS operands are not checked: they fit one dispatch on every target. A warning names
    each operation that cannot be split.
    """
    for op in list(walk(function)):  # an operation without a parent was erased when an earlier one was split
        if op.parent is None or len(op.operands) <= FEW_OPERANDS:
            continue
        if not needs_dispatch(op) or _fits(op, most_tensors):
            continue
        generic = structured(op) if op.name == GENERIC else None
        if isinstance(op, tensor.ConcatOp):
            _split_concat(op, most_tensors)
        elif generic is not None and generic.is_parallel and not cannot_lower(generic):
            _ElementwiseSplitter(cast(GenericOp, op), generic).build()
        else:
            _warn(op, most_tensors)


def _fits(op: Operation, most_tensors: int) -> bool:
    """Return whether an operation fits one dispatch."""
    return arguments_of([op]).too_many(len(op.results), most_tensors) is None


def _warn(op: Operation, most_tensors: int) -> None:
    """Warn about an operation that cannot be split, if it reads and writes more than `most_tensors` tensors."""
    count = len(arguments_of([op]).tensors) + len(op.results)
    if count > most_tensors:
        warnings.warn(
            f"{location_of(op)}: '{op.name}' reads and writes {count} tensors; devices of the targets may have no more "
            f"than {most_tensors} storage buffers for a dispatch. Join tensors, or compute the results one by one",
            CompileWarning,
            stacklevel=caller_level(),
        )


# -- concatenations


def _split_concat(op: tensor.ConcatOp, most_tensors: int) -> None:
    """Replace a concatenation with too many operands for one dispatch by a concatenation of concatenations,
    recursively.

    Ten tensors, of which a dispatch may read three, become four concatenations of two or three tensors each. Their four
    results are again too many. They become two concatenations of two results each, and a last one of these two.

    Args:
        op: The concatenation.
        most_tensors: Number of tensors, operands and result together, that a dispatch may access: 4 in the example.
    """
    axis, type_ = op.dim.value.data, op.results[0].type
    assert isinstance(type_, TensorType)
    parts = 2  # number of inner concatenations: the smallest with which each of them fits one dispatch
    while not all(_fits_together(part, most_tensors) for part in _equal_parts(op.operands, parts)):
        parts += 1
    concatenations: list[SSAValue] = []  # the inner ones
    for operands in _equal_parts(op.operands, parts):
        sizes = [shape_of(v)[axis] for v in operands]
        shape = list(type_.get_shape())
        shape[axis] = DYNAMIC_INDEX if any(n < 0 for n in sizes) else sum(sizes)
        concatenations.append(insert_before(tensor.ConcatOp(operands, axis, TensorType(type_.element_type, shape)), op))
    # The outer concatenation, which may have too many operands, too.
    new = tensor.ConcatOp(concatenations, axis, type_)
    replace_op(op, insert_before(new, op))
    if not _fits(new, most_tensors):
        _split_concat(new, most_tensors)


def _equal_parts(operands: Sequence[SSAValue], parts: int) -> list[Sequence[SSAValue]]:
    """Return the operands as `parts` lists of adjacent ones, with nearly equal lengths."""
    bounds = [len(operands) * n // parts for n in range(parts + 1)]
    return [operands[begin:end] for begin, end in pairwise(bounds)]


def _fits_together(operands: Sequence[SSAValue], most_tensors: int) -> bool:
    """Return whether one dispatch may concatenate operands; a single operand always fits, since it cannot be split."""
    dynamic_sizes = sum(1 for v in operands for n in shape_of(v) if n < 0)  # each one is a scalar argument
    # The result is one more tensor.
    return len(operands) == 1 or (len(operands) < most_tensors and dynamic_sizes <= MOST_SCALARS)


# -- elementwise generics


class _ElementwiseSplitter:
    """Splitter of a generic into generics over the same loops, one for each operation of its body.

    Attributes:
        op: The generic.
        generic: The generic as a structured operation.
        loops: Identity map of its loops, by which tensors of intermediate values are indexed.
        tensors: Value of the body → (the tensor that holds it for each iteration, map from the loops to its element).
            It has the operands of the generic, and the results of body operations that have become generics.
    """

    def __init__(self, op: GenericOp, generic: Structured) -> None:
        """Enter the operands of the generic into `tensors`; `generic` is `op` as a structured operation."""
        self.op, self.generic = op, generic
        self.loops = AffineMap.identity(len(generic.iterators))
        operands = zip(generic.block.args, generic.operands, generic.maps, strict=True)
        self.tensors: dict[SSAValue, tuple[SSAValue, AffineMap]] = {a: (value, map_) for a, value, map_ in operands}

    def build(self) -> None:
        """Replace the generic by one generic for each of its results, and one for each operation of its body.

        A generic for an operation stores the result in a tensor over all loops. Constants and indices get no tensor:
        the operations that compute them are repeated in each reader.
        """
        *body, end = self.generic.block.ops  # the last operation is the yield
        for op in body:
            if _is_cheaper_than_tensor(op):
                continue  # `_generic` clones it into each reader
            for result in op.results:
                shape = [DYNAMIC_INDEX if n is None else n for n in self.generic.extents]
                output = tensor.EmptyOp(self._sizes(), TensorType(result.type, shape))
                tensor_of_result = self._generic(result, insert_before(output, self.op), self.loops)
                self.tensors[result] = tensor_of_result, self.loops
        outputs = zip(end.operands, self.generic.outputs, self.generic.output_maps, strict=True)
        replace_op(self.op, *[self._generic(value, output, map_) for value, output, map_ in outputs])

    def _sizes(self) -> list[SSAValue]:
        """Insert operations that compute the sizes of the loops with dynamic sizes, and return these in loop order."""
        sizes = []
        # `dims`: the dimensions of operands that a loop indexes by itself. All have the size of the loop.
        for dims, extent in zip(self.generic.loop_dims, self.generic.extents, strict=True):
            if extent is None:
                axis = insert_before(arith.ConstantOp.from_int_and_width(dims[0].axis, IndexType()), self.op)
                sizes.append(insert_before(tensor.DimOp(dims[0].tensor, axis), self.op))
        return sizes

    def _computation_of(self, value: SSAValue) -> tuple[set[Operation], list[SSAValue]]:
        """Return the operations of the body that compute a value from values that tensors hold, and those values."""
        ops: set[Operation] = set()
        read: dict[SSAValue, None] = {}  # a set with an order
        pending = [value]
        while pending:
            operand = pending.pop()
            if operand in self.tensors:
                read[operand] = None
            elif isinstance(operand, OpResult) and operand.op.parent is self.generic.block and operand.op not in ops:
                ops.add(operand.op)
                pending += inputs_of(operand.op)
        return ops, list(read)

    def _generic(self, value: SSAValue, output: SSAValue, map_: AffineMap) -> SSAValue:
        """Insert a generic that computes or copies one value of the body, and return its result.

        If the body is s = a + b; p = s * 2; yield p, the generic of s reads the tensors of a and b. The generic of p
        reads the tensor of s and contains a clone of the constant 2. If a tensor holds `value` already, such as an
        operand that the body yields, the generic copies it.

        map_: map from the loops to the element of `output`, the tensor that the generic writes.
        """
        ops, read = self._computation_of(value)  # operations to clone, and the values that they read from tensors
        assert isinstance(output.type, TensorType)
        block = Block(arg_types=[*(v.type for v in read), output.type.element_type])
        mapping = dict(zip(read, block.args, strict=False))
        for op in self.generic.block.ops:
            if op in ops:
                block.add_op(op.clone(mapping))
        # clone() has added results to `mapping`; a value from outside of the body is not in it.
        block.add_op(YieldOp(mapping.get(value, value)))
        sources = [self.tensors[v] for v in read]
        generic = GenericOp(
            [source for source, _ in sources], [output], Region(block), affine_maps([*(m for _, m in sources), map_]),
            iterator_types(self.generic.iterators), [output.type],
        )  # fmt: skip
        return insert_before(generic, self.op)


def _is_cheaper_than_tensor(op: Operation) -> bool:
    """Return whether an operation of a body computes a constant or an index, which needs no tensor of its values."""
    return not op.operands or any(isinstance(r.type, IndexType) for r in op.results)
