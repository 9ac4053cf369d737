"""The `transform` dialect, as far as specs use it: sequences, handles and how to get from one to another."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, Dialect, Operation
from xdsl.irdl import IRDLOperation, irdl_op_definition, opt_prop_def, prop_def, region_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, IsTerminator, SymbolOpInterface

from pydispatch.ir.core import syntax
from pydispatch.ir.dialects.transform import actions as transform_act
from pydispatch.ir.dialects.transform import matchers as transform_match
from pydispatch.ir.dialects.transform.syntax import TYPES, PositionOp, RegionOp, TransformOp


@irdl_op_definition
class NamedSequenceOp(IRDLOperation):
    """A matcher, an action, or `@__transform_main`, which is run."""

    name = "transform.named_sequence"
    sym_name = prop_def(StringAttr)
    sym_visibility = opt_prop_def(StringAttr)
    function_type = prop_def(FunctionType)
    arg_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    body = region_def()
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())

    @classmethod
    def parse(cls, p: Parser) -> NamedSequenceOp:
        visibility = p.parse_optional_visibility_keyword()
        name = p.parse_symbol_name()
        arguments: list[Parser.Argument] = []
        attrs: list[DictionaryAttr] = []

        def argument() -> None:
            arguments.append(p.parse_argument())
            attrs.append(DictionaryAttr(p.parse_optional_attr_dict()))

        p.parse_comma_separated_list(p.Delimiter.PAREN, argument, " in the arguments of a sequence")
        results: list[Attribute] = []
        if p.parse_optional_punctuation("->") is not None:
            results = syntax.parse_types(p)
        attributes = syntax.parse_attributes(p)
        body = p.parse_region(arguments)
        return cls(
            properties={
                "sym_name": name, "sym_visibility": visibility,
                "function_type": FunctionType.from_lists([a.type for a in arguments], results),
                "arg_attrs": ArrayAttr(attrs) if any(a.data for a in attrs) else None,
            },
            attributes=attributes, regions=[body],
        )  # fmt: skip

    def print(self, q: Printer) -> None:
        syntax.print_visibility(q, self.sym_visibility)
        q.print_string(" ")
        q.print_symbol_name(self.sym_name.data)
        arguments = self.body.block.args

        def argument(i: int) -> None:
            q.print_block_argument(arguments[i])
            if self.arg_attrs is not None:
                syntax.print_attributes(q, self.arg_attrs.data[i].data, keyword=False)

        with q.in_parens():
            q.print_list(range(len(arguments)), argument)
        results = self.function_type.outputs.data
        if results:
            q.print_string(" -> ")
            with q.in_parens():
                q.print_list(results, q.print_attribute)
        syntax.print_attributes(q, self.attributes)
        q.print_string(" ")
        q.print_region(self.body, print_entry_block_args=False)


@irdl_op_definition
class YieldOp(TransformOp):
    """Ends a sequence; its operands are the results."""

    name = "transform.yield"
    PIECES: ClassVar[tuple[str, ...]] = ("operands", "attributes", "signature")
    traits = traits_def(IsTerminator())


@irdl_op_definition
class IncludeOp(TransformOp):
    """Runs another sequence here."""

    name = "transform.include"
    target = prop_def(SymbolRefAttr)
    failures = opt_prop_def(StringAttr)

    @classmethod
    def parse(cls, p: Parser) -> Operation:
        start = p.pos
        target = p.parse_attribute()
        if not isinstance(target, SymbolRefAttr):
            p.raise_error("expected @sequence", start, p.pos)
        properties: dict[str, Attribute] = {"target": target}
        p.parse_keyword("failures")
        with p.in_parens():
            properties["failures"] = StringAttr(p.parse_identifier())
        start = p.pos
        names = p.parse_comma_separated_list(p.Delimiter.PAREN, p.parse_unresolved_operand)
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        types = list(p.parse_comma_separated_list(p.Delimiter.PAREN, p.parse_type))
        p.parse_punctuation("->")
        results = syntax.parse_types(p)
        operands = p.resolve_operands(names, types, start)
        return cls(operands=[operands], result_types=[results], properties=properties, attributes=attributes)

    def print(self, q: Printer) -> None:
        q.print_string(" ")
        q.print_attribute(self.target)
        q.print_string(f" failures({self.failures.data if self.failures is not None else 'propagate'}) ")
        syntax.print_operands(q, self.handles)
        q.print_string(" : ")
        q.print_attribute(FunctionType.from_lists([h.type for h in self.handles], [r.type for r in self.results]))


@irdl_op_definition
class StructuredMatchOp(TransformOp):
    """Every operation inside of the targets with one of these names, interfaces and attributes."""

    name = "transform.structured.match"
    ops = opt_prop_def(ArrayAttr[StringAttr])
    interface = opt_prop_def(StringAttr)
    op_attrs = opt_prop_def(DictionaryAttr)
    filter_result_type = opt_prop_def(Attribute)
    filter_operand_types = opt_prop_def(Attribute)

    @classmethod
    def parse(cls, p: Parser) -> Operation:
        properties: dict[str, Attribute] = {}
        while p.parse_optional_keyword("in") is None:
            start = p.pos
            word = p.parse_identifier(" (ops, interface, attributes, filter_result_type or in)")
            if word == "ops":
                with p.in_braces():
                    properties["ops"] = p.parse_attribute()
            elif word == "interface":
                with p.in_braces():
                    properties["interface"] = StringAttr(p.parse_identifier())
            elif word == "attributes":
                properties["op_attrs"] = DictionaryAttr(p.parse_optional_attr_dict())
            elif word in ("filter_result_type", "filter_operand_types"):
                p.parse_punctuation("=")
                properties[word] = p.parse_attribute()
            else:
                p.raise_error(f"'{word}' is not a filter", start, start + len(word))
        name = p.parse_unresolved_operand()
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        (type,) = p.parse_comma_separated_list(p.Delimiter.PAREN, p.parse_type)
        p.parse_punctuation("->")
        results = syntax.parse_types(p)
        operand = p.resolve_operand(name, type)
        return cls(operands=[[operand]], result_types=[results], properties=properties, attributes=attributes)

    def print(self, q: Printer) -> None:
        for word, value in (("ops", self.ops), ("interface", self.interface)):
            if value is not None:
                q.print_string(f" {word}{{")
                q.print_string(value.data) if isinstance(value, StringAttr) else q.print_attribute(value)
                q.print_string("}")
        if self.op_attrs is not None:
            syntax.print_attributes(q, self.op_attrs.data)
        for word in ("filter_result_type", "filter_operand_types"):
            if word in self.properties:
                q.print_string(f" {word} = ")
                q.print_attribute(self.properties[word])
        q.print_string(" in ")
        q.print_ssa_value(self.handles[0])
        q.print_string(" : ")
        q.print_attribute(FunctionType.from_lists([h.type for h in self.handles], [r.type for r in self.results]))


@irdl_op_definition
class ForeachOp(RegionOp):
    """Runs its body once for each operation of the handle."""

    name = "transform.foreach"
    PIECES: ClassVar[tuple[str, ...]] = ("operands", "attributes", "signature", "region")


@irdl_op_definition
class ForeachMatchOp(TransformOp):
    """Visits every operation inside of the roots, innermost first; the first matcher that agrees has its action run."""

    name = "transform.foreach_match"
    matchers = prop_def(ArrayAttr[SymbolRefAttr])
    actions = prop_def(ArrayAttr[SymbolRefAttr])
    restrict_root = opt_prop_def(UnitAttr)
    flatten_results = opt_prop_def(UnitAttr)

    @classmethod
    def parse(cls, p: Parser) -> Operation:
        properties: dict[str, Attribute] = {}
        for flag in ("restrict_root", "flatten_results"):
            if p.parse_optional_keyword(flag) is not None:
                properties[flag] = UnitAttr()
        p.parse_keyword("in")
        names = [p.parse_unresolved_operand()]
        while p.parse_optional_punctuation(",") is not None:
            names.append(p.parse_unresolved_operand())
        matchers, actions = [], []
        while True:
            matchers.append(SymbolRefAttr(p.parse_symbol_name()))
            p.parse_punctuation("->")
            actions.append(SymbolRefAttr(p.parse_symbol_name()))
            if p.parse_optional_punctuation(",") is None:
                break
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        start = p.pos
        types = list(p.parse_comma_separated_list(p.Delimiter.PAREN, p.parse_type))
        p.parse_punctuation("->")
        results = syntax.parse_types(p)
        operands = p.resolve_operands(names, types, start)
        properties |= {"matchers": ArrayAttr(matchers), "actions": ArrayAttr(actions)}
        return cls(operands=[operands], result_types=[results], properties=properties, attributes=attributes)

    def print(self, q: Printer) -> None:
        for flag in ("restrict_root", "flatten_results"):
            q.print_string(f" {flag}" if flag in self.properties else "")
        q.print_string(" in ")
        q.print_list(self.handles, q.print_ssa_value)
        q.print_string(" ")
        pairs = list(zip(self.matchers, self.actions, strict=True))
        q.print_list(pairs, lambda pair: q.print_string(f"{pair[0]} -> {pair[1]}".replace('"', "")))
        q.print_string(" : ")
        q.print_attribute(FunctionType.from_lists([h.type for h in self.handles], [r.type for r in self.results]))


@irdl_op_definition
class ParamConstantOp(TransformOp):
    """A number or text."""

    name = "transform.param.constant"
    value = prop_def(Attribute)
    PIECES: ClassVar[tuple[str, ...]] = ("attribute:value", "attributes", "result")


@irdl_op_definition
class GetOperandOp(PositionOp):
    """Operands of an operation."""

    name = "transform.get_operand"


@irdl_op_definition
class GetResultOp(PositionOp):
    """Results of an operation."""

    name = "transform.get_result"


@irdl_op_definition
class GetDefiningOp(TransformOp):
    """The operations that make the values."""

    name = "transform.get_defining_op"


@irdl_op_definition
class GetProducerOfOperandOp(PositionOp):
    """The operation that makes an operand."""

    name = "transform.get_producer_of_operand"


@irdl_op_definition
class GetConsumersOfResultOp(PositionOp):
    """The operations that use a result."""

    name = "transform.get_consumers_of_result"


@irdl_op_definition
class GetParentOp(TransformOp):
    """The operation around; `{op_name = "..."}` or `{isolated_from_above}` goes on until it fits."""

    name = "transform.get_parent_op"


@irdl_op_definition
class GetNearestSymbolTableOp(TransformOp):
    """The module around."""

    name = "transform.util.get_nearest_symbol_table"


@irdl_op_definition
class IreeGetNearestSymbolTableOp(TransformOp):
    """The name of older releases."""

    name = "transform.iree.get_nearest_symbol_table"


@irdl_op_definition
class MergeHandlesOp(TransformOp):
    """One handle for what all hold."""

    name = "transform.merge_handles"
    deduplicate = opt_prop_def(UnitAttr)
    PIECES: ClassVar[tuple[str, ...]] = ("flag:deduplicate=deduplicate", "operands", "attributes", "same")


@irdl_op_definition
class SplitHandleOp(TransformOp):
    """One handle for each operation that a handle holds."""

    name = "transform.split_handle"


@irdl_op_definition
class NumAssociationsOp(TransformOp):
    """How many things a handle holds."""

    name = "transform.num_associations"


@irdl_op_definition
class CastOp(TransformOp):
    """The same handle with another type."""

    name = "transform.cast"

    @classmethod
    def parse(cls, p: Parser) -> Operation:
        name = p.parse_unresolved_operand()
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        type = p.parse_type()
        p.parse_keyword("to")
        result = p.parse_type()
        return cls(operands=[[p.resolve_operand(name, type)]], result_types=[[result]], attributes=attributes)

    def print(self, q: Printer) -> None:
        q.print_string(" ")
        q.print_ssa_value(self.handles[0])
        q.print_string(" : ")
        q.print_attribute(self.handles[0].type)
        q.print_string(" to ")
        q.print_attribute(self.results[0].type)


OPERATIONS: list[type[Operation]] = [
    NamedSequenceOp, YieldOp, IncludeOp, StructuredMatchOp, ForeachOp, ForeachMatchOp, ParamConstantOp, GetOperandOp,
    GetResultOp, GetDefiningOp, GetProducerOfOperandOp, GetConsumersOfResultOp, GetParentOp, GetNearestSymbolTableOp,
    IreeGetNearestSymbolTableOp, MergeHandlesOp, SplitHandleOp, NumAssociationsOp, CastOp,
    *transform_match.OPERATIONS, *transform_act.OPERATIONS,
]  # fmt: skip

Transform = Dialect("transform", OPERATIONS, TYPES)
