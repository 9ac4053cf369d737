"""Blocks of reductions on GPUs whose inputs are loaded in pairs of 32-bit elements, as 64-bit integers.

Inputs are buffers of static sizes that are contiguous along the rows of the block, its columns, or the innermost step
of the reduction. The innermost loop carries one index per input, so that each load is at a constant offset from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    ArrayAttr,
    Float32Type,
    IntegerAttr,
    MemRefType,
    StringAttr,
    i32,
    i64,
)
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr

from pydispatch.compiler.kernels.ops.affine_maps import evaluate
from pydispatch.compiler.kernels.ops.builder import Builder, Index, load
from pydispatch.compiler.kernels.ops.elements import Elements
from pydispatch.compiler.kernels.ops.generics import body_at, loop_sizes
from pydispatch.compiler.kernels.ops.tensors import tensor_type
from pydispatch.ir.affine_maps import dims_in
from pydispatch.ir.dialects.hal import dialect as hal
from pydispatch.ir.structured import Structured

MAX_UNROLLED_PRODUCTS = 128
"""Multiplications of a block in one iteration of the innermost loop, at most; more make the code too long."""


@dataclass(frozen=True)
class PairedInput:
    """Input of a reduction that is loaded in pairs of elements.

    Attributes:
        ordinal: Its position among the inputs.
        strides: Its stride along each loop of the reduction, in elements; 0 for a loop that does not index it.
        contiguous_dim: The loop along which it is contiguous.
    """

    ordinal: int
    strides: tuple[int, ...]
    contiguous_dim: int


def paired_inputs(elements: Elements, generic: Structured, dims: tuple[int, int]) -> tuple[PairedInput, ...]:
    """Return the inputs that are loaded in pairs of elements; () for a reduction that cannot use pairs.

    Inputs that depend on the innermost reduced loop or on the columns are loaded in pairs. Each of them must be
    contiguous along the rows or columns of a block, or along the innermost loop. For `C[i, j] = sum over k of
    A[i, k] * B[k, j]`, whose loops are (i, j, k), with 64 columns and 32 steps, A has the strides (32, 0, 1) and is
    contiguous along loop 2, and B has the strides (0, 1, 64) and is contiguous along loop 1.

    `dims` are the loops of the reduction that count the rows and the columns of a block, here (0, 1).
    """
    if not generic.reduced_loops:
        return ()
    step, sizes = generic.reduced_loops[-1], loop_sizes(elements, generic)
    size = sizes[step]
    if not isinstance(size, int) or size % 2:  # a pair along the innermost loop is read by two steps
        return ()
    inputs: list[PairedInput] = []
    for ordinal, map in enumerate(generic.maps[: len(generic.inputs)]):
        is_used = bool(generic.block.args[ordinal].uses)
        # An element of an input that depends neither on the columns nor on the innermost loop serves a row of the block
        # in all steps: such an input is not loaded in pairs.
        is_row_invariant = not {step, dims[1]} & dims_in(map)
        if not is_used or is_row_invariant:
            continue
        # Both elements of a pair must be used: by two rows or columns of the block, or by two unrolled steps.
        paired = _paired_input(elements, generic, ordinal, contiguous_dims=(step, *dims))
        if paired is None:
            return ()
        inputs.append(paired)
    return tuple(inputs)


def _paired_input(
    elements: Elements, generic: Structured, ordinal: int, contiguous_dims: Sequence[int]
) -> PairedInput | None:
    """Return an input as one that is loaded in pairs; None if its buffer or its indices do not permit that.

    It must be contiguous along one of the loops `contiguous_dims`, and a loop of its own must index each of its axes.
    """
    value, map = generic.inputs[ordinal], generic.maps[ordinal]
    loops = [axis.position for axis in map.results if isinstance(axis, AffineDimExpr)]  # that index the axes
    has_constant_strides = len(set(loops)) == len(map.results)
    if not has_constant_strides or loops[-1] not in contiguous_dims or not _is_pairable_buffer(elements, value):
        return None
    shape = tensor_type(value).get_shape()
    strides = [0] * len(generic.iterators)
    for axis, loop in enumerate(loops):
        strides[loop] = prod(shape[axis + 1 :])
    return PairedInput(ordinal=ordinal, strides=tuple(strides), contiguous_dim=loops[-1])


def _is_pairable_buffer(elements: Elements, value: SSAValue) -> bool:
    """Return whether a value is an argument in a read-only buffer of f32 or i32, of static shape and row-major order.

    Its last size must be even, so that a pair does not extend into the next row.
    """
    type_ = tensor_type(value)
    shape = type_.get_shape()
    if not isinstance(value, BlockArgument) or type_.element_type not in (Float32Type(), i32):
        return False
    buffer, index_map = elements.buffer_of(value)
    binding = buffer.owner
    is_in_order = index_map is None  # a map would permute or split the indices
    if not isinstance(binding, hal.InterfaceBindingSubspanOp) or not is_in_order:
        return False
    flags = binding.properties.get("flags")
    is_read_only = isinstance(flags, ArrayAttr) and StringAttr("ReadOnly") in flags.data
    is_static = all(size > 0 for size in shape)
    return is_read_only and is_static and shape[-1] % 2 == 0


def _pairs_of(elements: Elements, value: SSAValue) -> SSAValue:
    """Return the buffer of a value as a memref of i64 with one dimension, each i64 two adjacent elements of 32 bits.

    The memref is a second subspan of the value's binding. It is emitted once, at the entry of the kernel.
    """
    key = ("pairs", value)
    earlier = elements.entry.recall(key)
    if earlier is not None:
        return earlier
    whole_buffer, _index_map = elements.buffer_of(value)
    subspan = whole_buffer.owner
    assert isinstance(subspan, Operation)
    count = prod(tensor_type(value).get_shape()) // 2
    view = hal.InterfaceBindingSubspanOp(
        operands=[[elements.entry.index(0)], []],
        result_types=[MemRefType(i64, [count])],
        properties={name: subspan.properties[name] for name in ("binding", "flags")},
    )
    buffer = elements.entry.add(view)
    elements.entry.remember(key, buffer)
    return buffer


def _is_multiply_add(elements: Elements, generic: Structured, paired: Sequence[PairedInput]) -> bool:
    """Return whether the body is `acc + a * b` on floats, with both factors among the inputs `paired`.

    A step of the reduction is then emitted as one fused multiply-add. False is also returned if the program does not
    permit that (`elements.reassociate`).
    """
    ops = list(generic.block.ops)  # the product, the sum and the yield
    if not elements.reassociate or len(ops) != 3 or [op.name for op in ops[:2]] != ["arith.mulf", "arith.addf"]:
        return False
    product, total = ops[0].results[0], ops[1].results[0]
    carried = generic.block.args[len(generic.inputs)]
    factors = [generic.block.args[paired_input.ordinal] for paired_input in paired]
    multiplies_factors = len(factors) == 2 and set(ops[0].operands) == set(factors)
    adds_product = set(ops[1].operands) == {product, carried}
    yields_total = list(ops[2].operands) == [total]
    return multiplies_factors and adds_product and yields_total


@dataclass(frozen=True)
class PairedBlock:
    """Elements of a reduction's result that an invocation computes, with inputs that it loads in pairs.

    Attributes:
        paired: Inputs that are loaded in pairs.
        corner: Index of each loop of the reduction at the corner, the first element of the block; 0 for reduced loops.
        dims: (row loop, column loop): the loops of the reduction that count the rows and the columns.
        offsets: (row, column) of each element, relative to the corner: for 2 rows and 2 columns (0, 0), (0, 1), (1, 0),
            (1, 1).
        column_pair: Half of the corner's column, which is even. In a row of an input that is contiguous along the
            columns, a corner in column 6 reads pair 3: the elements 6 and 7.
    """

    paired: Sequence[PairedInput]
    corner: Sequence[Index]
    dims: tuple[int, int]
    offsets: Sequence[tuple[int, int]]
    column_pair: Index

    def points(self, build: Builder) -> list[list[Index]]:
        """Return for each element of the block the index in each loop of the reduction; 0 for reduced loops."""
        points = []
        for row_and_column in self.offsets:
            point = list(self.corner)
            for dim, offset in zip(self.dims, row_and_column, strict=True):
                point[dim] = build.plus(point[dim], offset)
            points.append(point)
        return points


def reduce_paired(elements: Elements, build: Builder, generic: Structured, block: PairedBlock) -> list[SSAValue]:
    """Emit the reduction `generic` for all elements of a block in one loop nest, and return their results."""
    points = block.points(build)
    initial = [
        elements.at(build, generic.outputs[0], evaluate(build, generic.output_maps[0], point)) for point in points
    ]
    reduction = _PairedReduction(
        elements=elements,
        generic=generic,
        block=block,
        points=points,
        sizes=loop_sizes(elements, generic),
        is_multiply_add=_is_multiply_add(elements, generic, block.paired),
    )
    return reduction.emit(build, depth=0, current={}, sums=initial)


@dataclass(frozen=True)
class _PairedReduction:
    """Emitter of a reduction in which an invocation computes a block of results, and loads elements in pairs.

    `reduce_paired` creates it.

    Attributes:
        elements: Tensors of the kernel.
        generic: The reduction.
        block: The elements of its result, and the inputs that are loaded in pairs.
        points: For each element of the block, the index of each loop. Indices of reduced loops are placeholders, which
            each step replaces.
        sizes: Size of each loop of the reduction.
        is_multiply_add: Whether the body is `acc + a * b` of two paired inputs, so that a step is one multiply-add.
    """

    elements: Elements
    generic: Structured
    block: PairedBlock
    points: Sequence[Sequence[Index]]
    sizes: Sequence[Index]
    is_multiply_add: bool

    def emit(self, build: Builder, depth: int, current: dict[int, Index], sums: list[SSAValue]) -> list[SSAValue]:
        """Emit the reduced loops from number `depth` on, and return the sums after them.

        Args:
            build: Receives the code.
            depth: Position of the outermost loop to emit in `generic.reduced_loops`.
            current: Reduced loop around the loops to emit -> its index.
            sums: The sum of each element of the block before the loops.
        """
        dim = self.generic.reduced_loops[depth]
        if dim == self.generic.reduced_loops[-1]:
            return self._emit_innermost_loop(build, current, sums)

        def emit_inner_loops(inner: Builder, index: Index, values: list[SSAValue]) -> list[SSAValue]:
            """Emit the loops inside of the loop over `dim`, at its index `index`."""
            return self.emit(inner, depth + 1, current | {dim: index}, values)

        return build.loop(0, self.sizes[dim], sums, emit_inner_loops)

    def _emit_innermost_loop(self, build: Builder, current: dict[int, Index], sums: list[SSAValue]) -> list[SSAValue]:
        """Emit the innermost reduced loop, and return the sums after it. For the parameters, see `emit`.

        It carries the sums and, for each paired input, the index of the pair that the corner reads. For a product of A
        and B with loop k, a block of 2x2 and an unroll factor of 2, it is

            for k = 0 to n step 2, carrying s00, s01, s10, s11, a, b {
              load A's pairs of the 2 rows, from index a on        // each has the elements k and k + 1 of a row
              load B's pairs of the rows k and k + 1, from index b // each has the 2 columns of the block
              8 multiply-adds
              a += 1, b += the pairs of 2 rows of B
            }
        """
        innermost = self.generic.reduced_loops[-1]
        size = self.sizes[innermost]
        assert isinstance(size, int)
        # `paired_inputs` has checked that `size` is even. The unroll factor is at least 2, because a pair along this
        # loop has the elements of two steps. Larger factors are limited to `MAX_UNROLLED_PRODUCTS` products in an
        # iteration: one for each sum and step.
        unroll = next(u for u in (8, 4, 2) if size % u == 0 and (u == 2 or u * len(sums) <= MAX_UNROLLED_PRODUCTS))
        # The index of each loop for the first element of the block in the first step.
        corner = [current.get(dim, index) for dim, index in enumerate(self.block.corner)]
        first_step = replace(self.block, corner=corner)
        pairs = [_first_pair_index(build, paired, first_step, innermost) for paired in self.block.paired]
        steps = partial(self._unrolled_steps, current, unroll)
        final_values = build.loop(0, size, [*sums, *pairs], steps, step=unroll)
        return final_values[: len(sums)]

    def _unrolled_steps(
        self, current: dict[int, Index], unroll: int, build: Builder, index: Index, carried: list[SSAValue]
    ) -> list[SSAValue]:
        """Emit `unroll` steps of the innermost loop, which share their loads, and return the new carried values.

        Args:
            current: Reduced loop around the innermost one -> its index.
            unroll: Number of steps.
            build: Receives the code.
            index: The first step.
            carried: The sum of each element, then, for each input, the index of the pair that the corner reads in the
                first step. In each iteration the index grows by stride * unroll / 2 pairs, where stride is that of the
                innermost loop in elements.
        """
        innermost, inputs = self.generic.reduced_loops[-1], self.block.paired
        sums, pairs = carried[: len(self.points)], carried[len(self.points) :]
        loaders = [
            _Pairs(self.elements, build, self.generic, paired, first_pair)
            for paired, first_pair in zip(inputs, pairs, strict=True)
        ]
        for step in range(unroll):
            reduced_indices = current | {innermost: build.plus(index, step)}
            for position, point in enumerate(self.points):
                loaded = [
                    loader.at(self._distance_from_corner(paired, position, step))
                    for paired, loader in zip(inputs, loaders, strict=True)
                ]
                iteration = [reduced_indices.get(loop, i) for loop, i in enumerate(point)]
                sums[position] = self._step(build, iteration, loaded, sums[position])
        next_pairs = [
            build.plus(pair, paired.strides[innermost] * unroll // 2)
            for paired, pair in zip(inputs, pairs, strict=True)
        ]
        return [*sums, *(build.value(pair) for pair in next_pairs)]

    def _distance_from_corner(self, paired: PairedInput, position: int, step: int) -> int:
        """Return how far, in elements of an input, a step's read is from the read of the corner in the first step.

        `position` is that of the result's element in the block, `step` is counted from the first unrolled step.
        """
        (row_loop, column_loop), (row, column) = self.block.dims, self.block.offsets[position]
        innermost = self.generic.reduced_loops[-1]
        distances = {row_loop: row, column_loop: column, innermost: step}
        return sum(paired.strides[loop] * distance for loop, distance in distances.items())

    def _step(
        self, build: Builder, iteration: Sequence[Index], loaded: Sequence[SSAValue], total: SSAValue
    ) -> SSAValue:
        """Emit one step of the reduction of one element, and return its new sum.

        Args:
            build: Receives the code.
            iteration: Index of each loop of the reduction.
            loaded: For each input that is loaded in pairs, the element that the step reads.
            total: The sum before the step.
        """
        if self.is_multiply_add:
            lhs, rhs = loaded
            return build.add(math.FmaOp(lhs, rhs, total))
        # `define` records the loaded elements, so that the body uses them instead of loads of these inputs.
        for paired, element in zip(self.block.paired, loaded, strict=True):
            indices = evaluate(build, self.generic.maps[paired.ordinal], iteration)
            self.elements.define(build, self.generic.inputs[paired.ordinal], indices, element)
        (new_total,) = body_at(self.elements, build, self.generic, iteration, carried=[total])
        return new_total


def _first_pair_index(build: Builder, paired: PairedInput, block: PairedBlock, innermost: int) -> SSAValue:
    """Return the index of the pair of input elements that the corner reads in the first step of the loop `innermost`.

    It is half of the element's offset, the sum of index * stride over all loops; the index of `innermost` is 0. The
    corner of `block` has the current indices of the outer reduced loops.
    """
    (row_loop, column_loop), corner = block.dims, block.corner
    # The loop along which the input is contiguous, with stride 1: half of its index.
    pair: Index = 0
    if paired.contiguous_dim == column_loop:
        pair = block.column_pair
    elif paired.contiguous_dim == row_loop:
        pair = build.quotient(corner[row_loop], 2)
    # The other loops. Their strides are even: they have the last size, which is even, as a factor.
    for dim, stride in enumerate(paired.strides):
        if stride and dim not in (paired.contiguous_dim, innermost):
            pair = build.plus(pair, build.times(corner[dim], stride // 2))
    return build.value(pair)


class _Pairs:
    """Emitter of the loads of one input in one iteration of the innermost loop; each pair is loaded once.

    Attributes:
        build: Receives the loads.
        first_pair: Index in `buffer` of the pair that the first element of the block reads in the first step.
        buffer: The input as i64, each of them a pair of elements.
        element_type: Type of an element: f32 or i32.
        loaded: Distance of a pair from `first_pair`, in pairs -> its two elements.
    """

    def __init__(
        self, elements: Elements, build: Builder, generic: Structured, paired: PairedInput, first_pair: SSAValue
    ) -> None:
        """View the input `paired` of the reduction `generic` as pairs of elements; none is loaded yet.

        `first_pair` is the index of the pair that the first element of the block reads in the first step.
        """
        self.build, self.first_pair = build, first_pair
        self.buffer = _pairs_of(elements, generic.inputs[paired.ordinal])
        self.element_type = generic.block.args[paired.ordinal].type
        # Distance of a pair from the first one, in pairs -> its two elements.
        self.loaded: dict[int, tuple[SSAValue, SSAValue]] = {}

    def at(self, offset: int) -> SSAValue:
        """Return the element that is `offset` elements after the first one of pair `first_pair`.

        The pair of the element is loaded on first use.
        """
        pair, index_in_pair = divmod(offset, 2)
        if pair not in self.loaded:
            build = self.build
            # The first element of a pair is in its low bits.
            pair_bits = load(build, self.buffer, build.plus(self.first_pair, pair))
            shift = build.pure(arith.ConstantOp(IntegerAttr(32, i64)))
            halves = [pair_bits, build.add(arith.ShRUIOp(pair_bits, shift))]
            words = [build.add(arith.TruncIOp(half, i32)) for half in halves]
            if self.element_type != i32:
                words = [build.add(arith.BitcastOp(word, self.element_type)) for word in words]
            self.loaded[pair] = words[0], words[1]
        return self.loaded[pair][index_in_pair]
