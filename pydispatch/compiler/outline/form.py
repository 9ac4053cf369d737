"""Dispatch formation: outlines the tensor operations of host functions into executables (`flow.executable`).

Every group of operations (see fusion/groups.py) becomes one function over tensors and one `flow.dispatch`. Only views,
contiguous copies, constants and read-backs of tensors remain in host code (see host/views.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, OpResult

from pydispatch.compiler.analysis.in_place import GRID, other_readers
from pydispatch.compiler.analysis.kinds import has_effects, inputs_of
from pydispatch.compiler.analysis.known_sizes import Sizes
from pydispatch.compiler.analysis.sizes import Known, size_cache
from pydispatch.compiler.fusion.columns import split_off_columns
from pydispatch.compiler.fusion.groups import form_groups
from pydispatch.compiler.fusion.im2col import Decide, convert_convolutions_to_products
from pydispatch.compiler.fusion.legality import Legality
from pydispatch.compiler.fusion.narrow import narrow_operations
from pydispatch.compiler.fusion.prepack import prepack_columns
from pydispatch.compiler.fusion.simplify import simplify
from pydispatch.compiler.fusion.spatial_dims import collapse_spatial_dims
from pydispatch.compiler.fusion.split import split_reductions
from pydispatch.compiler.fusion.split_choice import Shares, never
from pydispatch.compiler.fusion.transposed_bytes import transpose_before_widening
from pydispatch.compiler.kernels.legality import space_of, why_not
from pydispatch.compiler.kernels.wide_sums import widen_sums
from pydispatch.compiler.outline.bounds import check_bounds
from pydispatch.compiler.outline.computed_regions import Grid, open_grid, open_regions
from pydispatch.compiler.outline.equal import KnownExecutables
from pydispatch.compiler.outline.explain import FusionReport
from pydispatch.compiler.outline.outline import Outline
from pydispatch.compiler.outline.regions import outline_regions
from pydispatch.ir.core.rewriting import erase_op
from pydispatch.ir.dialects.flow import dialect as flow
from pydispatch.ir.functions import FUNCTIONS, symbol_name


def host_functions(module: ModuleOp) -> list[Operation]:
    """Return the functions of the host program that have a body, in order."""
    return [op for op in module.body.block.ops if op.name in FUNCTIONS and op.regions[0].blocks]


GENERATED = Legality(why_not, space_of)
"""Rules for which operations code generation can put into one dispatch, on every target."""


def form_dispatches(
    module: ModuleOp,
    legality: Legality = GENERATED,
    reassociate: bool = True,
    functions: Sequence[Operation] | None = None,
    patches: Decide | None = None,
    shares: Shares = never,
) -> list[FusionReport]:
    """Form the dispatches of every host function and initializer of `module` in place.

    The executables of a function are inserted before it.

    Args:
        module: The module.
        legality: Rules for which operations may be one dispatch.
        reassociate: Whether sums of floats may be split.
        functions: The functions to change; None for all.
        patches: Decides for each convolution whether it becomes a product of patches of its image; None for the
            heuristic of `convert_convolutions_to_products`.
        shares: Returns whether a product by a matrix of so many bytes is split, so that each worker reads a part of it.

    Returns:
        A report for each function.
    """
    hosts = host_functions(module) if functions is None else functions
    for function in hosts:
        open_regions(function)
    outline_regions(module, [(symbol_name(function), function) for function in hosts])
    reports: list[FusionReport] = []
    known_executables = KnownExecutables()  # of all functions, which share equal ones
    for name, op in _named_bodies(list(module.body.block.ops) if functions is None else functions):
        former = Former(
            function=op, name=name, legality=legality, known_executables=known_executables, reassociate=reassociate,
            patches=patches, shares=shares,
        )  # fmt: skip
        former.run()
        for executable in former.executables:
            module.body.block.insert_op_before(executable, op)
        reports.append(former.report)
    return reports


def _named_bodies(ops: Iterable[Operation]) -> Iterator[tuple[str, Operation]]:
    """Yield (name, operation) for each function and initializer with a body; its dispatches are named after the name.

    Initializers have no names: they are called `initializer_0`, `initializer_1`, ...
    """
    initializers = 0
    for op in ops:
        if op.name == "util.initializer" and op.regions and op.regions[0].blocks:
            yield f"initializer_{initializers}", op
            initializers += 1
        elif op.name in FUNCTIONS and op.regions[0].blocks:
            yield symbol_name(op), op


@dataclass
class Former:
    """Pass over one host function that replaces its tensor operations by dispatches, each of a group of operations.

    `form_dispatches` creates it for each function, calls `run` once, and then reads `executables` and `report`.

    Attributes:
        function: The host function, which is changed in place.
        name: Its name, from which those of the dispatches are derived.
        legality: Rules for operations that may be fused for the targets.
        known_executables: Executables created so far in the module, to share equal ones.
        reassociate: Whether sums of floats may be regrouped.
        patches: Decides which convolutions become products of im2col matrices; None for the heuristic.
        shares: Decides which products by a matrix are split so that workers share its reading.
        executables: Executables of the dispatches, in order.
    """

    function: Operation
    name: str
    legality: Legality
    known_executables: KnownExecutables = field(default_factory=KnownExecutables)
    reassociate: bool = True
    patches: Decide | None = None
    shares: Shares = never
    executables: list[flow.ExecutableOp] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Create the report, to which the formation adds why operations share a dispatch or not."""
        self.report = FusionReport(self.name)

    def run(self) -> None:
        """Rewrite the operations of the function for faster dispatches, then form the dispatches of its blocks."""
        split_off_columns(self.function)  # compute on the parts of a concatenation that ends with one column
        simplify(self.function)
        if self.reassociate:
            widen_sums(self.function)  # accumulate narrow floats in f32
        split_reductions(self.function, self.reassociate, self.shares)  # into partial results, which are parallel
        convert_convolutions_to_products(self.function, self.patches)  # im2col
        transpose_before_widening(self.function)  # move bytes instead of floats
        collapse_spatial_dims(self.function)  # the pixels of an image become one dimension of a product
        prepack_columns(self.function)  # transpose strided columns once, instead of in each workgroup
        narrow_operations(self.function, self.legality.most_operands)  # to as many tensors as a dispatch can bind
        # The dispatches.
        # All blocks know the sizes of the entry block, the first one: it dominates them, so they may use its values.
        entry: Sizes | None = None
        for block in self.function.regions[0].blocks:
            sizes = Sizes(entry)
            entry = entry or sizes
            self._block(block, sizes)
        self.report.finish(self.function)

    def _block(self, block: Block, sizes: Sizes) -> None:
        """Form the dispatches of a block, after those of the blocks inside its loops and branches.

        Each group of operations moves into a function of an executable, and a `flow.dispatch` of it takes its place.
        The groups are the body of each dispatch whose grid the program states, and those that `form_groups` makes of
        the other operations.

        sizes: sizes of tensors that are known when the block begins; those of the block's operations are added.
        """
        # Dispatches whose grid the program states: their bodies are inlined here, so that the sizes of their tensors
        # are recorded with those of the block. They become dispatches again below.
        grids = [
            open_grid(op) for op in list(block.ops) if isinstance(op, flow.DispatchRegionOp) and GRID in op.attributes
        ]
        self._record_sizes(block, sizes)
        for grid in grids:  # the operations of a grid are in `block`, except those that `replace_dims` has erased
            self._outline_group([op for op in grid.group if op.parent is block], sizes, grid)
        # Groups of the other operations. A dispatch takes the place of the last operation of its group. Operations
        # before it may use its results: the block is sorted at the end.
        groups, edges = form_groups(block, self.legality)
        self.report.begin(groups, edges)
        for group in groups:
            self.report.outlined(self._outline_group(group, sizes))
        drop_unused(block)
        sort_topologically(block)

    def _record_sizes(self, block: Block, sizes: Sizes) -> None:
        """Record the sizes of the tensors of a block, and form the dispatches of the blocks inside of it.

        Each of these starts from the sizes that are known before it.
        """
        for argument in block.args:
            sizes.record_value(argument)
        known: Known = {}  # sizes that `size_of` has returned so far in this block
        for op in list(block.ops):
            for result in op.results:
                sizes.record_value(result)
            with size_cache(known):
                sizes.record_equal_sizes(op)
                sizes.replace_dims(op)
            if op.name.startswith("scf."):
                for region in op.regions:
                    for inner in region.blocks:
                        self._block(inner, Sizes(sizes))

    def _outline_group(self, group: list[Operation], sizes: Sizes, grid: Grid | None = None) -> flow.DispatchOp:
        """Replace a group by a dispatch, return it, and add its executable to `executables` unless an equal one exists.

        A dispatch whose grid the program states always gets an executable of its own.

        Args:
            group: The operations, in order.
            sizes: Sizes of tensors in the block that are known, or known to be equal.
            grid: The grid that the program states for them; None for operations that formation has grouped.
        """
        if grid is None:  # kernels on a stated grid access the slices that the program states
            check_bounds(group, sizes)
        outline = Outline(group, f"{self.name}_dispatch_{len(self.executables)}", sizes, grid)
        executable = outline.build()
        is_reused = grid is None and self.known_executables.reuse(executable, outline.dispatch)
        if not is_reused:
            self.executables.append(executable)
        return outline.dispatch


def drop_unused(block: Block) -> None:
    """Erase the unused operations of a block that have no effects."""
    for op in reversed(list(block.ops)):
        is_unused = bool(op.results) and not any(list(result.uses) for result in op.results)
        if is_unused and not has_effects(op) and not op.regions:
            erase_op(op)


def sort_topologically(block: Block) -> None:
    """Reorder a block so that definitions precede uses, and readers of a tensor precede the operation that overwrites
    it unless they depend on it. The order is otherwise stable, and operations with effects keep theirs.
    """
    ops = list(block.ops)
    order = TopologicalOrder(block)
    for op in ops:
        order.place(op)
    if order.ops != ops:
        for op in ops:
            op.detach()
        block.add_ops(order.ops)


class TopologicalOrder:
    """Builder of an order of the operations of a block in which each one follows its dependences.

    An operation follows the operations that compute its inputs. An operation with effects follows the previous one with
    effects. An operation that overwrites a tensor, such as %1, follows the other readers of the tensor, such as %2. It
    can then overwrite the tensor in place:

        %1 = tensor.insert_slice %row into %0[0, 0] [1, 8] [1, 1] : tensor<1x8xf32> into tensor<4x8xf32>
        %2 = flow.dispatch @sum(%0) : (tensor<4x8xf32>) -> tensor<f32>

    The order is then %2, %1. A caller creates a builder, calls `place` for each operation of the block, and reads
    `ops`.

    Attributes:
        block: The block.
        ops: The operations that `place` has appended, in order.
    """

    def __init__(self, block: Block) -> None:
        """Begin with no operation appended; operations with effects are to keep their order."""
        self.block = block
        self.ops: list[Operation] = []
        self._placed: set[Operation] = set()  # operations in `ops`
        self._visited: set[Operation] = set()  # operations for which _preceding() has been called
        effects = [op for op in block.ops if has_effects(op)]
        self._previous = dict(zip(effects[1:], effects, strict=False))  # operation with effects → the one before it

    def place(self, op: Operation) -> None:
        """Append an operation and, before it, all others that must precede it. Do nothing if it is placed already."""
        # An operation waits on the stack until those above it are placed. No recursion: chains of dependences may be
        # longer than Python's limit.
        stack = [op]
        while stack:
            top = stack[-1]
            if top in self._placed:
                stack.pop()
                continue
            missing = [other for other in self._preceding(top) if other not in self._placed]
            if missing:
                stack += reversed(missing)
            else:
                self._placed.add(top)
                self.ops.append(top)
                stack.pop()

    def _preceding(self, op: Operation) -> list[Operation]:
        """Return the operations to place before `op`: producers of its inputs, and those whose effects precede it.

        In the first call for `op`, these are also the other readers of a tensor that it overwrites, except for the
        terminator, which stays last: the tensor is then copied. `place` places them and calls this function again. The
        second call does not return readers: one that depends on `op` cannot precede it, and `place` would not end.
        """
        needed = [v.op for v in inputs_of(op) if isinstance(v, OpResult) and v.op.parent is self.block]
        if op in self._previous:
            needed.append(self._previous[op])
        if op not in self._visited:
            self._visited.add(op)
            readers = [reader for reader in other_readers(op) if reader.parent is self.block]
            needed += [reader for reader in readers if reader is not self.block.last_op]
        return needed
