"""Structured operations, `linalg.generic` and the named ones: the one reader of their operands, maps, loops and bodies.

Facts derived about an operation are cached with its structure, see `Structured.fact` and `cached_structures`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar, cast

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, DenseArrayBase, TensorType
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from pydispatch.ir.affine_maps import dims_in
from pydispatch.ir.dialects.linalg.base import StructuredOp
from pydispatch.ir.values import Dim, shape_of

GENERIC = "linalg.generic"

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Structured:
    """View of a structured operation, `linalg.generic` or a named one: its operands, indexing maps, loops and body.

    `structured` creates it; passes read operations by it, whatever their form.

    Attributes:
        op: The operation.
        inputs: Tensors and scalars that it reads.
        outputs: Tensors with the initial values of the results, which a reduction combines elements into.
        maps: Indexing map of each operand, inputs before outputs: from the loops to the indices of an element.
        iterators: "parallel", "reduction" or "window" for each loop, outermost first.
        body: Scalar code of one point of the iteration space, with an element of each operand as arguments; None for a
            named operation.
    """

    op: Operation
    inputs: tuple[SSAValue, ...]
    outputs: tuple[SSAValue, ...]
    maps: tuple[AffineMap, ...]
    iterators: tuple[str, ...]
    body: Block | None
    _facts: dict[Callable[[Any], object], object] = field(default_factory=dict)  # argument of `fact` → its result

    @property
    def operands(self) -> tuple[SSAValue, ...]:
        """Inputs and outputs, in the order of `maps`."""
        return (*self.inputs, *self.outputs)

    @property
    def output_maps(self) -> tuple[AffineMap, ...]:
        """The maps of the outputs."""
        return self.maps[len(self.inputs) :]

    @property
    def block(self) -> Block:
        """Return the body of a linalg.generic; named operations have none."""
        assert self.body is not None
        return self.body

    @cached_property
    def out_dims(self) -> list[int]:
        """Return the indices of the loops that index a result, in ascending order."""
        return sorted(set().union(*(dims_in(m) for m in self.output_maps)))

    @cached_property
    def reduced_loops(self) -> list[int]:
        """Return the indices of the loops that do not index a result; each result element iterates over them."""
        return [i for i in range(len(self.iterators)) if i not in self.out_dims]

    @property
    def is_parallel(self) -> bool:
        """Return whether every loop indexes a result: then no loop is a reduction."""
        return not self.reduced_loops

    @property
    def has_reduction_loops(self) -> bool:
        """Return whether an iterator type of the operation is a reduction."""
        return "reduction" in self.iterators

    @cached_property
    def contracts(self) -> bool:
        """Return whether reduction loops index several inputs, as in a matrix product."""
        reduction_loops = {i for i, kind in enumerate(self.iterators) if kind == "reduction"}
        input_maps = self.maps[: len(self.inputs)]
        reduced_input_count = sum(not reduction_loops.isdisjoint(dims_in(m)) for m in input_maps)
        return reduced_input_count > 1

    @cached_property
    def loop_dims(self) -> list[list[Dim]]:
        """Return for each loop the tensor dimensions whose size is its trip count.

        They are the dimensions that the loop alone indexes: with the map (d0, d1) -> (d1, d0 + d1), dimension 0 has the
        trip count of loop 1, and dimension 1 that of no loop.
        """
        dims: list[list[Dim]] = [[] for _ in self.iterators]
        for value, map_ in zip(self.operands, self.maps, strict=True):
            for axis, expr in enumerate(map_.results if isinstance(value.type, TensorType) else ()):
                if isinstance(expr, AffineDimExpr):
                    dims[expr.position].append(Dim(value, axis))
        return dims

    @cached_property
    def extents(self) -> list[int | None]:
        """Return the trip count of each loop; None if no type of an operand has it as a static size."""
        extents: list[int | None] = []
        for dims in self.loop_dims:
            sizes = (shape_of(dim.tensor)[dim.axis] for dim in dims)
            extents.append(next((size for size in sizes if size >= 0), None))
        return extents

    def extent(self, loop: int) -> int:
        """Return the trip count of the loop with the index `loop`, which must be static."""
        extent = self.extents[loop]
        assert extent is not None, f"no type states the size of d{loop}"
        return extent

    def fact(self, compute: Callable[[Structured], T]) -> T:
        """Return `compute(self)`, a property of the operation that is computed once and cached."""
        if compute not in self._facts:
            self._facts[compute] = compute(self)
        return cast(T, self._facts[compute])


def as_structured(op: Operation) -> Structured | None:
    """Return the structure of an operation; None if the operation is not structured."""
    if op.name != GENERIC:  # the name of an operation determines its structure, so that it is not cached
        return _named(op) if isinstance(op, StructuredOp) else None
    table: dict[Operation, tuple[object, Structured]] | None = getattr(_CACHE, "table", None)
    if table is None:  # outside of the blocks `with cached_structures():`
        return _generic(op)
    state = _state(op)
    cached_state, structure = table.get(op, (None, None))
    if structure is None or cached_state != state:  # the operation has changed
        structure = _generic(op)
        table[op] = (state, structure)
    return structure


def structured(op: Operation) -> Structured:
    """Return the structure of an operation that must be structured."""
    structure = as_structured(op)
    assert structure is not None, op.name
    return structure


def is_reduction(op: Operation) -> bool:
    """Return whether an operation is a linalg.generic with a reduction loop."""
    return op.name == GENERIC and structured(op).has_reduction_loops


def _generic(op: Operation) -> Structured:
    """Return the structure of a linalg.generic."""
    input_count = int(cast("DenseArrayBase[Any]", op.properties["operandSegmentSizes"]).get_values()[0])
    maps = cast("ArrayAttr[AffineMapAttr]", op.properties["indexing_maps"])
    kinds = cast("ArrayAttr[IteratorTypeAttr]", op.properties["iterator_types"])
    operands = tuple(op.operands)
    return Structured(
        op, operands[:input_count], operands[input_count:], tuple(m.data for m in maps.data),
        tuple(k.data.value for k in kinds.data), op.regions[0].block,
    )  # fmt: skip


def _named(op: StructuredOp) -> Structured:
    """Return the structure of a named operation, such as linalg.matmul."""
    structure = op.structure()
    kinds = tuple("parallel" if parallel else "reduction" for parallel in structure.parallel)
    return Structured(op, tuple(op.inputs), tuple(op.outputs), tuple(structure.maps), kinds, body=None)


# -- structures are cached

_CACHE = threading.local()
"""Cache of a thread in its attribute `table`, which `cached_structures` sets: operation -> (`_state`, structure)."""


@contextmanager
def cached_structures() -> Iterator[None]:
    """Enable a cache of the structures of linalg.generic operations within the `with` block, for this thread.

    An entry is valid as long as the operation does not change, see _state(). Nested blocks share the cache of the
    outermost one.
    """
    outer_table = getattr(_CACHE, "table", None)
    _CACHE.table = {} if outer_table is None else outer_table
    try:
        yield
    finally:
        _CACHE.table = outer_table


def _state(op: Operation) -> tuple[object, ...]:
    """Return everything that the structure of a linalg.generic depends on: operands and their types, maps, iterators,
    and the operations of the body with their operands. A cache entry is valid while these are equal."""
    operands, properties, body = op._operands, op.properties, list[object]()
    block = op.regions[0].first_block
    assert block is not None
    inner = block.first_op
    while inner is not None:  # this function is hot: iterating over `block.ops` instead would double its time
        body.append(inner)
        body.append(inner._operands)
        inner = inner._next_op
    return operands, [v._type for v in operands], properties["indexing_maps"], properties["iterator_types"], body
