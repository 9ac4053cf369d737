"""Emission of operations into blocks, and of symbolic sizes as SSA values. Each operation has the location of the layer
or the source operation that it is emitted for.
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
"""Function body(block, one element of each input and output tensor) -> elements of the results. It adds operations to
the block, not their terminator."""

_TERMS: dict[str, Callable[[SSAValue, SSAValue], Any]] = {
    "//": arith.FloorDivSIOp, "max": arith.MaxSIOp, "min": arith.MinSIOp,
}  # fmt: skip
"""`op` of a Term to the operation that computes it. A remainder, %, has no single operation: it has the sign of the
divisor, and `arith.remsi` has that of the dividend."""


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
    """Return groups of axes as the attribute `reassociation` of tensor.expand_shape and tensor.collapse_shape.

    Group i has the axes of the higher-rank tensor that axis i of the lower-rank tensor corresponds to.
    """
    return ArrayAttr([ArrayAttr([IntegerAttr(n, 64) for n in group]) for group in groups])


@dataclass
class Scope:
    """Block that operations are added to, with SSA values that were emitted in it and can be used again.

    Attributes:
        block: The block.
        sizes: Size → its value, of type index.
        scaled: Arguments (size, factor) of `OperationWriter.scaled` → its result.
        tensors: Constant or weight → its values, as for `Tensor.parts`.
    """

    block: Block
    sizes: dict[Size, SSAValue] = field(default_factory=dict)
    scaled: dict[tuple[Size, float], Size] = field(default_factory=dict)
    tensors: dict[Tensor, tuple[SSAValue, ...]] = field(default_factory=dict)


class OperationWriter:
    """Base of `Builder`: emitter of operations into blocks of one module, with the location of the current layer.

    filename: name of the model in error messages.
    """

    def __init__(self, filename: str) -> None:
        """Begin with an empty module; locations refer to the model as a whole until `at` is entered."""
        self.filename = filename
        self.module = ModuleOp([])
        # Locations of the nested `at` contexts, the current one last. layer="": the model itself.
        self._locations: list[Attribute] = [LayerLoc(filename, layer="")]
        self._scopes: list[Scope] = []  # blocks being written, innermost last
        self._symbols: dict[str, SSAValue] = {}  # name of a size symbol → its value, of type index
        self._names: set[str] = set()  # taken names: of sizes, and of operations of the module

    # -- locations

    @contextmanager
    def at(self, where: str | Operation | Attribute) -> Iterator[None]:
        """Give operations that are added in this context, and errors of `fail`, a location.

        where: name of a layer of the model, an operation of a source text, which has a location, or a location itself.
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
        """Current location for errors: a layer, an operation of a source text, or Python code."""
        return resolved(self._locations[-1])

    # -- operations

    def add(self, op: OpT) -> OpT:
        """Add an operation at the end of the current block."""
        return self._add_to(op, self._scopes[-1].block)

    def _add_to(self, op: OpT, block: Block) -> OpT:
        """Add an operation at the end of a block, and give it and the operations in its regions the current location,
        unless they have one.
        """
        location = self._locations[-1]
        for inner in walk(op) if op.regions else (op,):
            if isinstance(inner.location, builtin.UnknownLoc):
                inner.location = location  # type: ignore[assignment]
        block.add_op(op)
        return op

    @contextmanager
    def inside(self, block: Block) -> Iterator[None]:
        """Add operations in this context to `block`, whose operation the caller creates and adds afterwards.

        The block is the body of a region of that operation, so values of the enclosing blocks can be used.
        """
        self._scopes.append(Scope(block))
        try:
            yield
        finally:
            self._scopes.pop()

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Hide the open blocks in this context: new operations cannot use their values.

        The body of a region that is isolated from above is emitted in it.
        """
        scopes, self._scopes = self._scopes, []
        try:
            yield
        finally:
            self._scopes = scopes

    @property
    def scope(self) -> Scope:
        """Scope of the current block, to which `add` adds operations."""
        return self._scopes[-1]

    def is_open(self, scope: Scope) -> bool:
        """Return whether the scope belongs to the current block or to a block around it."""
        return any(scope is other for other in self._scopes)

    def generic(
        self, inputs: Sequence[tuple[SSAValue, AffineMap]], outputs: Sequence[tuple[SSAValue, AffineMap]], *,
        parallel: Sequence[bool], body: Body,
    ) -> list[SSAValue]:  # fmt: skip
        """Add a `linalg.generic` and return its results.

        Args:
            inputs: Pairs (tensor, map from the loops to the tensor's indices).
            outputs: Such pairs for the results, with their initial tensors.
            parallel: For each loop whether it is parallel; otherwise it is a reduction.
            body: Function that is called once, adds the body's operations to a block, and returns the elements of the
                results. It is passed the block and one element of each input and output.
        """
        values = [value for value, _ in (*inputs, *outputs)]
        block = Block(arg_types=[value.type.element_type for value in values])  # type: ignore[attr-defined]
        return self.generic_of(inputs, outputs, parallel, block, body(block, block.args))

    def generic_of(
        self, inputs: Sequence[tuple[SSAValue, AffineMap]], outputs: Sequence[tuple[SSAValue, AffineMap]],
        parallel: Sequence[bool], block: Block, results: Sequence[SSAValue],
    ) -> list[SSAValue]:  # fmt: skip
        """Add a `linalg.generic` with a body that is emitted already, and return its results.

        Args:
            inputs: Pairs (tensor, map from the loops to the tensor's indices).
            outputs: Such pairs for the results, with their initial tensors.
            parallel: For each loop whether it is parallel; otherwise it is a reduction.
            block: The body without its terminator, which is added to it here.
            results: The elements that the body yields.
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
        """Emit `tensor.collapse_shape`: the axes groups[i] of the value are merged into axis i of the result, whose
        shape is `shape`.
        """
        collapse_op = tensor.CollapseShapeOp(
            operands=[value], properties={"reassociation": _reassociation_attribute(groups)},
            result_types=[tensor_type(value.type.element_type, shape)],  # type: ignore[attr-defined]
        )  # fmt: skip
        return self.add(collapse_op).result

    # -- sizes

    def index(self, size: Size) -> SSAValue:
        """Return a size as an SSA value of type index: that of an earlier call, if the current block can use it.

        A new value is emitted in the outermost block for a number, and in the current block for an expression.
        """
        for scope in reversed(self._scopes):
            if size in scope.sizes:
                return scope.sizes[size]
        if isinstance(size, Expr):
            value = self._polynomial(size)
            scope = self._scopes[-1]
        else:
            scope = self._scopes[0]
            value = self._add_to(arith.ConstantOp(IntegerAttr(size, builtin.IndexType())), scope.block).result
        scope.sizes[size] = value
        return value

    def _polynomial(self, size: Expr) -> SSAValue:
        """Emit the operations that compute a symbolic size, and return its value."""
        total: SSAValue | None = None
        for atoms, factor in size.terms:
            value: SSAValue | None = None  # product of the atoms; None for the constant term
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
        """Return the SSA value of a symbol, or emit the operation that computes a term: a // b, a % b, max or min."""
        if isinstance(atom, SizeSymbol):
            return self._symbols[atom.name]
        if atom.op == "%":
            quotient = self.add(_TERMS["//"](self.index(atom.a), self.index(atom.b))).result
            multiple = self.add(arith.MuliOp(quotient, self.index(atom.b))).result
            return self.add(arith.SubiOp(self.index(atom.a), multiple)).result
        return self.add(_TERMS[atom.op](self.index(atom.a), self.index(atom.b))).result

    def indices(self, shape: Sequence[Size]) -> list[SSAValue]:
        """Return the dynamic sizes of a shape as SSA values, in order; static sizes are left out."""
        return [self.index(n) for n in shape if isinstance(n, Expr)]

    def size_of(self, value: SSAValue, hint: str = "n", least: int | None = 0) -> Size:
        """Bind a computed SSA value of type index to a new symbol, and return the symbol as a size.

        hint: name of the symbol, to which a number is added if the name is taken. Comparisons of sizes assume that the
        value is at least `least`; None is for an integer of any sign.
        """
        name = self.unused_name(hint)
        self._symbols[name] = value
        return symbol(name, least)

    def scaled(self, size: Size, factor: float) -> Size:
        """Return floor(size * factor) for a positive factor. As in PyTorch, the product is first rounded to f64."""
        if not isinstance(size, Expr):
            return int(size * factor)
        if factor == int(factor):  # an exact product, which needs no floats
            return size * int(factor)
        for scope in reversed(self._scopes):  # values of enclosing blocks can be used here, too
            if (size, factor) in scope.scaled:
                return scope.scaled[size, factor]
        value = self.add(arith.IndexCastOp(self.index(size), builtin.i64)).result
        as_float = self.add(arith.SIToFPOp(value, builtin.f64)).result
        factor_value = self.add(arith.ConstantOp(builtin.FloatAttr(factor, builtin.f64))).result
        product = self.add(arith.MulfOp(as_float, factor_value)).result
        floor = self.add(arith.FPToSIOp(product, builtin.i64)).result  # truncates; the product is not negative
        result = self.size_of(self.add(arith.IndexCastOp(floor, builtin.IndexType())).result)
        self._scopes[-1].scaled[size, factor] = result
        return result

    def require_equal(self, lhs: Size, rhs: Size, message: str) -> None:
        """Add a runtime check that two sizes are equal, unless they are equal expressions.

        The message of its error has `{a}` and `{b}` where their values are inserted.
        """
        if lhs == rhs:
            return
        equal = self.add(arith.CmpiOp(self.index(lhs), self.index(rhs), "eq"))
        self.add(cf.AssertOp(equal, message)).attributes[SHOWS_VALUES] = builtin.UnitAttr()

    def require_positive(self, count: Size, message: str, unless_zero: Size = 1) -> None:
        """Add a runtime check, with the error `message`, that `count` is at least 1 or `unless_zero` is 0.

        For example, an axis to read from must have an element unless the result, of size `unless_zero`, is empty. No
        check is added if that is known while compiling; raise CompileError if it is known not to hold.
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
        """Names of all size symbols that have a value so far."""
        return frozenset(self._symbols)

    def unused_name(self, hint: str) -> str:
        """Return a name that is not taken, and take it: the hint, with a number if the hint is taken."""
        name, suffix = hint, 0
        while name in self._names:
            name, suffix = f"{hint}{suffix}", suffix + 1
        self._names.add(name)
        return name
