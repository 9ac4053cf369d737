"""Operations on more tensors than a dispatch may bind become several that bind fewer.

A concatenation becomes a tree of concatenations. An elementwise generic becomes one generic for each operation of its
body, which formation joins again as far as their tensors fit.
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

from pydispatch.compiler.analysis.edit import before
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
"""Operands whose sizes and tensors fit for every target."""


def narrow_operations(function: Operation, most_tensors: int) -> None:
    """Rewrite the operations of a host function in place that read and write more than `most_tensors` tensors.

    A warning names those that cannot be rewritten.
    """
    for op in list(walk(function)):
        if op.parent is None or len(op.operands) <= FEW_OPERANDS or not needs_dispatch(op) or _fits(op, most_tensors):
            continue
        if isinstance(op, tensor.ConcatOp):
            _split(op, most_tensors)
        elif op.name == GENERIC and (g := structured(op)).is_parallel and not cannot_lower(g):
            _TakenApart(cast(GenericOp, op), g).build()
        else:
            _warn(op, most_tensors)


def _fits(op: Operation, most_tensors: int) -> bool:
    return arguments_of([op]).too_many(len(op.results), most_tensors) is None


def _warn(op: Operation, most_tensors: int) -> None:
    count = len(arguments_of([op]).tensors) + len(op.results)
    if count > most_tensors:
        warnings.warn(
            f"{location_of(op)}: '{op.name}' reads and writes {count} tensors; devices of the targets may have no more "
            f"than {most_tensors} storage buffers for a dispatch. Join tensors, or compute the results one by one",
            CompileWarning,
            stacklevel=caller_level(),
        )


# -- concatenations


def _split(op: tensor.ConcatOp, most_tensors: int) -> None:
    """Replace a concatenation by one of concatenations, of numbers of operands that are as equal as possible."""
    axis, whole = op.dim.value.data, op.results[0].type
    assert isinstance(whole, TensorType)
    parts = 2
    while not all(_fits_together(part, most_tensors) for part in _equal_parts(op.operands, parts)):
        parts += 1
    concatenations: list[SSAValue] = []
    for operands in _equal_parts(op.operands, parts):
        sizes = [shape_of(v)[axis] for v in operands]
        shape = list(whole.get_shape())
        shape[axis] = DYNAMIC_INDEX if any(n < 0 for n in sizes) else sum(sizes)
        concatenations.append(before(tensor.ConcatOp(operands, axis, TensorType(whole.element_type, shape)), op))
    new = tensor.ConcatOp(concatenations, axis, whole)
    replace_op(op, before(new, op))
    if not _fits(new, most_tensors):
        _split(new, most_tensors)


def _equal_parts(operands: Sequence[SSAValue], parts: int) -> list[Sequence[SSAValue]]:
    bounds = [len(operands) * n // parts for n in range(parts + 1)]
    return [operands[begin:end] for begin, end in pairwise(bounds)]


def _fits_together(operands: Sequence[SSAValue], most_tensors: int) -> bool:
    """Return whether operands may be arguments of one dispatch; a single one always is."""
    sizes = sum(1 for v in operands for n in shape_of(v) if n < 0)
    return len(operands) == 1 or (len(operands) < most_tensors and sizes <= MOST_SCALARS)


# -- elementwise generics


class _TakenApart:
    """Decomposition of a generic into generics over the same loops, one for each operation of its body."""

    def __init__(self, op: GenericOp, generic: Structured) -> None:
        self.op, self.g = op, generic
        self.loops = AffineMap.identity(len(generic.iterators))
        operands = zip(generic.block.args, generic.operands, generic.maps, strict=True)
        self.tensors: dict[SSAValue, tuple[SSAValue, AffineMap]] = {a: (value, map_) for a, value, map_ in operands}
        """Values of the body → the operands or tensors that have them, and where."""

    def build(self) -> None:
        """Put the generics before the operation, and erase it."""
        *body, end = self.g.block.ops
        for op in body:
            for result in () if _is_copied(op) else op.results:
                shape = [DYNAMIC_INDEX if n is None else n for n in self.g.extents]
                output = tensor.EmptyOp(self._sizes(), TensorType(result.type, shape))
                self.tensors[result] = self._generic(result, before(output, self.op), self.loops), self.loops
        outputs = zip(end.operands, self.g.outputs, self.g.output_maps, strict=True)
        replace_op(self.op, *[self._generic(value, output, map_) for value, output, map_ in outputs])

    def _sizes(self) -> list[SSAValue]:
        """Return the trip counts of the loops that no type states."""
        sizes = []
        for sources, extent in zip(self.g.loop_dims, self.g.extents, strict=True):
            if extent is None:
                axis = before(arith.ConstantOp.from_int_and_width(sources[0].axis, IndexType()), self.op)
                sizes.append(before(tensor.DimOp(sources[0].tensor, axis), self.op))
        return sizes

    def _generic(self, value: SSAValue, output: SSAValue, map_: AffineMap) -> SSAValue:
        """Insert a generic that computes one value of the body by one operation, or copies it, and return its
        result.
        """
        ops: set[Operation] = set()
        read: dict[SSAValue, None] = {}
        pending = [value]
        while pending:
            operand = pending.pop()
            if operand in self.tensors:
                read[operand] = None
            elif isinstance(operand, OpResult) and operand.op.parent is self.g.block and operand.op not in ops:
                ops.add(operand.op)
                pending += inputs_of(operand.op)
        assert isinstance(output.type, TensorType)
        block = Block(arg_types=[*(v.type for v in read), output.type.element_type])
        mapping = dict(zip(read, block.args, strict=False))
        for op in self.g.block.ops:
            if op in ops:
                block.add_op(op.clone(mapping))
        block.add_op(YieldOp(mapping.get(value, value)))
        sources = [self.tensors[v] for v in read]
        generic = GenericOp(
            [source for source, _ in sources], [output], Region(block), affine_maps([*(m for _, m in sources), map_]),
            iterator_types(self.g.iterators), [output.type],
        )  # fmt: skip
        return before(generic, self.op)


def _is_copied(op: Operation) -> bool:
    """Return whether an operation of a body is copied to what reads it: constants and indices, which have
    no tensors.
    """
    return not op.operands or any(isinstance(r.type, IndexType) for r in op.results)
