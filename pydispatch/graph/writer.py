"""Emission of operations into blocks, and of symbolic sizes as SSA values. Each operation has the location of its
layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

from xdsl.dialects import arith, builtin, cf, tensor
from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    i32,
)
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineMap

from pydispatch.errors import CompileError, Location
from pydispatch.graph.sizes import Expr, Size, SizeSymbol, Term, symbol
from pydispatch.graph.values import Tensor, tensor_type
from pydispatch.ir.core.locations import LayerLoc, resolved
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.core.walk import walk
from pydispatch.ir.op_info import SHOWS_VALUES

OpT = TypeVar("OpT", bound=Operation)
Body = Callable[[Block, Sequence[SSAValue]], Sequence[SSAValue]]
"""Function body(block, one element of each tensor) that adds operations to the block, and returns the results."""

_TERMS: dict[str, Callable[[SSAValue, SSAValue], Any]] = {
    "//": arith.FloorDivSIOp, "%": arith.RemSIOp, "max": arith.MaxSIOp, "min": arith.MinSIOp,
}  # fmt: skip
"""Functions of two sizes to the operations that compute them."""


# xDSL verifies each new attribute. Programs have few different ones, so these are cached.


@lru_cache(1024)
def _maps_attribute(*maps: AffineMap) -> ArrayAttr[AffineMapAttr]:
    """Return indexing maps as an attribute; cached."""
    return ArrayAttr([AffineMapAttr(map) for map in maps])


@lru_cache(256)
def _iterators_attribute(*parallel: bool) -> ArrayAttr[IteratorTypeAttr]:
    """Return iterator types as an attribute: for each loop whether it is parallel or a reduction; cached."""
    return ArrayAttr([IteratorTypeAttr.parallel() if p else IteratorTypeAttr.reduction() for p in parallel])


@lru_cache(256)
def _segments_attribute(*counts: int) -> DenseArrayBase[IntegerType]:
    """Return the sizes of operand segments as an attribute; cached."""
    return DenseArrayBase.from_list(i32, counts)


def _reassociation_attribute(groups: Sequence[Sequence[int]]) -> ArrayAttr[ArrayAttr[IntegerAttr[IntegerType]]]:
    """Return groups of axes as the attribute `reassociation` of a reshape."""
    return ArrayAttr([ArrayAttr([IntegerAttr(n, 64) for n in group]) for group in groups])


@dataclass
class Scope:
    """Block that operations are added to, with the SSA values that it already has.

    Attributes:
        block: The block.
        sizes: Values of sizes.
        scaled: Results of `OperationWriter.scaled`, by its arguments.
        tensors: Values of constants and weights.
    """

    block: Block
    sizes: dict[Size, SSAValue] = field(default_factory=dict)
    scaled: dict[tuple[Size, float], Size] = field(default_factory=dict)
    tensors: dict[Tensor, tuple[SSAValue, ...]] = field(default_factory=dict)


class OperationWriter:
    """Emitter of operations into one module; `filename` names the model in error messages."""

    def __init__(self, filename: str) -> None:
        self.filename = filename
        self.module = ModuleOp([])
        # Of the source operations around the current one, innermost last.
        self._locations: list[Attribute] = [LayerLoc(filename, layer="")]
        self._scopes: list[Scope] = []  # blocks being written, innermost last
        self._symbols: dict[str, SSAValue] = {}  # named size → its value
        self._names: set[str] = set()  # taken names: of sizes, and of operations of the module

    # -- locations

    @contextmanager
    def at(self, where: str | Operation | Attribute) -> Iterator[None]:
        """Give operations that are added in this context the location of a layer, of an operation of a source text, or
        of Python code. Errors name it too.
        """
        if isinstance(where, str):
            where = LayerLoc(self.filename, where)
        self._locations.append(where.location if isinstance(where, Operation) else where)
        try:
            yield
        finally:
            self._locations.pop()

    def fail(self, message: str, note: str | None = None) -> CompileError:
        """Return a CompileError at the current location; the caller raises it."""
        return CompileError(message, self.location, note)

    @property
    def location(self) -> Location | None:
        """Return the current location: a layer, an operation of a source text, or Python code."""
        return resolved(self._locations[-1])

    # -- operations

    def add(self, op: OpT) -> OpT:
        """Add an operation at the end of the current block."""
        return self._add_to(op, self._scopes[-1].block)

    def _add_to(self, op: OpT, block: Block) -> OpT:
        """Add an operation at the end of a block, and give it and its regions the current location."""
        location = self._locations[-1]
        for inner in walk(op) if op.regions else (op,):
            if isinstance(inner.location, builtin.UnknownLoc):
                inner.location = location  # type: ignore[assignment]
        block.add_op(op)
        return op

    @contextmanager
    def inside(self, block: Block) -> Iterator[None]:
        """Add operations in this context to a block. The operation that owns the block is added afterwards."""
        self._scopes.append(Scope(block))
        try:
            yield
        finally:
            self._scopes.pop()

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Add operations in this context without access to values of the open blocks, as in a region that is isolated
        from above.
        """
        scopes, self._scopes = self._scopes, []
        try:
            yield
        finally:
            self._scopes = scopes

    @property
    def scope(self) -> Scope:
        """Return the scope of the current block."""
        return self._scopes[-1]

    def is_open(self, scope: Scope) -> bool:
        """Return whether the scope is that of the current block or of a block around it."""
        return any(scope is other for other in self._scopes)

    def generic(
        self, inputs: Sequence[tuple[SSAValue, AffineMap]], outputs: Sequence[tuple[SSAValue, AffineMap]], *,
        parallel: Sequence[bool], body: Body,
    ) -> list[SSAValue]:  # fmt: skip
        """Add a `linalg.generic` and return its results.

        Args:
            inputs: Tensors with their indexing maps.
            outputs: Initial tensors of the results, with their indexing maps.
            parallel: Whether each loop is parallel; otherwise it is a reduction.
            body: Function that adds the body's operations to a block, and returns the elements of the results. It is
                passed the block and one element of each tensor.
        """
        values = [value for value, _ in (*inputs, *outputs)]
        block = Block(arg_types=[value.type.element_type for value in values])  # type: ignore[attr-defined]
        return self.generic_of(inputs, outputs, parallel, block, body(block, block.args))

    def generic_of(
        self, inputs: Sequence[tuple[SSAValue, AffineMap]], outputs: Sequence[tuple[SSAValue, AffineMap]],
        parallel: Sequence[bool], block: Block, results: Sequence[SSAValue],
    ) -> list[SSAValue]:  # fmt: skip
        """Add a `linalg.generic` with a block whose terminator is still missing, and return its results. `results` are
        the elements that the body yields.
        """
        block.add_op(linalg.YieldOp.create(operands=results))
        values = [value for value, _ in (*inputs, *outputs)]
        op = linalg.GenericOp.create(
            operands=values, result_types=[value.type for value, _ in outputs],
            properties={
                "indexing_maps": _maps_attribute(*(map for _, map in (*inputs, *outputs))),
                "iterator_types": _iterators_attribute(*parallel),
                "operandSegmentSizes": _segments_attribute(len(inputs), len(outputs)),
            },
            regions=[Region(block)],
        )  # fmt: skip
        return list(self.add(op).results)

    def expand(self, value: SSAValue, groups: Sequence[Sequence[int]], shape: Sequence[Size]) -> SSAValue:
        """Emit `tensor.expand_shape`: axis i of the value is split into the axes groups[i] of the result, whose shape
        is `shape`.
        """
        static = [DYNAMIC if isinstance(n, Expr) else n for n in shape]
        expand_op = tensor.ExpandShapeOp(
            value, self.indices(shape), _reassociation_attribute(groups), DenseArrayBase.from_list(builtin.i64, static),
            tensor_type(value.type.element_type, shape),  # type: ignore[attr-defined]
        )  # fmt: skip
        return self.add(expand_op).result

    def collapse(self, value: SSAValue, groups: Sequence[Sequence[int]], shape: Sequence[Size]) -> SSAValue:
        """Emit `tensor.collapse_shape`: the axes groups[i] of the value are merged into axis i of the result."""
        collapse_op = tensor.CollapseShapeOp(
            operands=[value], properties={"reassociation": _reassociation_attribute(groups)},
            result_types=[tensor_type(value.type.element_type, shape)],  # type: ignore[attr-defined]
        )  # fmt: skip
        return self.add(collapse_op).result

    # -- sizes

    def index(self, size: Size) -> SSAValue:
        """Return a size as an SSA value of type index. Values are reused within the blocks that can see them."""
        for scope in reversed(self._scopes):
            if size in scope.sizes:
                return scope.sizes[size]
        if isinstance(size, Expr):
            value, scope = self._polynomial(size), self._scopes[-1]
        else:
            scope = self._scopes[0]
            value = self._add_to(arith.ConstantOp(IntegerAttr(size, builtin.IndexType())), scope.block).result
        scope.sizes[size] = value
        return value

    def _polynomial(self, size: Expr) -> SSAValue:
        """Emit the operations that compute a symbolic size."""
        total: SSAValue | None = None
        for atoms, factor in size.terms:
            value: SSAValue | None = None
            for atom in atoms:
                atom_value = self._atom(atom)
                value = atom_value if value is None else self.add(arith.MuliOp(value, atom_value)).result
            if value is None:
                value = self.index(factor)
            elif factor != 1:
                value = self.add(arith.MuliOp(value, self.index(factor))).result
            total = value if total is None else self.add(arith.AddiOp(total, value)).result
        assert total is not None
        return total

    def _atom(self, atom: SizeSymbol | Term) -> SSAValue:
        """Return a symbol's value, or emit the operation of a term."""
        if isinstance(atom, SizeSymbol):
            return self._symbols[atom.name]
        return self.add(_TERMS[atom.op](self.index(atom.a), self.index(atom.b))).result

    def indices(self, shape: Sequence[Size]) -> list[SSAValue]:
        """Return the dynamic sizes of a shape as SSA values."""
        return [self.index(n) for n in shape if isinstance(n, Expr)]

    def size_of(self, value: SSAValue, hint: str = "n", least: int = 1) -> Size:
        """Bind a computed SSA value of type index to a new symbol, and return the symbol as a size.

        `hint` begins its name. Comparisons of sizes assume that the value is at least `least`.
        """
        name = self.unused_name(hint)
        self._symbols[name] = value
        return symbol(name, least)

    def scaled(self, size: Size, factor: float) -> Size:
        """Return floor(size * factor) for a positive factor. As in PyTorch, the product is first rounded to f64."""
        if not isinstance(size, Expr) or factor == int(factor):
            return int(size * factor) if not isinstance(size, Expr) else size * int(factor)
        for scope in reversed(self._scopes):
            if (size, factor) in scope.scaled:
                return scope.scaled[size, factor]
        value = self.add(arith.IndexCastOp(self.index(size), builtin.i64)).result
        as_float = self.add(arith.SIToFPOp(value, builtin.f64)).result
        factor_value = self.add(arith.ConstantOp(builtin.FloatAttr(factor, builtin.f64))).result
        rounded = self.add(arith.FPToSIOp(self.add(arith.MulfOp(as_float, factor_value)).result, builtin.i64)).result
        result = self.size_of(self.add(arith.IndexCastOp(rounded, builtin.IndexType())).result)
        self._scopes[-1].scaled[size, factor] = result
        return result

    def require_equal(self, lhs: Size, rhs: Size, message: str) -> None:
        """Add a runtime check that two sizes are equal. In the message `{a}` and `{b}` are replaced by their values."""
        if lhs == rhs:
            return
        equal = self.add(arith.CmpiOp(self.index(lhs), self.index(rhs), "eq"))
        self.add(cf.AssertOp(equal, message)).attributes[SHOWS_VALUES] = builtin.UnitAttr()

    def require_positive(self, count: Size, message: str, unless_zero: Size = 1) -> None:
        """Add a runtime check that a size is at least 1, unless `unless_zero` is 0. Raise CompileError if it fails
        statically.
        """
        is_positive = not isinstance(count, Expr) and count > 0
        if is_positive or unless_zero == 0:
            return
        if not isinstance(count, Expr) and not isinstance(unless_zero, Expr):
            raise self.fail(message)
        zero = self.index(0)
        holds: SSAValue = self.add(arith.CmpiOp(self.index(count), zero, "sgt")).result
        if isinstance(unless_zero, Expr):
            is_exempt = self.add(arith.CmpiOp(self.index(unless_zero), zero, "eq")).result
            holds = self.add(arith.OrIOp(holds, is_exempt)).result
        self.add(cf.AssertOp(holds, message))

    @property
    def symbols(self) -> frozenset[str]:
        """Return the names of all symbols that have a value so far."""
        return frozenset(self._symbols)

    def unused_name(self, hint: str) -> str:
        """Return a new name: the hint, with a number if the hint is taken."""
        name, suffix = hint, 0
        while name in self._names:
            name, suffix = f"{hint}{suffix}", suffix + 1
        self._names.add(name)
        return name
