"""`linalg` operations that move elements: `transpose`, `broadcast`, `pack`, `unpack`; and `softmax`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import DenseArrayBase, IndexType, IntegerAttr, ShapedType, TensorType, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core import syntax
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.core.widen import element_type
from pydispatch.ir.dialects.linalg.base import (
    check_results,
    parse_integers,
    parse_operands,
    parse_results,
    print_operands,
)
from pydispatch.ir.dialects.linalg.structure import shape_of


class _MoveOp(IRDLOperation):
    """`ins(%a : T) outs(%b : U) keyword = [1, 0]`."""

    input = operand_def(ShapedType)
    init = operand_def(ShapedType)
    res = var_result_def(TensorType)
    hidden = var_region_def()

    @classmethod
    def keyword(cls) -> str:
        """The one property."""
        return next(iter(cls.get_irdl_definition().properties))

    def numbers(self) -> list[int]:
        """The dimensions that the property lists."""
        value = self.properties[self.keyword()]
        assert isinstance(value, DenseArrayBase)
        return [int(v) for v in value.get_values()]

    @classmethod
    def parse(cls, p: Parser) -> Operation:
        start = p.pos
        inputs, outputs = parse_operands(p)
        if len(inputs) != 1 or len(outputs) != 1:
            p.raise_error(f"expected 1 input and 1 output, got {len(inputs)} and {len(outputs)}", start, p.pos)
        numbers = parse_integers(p, cls.keyword())
        attributes = p.parse_optional_attr_dict()
        return cls(
            operands=[*inputs, *outputs], result_types=[parse_results(p, outputs)],
            properties={cls.keyword(): numbers}, attributes=attributes, regions=[[]],
        )  # fmt: skip

    def print(self, printer: Printer) -> None:
        print_operands(printer, [self.input], [self.init])
        printer.print_string(f" {self.keyword()} = {self.numbers()}")
        syntax.print_attributes(printer, self.attributes, keyword=False)

    def check_elements(self, expected: Sequence[int]) -> None:
        """The output has the shape `expected` and the element type of the input."""
        check_results([self.init], [r.type for r in self.res])
        source, target = self.input.type, self.init.type
        if element_type(source) != element_type(target):
            raise VerifyException(f"the elements of {source} and {target} differ")
        shape = shape_of(target)
        if len(shape) != len(expected) or any(
            a != b and DYNAMIC not in (a, b) for a, b in zip(shape, expected, strict=True)
        ):
            wanted = "x".join("?" if s == DYNAMIC else str(s) for s in expected)
            raise VerifyException(f"the output is {target}, expected the shape {wanted or 'of a scalar'}")


@irdl_op_definition
class TransposeOp(_MoveOp):
    """Dimension i of the output is dimension permutation[i] of the input."""

    name = "linalg.transpose"
    permutation = prop_def(DenseArrayBase)

    def verify_(self) -> None:
        shape, permutation = shape_of(self.input.type), self.numbers()
        if sorted(permutation) != list(range(len(shape))):
            raise VerifyException(f"permutation {permutation} is not one of the {len(shape)} dimension(s) of the input")
        self.check_elements([shape[d] for d in permutation])


@irdl_op_definition
class BroadcastOp(_MoveOp):
    """The input, repeated along `dimensions` of the output."""

    name = "linalg.broadcast"
    dimensions = prop_def(DenseArrayBase)

    def verify_(self) -> None:
        added, shape, target = self.numbers(), list(shape_of(self.input.type)), shape_of(self.init.type)
        if len(set(added)) != len(added) or any(not 0 <= d < len(target) for d in added):
            raise VerifyException(f"dimensions {added} are not different dimensions of the output {self.init.type}")
        if len(shape) + len(added) != len(target):
            raise VerifyException(
                f"the output has rank {len(target)}, expected {len(shape)} of the input and {len(added)} new"
            )
        source = iter(shape)
        self.check_elements([target[d] if d in added else next(source) for d in range(len(target))])


@irdl_op_definition
class SoftmaxOp(IRDLOperation):
    """exp(x - max) / sum of these, along `dimension`."""

    name = "linalg.softmax"
    input = operand_def(ShapedType)
    output = operand_def(ShapedType)
    dimension = prop_def(IntegerAttr)
    res = var_result_def(TensorType)

    @classmethod
    def parse(cls, p: Parser) -> SoftmaxOp:
        attributes = p.parse_optional_attr_dict()
        p.parse_keyword("dimension")
        with p.in_parens():
            dimension = p.parse_integer()
        start = p.pos
        inputs, outputs = parse_operands(p)
        if len(inputs) != 1 or len(outputs) != 1:
            p.raise_error(f"expected 1 input and 1 output, got {len(inputs)} and {len(outputs)}", start, p.pos)
        return cls(
            operands=[*inputs, *outputs], result_types=[parse_results(p, outputs)],
            properties={"dimension": IntegerAttr(dimension, 64)}, attributes=attributes,
        )  # fmt: skip

    def print(self, printer: Printer) -> None:
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(f" dimension({self.dimension.value.data})")
        print_operands(printer, [self.input], [self.output])
        if self.res:
            printer.print_string(" -> ")
            printer.print_list(self.res, lambda r: printer.print_attribute(r.type))

    def verify_(self) -> None:
        check_results([self.output], [r.type for r in self.res])
        rank = len(shape_of(self.input.type))
        if shape_of(self.input.type) != shape_of(self.output.type):
            raise VerifyException(f"the output is {self.output.type}, expected the shape of {self.input.type}")
        if not 0 <= self.dimension.value.data < rank:
            raise VerifyException(f"{self.input.type} has no dimension {self.dimension.value.data}")


class PackingOp(IRDLOperation):
    """`%source padding_value(%p : T) outer_dims_perm = […] inner_dims_pos = […] inner_tiles = […] into %dest : T -> U`.

    The padding and the permutation may be absent.
    """

    source = operand_def(ShapedType)
    dest = operand_def(ShapedType)
    padding_value = opt_operand_def()
    inner_tiles = var_operand_def(IndexType)
    outer_dims_perm = opt_prop_def(DenseArrayBase)
    inner_dims_pos = prop_def(DenseArrayBase)
    static_inner_tiles = prop_def(DenseArrayBase)
    res = var_result_def(TensorType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @classmethod
    def parse(cls, p: Parser) -> Operation:
        source = p.parse_unresolved_operand()
        padding: list[SSAValue] = []
        if p.parse_optional_keyword("padding_value") is not None:
            with p.in_parens():
                name = p.parse_unresolved_operand()
                p.parse_punctuation(":")
                padding.append(p.resolve_operand(name, p.parse_type()))
        properties: dict[str, Attribute | None] = {}
        if p._current_token.text == "outer_dims_perm":
            properties["outer_dims_perm"] = parse_integers(p, "outer_dims_perm")
        properties["inner_dims_pos"] = parse_integers(p, "inner_dims_pos")
        p.parse_keyword("inner_tiles")
        p.parse_punctuation("=")
        tiles: list[SSAValue] = []
        static: list[int] = []

        def tile() -> None:
            name = p.parse_optional_unresolved_operand()
            if name is not None:
                tiles.append(p.resolve_operand(name, IndexType()))
            static.append(DYNAMIC if name is not None else p.parse_integer(allow_boolean=False))

        p.parse_comma_separated_list(p.Delimiter.SQUARE, tile, " in inner_tiles")
        properties["static_inner_tiles"] = DenseArrayBase.from_list(i64, static)
        p.parse_keyword("into")
        dest = p.parse_unresolved_operand()
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        source_type = p.parse_type()
        target = source_type
        if p.parse_optional_punctuation("->") is not None:
            target = p.parse_type()
        operands: list[Any] = [p.resolve_operand(source, source_type), p.resolve_operand(dest, target), padding, tiles]
        results = [target] if isinstance(target, TensorType) else []
        return cls(operands=operands, result_types=[results], properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        if self.padding_value is not None:
            printer.print_string(" padding_value(")
            printer.print_ssa_value(self.padding_value)
            printer.print_string(" : ")
            printer.print_attribute(self.padding_value.type)
            printer.print_string(")")
        if self.outer_dims_perm is not None:
            printer.print_string(f" outer_dims_perm = {numbers(self.outer_dims_perm)}")
        printer.print_string(f" inner_dims_pos = {numbers(self.inner_dims_pos)} inner_tiles = [")
        printer.print_list(self.tiles(), lambda t: _print_tile(printer, t))
        printer.print_string("] into ")
        printer.print_ssa_value(self.dest)
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        printer.print_attribute(self.source.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.dest.type)

    def tiles(self) -> list[int | SSAValue]:
        """The size of each inner tile."""
        dynamic = iter(self.inner_tiles)
        return [next(dynamic) if t == DYNAMIC else t for t in numbers(self.static_inner_tiles)]

    def outer_permutation(self, rank: int) -> list[int]:
        """The order of the outer dimensions in the packed tensor."""
        return list(range(rank)) if not numbers(self.outer_dims_perm) else numbers(self.outer_dims_perm)

    def check_packing(self, plain: SSAValue, packed: SSAValue) -> None:
        """The packed shape is that of the plain one in tiles."""
        check_results([self.dest], [r.type for r in self.res])
        shape, target = shape_of(plain.type), shape_of(packed.type)
        positions, tiles = numbers(self.inner_dims_pos), numbers(self.static_inner_tiles)
        if element_type(plain.type) != element_type(packed.type):
            raise VerifyException(f"the elements of {plain.type} and {packed.type} differ")
        if len(positions) != len(tiles) or len(set(positions)) != len(positions):
            raise VerifyException(f"inner_dims_pos {positions} and inner_tiles do not fit each other")
        if any(not 0 <= d < len(shape) for d in positions):
            raise VerifyException(f"inner_dims_pos {positions} are not dimensions of {plain.type}")
        if any(t <= 0 and t != DYNAMIC for t in tiles):
            raise VerifyException(f"inner_tiles are positive, got {tiles}")
        outer = self.outer_permutation(len(shape))
        if sorted(outer) != list(range(len(shape))):
            raise VerifyException(f"outer_dims_perm {outer} is not a permutation of the dimensions of {plain.type}")
        counts = list(shape)
        for d, t in zip(positions, tiles, strict=True):
            counts[d] = DYNAMIC if DYNAMIC in (counts[d], t) else -(-counts[d] // t)
        expected = [*(counts[d] for d in outer), *tiles]
        if len(expected) != len(target) or any(
            a != b and DYNAMIC not in (a, b) for a, b in zip(expected, target, strict=True)
        ):
            wanted = "x".join("?" if s == DYNAMIC else str(s) for s in expected)
            raise VerifyException(f"the packed side is {packed.type}, expected the shape {wanted}")


def numbers(value: DenseArrayBase[Any] | None) -> list[int]:
    """The integers of a property; none when it is absent."""
    return [] if value is None else [int(v) for v in value.get_values()]


def _print_tile(printer: Printer, tile: int | SSAValue) -> None:
    if isinstance(tile, int):
        printer.print_string(str(tile))
    else:
        printer.print_ssa_value(tile)


class _Pack(PackingOp):
    """The source in tiles: its dimensions, counted in tiles, and behind them those of a tile."""

    def verify_(self) -> None:
        self.check_packing(self.source, self.dest)
        tiles = dict(zip(numbers(self.inner_dims_pos), numbers(self.static_inner_tiles), strict=True))
        shape = shape_of(self.source.type)
        if self.padding_value is not None:
            if self.padding_value.type != element_type(self.source.type):
                type = self.padding_value.type
                raise VerifyException(f"the padding is {type}, expected an element of {self.source.type}")
        elif any(DYNAMIC not in (shape[d], t) and shape[d] % t for d, t in tiles.items()):
            raise VerifyException(f"the tiles do not divide {self.source.type}: a padding_value is needed")


class _Unpack(PackingOp):
    """The tensor whose tiles the source holds."""

    def verify_(self) -> None:
        self.check_packing(self.dest, self.source)
        if self.padding_value is not None:
            raise VerifyException("unpacking has no padding_value")


def _named(base: type[PackingOp], name: str) -> type[PackingOp]:
    title = "".join(part.capitalize() for part in name.split("."))
    made = type(f"{title}Op", (base,), {"name": name, "__doc__": base.__doc__, "__module__": __name__})
    return irdl_op_definition(made)


LinalgPackOp = _named(_Pack, "linalg.pack")
LinalgUnpackOp = _named(_Unpack, "linalg.unpack")
TensorPackOp = _named(_Pack, "tensor.pack")
TensorUnpackOp = _named(_Unpack, "tensor.unpack")

OPERATIONS: list[type[Operation]] = [TransposeOp, BroadcastOp, SoftmaxOp, LinalgPackOp, LinalgUnpackOp]
TENSOR_OPERATIONS: list[type[Operation]] = [TensorPackOp, TensorUnpackOp]
