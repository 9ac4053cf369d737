"""Products of dequantized numbers become products of the stored integers, which are scaled once.

A factor is recognised as `scale * (stored - zero point)`, where the scale is the same for all steps of the sum:
sum(s a * t b) = s t sum(a b). The sum of integers must fit i32 whatever is stored, so that it is exact; what is rounded
is the sum and its product with the scales, where a sum of f32 rounds every step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    TensorType,
    f32,
    i32,
)
from xdsl.dialects.linalg.ops import GenericOp, YieldOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from pydispatch.compiler.fusion.build import affine_maps, iterator_types
from pydispatch.compiler.fusion.simplify import erase_unused
from pydispatch.compiler.kernels.matmul.match import Contraction, contraction_of
from pydispatch.compiler.kernels.matmul.ranges import Range, range_of
from pydispatch.compiler.kernels.ops.constants import splat_of
from pydispatch.ir.affine_maps import dims_in, is_identity, is_permutation, is_projected_permutation
from pydispatch.ir.core.locations import set_location
from pydispatch.ir.structured import GENERIC, Structured, structured
from pydispatch.ir.values import shape_of

MOST_ELEMENTS = 4096
"""Of a constant of floats that is looked at for whether all are integers: zero points are few."""

EXACT = 1 << 24
"""The integers up to here are numbers of f32."""


def multiply_integers(function: Operation) -> None:
    """Rewrites the products of a host function whose factors are dequantized, in place."""
    found = False
    for op in list(function.walk()):
        c = contraction_of(op) if op.name == GENERIC and op.parent is not None else None
        if c is not None and c.acc in (f32, i32) and _is_plain(c):
            found = _rewrite(c) or found
    if found:
        erase_unused(function)


def _is_plain(c: Contraction) -> bool:
    """Whether a contraction multiplies elements of two tensors, and nothing else."""
    direct = len(c.generic.inputs) == 2 and c.a.direct and c.b.direct
    return direct and is_projected_permutation(c.generic.maps[-1])


# -- what is recognised


@dataclass(frozen=True)
class Code:
    """Scalar code of a body. inputs: for each argument of that body that it reads the tensor that it is an element of,
    and of which place, by the dimensions of another tensor or of loops."""

    ops: tuple[Operation, ...]
    value: SSAValue
    inputs: tuple[tuple[BlockArgument, SSAValue, AffineMap], ...]

    def at(self, places: AffineMap) -> Code:
        """The same by other dimensions, of which `places` makes those that it has."""
        return replace(self, inputs=tuple((a, v, m.compose(places)) for a, v, m in self.inputs))

    @property
    def range(self) -> Range:
        """The least and the greatest value of an i32."""
        tensors = [v for a, v, _ in self.inputs if a is self.value]
        return range_of(tensors[0] if tensors else self.value) or _signed(32)


@dataclass(frozen=True)
class Dequantized:
    """The elements of a tensor as (stored - zero) * scales.

    stored: a tensor of integers, read at `places`. signed: how they are widened to i32, None for a tensor that nothing
    has widened so far. zero: gives an i32, None for 0; scales: give f32.
    """

    stored: SSAValue
    places: AffineMap
    signed: bool | None = None
    zero: Code | None = None
    scales: tuple[Code, ...] = ()

    def at(self, places: AffineMap) -> Dequantized:
        """The same by other dimensions, of which `places` makes those that it has."""
        zero = None if self.zero is None else self.zero.at(places)
        scales = tuple(s.at(places) for s in self.scales)
        return replace(self, places=self.places.compose(places), zero=zero, scales=scales)

    @property
    def width(self) -> int:
        return cast(IntegerType, _element(self.stored)).width.data

    @property
    def range(self) -> Range:
        """The least and the greatest value of `stored - zero`."""
        low, high = (0, (1 << self.width) - 1) if self.signed is False else _signed(self.width)
        least, most = (0, 0) if self.zero is None else self.zero.range
        return low - most, high - least


class Tensors:
    """Reads what tensors are. made: new operations, which nothing uses yet, in order."""

    def __init__(self) -> None:
        self.made: list[Operation] = []

    def add(self, *ops: Operation) -> SSAValue:
        self.made += ops
        return ops[-1].results[0]

    def drop(self) -> None:
        """Erases what was made."""
        for op in reversed(self.made):
            op.erase()

    def of(self, value: SSAValue, kept: frozenset[int]) -> Dequantized | None:
        """What a tensor of f32 or integers is. kept: the dimensions that scales may depend on."""
        element = _element(value)
        if isinstance(element, IntegerType) and 8 <= element.width.data < 32:
            return Dequantized(value, AffineMap.identity(len(shape_of(value))))
        if element not in (f32, i32) or not isinstance(value, OpResult):
            return None
        op = value.op
        if op.name == GENERIC:
            g = structured(op)
            return self._elementwise(g, kept) if g.is_parallel and len(op.results) == 1 else None
        return self._view(op, VIEWS[op.name](op), kept) if op.name in VIEWS else None

    def _elementwise(self, g: Structured, kept: frozenset[int]) -> Dequantized | None:
        out, last = g.maps[-1], g.block.last_op
        loops_at = out.inverse_permutation() if is_permutation(out) else None
        if loops_at is None or last is None:
            return None
        loops = frozenset(r.position for a, r in enumerate(out.results) if a in kept and isinstance(r, AffineDimExpr))
        found = Scalars(self, g, loops).of(last.operands[0])
        return None if found is None else found.at(loops_at)

    def _view(self, op: Operation, axes: Axes, kept: frozenset[int]) -> Dequantized | None:
        inner = self.of(op.operands[0], frozenset(a for a, now in enumerate(axes) if now in kept))
        if inner is None:
            return None
        stored = inner.stored if is_identity(inner.places) else self._copied(inner, op.operands[0])
        viewed = self._padded(op, inner, stored) if isinstance(op, tensor.PadOp) else op.clone({op.operands[0]: stored})
        if viewed is None:
            return None
        result = cast("TensorType[Attribute]", op.results[0].type)
        viewed.results[0]._type = TensorType(_element(stored), result.get_shape())
        rank = result.get_num_dims()
        rest = replace(inner, places=AffineMap(len(axes), 0, ())).at(AffineMap(rank, 0, tuple(map(_place, axes))))
        return replace(rest, stored=self.add(viewed), places=AffineMap.identity(rank))

    def _copied(self, inner: Dequantized, like: SSAValue) -> SSAValue:
        """What is stored, with the dimensions of the tensor `like`."""
        body = Body()
        element = body.input(inner.stored, inner.places)
        return self.add(*body.generic(element, like, AffineMap.identity(len(shape_of(like)))))

    @staticmethod
    def _padded(op: tensor.PadOp, inner: Dequantized, stored: SSAValue) -> Operation | None:
        """What is stored, with zero points around it where zeros are around the numbers."""
        last = op.region.block.last_op
        zero = 0 if inner.zero is None else _constant(inner.zero.value)
        low, high = inner.range
        if last is None or op.nofold is not None or not _is_zero(last.operands[0]):
            return None
        if zero is None or not low <= 0 <= high:
            return None
        block = Block(arg_types=[IndexType()] * len(shape_of(op.result)))
        around = arith.ConstantOp(IntegerAttr(zero, cast(IntegerType, _element(stored)), truncate_bits=True))
        block.add_ops([around, tensor.YieldOp(around)])
        widths = [[int(n) for n in a.get_values()] for a in (op.static_low, op.static_high)]
        type_ = TensorType(_element(stored), shape_of(op.result))
        return tensor.PadOp(stored, op.low, op.high, Region(block), *widths, type_)


class Scalars:
    """Reads what scalars in the body of a generic are, by its loops. loops: those that scales may depend on."""

    def __init__(self, tensors: Tensors, g: Structured, loops: frozenset[int]) -> None:
        self.tensors, self.g, self.loops = tensors, g, loops

    def of(self, value: SSAValue) -> Dequantized | None:
        if isinstance(value, BlockArgument):
            return self._element(value)
        assert isinstance(value, OpResult)
        op = value.op
        if isinstance(op, arith.SIToFPOp | arith.UIToFPOp | arith.ExtSIOp | arith.ExtUIOp) and value.type in (f32, i32):
            return self._widened(op)
        if isinstance(op, arith.SubiOp | arith.SubfOp):
            number = self.of(op.operands[0])
            zero = self._free(op.operands[1]) if value.type == i32 else self._whole(op.operands[1])
            plain = number is not None and number.zero is None and not number.scales and zero is not None
            nothing = zero is None or zero.range == (0, 0)
            return replace(number, zero=None if nothing else zero) if plain and number is not None else None
        for number_at, scale_at in ((0, 1), (1, 0)) if isinstance(op, arith.MulfOp) else ():
            scale, number = self._free(op.operands[scale_at]), None
            if scale is not None and (number := self.of(op.operands[number_at])) is not None:
                return replace(number, scales=(*number.scales, scale))
        return None

    def _element(self, argument: BlockArgument) -> Dequantized | None:
        if argument.owner is not self.g.block or argument.index >= len(self.g.inputs):
            return None
        places = self.g.maps[argument.index]
        kept = frozenset(a for a, r in enumerate(places.results) if r.used_dims() <= self.loops)
        inner = self.tensors.of(self.g.inputs[argument.index], kept)
        return None if inner is None else inner.at(self._along_units(places))

    def _along_units(self, places: AffineMap) -> AffineMap:
        """Constants 0 as the loops of one step that they are read in: loops over a product need all their sizes."""
        own, shape = self.g.maps[-1].results, shape_of(self.g.op.results[0])
        if len(places.results) != len(own):
            return places
        results = [
            o if isinstance(r, AffineConstantExpr) and n == 1 else r
            for r, o, n in zip(places.results, own, shape, strict=True)
        ]
        return AffineMap(places.num_dims, 0, tuple(results))

    def _widened(self, op: Operation) -> Dequantized | None:
        """An integer that becomes a wider one, or a float."""
        inner = self.of(op.operands[0])
        signed = isinstance(op, arith.SIToFPOp | arith.ExtSIOp)
        if inner is None or inner.scales or (inner.signed is not None and not signed):
            return None
        return inner if inner.signed is not None else replace(inner, signed=signed)

    def _whole(self, value: SSAValue) -> Code | None:
        """A float that is an i32, as one, that is the same for all steps of the sum."""
        if isinstance(value, BlockArgument):
            if value.owner is not self.g.block or value.index >= len(self.g.inputs):
                return None
            integers, places = _integers(self.g.inputs[value.index]), self.g.maps[value.index]
            if integers is None or not dims_in(places) <= self.loops:
                return None
            argument = Block(arg_types=[i32]).args[0]
            return Code((), argument, ((argument, self.tensors.add(integers), places),))
        number = _constant(value)
        if number is not None:
            constant = arith.ConstantOp(IntegerAttr(number, i32))
            return Code((constant,), constant.result, ())
        op = value.owner
        return self._free(op.operands[0]) if isinstance(op, arith.SIToFPOp) and op.operands[0].type == i32 else None

    def _free(self, value: SSAValue) -> Code | None:
        """A value that is the same for all steps of the sum."""
        ops, arguments, pending = set[Operation](), list[BlockArgument](), [value]
        while pending:
            at = pending.pop()
            if isinstance(at, BlockArgument):
                if at.owner is self.g.block and at not in arguments:
                    arguments.append(at)
            elif isinstance(at, OpResult) and at.op.parent is self.g.block and at.op not in ops:
                if at.op.regions or not at.op.name.startswith(("arith.", "math.")):
                    return None
                ops.add(at.op)
                pending += at.op.operands
        if any(a.index >= len(self.g.inputs) or not dims_in(self.g.maps[a.index]) <= self.loops for a in arguments):
            return None
        read = tuple((a, self.g.inputs[a.index], self.g.maps[a.index]) for a in arguments)
        return Code(tuple(op for op in self.g.block.ops if op in ops), value, read)


# -- what is made of it


class Body:
    """The body of a new generic, whose inputs are added as its code needs them."""

    def __init__(self) -> None:
        self.block = Block()
        self.inputs: list[tuple[SSAValue, AffineMap]] = []

    def input(self, value: SSAValue, places: AffineMap) -> SSAValue:
        """An element of a tensor."""
        if (value, places) not in self.inputs:
            self.inputs.append((value, places))
            self.block.insert_arg(_element(value), len(self.block.args))
        return self.block.args[self.inputs.index((value, places))]

    def add(self, op: Operation) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]

    def copy(self, code: Code) -> SSAValue:
        """What code computes."""
        mapping: dict[SSAValue, SSAValue] = {a: self.input(value, places) for a, value, places in code.inputs}
        for op in code.ops:
            self.block.add_op(op.clone(mapping))
        return mapping.get(code.value, code.value)

    def integer(self, factor: Dequantized) -> SSAValue:
        """`stored - zero` in i32."""
        value = self.input(factor.stored, factor.places)
        if factor.width < 32:
            value = self.add(arith.ExtUIOp(value, i32) if factor.signed is False else arith.ExtSIOp(value, i32))
        return value if factor.zero is None else self.add(arith.SubiOp(value, self.copy(factor.zero)))

    def generic(self, value: SSAValue, like: SSAValue, places: AffineMap) -> list[Operation]:
        """Operations whose last one is an elementwise generic that gives `value`. like: a tensor of the result's sizes;
        places: where a point of the loops is in the result."""
        made, dims = _sizes(like)
        empty = tensor.EmptyOp(dims, TensorType(value.type, cast("TensorType[Attribute]", like.type).get_shape()))
        return [*made, empty, self.over(value, empty.results[0], places, ["parallel"] * places.num_dims)]

    def over(self, value: SSAValue, start: SSAValue, places: AffineMap, iterators: Sequence[str]) -> GenericOp:
        """The generic that gives `value`; `start` is what it writes over."""
        self.block.add_op(YieldOp(value))
        inputs, maps = [v for v, _ in self.inputs], [*(m for _, m in self.inputs), places]
        if len(self.block.args) == len(inputs):
            self.block.insert_arg(_element(start), len(inputs))
        kinds = iterator_types(iterators)
        return GenericOp(inputs, [start], Region(self.block), affine_maps(maps), kinds, [start.type])


def _rewrite(c: Contraction) -> bool:
    """Makes a contraction of f32 one of integers where its factors are dequantized; whether they are."""
    g, loops, tensors = c.generic, frozenset(c.generic.loops), Tensors()
    factors: list[Dequantized] = []
    for value, places in zip(g.inputs, g.maps, strict=False):
        kept = frozenset(a for a, r in enumerate(places.results) if not r.used_dims() & loops)
        found = tensors.of(value, kept)
        if found is None or found.signed is None:
            break
        factors.append(found.at(places))
    changed = any(factor.stored is not value for factor, value in zip(factors, g.inputs, strict=False))
    exact = c.acc == i32 or _fits(g, factors)
    if len(factors) < 2 or not changed or not exact or not _sized(g, factors):
        tensors.drop()
        return False
    new = tensors.add(*_product(c, factors))
    if c.acc == f32:
        new = tensors.add(*_scaled(c, new, factors))
    op = c.op
    assert op.parent is not None
    for made in tensors.made:
        set_location(made, op)
    op.parent.insert_ops_before(tensors.made, op)
    new.name_hint = op.results[0].name_hint
    op.results[0].replace_all_uses_with(new)
    op.detach()
    op.erase()
    return True


def _fits(g: Structured, factors: Sequence[Dequantized]) -> bool:
    """Whether no sum of products leaves i32."""
    steps = prod(g.extents[d] or 0 for d in g.loops)
    most = prod(max(map(abs, factor.range)) for factor in factors)
    return 0 < steps * most < 1 << 31


def _sized(g: Structured, factors: Sequence[Dequantized]) -> bool:
    """Whether the sizes of all loops are those of tensors."""
    results = [r for map_ in (*(f.places for f in factors), g.maps[-1]) for r in map_.results]
    return {r.position for r in results if isinstance(r, AffineDimExpr)} == set(range(len(g.iterators)))


def _product(c: Contraction, factors: Sequence[Dequantized]) -> list[Operation]:
    """The sums of products of integers; of floats without what they begin with."""
    g = c.generic
    made, dims = _sizes(g.outputs[0])
    zero = arith.ConstantOp(IntegerAttr(0, i32))
    type_ = TensorType(i32, cast("TensorType[Attribute]", g.outputs[0].type).get_shape())
    made += [zero, tensor.SplatOp(zero.result, dims, type_)]
    start = made[-1].results[0] if c.acc == f32 else g.outputs[0]
    body = Body()
    product = body.add(arith.MuliOp(*map(body.integer, factors)))
    before = body.block.insert_arg(i32, len(body.inputs))
    new = body.over(body.add(arith.AddiOp(before, product)), start, g.maps[-1], g.iterators)
    new.attributes.update(c.op.attributes)
    return [*(made if c.acc == f32 else ()), new]


def _scaled(c: Contraction, total: SSAValue, factors: Sequence[Dequantized]) -> list[Operation]:
    """The sums as the product's result."""
    g, rank = c.generic, len(shape_of(total))
    body, whole = Body(), AffineMap.identity(rank)
    value = body.add(arith.SIToFPOp(body.input(total, whole), f32))
    at = {r.position: axis for axis, r in enumerate(g.maps[-1].results) if isinstance(r, AffineDimExpr)}
    loops = AffineMap(rank, 0, tuple(_place(at.get(d)) for d in range(len(g.iterators))))
    scales = [body.copy(scale.at(loops)) for factor in factors for scale in factor.scales]
    if scales:
        scale, *rest = scales
        for one in rest:
            scale = body.add(arith.MulfOp(scale, one))
        value = body.add(arith.MulfOp(value, scale))
    if not _is_zero(g.outputs[0]):
        value = body.add(arith.AddfOp(value, body.input(g.outputs[0], whole)))
    return body.generic(value, g.outputs[0], whole)


# -- small facts


def _element(value: SSAValue) -> Attribute:
    return value.type.element_type if isinstance(value.type, TensorType) else value.type


def _signed(bits: int) -> Range:
    return -(1 << bits - 1), (1 << bits - 1) - 1


def _place(dim: int | None) -> AffineExpr:
    return AffineExpr.constant(0) if dim is None else AffineExpr.dimension(dim)


def _sizes(value: SSAValue) -> tuple[list[Operation], list[SSAValue]]:
    """Operations, and the dynamic sizes of a tensor that they give."""
    made: list[Operation] = []
    for axis, n in enumerate(shape_of(value)):
        if n < 0:
            index = arith.ConstantOp.from_int_and_width(axis, IndexType())
            made += [index, tensor.DimOp(value, index)]
    return made, [op.results[0] for op in made[1::2]]


def _constant(value: SSAValue) -> int | None:
    """The integer that a constant scalar is, as an i32 or a float."""
    attribute = value.owner.value if isinstance(value.owner, arith.ConstantOp) else None
    number = attribute.value.data if isinstance(attribute, IntegerAttr | FloatAttr) else None
    whole = number is not None and (isinstance(number, int) or number.is_integer()) and abs(number) <= EXACT
    return int(number) if whole and number is not None else None


def _integers(value: SSAValue) -> Operation | None:
    """A constant tensor of floats that are all integers, as a constant of i32."""
    dense = value.owner.value if isinstance(value.owner, arith.ConstantOp) else None
    if not isinstance(dense, DenseIntOrFPElementsAttr) or prod(dense.get_shape()) > MOST_ELEMENTS:
        return None
    values = [float(v) for v in dense.get_values()]
    if not all(v.is_integer() and abs(v) <= EXACT for v in values):
        return None
    type_ = TensorType(i32, dense.get_shape())
    return arith.ConstantOp(DenseIntOrFPElementsAttr.from_list(type_, [int(v) for v in values]))


def _is_zero(value: SSAValue) -> bool:
    """Whether a value is 0, or a tensor of zeros."""
    if isinstance(value.owner, tensor.SplatOp):
        return _is_zero(value.owner.input)
    attribute = value.owner.value if isinstance(value.owner, arith.ConstantOp) else None
    number = attribute if isinstance(attribute, FloatAttr) else splat_of(attribute)
    return number is not None and number.value.data == 0


# -- for each dimension of what an operation views the one of its result that runs along it, where there is one

Axes = list["int | None"]


def _same_axes(op: Operation) -> Axes:
    """Of an operation that keeps dimensions, apart from those whose size it changes."""
    source, result = shape_of(op.operands[0]), shape_of(op.results[0])
    return [axis if n == m >= 0 else None for axis, (n, m) in enumerate(zip(source, result, strict=True))]


def _groups(op: Operation) -> list[list[int]]:
    groups = cast("ArrayAttr[ArrayAttr[IntegerAttr]]", op.properties["reassociation"])
    return [[d.value.data for d in group.data] for group in groups.data]


def _only(group: Sequence[int], shape: Sequence[int]) -> int | None:
    """The dimension of a group that is longer than 1, where there is only one."""
    long = [d for d in group if shape[d] != 1]
    return long[0] if len(long) == 1 else None


def _collapsed_axes(op: Operation) -> Axes:
    shape = shape_of(op.operands[0])
    found: Axes = [None] * len(shape)
    for axis, group in enumerate(_groups(op)):
        if (only := _only(group, shape)) is not None:
            found[only] = axis
    return found


def _expanded_axes(op: Operation) -> Axes:
    return [_only(group, shape_of(op.results[0])) for group in _groups(op)]


VIEWS: dict[str, Callable[[Operation], Axes]] = {
    "tensor.cast": _same_axes,
    "tensor.collapse_shape": _collapsed_axes,
    "tensor.expand_shape": _expanded_axes,
    "tensor.pad": _same_axes,
}
