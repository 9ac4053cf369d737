"""The library's `affine` dialect with what it lacks: maxima, linear indices and the syntax of `affine.if`."""

from __future__ import annotations

from typing import Any

from xdsl.dialects import affine
from xdsl.dialects.builtin import AffineMapAttr, AffineSetAttr, ArrayAttr, IndexType, IntegerAttr, UnitAttr
from xdsl.ir import Attribute, Block, Dialect, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core import syntax
from pydispatch.ir.core.widen import give_syntax
from pydispatch.ir.dialects.affine import parallel  # noqa: F401  (gives affine.parallel its syntax)


@irdl_op_definition
class MaxOp(IRDLOperation):
    """The largest result of a map."""

    name = "affine.max"
    arguments = var_operand_def(IndexType)
    map = prop_def(AffineMapAttr)
    result = result_def(IndexType)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, p: Parser) -> MaxOp:
        start = p.pos
        map = p.parse_attribute()
        if not isinstance(map, AffineMapAttr):
            p.raise_error("expected an affine map", start, p.pos)
        operands = [*syntax.parse_index_operands(p, "(", ")"), *syntax.parse_index_operands(p)]
        attributes = p.parse_optional_attr_dict()
        return cls(operands=[operands], result_types=[IndexType()], properties={"map": map}, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.map)
        _print_map_operands(printer, self.arguments, self.map.data.num_dims)
        syntax.print_attributes(printer, self.attributes, keyword=False)

    def verify_(self) -> None:
        expected = self.map.data.num_dims + self.map.data.num_symbols
        if len(self.arguments) != expected:
            raise VerifyException(f"the map takes {expected} operand(s), got {len(self.arguments)}")


def _print_map_operands(printer: Printer, operands: Any, dims: int) -> None:
    syntax.print_operands(printer, tuple(operands)[:dims])
    if len(operands) > dims:
        syntax.print_operands(printer, tuple(operands)[dims:], "[", "]")


class _BasisOp(IRDLOperation):
    """`basis`: sizes outermost first, integers or values. static_basis has the dynamic index where a value stands."""

    dynamic_basis = var_operand_def(IndexType)
    static_basis = prop_def(ArrayAttr)

    @property
    def basis(self) -> list[int | SSAValue]:
        values = iter(self.dynamic_basis)
        numbers = [a.value.data for a in self.static_basis if isinstance(a, IntegerAttr)]
        return [next(values) if n == syntax.DYNAMIC else n for n in numbers]

    def print_basis(self, printer: Printer) -> None:
        printer.print_string("(")
        printer.print_list(
            self.basis, lambda b: printer.print_string(str(b)) if isinstance(b, int) else _print_value(printer, b)
        )
        printer.print_string(")")


def _print_value(printer: Printer, value: SSAValue) -> None:
    printer.print_ssa_value(value)


def _parse_basis(p: Parser) -> tuple[list[SSAValue], ArrayAttr[Attribute]]:
    values: list[SSAValue] = []
    static: list[Attribute] = []

    def one() -> None:
        name = p.parse_optional_unresolved_operand()
        if name is None:
            static.append(IntegerAttr(p.parse_integer(allow_boolean=False), 64))
        else:
            values.append(p.resolve_operand(name, IndexType()))
            static.append(IntegerAttr(syntax.DYNAMIC, 64))

    p.parse_comma_separated_list(p.Delimiter.PAREN, one, " in a basis")
    return values, ArrayAttr(static)


@irdl_op_definition
class DelinearizeIndexOp(_BasisOp):
    """Splits an index by a basis, outermost first; the basis may leave out its outermost size."""

    name = "affine.delinearize_index"
    linear_index = operand_def(IndexType)
    multi_index = var_result_def(IndexType)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, p: Parser) -> DelinearizeIndexOp:
        index = p.parse_operand(IndexType())
        p.parse_keyword("into")
        values, static = _parse_basis(p)
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        types = [p.parse_type()]
        while p.parse_optional_punctuation(",") is not None:
            types.append(p.parse_type())
        return cls(
            operands=[index, values], result_types=[types], properties={"static_basis": static}, attributes=attributes
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.linear_index)
        printer.print_string(" into ")
        self.print_basis(printer)
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        printer.print_list(self.multi_index, lambda r: printer.print_attribute(r.type))

    def verify_(self) -> None:
        if len(self.multi_index) - len(self.static_basis) not in (0, 1):
            raise VerifyException(
                f"{len(self.static_basis)} size(s) split into as many results or one more, got {len(self.multi_index)}"
            )


@irdl_op_definition
class LinearizeIndexOp(_BasisOp):
    """Joins indices by a basis, outermost first; the basis may leave out its outermost size."""

    name = "affine.linearize_index"
    multi_index = var_operand_def(IndexType)
    disjoint = opt_prop_def(UnitAttr)
    linear_index = result_def(IndexType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, p: Parser) -> LinearizeIndexOp:
        disjoint = UnitAttr() if p.parse_optional_keyword("disjoint") is not None else None
        indices = syntax.parse_index_operands(p)
        p.parse_keyword("by")
        values, static = _parse_basis(p)
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        p.parse_type()
        properties: dict[str, Attribute | None] = {"static_basis": static, "disjoint": disjoint}
        return cls(
            operands=[indices, values], result_types=[IndexType()], properties=properties, attributes=attributes
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" disjoint " if self.disjoint is not None else " ")
        syntax.print_operands(printer, self.multi_index, "[", "]")
        printer.print_string(" by ")
        self.print_basis(printer)
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : index")

    def verify_(self) -> None:
        if len(self.multi_index) - len(self.static_basis) not in (0, 1):
            raise VerifyException(
                f"{len(self.multi_index)} index value(s) take as many sizes or one less, got {len(self.static_basis)}"
            )


def _parse_if(cls: type[affine.IfOp], p: Parser) -> affine.IfOp:
    """`affine_set<...>(dims)[symbols] -> (T) {...} else {...}`."""
    start = p.pos
    condition = p.parse_attribute()
    if not isinstance(condition, AffineSetAttr):
        p.raise_error("expected an affine set", start, p.pos)
    operands = [*syntax.parse_index_operands(p, "(", ")"), *syntax.parse_index_operands(p)]
    types = syntax.parse_types(p) if p.parse_optional_punctuation("->") is not None else []
    regions = [_yielding(p.parse_region()), Region()]
    if p.parse_optional_keyword("else") is not None:
        regions[1] = _yielding(p.parse_region())
    return cls.create(
        operands=operands, result_types=types, properties={"condition": condition}, regions=regions,
        attributes=p.parse_optional_attr_dict(),
    )  # fmt: skip


def _yielding(region: Region) -> Region:
    """Adds the yield that a region without results may leave out."""
    if not region.blocks:
        region.add_block(Block())
    block = region.blocks[-1]
    if not isinstance(block.last_op, affine.YieldOp):
        block.add_op(affine.YieldOp.get())
    return region


def _print_if(op: affine.IfOp, printer: Printer) -> None:
    printer.print_string(" ")
    printer.print_attribute(op.condition)
    _print_map_operands(printer, op.args, op.condition.data.num_dims)
    if op.res:
        printer.print_string(" -> (")
        printer.print_list(op.res, lambda r: printer.print_attribute(r.type))
        printer.print_string(")")
    printer.print_string(" ")
    printer.print_region(op.then_region)
    if op.else_region.blocks:
        printer.print_string(" else ")
        printer.print_region(op.else_region)
    syntax.print_attributes(printer, op.attributes, keyword=False)


give_syntax(affine.IfOp, _parse_if, _print_if)

_EXTRA: list[type[Operation]] = [MaxOp, DelinearizeIndexOp, LinearizeIndexOp]
Affine = Dialect("affine", [*affine.Affine.operations, *_EXTRA], [*affine.Affine.attributes])
