"""Derivatives of `linalg.generic`: elementwise functions, broadcasts, transposes, reductions, sums of products, and
reads at computed positions.

The cotangent of an operand has the operand's shape. Each of its elements is the sum of the cotangents in all iterations
that read the element. A loop nest over the same iterations computes it: its body is that of the operation, followed by
the derivatives of the body's functions in reverse order.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import tensor
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap

from pydispatch.derivatives.cotangents import Cotangents, Rule
from pydispatch.derivatives.rules.gathered import add_to_source
from pydispatch.derivatives.rules.loop_nests import LoopNest, Seed
from pydispatch.derivatives.rules.seeds import seeds_of
from pydispatch.operations import shapes


def generic(cotangents: Cotangents, op: Operation) -> None:
    """Add the cotangents of the operands of a `linalg.generic`, and of the tensors that its body reads.

    A tensor is either an operand, an element of which is an argument of the body, or is read in the body at computed
    positions by `tensor.extract`. For y[i] = sum over j of a[i, j] * b[j], the derivatives begin at a seed: the
    cotangent of each product is that of y[i], dy[i]. Then da[i, j] = dy[i] * b[j], and db[j] = sum over i of
    dy[i] * a[i, j].

    Raise CompileError for a body with branches, and for a body that uses a number from outside of the loops if the
    number depends on an input: only tensors have cotangents.
    """
    nest = LoopNest(cotangents, op)
    # Active values depend on an input, and the body's own values are not marked as active: those that it uses are from
    # outside. Only the tensor of an extract may be active.
    used = {operand for operation in nest.operations if not isinstance(operation, tensor.ExtractOp)
            for operand in operation.operands}  # fmt: skip
    uses_active_number = not cotangents.active.isdisjoint({*used, *nest.yielded})
    has_branches = any(operation.regions for operation in nest.operations)
    if has_branches or uses_active_number:
        raise cotangents.refuse("a loop whose body has branches, or uses a number from outside")
    seeds = seeds_of(nest)
    # The operands. One that is passed several times with one map is handled once, for all of its arguments: the two
    # of `x * x`.
    for value, map in dict.fromkeys(zip(nest.inputs, nest.input_maps, strict=True)):
        if value in cotangents.active:
            # `nest.arguments` is longer than the lists of operands: after the elements of inputs, it
            # has one element of each result.
            arguments = [
                argument
                for argument, other_value, other_map in zip(nest.arguments, nest.inputs, nest.input_maps, strict=False)
                if other_value == value and other_map == map
            ]
            _add_to_operand(cotangents, nest, seeds, value, map, arguments)
    # The tensors that are read at computed positions.
    for read in nest.operations:
        if isinstance(read, tensor.ExtractOp) and read.tensor in cotangents.active:
            add_to_source(nest, seeds, read)


def _add_to_operand(
    cotangents: Cotangents,
    nest: LoopNest,
    seeds: Sequence[Seed],
    value: SSAValue,
    map: AffineMap,
    arguments: Sequence[SSAValue],
) -> None:
    """Add the cotangent of an operand to `cotangents`. Raise CompileError if its indexing map is not a permutation of
    some loops, apart from axes of size 1.

    An operand [N, 1] with the map (i, j) -> (j, 0) is indexed by loop j: the cotangents of its elements are added up
    over i to a tensor [N], which is reshaped to [N, 1]. The map (i, j) -> (i, i), a diagonal, is refused.

    Args:
        cotangents: Cotangents of the program.
        nest: The loop nest.
        seeds: Cotangents of elements of the body, at which its derivatives begin.
        value: The operand.
        map: Its indexing map.
        arguments: Arguments of the body that are elements of this operand.
    """
    like = cotangents.program_tensor(value)
    loops = []  # the loops that index the operand's axes, without axes that are read at a constant index
    for expr, size in zip(map.results, like.shape, strict=True):
        if isinstance(expr, AffineDimExpr) and expr.position not in loops:
            loops.append(expr.position)
            continue
        is_whole_axis = isinstance(expr, AffineConstantExpr) and size == 1  # the constant index is the only one
        if not is_whole_axis:
            raise cotangents.refuse("a read of an array along its diagonal")
    # The sum has one axis for each of `loops`, and lacks the axes of size 1.
    summed = nest.summed(seeds, arguments, AffineMap(map.num_dims, 0, tuple(AffineDimExpr(n) for n in loops)))
    if summed is not None:
        cotangents.add(value, shapes.reshape(cotangents.trace, summed, like.shape))


GENERIC_RULES: dict[str, Rule] = {"linalg.generic": generic}
"""Name of an operation → its derivative."""
