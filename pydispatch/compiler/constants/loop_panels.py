"""Packing of loop-invariant factors of products into column panels, once before the loop.

Weights that are arguments of a program are not known before a call, and packing them costs more than one product of a
few rows gains. A loop of the host that multiplies by them in every iteration, such as the steps of an LSTM, reads them
often enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from xdsl.dialects import cf
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Block, Operation, SSAValue

from pydispatch.compiler.analysis.kinds import is_constant
from pydispatch.compiler.constants.known import bytes_of
from pydispatch.compiler.constants.panel_layouts import plain_layout
from pydispatch.compiler.flatten.branches import successors
from pydispatch.compiler.flatten.loop_arguments import recorded_iterations
from pydispatch.compiler.kernels.matmul.cpu.tiles import Level
from pydispatch.compiler.kernels.matmul.match import Contraction, contraction_of
from pydispatch.compiler.kernels.matmul.panels import Layout, from_panels, into_panels
from pydispatch.ir.core.locations import set_location

MIN_ITERATIONS = 16
"""Fewest iterations of a loop that pay for a packed copy, which takes as long as a few products of few rows."""

MIN_ROWS, MOST_ROWS = 3, 64
"""Rows of a product that panels make faster by enough to pay for the copy: one or two wait for memory in any layout,
and many use each column long after it was loaded."""

MOST_BYTES = 64 << 20
"""Largest packed copy, which stays in memory while the loop runs."""


def pack_before_loops(function: Operation, levels: Sequence[Level]) -> None:
    """Pack the loop-invariant factors of the products in the loops of a host function before the loops, in place.

    A panel is a fixed number of adjacent columns, stored together with all their rows. A factor is packed if the loop
    is known to have `MIN_ITERATIONS`, the product has `MIN_ROWS` to `MOST_ROWS` rows, and the copy fits `MOST_BYTES`.

        ^entry(%w):                              ^entry(%w):
          br ^header                               %panels = pack %w
        ^header:                                   br ^header
          cond_br %more, ^body, ^exit      →     ^header:
        ^body:                                     cond_br %more, ^body, ^exit
          %y = matmul %x, %w                     ^body:
          br ^header                               %u = unpack %panels
                                                   %y = matmul %x, %u
                                                   br ^header

    If the unpacking becomes a part of the product's dispatch, the kernel reads the panels in place.

    Args:
        function: The host function, whose loops have become branches.
        levels: The ISA levels of all targets, which are CPUs.
    """
    blocks = list(function.regions[0].blocks)
    for header in blocks:  # outer loops before inner ones
        # The branch at the end of a loop's header states the number of iterations, if that is known.
        end = header.last_op
        if end is None or recorded_iterations(end) < MIN_ITERATIONS:
            continue
        # Factors are packed at the end of the only block that enters the loop, if it does so unconditionally.
        body = _natural_loop(header, blocks)
        entries = [block for block in blocks if block not in body and header in successors(block)]
        branch = entries[0].last_op if len(entries) == 1 else None
        if isinstance(branch, cf.BranchOp):
            _pack_in_loop(body, branch, levels)


def _natural_loop(header: Block, blocks: Sequence[Block]) -> list[Block]:
    """Return the blocks of a loop in region order: those that its header reaches, and that reach the header.

    A set of blocks has another order in each process, and so would operations that are inserted for each block.
    """

    def predecessors(block: Block) -> list[Block]:
        """Return those of `blocks` that may branch to a block."""
        return [other for other in blocks if block in successors(other)]

    body = _reached(header, successors) & _reached(header, predecessors)
    return [block for block in blocks if block in body]


def _reached(start: Block, neighbours: Callable[[Block], Iterable[Block]]) -> set[Block]:
    """Return the blocks that are reached from a block by one step or more along `neighbours`."""
    pending, seen = [start], set[Block]()
    while pending:
        unseen = [block for block in neighbours(pending.pop()) if block not in seen]
        seen.update(unseen)
        pending += unseen
    return seen


def _pack_in_loop(body: Sequence[Block], entry: cf.BranchOp, levels: Sequence[Level]) -> None:
    """Pack the loop-invariant factors B of the products A * B in a loop before the loop, and unpack them in the loop.

    A panel is a fixed number of adjacent columns of B, stored together with all their rows:

        loop { y = matmul(x, b) }    becomes    panels = pack(b); loop { y = matmul(x, unpack(panels)) }

    Later passes fuse the unpacking into the product, which then reads the panels. A factor that several products read
    in one layout is packed once.

    Args:
        body: Blocks of the loop, in region order, so that the packing operations have the same order in each process.
        entry: The only branch from outside to the loop; the packing is inserted before it.
        levels: ISA levels of all targets.
    """
    packed: dict[tuple[SSAValue, Layout], SSAValue] = {}  # factor and layout -> its panels
    for op in [op for block in body for op in block.ops if isinstance(op, GenericOp)]:
        contraction = contraction_of(op)
        if contraction is None:
            continue
        layout = _layout_if_invariant(contraction, body, levels)
        if layout is None:  # the loop changes B, or packing does not pay
            continue
        matrix = contraction.tensor_of(contraction.b)
        assert isinstance(matrix.type, TensorType)
        # into_panels() and from_panels() return new operations, of which the last has the result. They get the source
        # location of the product (`like`).
        if (matrix, layout) not in packed:
            packed[matrix, layout] = _insert(into_panels(matrix, layout), before=entry, like=op)
        unpacked = _insert(from_panels(packed[matrix, layout], matrix.type, layout), before=op, like=op)
        op.operands[contraction.b.main_input] = unpacked  # main_input: index of the operand B


def _layout_if_invariant(contraction: Contraction, body: Sequence[Block], levels: Sequence[Level]) -> Layout | None:
    """Return the panel layout for factor B of a product in a loop; None if the loop changes B or packing does not pay.

    Return None for a constant B, too: `pack_constants` packs it. body: the blocks of the loop.
    """
    matrix, m = contraction.tensor_of(contraction.b), contraction.m
    block = matrix.owner if isinstance(matrix.owner, Block) else matrix.owner.parent
    if block in body or is_constant(matrix):
        return None
    rows = None if m is None else contraction.generic.extents[m]  # of the product; None if there is no static number
    if rows is None or not MIN_ROWS <= rows <= MOST_ROWS:
        return None
    layout = plain_layout(contraction, levels)
    return layout if layout is not None and bytes_of(matrix) <= MOST_BYTES else None


def _insert(ops: Sequence[Operation], before: Operation, like: Operation) -> SSAValue:
    """Insert operations before `before`, with the source location of `like`; return the first result of the last."""
    block = before.parent
    assert block is not None
    for op in ops:
        set_location(op, like)
    block.insert_ops_before(ops, before)
    return ops[-1].results[0]
