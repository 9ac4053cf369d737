"""The `affine` dialect of xDSL with additions: maxima, linear indices and the syntax of `affine.if`."""

from __future__ import annotations

from typing import Any

from xdsl.dialects import affine
from xdsl.dialects.builtin import AffineMapAttr, AffineSetAttr, ArrayAttr, IndexType, UnitAttr
from xdsl.ir import Block, Dialect, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    VariadicOperandVariable,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core import syntax
from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.core.directives import directive
from pydispatch.ir.core.refine import refine
from pydispatch.ir.dialects.affine import parallel  # noqa: F401  (gives affine.parallel its syntax)


@directive
class MapOperands(CustomDirective):
    """Directive for a map and its operands, `affine_map<...>(%dims)[%symbols]`.

    Attributes:
        map: The affine map.
        values: The dimension operands, then the symbol operands.
    """

    map: AttributeVariable
    values: VariadicOperandVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse a map with its operands: `affine_map<...>(%dims)[%symbols]`."""
        self.map.parse(parser, state)
        names = parser.parse_op_args_list()
        if parser._current_token.text == "[":
            names += parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_unresolved_operand)
        self.values.set(state, names)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the map with its dimensions and symbols."""
        map = self.map.get(op)
        assert isinstance(map, AffineMapAttr)
        self.map.print(printer, state, op)
        _print_map_operands(printer, self.values.get(op), map.data.num_dims)


@op_definition
class MaxOp(IRDLOperation):
    """Maximum of the results of an affine map, applied to `arguments`: its dimensions, then its symbols."""

    name = "affine.max"
    arguments = var_operand_def(IndexType)
    map = prop_def(AffineMapAttr)
    result = result_def(IndexType)
    traits = traits_def(Pure())
    custom_directives = (MapOperands,)
    assembly_format = "custom<MapOperands>($map, $arguments) attr-dict"

    def verify_(self) -> None:
        """Check that there is an operand for each dimension and symbol of the map."""
        expected = self.map.data.num_dims + self.map.data.num_symbols
        if len(self.arguments) != expected:
            raise VerifyException(f"the map takes {expected} operand(s), got {len(self.arguments)}")


def _print_map_operands(printer: Printer, operands: Any, dims: int) -> None:
    """Print the operands of a map: the first `dims`, its dimensions, in parentheses, and its symbols in brackets."""
    syntax.print_operands(printer, tuple(operands)[:dims])
    if len(operands) > dims:
        syntax.print_operands(printer, tuple(operands)[dims:], "[", "]")


class _BasisOp(IRDLOperation):
    """Base of operations with a `basis`: sizes, outermost first, that are static integers or values.

    `static_basis` has all sizes, with DYNAMIC for each one that is an operand in `dynamic_basis`.
    """

    dynamic_basis = var_operand_def(IndexType)
    static_basis = prop_def(ArrayAttr)

    @property
    def basis(self) -> list[int | SSAValue]:
        """Sizes of the indexed dimensions, outermost first: integers where they are static, else values."""
        return syntax.mixed(self.static_basis, self.dynamic_basis)


@op_definition
class DelinearizeIndexOp(_BasisOp):
    """Operation that splits a linear index into the indices of a multi-dimensional shape, the basis.

    `%a, %b = affine.delinearize_index %i into (4, 8) : index, index` gives 1 and 5 for 13 = 1 * 8 + 5. The outermost
    size does not affect the results, and the basis may omit it: `into (8)` has the same two results.

    Attributes:
        linear_index: The index that is split.
        multi_index: One index per dimension, outermost first.
    """

    name = "affine.delinearize_index"
    linear_index = operand_def(IndexType)
    multi_index = var_result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = (
        "$linear_index `into` custom<MixedInParens>($dynamic_basis, $static_basis) attr-dict `:` type($multi_index)"
    )

    def verify_(self) -> None:
        """Check that there are as many results as sizes, or one more if the outermost size is omitted."""
        if len(self.multi_index) - len(self.static_basis) not in (0, 1):
            raise VerifyException(
                f"{len(self.static_basis)} size(s) split into as many results or one more, got {len(self.multi_index)}"
            )


@op_definition
class LinearizeIndexOp(_BasisOp):
    """Operation that combines the indices of a multi-dimensional shape, the basis, into a linear index.

    `affine.linearize_index [%a, %b] by (4, 8) : index` is %a * 8 + %b. The outermost size has no effect on the result,
    and the basis may omit it: `by (8)`.

    Attributes:
        multi_index: One index per dimension, outermost first.
        disjoint: Promise that each index is at least 0 and less than the size of its dimension.
        linear_index: The combined index.
    """

    name = "affine.linearize_index"
    multi_index = var_operand_def(IndexType)
    disjoint = opt_prop_def(UnitAttr)
    linear_index = result_def(IndexType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure())
    assembly_format = (
        "(`disjoint` $disjoint^)? ` ` `[` $multi_index `]` `by` custom<MixedInParens>($dynamic_basis, "
        "$static_basis) attr-dict `:` type($linear_index)"
    )

    def verify_(self) -> None:
        """Check that there are as many indices as sizes, or one more if the outermost size is omitted."""
        if len(self.multi_index) - len(self.static_basis) not in (0, 1):
            raise VerifyException(
                f"{len(self.multi_index)} index value(s) take as many sizes or one less, got {len(self.static_basis)}"
            )


def _parse_if(cls: type[affine.IfOp], parser: Parser) -> affine.IfOp:
    """Parse `affine_set<...>(%dims)[%symbols] -> (T) {...} else {...}`; the types and the else region are optional."""
    start = parser.pos
    condition = parser.parse_attribute()
    if not isinstance(condition, AffineSetAttr):
        parser.raise_error("expected an affine set", start, parser.pos)
    # The dimensions in parentheses, then the optional symbols in brackets.
    operands = [*syntax.parse_index_operands(parser, "(", ")"), *syntax.parse_index_operands(parser)]
    types = syntax.parse_types(parser) if parser.parse_optional_punctuation("->") is not None else []
    regions = [_with_terminator(parser.parse_region()), Region()]
    if parser.parse_optional_keyword("else") is not None:
        regions[1] = _with_terminator(parser.parse_region())
    return cls.create(
        operands=operands, result_types=types, properties={"condition": condition}, regions=regions,
        attributes=parser.parse_optional_attr_dict(),
    )  # fmt: skip


def _with_terminator(region: Region) -> Region:
    """Add an `affine.yield` without operands, which the text may omit, unless the region has one; return the region."""
    if not region.blocks:
        region.add_block(Block())
    block = region.blocks[-1]
    if not isinstance(block.last_op, affine.YieldOp):
        block.add_op(affine.YieldOp.get())
    return region


def _print_if(op: affine.IfOp, printer: Printer) -> None:
    """Print `affine.if` with its condition, operands, result types and regions."""
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


refine(affine.IfOp, syntax=(_parse_if, _print_if))

_EXTRA: list[type[Operation]] = [MaxOp, DelinearizeIndexOp, LinearizeIndexOp]  # operations of MLIR that xDSL lacks
Affine = Dialect("affine", [*affine.Affine.operations, *_EXTRA], [*affine.Affine.attributes])
