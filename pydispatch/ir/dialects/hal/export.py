"""`hal.executable.export`: one entry point of an executable."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    ArrayAttr,
    IndexType,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    i1,
)
from xdsl.ir import Attribute, Region
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core import syntax
from pydispatch.ir.dialects.hal.layout import PipelineLayoutAttr, parse_layout
from pydispatch.ir.dialects.hal.region import check_count, check_region, parse_host_region

_EXPORT_PROPERTIES = ("ordinal", "layout", "workgroup_size", "subgroup_size", "workgroup_local_memory",
                      "condition_fallback")  # fmt: skip


@irdl_op_definition
class ExecutableExportOp(IRDLOperation):
    """One entry point. `count` maps (device, workload...) to the grid, `condition` says whether the export may run
    and `condition_fallback` names the export to run instead. Regions that are not given are empty."""

    name = "hal.executable.export"
    sym_name = prop_def(StringAttr)
    sym_visibility = opt_prop_def(StringAttr)
    ordinal = opt_prop_def(IntegerAttr)
    layout = prop_def(PipelineLayoutAttr)
    workgroup_size = opt_prop_def(ArrayAttr)
    subgroup_size = opt_prop_def(IntegerAttr)
    workgroup_local_memory = opt_prop_def(IntegerAttr)
    condition_fallback = opt_prop_def(SymbolRefAttr)
    condition = region_def()
    count = region_def()
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())

    @classmethod
    def parse(cls, p: Parser) -> ExecutableExportOp:
        start = p.pos
        properties: dict[str, Attribute | None] = {"sym_visibility": p.parse_optional_visibility_keyword()}
        properties["sym_name"] = p.parse_symbol_name()
        attributes: dict[str, Attribute] = {}
        regions = {"condition": Region(), "count": Region()}
        while _parse_export_clause(p, properties, attributes, regions):
            pass
        if isinstance(text := attributes.get("condition_fallback"), StringAttr):
            attributes["condition_fallback"] = SymbolRefAttr(text)
        syntax.take_inherent(cls, attributes, _EXPORT_PROPERTIES, properties)
        if "layout" not in properties:
            p.raise_error("an export needs a layout: layout(#hal.pipeline.layout<...>)", start, p.pos)
        return cls(
            properties=properties, attributes=attributes, regions=[regions["condition"], regions["count"]]
        )

    def print(self, printer: Printer) -> None:
        syntax.print_visibility(printer, self.sym_visibility)
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        if self.ordinal is not None:
            printer.print_string(f" ordinal({self.ordinal.value.data})")
        printer.print_string(" layout(")
        printer.print_attribute(self.layout)
        printer.print_string(")")
        if self.condition.blocks:
            printer.print_string(" condition")
            syntax.print_region_signature(printer, self.condition, [i1])
        if self.condition_fallback is not None:
            printer.print_string(" fallback(")
            printer.print_attribute(self.condition_fallback)
            printer.print_string(")")
        if self.count.blocks:
            printer.print_string(" count")
            syntax.print_region_signature(printer, self.count, [IndexType()] * 3)
        own = ("workgroup_size", "subgroup_size", "workgroup_local_memory")
        given = {k: self.properties[k] for k in own if k in self.properties}
        if given:
            printer.print_string(" <")
            printer.print_list(given.items(), lambda kv: _print_equation(printer, *kv))
            printer.print_string(">")
        syntax.print_attributes(printer, self.attributes)

    def verify_(self) -> None:
        check_count(self, self.count, device=True)
        if self.condition.blocks:
            check_region(self, self.condition, [i1], "condition", device=True)
        if self.condition_fallback is not None and not self.condition.blocks:
            raise VerifyException("fallback(@export) is given, but there is no condition(...) region")
        check_sizes(self.workgroup_size)


def _print_equation(printer: Printer, name: str, value: Attribute) -> None:
    printer.print_string(f"{name} = ")
    printer.print_attribute(value)


def check_sizes(sizes: ArrayAttr[Attribute] | None) -> None:
    if sizes is None:
        return
    values = [s.value.data if isinstance(s, IntegerAttr) else -1 for s in sizes]
    if len(values) != 3 or min(values) < 1:
        raise VerifyException(f"workgroup_size is three positive integers, got {sizes}")


def _parse_export_clause(
    p: Parser,
    properties: dict[str, Attribute | None],
    attributes: dict[str, Attribute],
    regions: dict[str, Region],
) -> bool:
    """Reads one clause of an export in any order; False at the end."""
    start = p.pos
    token = p._current_token.text
    if token in ("ordinal", "layout", "fallback", "condition", "count", "attributes"):
        p._consume_token()
    elif token == "<":
        with p.in_angle_brackets():
            while p._current_token.text != ">":
                name, value = p._parse_attribute_entry()
                if name not in _EXPORT_PROPERTIES:
                    p.raise_error(f"'{name}' is not a property of an export", start, p.pos)
                properties[name] = value
                if p.parse_optional_punctuation(",") is None:
                    break
        return True
    elif token == "{":  # The count region with a labelled entry block.
        _once(p, regions["count"], "count", start)
        regions["count"] = p.parse_region()
        return True
    else:
        return False
    if token == "attributes":
        attributes.update(p.parse_optional_attr_dict())
    elif token == "ordinal":
        with p.in_parens():
            properties["ordinal"] = syntax.parse_integer_attr(p, IndexType())
    elif token == "layout":
        with p.in_parens():
            properties["layout"] = parse_layout(p)
    elif token == "fallback":
        with p.in_parens():
            properties["condition_fallback"] = p.parse_attribute()
    else:
        _once(p, regions[token], token, start)
        regions[token] = parse_host_region(p, [i1] if token == "condition" else [IndexType()] * 3)
    return True


def _once(p: Parser, region: Region, what: str, start: int) -> None:
    if region.blocks:
        p.raise_error(f"a second {what} region is given", start, p.pos)
