"""`transform` operations that change the program: calls in place of what matched, imports, clean-up."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import StringAttr, SymbolRefAttr, UnitAttr
from xdsl.ir import Attribute, Operation, Region
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoTerminator

from pydispatch.ir.core import syntax
from pydispatch.ir.dialects.transform.syntax import RegionOp, TransformOp


class ImportSymbolLike(TransformOp):
    """Copies a symbol of the spec into the program."""

    symbol = prop_def(SymbolRefAttr)
    if_undefined = opt_prop_def(UnitAttr)
    force_import = opt_prop_def(UnitAttr)
    PIECES: ClassVar[tuple[str, ...]] = (
        "symbol:symbol", "word:into", "operand", "flag:if_undefined=if undefined", "flag:force_import=force",
        "attributes", "signature",
    )  # fmt: skip


@irdl_op_definition
class ImportSymbolOp(ImportSymbolLike):
    """The name of today."""

    name = "transform.util.import_symbol"


@irdl_op_definition
class IreeImportSymbolOp(ImportSymbolLike):
    """The name of older releases."""

    name = "transform.iree.import_symbol"


class CastAndCallLike(IRDLOperation):
    """`%function(%inputs) -> %outputs after %place { conversions }`: the outputs become the results of a call."""

    inputs = var_operand_def()
    outputs = var_operand_def()
    place = var_operand_def()
    function = var_operand_def()
    function_name = opt_prop_def(SymbolRefAttr)
    insert_after = opt_prop_def(UnitAttr)
    call = var_result_def()
    conversions = region_def()
    traits = traits_def(NoTerminator())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @classmethod
    def parse(cls, p: Parser) -> Operation:
        properties: dict[str, Attribute] = {}
        function = p.parse_optional_unresolved_operand()
        if function is None:
            start = p.pos
            symbol = p.parse_attribute()
            if not isinstance(symbol, SymbolRefAttr):
                p.raise_error("expected @function or a handle of one", start, p.pos)
            properties["function_name"] = symbol
        inputs = outputs = []
        if p._current_token.text == "(":
            inputs = p.parse_comma_separated_list(p.Delimiter.PAREN, p.parse_unresolved_operand, " in inputs")
        if p.parse_optional_punctuation("->") is not None:
            outputs = [p.parse_unresolved_operand()]
            while p.parse_optional_punctuation(",") is not None:
                outputs.append(p.parse_unresolved_operand())
        start = p.pos
        if p.parse_optional_keyword("after") is not None:
            properties["insert_after"] = UnitAttr()
        elif p.parse_optional_keyword("before") is None:
            p.raise_error("expected 'before' or 'after' and an operation", start, start + 1)
        place = p.parse_unresolved_operand()
        conversions = p.parse_region() if p._current_token.text == "{" else Region()
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        start = p.pos
        types = list(p.parse_comma_separated_list(p.Delimiter.PAREN, p.parse_type, " in operand types"))
        p.parse_punctuation("->")
        results = syntax.parse_types(p)
        # The function's type comes first, as its name does.
        names = [*([] if function is None else [function]), *inputs, *outputs, place]
        values = p.resolve_operands(names, types, start)
        n = 0 if function is None else 1
        split = n + len(inputs)
        return cls(
            operands=[values[n:split], values[split:-1], values[-1:], values[:n]], result_types=[results],
            properties=properties, attributes=attributes, regions=[conversions],
        )  # fmt: skip

    def print(self, q: Printer) -> None:
        q.print_string(" ")
        if self.function_name is not None:
            q.print_attribute(self.function_name)
        else:
            q.print_ssa_value(self.function[0])
        syntax.print_operands(q, self.inputs)
        if self.outputs:
            q.print_string(" -> ")
            q.print_list(self.outputs, q.print_ssa_value)
        q.print_string(" after " if self.insert_after is not None else " before ")
        q.print_ssa_value(self.place[0])
        if self.conversions.blocks:
            q.print_string(" ")
            q.print_region(self.conversions)
        syntax.print_attributes(q, self.attributes, keyword=False)
        q.print_string(" : ")
        types = [v.type for v in (*self.function, *self.inputs, *self.outputs, *self.place)]
        with q.in_parens():
            q.print_list(types, q.print_attribute)
        q.print_string(" -> ")
        q.print_list(self.call, lambda r: q.print_attribute(r.type))


@irdl_op_definition
class UtilCastAndCallOp(CastAndCallLike):
    """The call is a `util.call`."""

    name = "transform.util.cast_and_call"


@irdl_op_definition
class FuncCastAndCallOp(CastAndCallLike):
    """The call is a `func.call`."""

    name = "transform.func.cast_and_call"


@irdl_op_definition
class CastShapeDynamicDimsOp(TransformOp):
    """Tensors may be cast to types of the same rank that state fewer or more sizes."""

    name = "transform.type_conversion.tensor.cast_shape_dynamic_dims"
    ignore_dynamic_info = opt_prop_def(UnitAttr)
    PIECES: ClassVar[tuple[str, ...]] = ("flag:ignore_dynamic_info=ignore_dynamic_info", "attributes")


@irdl_op_definition
class ApplyDceOp(TransformOp):
    """Removes operations that nothing uses and private symbols of which the same holds."""

    name = "transform.apply_dce"
    PIECES: ClassVar[tuple[str, ...]] = ("word:to", "operand", "attributes", "signature")


@irdl_op_definition
class ApplyCseOp(TransformOp):
    """Computes equal things once."""

    name = "transform.apply_cse"
    PIECES: ClassVar[tuple[str, ...]] = ("word:to", "operand", "attributes", "signature")


@irdl_op_definition
class ApplyPatternsOp(RegionOp):
    """Applies the named sets of patterns until nothing changes."""

    name = "transform.apply_patterns"
    PIECES: ClassVar[tuple[str, ...]] = ("word:to", "operand", "region", "attributes", "signature")


@irdl_op_definition
class CanonicalizationOp(TransformOp):
    """The set of patterns that simplify."""

    name = "transform.apply_patterns.canonicalization"
    PIECES: ClassVar[tuple[str, ...]] = ("attributes",)


@irdl_op_definition
class ApplyRegisteredPassOp(TransformOp):
    """Runs a pass by its name."""

    name = "transform.apply_registered_pass"
    pass_name = prop_def(StringAttr)
    options = opt_prop_def(Attribute)

    @classmethod
    def parse(cls, p: Parser) -> Operation:
        properties: dict[str, Attribute] = {"pass_name": StringAttr(p.parse_str_literal())}
        if p.parse_optional_keyword("with") is not None:
            p.parse_keyword("options")
            p.parse_punctuation("=")
            properties["options"] = p.parse_attribute()
        p.parse_keyword("to")
        target = p.parse_unresolved_operand()
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        (type,) = p.parse_comma_separated_list(p.Delimiter.PAREN, p.parse_type)
        p.parse_punctuation("->")
        results = syntax.parse_types(p)
        operand = p.resolve_operand(target, type)
        return cls(operands=[[operand]], result_types=[results], properties=properties, attributes=attributes)

    def print(self, q: Printer) -> None:
        q.print_string(" ")
        q.print_attribute(self.pass_name)
        if self.options is not None:
            q.print_string(" with options = ")
            q.print_attribute(self.options)
        q.print_string(" to ")
        q.print_ssa_value(self.handles[0])
        q.print_string(" : (")
        q.print_attribute(self.handles[0].type)
        q.print_string(") -> ")
        q.print_list(self.results, lambda r: q.print_attribute(r.type))


@irdl_op_definition
class AnnotateOp(TransformOp):
    """Gives operations an attribute."""

    name = "transform.annotate"
    name_ = prop_def(StringAttr, prop_name="name")

    @classmethod
    def parse(cls, p: Parser) -> Operation:
        names = [p.parse_unresolved_operand()]
        name = StringAttr(p.parse_str_literal())
        if p.parse_optional_punctuation("=") is not None:
            names.append(p.parse_unresolved_operand())
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        start = p.pos
        types = [p.parse_type()]
        while p.parse_optional_punctuation(",") is not None:
            types.append(p.parse_type())
        operands = p.resolve_operands(names, types, start)
        return cls(operands=[operands], result_types=[[]], properties={"name": name}, attributes=attributes)

    def print(self, q: Printer) -> None:
        q.print_string(" ")
        q.print_ssa_value(self.handles[0])
        q.print_string(" ")
        q.print_attribute(self.name_)
        if len(self.handles) == 2:
            q.print_string(" = ")
            q.print_ssa_value(self.handles[1])
        syntax.print_attributes(q, self.attributes, keyword=False)
        q.print_string(" : ")
        q.print_list(self.handles, lambda h: q.print_attribute(h.type))


@irdl_op_definition
class PrintOp(TransformOp):
    """Prints operations, or the whole program, to standard error."""

    name = "transform.print"
    PIECES: ClassVar[tuple[str, ...]] = ("operands", "attributes", "signature")


OPERATIONS: list[type[Operation]] = [
    ImportSymbolOp, IreeImportSymbolOp, UtilCastAndCallOp, FuncCastAndCallOp, CastShapeDynamicDimsOp, ApplyDceOp,
    ApplyCseOp, ApplyPatternsOp, CanonicalizationOp, ApplyRegisteredPassOp, AnnotateOp, PrintOp,
]  # fmt: skip
