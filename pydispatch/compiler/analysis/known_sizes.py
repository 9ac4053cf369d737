"""Facts about the sizes in one block of host code: which are equal, and which SSA values hold them."""

from __future__ import annotations

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Operation, SSAValue

from pydispatch.compiler.analysis.edit import insert_before
from pydispatch.compiler.analysis.sizes import equal_sizes, size_of, sizes_of, term_of
from pydispatch.compiler.tensor_ops.terms import Product, Sum, Term, add, multiply
from pydispatch.ir.core.rewriting import erase_op
from pydispatch.ir.core.walk import walk
from pydispatch.ir.values import Dim

_INDEX_VALUE_RANK, _COMPUTED_RANK = 2**29, 2**30
"""Second entries of the sort keys of `Sizes._preference`, where a tensor's dimension has its axis. They are larger than
any axis, so that of sizes that are defined equally early, dimensions are preferred, then index values, then sums and
products."""


class Sizes:
    """Dataflow facts about the sizes in one block, with the SSA values that compute them.

    Operations of the block are recorded in order by `record_equal_sizes` and `record_value`; `replace_dims` and `value`
    use the facts. A size computation is inserted before its first use; the block is sorted afterwards.

    Args:
        outer: Facts about the enclosing block, which hold here as well; None if there is none.
    """

    def __init__(self, outer: Sizes | None = None) -> None:
        """Begin with a copy of the facts of `outer`, if there is one, whose order of definitions is shared."""
        self._computed: dict[tuple[Block, Term], SSAValue] = {}  # (block, size) → the value that holds it there
        # Size → an equal size. It is a copy, since facts of an inner block may not hold after the block.
        self._same: dict[Term, Term] = dict(outer._same) if outer is not None else {}
        # Value → order of definition. Nested blocks share it, so that values of all of them are ordered.
        self._order: dict[SSAValue, int] = outer._order if outer is not None else {}

    def record_value(self, value: SSAValue) -> None:
        """Record that a value is defined after all values that were recorded before."""
        self._order.setdefault(value, len(self._order))

    def record_equal_sizes(self, op: Operation) -> None:
        """Record which sizes are equal because of an operation, such as the sizes of both operands of an addition."""
        for equal_dims in equal_sizes(op):
            terms = {self.resolve(size_of(dim.tensor, dim.axis)) for dim in equal_dims}
            # The representative is a constant if one is known, else the size that is defined first.
            representative = min(terms, key=self._preference, default=None)
            for term in terms:
                # A constant always represents itself.
                if term != representative and representative is not None and not isinstance(term, int):
                    self._same[term] = representative

    def _preference(self, term: Term) -> tuple[int, int]:
        """Return a sort key; of equal sizes the one with the least key becomes the representative.

        The key is (order of definition, axis of a dimension). Integers are first, then the terms that are defined
        earliest; the order of values that were not recorded is -1. Terms without an axis have a rank larger than any
        axis instead, so that they follow the dimensions of the same order.
        """
        if isinstance(term, int):
            return (-1, term)
        if isinstance(term, Dim):
            return (self._order.get(term.tensor, -1), term.axis)
        if isinstance(term, (Sum, Product)):
            return (max(self._preference(p)[0] for p in term.parts), _COMPUTED_RANK)
        return (self._order.get(term, -1), _INDEX_VALUE_RANK)

    def resolve(self, term: Term) -> Term:
        """Return the representative of all terms known to be equal to `term`."""
        while term in self._same:
            term = self._same[term]
        if isinstance(term, (Sum, Product)):
            parts = [self.resolve(p) for p in term.parts]
            rebuilt = (add if isinstance(term, Sum) else multiply)(parts)
            return rebuilt if rebuilt == term else self.resolve(rebuilt)  # the new term may have another representative
        return term

    def of(self, value: SSAValue) -> list[Term]:
        """Return the size of each dimension of a tensor, as the representative of its equal sizes."""
        return [self.resolve(t) for t in sizes_of(value)]

    def replace_dims(self, op: Operation) -> None:
        """Replace each `tensor.dim` in an operation by the representative of its size.

        The `tensor.dim` is the operation itself, or one in the body of an operation on tensors if its tensor is defined
        outside of the operation. Loops and branches are left out, because their blocks are treated on their own.
        """
        if op.name == "tensor.dim":
            self._replace_dim(op, op)
        elif op.regions and not op.name.startswith("scf."):
            inner_blocks = {b for inner in walk(op) for region in inner.regions for b in region.blocks}
            for inner in list(walk(op)):
                if inner.name == "tensor.dim":
                    owner = inner.operands[0].owner
                    block_of_tensor = owner if isinstance(owner, Block) else owner.parent
                    if block_of_tensor not in inner_blocks:
                        self._replace_dim(inner, op)

    def _replace_dim(self, dim: Operation, reader: Operation) -> None:
        """Replace the result of a `tensor.dim` by the representative of its size, a value defined before `reader`.

        Args:
            dim: The `tensor.dim`.
            reader: The operation of the block that needs the size: the one whose body contains `dim`, else `dim`.
        """
        size = dim.results[0]
        representative = self.resolve(term_of(size))
        if representative is size:  # no other term is known to be equal
            return
        # A `dim` of the block that reads the representative's tensor stays: later readers of the size use its result.
        # A `dim` in the body of `reader` is always replaced.
        reads_representative = isinstance(representative, Dim) and representative.tensor is dim.operands[0]
        if reads_representative and dim is reader and dim.parent is not None:
            self._computed.setdefault((dim.parent, representative), size)
        value = self.value(representative, reader)
        if value is not size:
            size.replace_all_uses_with(value)
            erase_op(dim)

    def value(self, term: Term, before: Operation) -> SSAValue:
        """Return a size as a value of type index that is defined before `before`; it is created on first use.

        A cached value precedes `before` if the caller visits a block from top to bottom; other callers sort the block
        afterwards.
        """
        if isinstance(term, SSAValue):
            return term
        assert before.parent is not None
        key = (before.parent, term)
        size = self._computed.get(key)
        is_erased = size is not None and isinstance(size.owner, Operation) and size.owner.parent is None
        if size is None or is_erased:
            size = self._computed[key] = self._make(term, before)
        return size

    def _make(self, term: int | Dim | Sum | Product, before: Operation) -> SSAValue:
        """Emit the operations that compute a term before an operation, and return the value."""
        if isinstance(term, int):
            return insert_before(arith.ConstantOp.from_int_and_width(term, IndexType()), before)
        if isinstance(term, Dim):
            return insert_before(tensor.DimOp(term.tensor, self.value(term.axis, before)), before)
        kind = arith.AddiOp if isinstance(term, Sum) else arith.MuliOp
        total = self.value(term.parts[0], before)
        for part in term.parts[1:]:
            total = insert_before(kind(total, self.value(part, before)), before)
        return total
