"""Operands of a contraction that register blocks can read where they are stored: arguments, pages, and panels of B."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import FixedBitwidthType, IntegerAttr, TensorType
from xdsl.ir import Attribute, BlockArgument, OpResult, SSAValue

from pydispatch.compiler.kernels.matmul.cpu.arithmetic import Arithmetic, is_stored_as_packed
from pydispatch.compiler.kernels.matmul.cpu.default_schedule import ASSUMED_STEPS
from pydispatch.compiler.kernels.matmul.cpu.problem import Operand, Problem
from pydispatch.compiler.kernels.matmul.cpu.tiles import Level
from pydispatch.compiler.kernels.matmul.gathered import GatheredPages
from pydispatch.compiler.kernels.matmul.match import Contraction, Factor
from pydispatch.compiler.kernels.matmul.panels import Layout, Panels, panels_of
from pydispatch.compiler.tensor_ops.registry import source_of

MAX_SINGLE_USE_ROWS = 4
"""Maximum number of rows of A for which elements of B are used too rarely for a packed copy: packing them in groups of
steps, or from rows in many memory pages, takes longer than it saves."""

HALF_BYTES = 2
"""Size in bytes of an element of f16 or bf16."""

Sizes = Sequence[int | None]
"""The size of each dimension of a contraction, by its number; None if dynamic."""


def operand_of(
    factor: Factor, contraction: Contraction, is_readable_in_place: bool, rows: int | None, bytes_in_memory: int
) -> Operand:
    """Return the properties of a factor that decide whether register blocks read it in place, without a packed copy.

    Callers replace `element_bytes`, which is 0 (as long as a packed element), if an element in memory has another size.

    Args:
        factor: The factor.
        contraction: Its contraction.
        is_readable_in_place: Whether register blocks can read the factor in place.
        rows: Dimension of the contraction that counts the rows of the factor: M for A, K for B; None for no rows.
        bytes_in_memory: Size in bytes of an element in the memory that is read in place; the distance between rows
            depends on it.
    """
    row_stride = _row_stride(factor, contraction.tensor_of(factor), rows)
    return Operand(
        is_readable_in_place=is_readable_in_place,
        row_stride_bytes=bytes_in_memory * (row_stride or 0),  # 0: no rows, or a dynamic distance
        is_contiguous_k=factor.is_contiguous(contraction.k),
        is_contiguous_n=factor.is_contiguous(contraction.n),
    )


def _row_stride(factor: Factor, tensor: SSAValue, row_dim: int | None) -> int | None:
    """Return the distance of neighbouring rows of a factor in elements; None without rows or for a dynamic distance.

    `row_dim` is the dimension of the contraction that counts rows: with rows of 64 elements, the distance in
    A[2 * row_dim, k] is 128. If it indexes several axes of `tensor`, the distance is that along the first, outermost
    one.
    """
    positions = [] if row_dim is None else factor.positions_of(row_dim)
    if row_dim is None or not positions or not isinstance(tensor.type, TensorType):
        return None
    axis = positions[0]
    inner_sizes = tensor.type.get_shape()[axis + 1 :]
    is_dynamic = any(size < 0 for size in inner_sizes)
    return None if is_dynamic else prod(inner_sizes) * factor.coordinates[axis].coefficient(row_dim)


def half_operand(contraction: Contraction, problem: Problem, b_in_half_precision: SSAValue, level: Level) -> Operand:
    """Return the properties of an operand B of f16 or bf16 that register blocks convert to f32 as they read it.

    Register blocks read B in place in two cases: an argument stores B in panels of adjacent columns, or an argument
    stores B in rows that are contiguous along N, and reading the rows in place is faster than packing them.

    Args:
        contraction: The contraction.
        problem: Its sizes, and the panels of B.
        b_in_half_precision: The tensor of f16 or bf16.
        level: Caches of the CPU.
    """
    operand = operand_of(
        contraction.b, contraction, is_readable_in_place=True, rows=contraction.k, bytes_in_memory=HALF_BYTES
    )
    is_argument_in_rows = argument_of(b_in_half_precision) is not None and contraction.b.is_contiguous(contraction.n)
    pays_in_rows = is_argument_in_rows and _pays_widening_rows(problem, level, operand.row_stride_bytes)
    has_panels = problem.panel_width > 0
    # `operand_of` assumes elements of the packed size, 4 bytes.
    return replace(operand, is_readable_in_place=has_panels or pays_in_rows, element_bytes=HALF_BYTES)


def _pays_widening_rows(problem: Problem, level: Level, row_bytes: int) -> bool:
    """Return whether reads of a B of f16 or bf16 in place are faster than packing; its rows are `row_bytes` apart.

    They are faster if rows are close, if B fits into the third-level cache, or if its elements have few uses. Times in
    us in place against packed on a Zen 5: 13x4096x4096 8,370 against 5,930, 4x4096x4096 2,490 against 3,860, 8x768x3072
    153 against 230.
    """
    are_rows_close = row_bytes <= level.model.page  # at most a page of virtual memory apart
    l3_bytes = 0 if level.model.l3 is None else level.model.l3.bytes
    fits_l3 = 3 * row_bytes * (problem.k or ASSUMED_STEPS) <= l3_bytes  # a third: A, C and other workers take the rest
    has_few_uses = (problem.m or 0) <= MAX_SINGLE_USE_ROWS  # of each element of B; true for an unknown number of rows
    return are_rows_close or fits_l3 or has_few_uses


def argument_of(value: SSAValue) -> BlockArgument | None:
    """Return the argument that a value is, looking through operations that only state sizes; None for another value."""
    value = source_of(value)
    return value if isinstance(value, BlockArgument) else None


def is_argument_element(factor: Factor, contraction: Contraction, compute: Attribute) -> bool:
    """Return whether a factor is an element of an argument of the dispatch, of type `compute` and not converted."""
    tensor = contraction.tensor_of(factor)
    has_type = isinstance(tensor.type, TensorType) and tensor.type.element_type == compute
    return factor.is_element and has_type and argument_of(tensor) is not None


def paged_operand(contraction: Contraction, pages: GatheredPages, packed_bytes: int) -> Operand:
    """Return the properties of an operand B that is gathered pages of an argument, which register blocks read in place.

    Pages are blocks of rows that a table of indices selects. `packed_bytes` is the size of a packed element: elements
    of pages may be shorter, such as f16, which is widened to f32.
    """
    assert isinstance(pages.element_type, FixedBitwidthType)
    element_bytes = pages.element_type.size
    operand = operand_of(
        contraction.b, contraction, is_readable_in_place=True, rows=contraction.k, bytes_in_memory=element_bytes
    )
    # `Operand.element_bytes` is 0 for elements that are as long as packed ones.
    return replace(operand, element_bytes=0 if element_bytes == packed_bytes else element_bytes)


def is_a_stored_as_packed(contraction: Contraction, sizes: Sizes, arithmetic: Arithmetic) -> bool:
    """Return whether an argument stores A as packing would: matrix registers can load its rows from there.

    The argument's elements must be multiplied as they are, and K must be contiguous. K must also be whole groups, the
    `arithmetic.group` steps that one instruction multiplies and adds to one sum.
    """
    a = contraction.a
    tensor, element = contraction.tensor_of(a), contraction.element_of(a)
    is_static = isinstance(tensor.type, TensorType) and tensor.type.has_static_shape()
    is_static_argument = is_static and argument_of(tensor) is not None
    reads_other_tensors = set(a.inputs) != {a.main_input}  # such as scales that its elements are multiplied by
    subtracts_offset = arithmetic.a_offset != 0  # packing subtracts this number from each element
    if reads_other_tensors or subtracts_offset or not is_static_argument:
        return False
    steps = sizes[contraction.k] or 1  # an unknown number, or 0, counts as 1: no whole group
    are_groups = a.is_contiguous(contraction.k) and steps % arithmetic.group == 0
    return are_groups and is_stored_as_packed(a.value, element, arithmetic, is_unsigned=arithmetic.unsigned_a)


def panels_of_b(
    contraction: Contraction, sizes: Sizes, arithmetic: Arithmetic, b_in_half_precision: SSAValue | None
) -> Panels | None:
    """Return the panels in which an argument stores B, if register blocks can read these; else None.

    A panel is a fixed number of adjacent columns: a B of shape [K, N] in panels of 32 is an argument of shape [N / 32,
    K, 32], or, in groups of 4 steps of K, [N / 32, K / 4, 32, 4]. Register blocks can read the panels if they divide N,
    and if the stored elements or groups are those that the arithmetic multiplies.

    Args:
        contraction: The contraction.
        sizes: Sizes of its dimensions; None if dynamic.
        arithmetic: Element types and instructions.
        b_in_half_precision: The tensor of f16 or bf16 that register blocks widen to B; None if B is no such tensor.
    """
    b, n = contraction.b, contraction.n
    panels = panels_of(contraction.tensor_of(b) if b_in_half_precision is None else b_in_half_precision)
    if panels is None or n is None:
        return None
    layout = panels.layout
    are_columns_divided = b.positions_of(n) == [layout.axis] and b.coordinates[layout.axis].is_identity(n)
    if not are_columns_divided:  # the panels are blocks of another dimension, or N has a stride or an offset
        return None
    if not _can_skip_padding(layout, columns=sizes[n]):
        return None
    if layout.step_axis is not None:  # elements are in groups of steps
        are_same_groups = layout.group == arithmetic.group and b.positions_of(contraction.k) == [layout.step_axis]
        return panels if are_same_groups and _is_b_stored_as_packed(contraction, arithmetic) else None
    is_widened = b_in_half_precision is not None
    is_multiplied_as_stored = arithmetic.reads_in_place(contraction.acc) and b.is_element
    return panels if is_widened or is_multiplied_as_stored else None


def _can_skip_padding(layout: Layout, columns: int | None) -> bool:
    """Return whether register blocks can skip the zeros that fill up the last panel if it has too few columns.

    They can if all panels are full. Otherwise the number of columns must be known, and steps not be grouped. An unknown
    number may not fill the panels, unless these have a single column.
    """
    are_panels_full = (columns or 1) % layout.width == 0
    has_groups = layout.step_axis is not None
    return are_panels_full or (columns is not None and not has_groups)


def _is_b_stored_as_packed(contraction: Contraction, arithmetic: Arithmetic) -> bool:
    """Return whether the elements of B's tensor are equal to the packed elements of the factor B.

    A packed element is the factor less `arithmetic.b_offset`. So the factor `element + 128` is packed as `element` if
    the offset is 128. An earlier pass stores unsigned bytes u in this way, as the signed elements u - 128.
    """
    value, offset = contraction.b.value, 0  # the factor is value + offset
    if isinstance(value, OpResult) and isinstance(value.op, arith.AddiOp):
        constant = value.op.rhs.owner
        if isinstance(constant, arith.ConstantOp) and isinstance(constant.value, IntegerAttr):
            value, offset = value.op.lhs, constant.value.value.data
    element = contraction.element_of(contraction.b)
    has_offset_of_packing = offset == arithmetic.b_offset
    return has_offset_of_packing and is_stored_as_packed(value, element, arithmetic, is_unsigned=arithmetic.unsigned_b)
