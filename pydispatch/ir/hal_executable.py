"""`hal` operations that describe executables: variants, exports, conditions, constants."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    IntegerType,
    StringAttr,
    SymbolRefAttr,
    i1,
)
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.irdl import (
    IRDLOperation,
    attr_def,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, IsTerminator, NoTerminator, Pure, SymbolOpInterface, SymbolTable
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir import syntax
from pydispatch.ir.hal_attrs import (
    DeviceType,
    ExecutableObjectsAttr,
    ExecutableTargetAttr,
    PipelineLayoutAttr,
    parse_object_list,
)


def parse_body(p: Parser) -> Region:
    """A region of symbols; an empty one gets its block."""
    region = p.parse_region()
    if not region.blocks:
        region.add_block(Block())
    return region


def print_body(printer: Printer, region: Region) -> None:
    printer.print_string(" ")
    printer.print_region(region, print_empty_block=False)


def check_children(op: Operation, region: Region, allowed: Sequence[str]) -> None:
    """The operations of a body are of the named kinds; `allowed` names may be prefixes that end in a dot."""
    for child in region.ops:
        if child.name not in allowed:
            raise VerifyException(f"'{op.name}' cannot hold '{child.name}', it holds {', '.join(allowed)}")


@irdl_op_definition
class ExecutableOp(IRDLOperation):
    """A set of variants of the same exports."""

    name = "hal.executable"
    sym_name = prop_def(StringAttr)
    sym_visibility = opt_prop_def(StringAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator(), IsolatedFromAbove(), SymbolTable(), SymbolOpInterface())

    @classmethod
    def parse(cls, p: Parser) -> ExecutableOp:
        visibility = p.parse_optional_visibility_keyword()
        name = p.parse_symbol_name()
        attributes = syntax.parse_attributes(p)
        body = parse_body(p)
        return cls(
            properties={"sym_name": name, "sym_visibility": visibility}, attributes=attributes, regions=[body]
        )

    def print(self, printer: Printer) -> None:
        syntax.print_visibility(printer, self.sym_visibility)
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        syntax.print_attributes(printer, self.attributes)
        print_body(printer, self.body)

    def verify_(self) -> None:
        check_children(self, self.body, ("hal.executable.variant", "hal.executable.binary", "hal.executable_end"))


@irdl_op_definition
class ExecutableEndOp(IRDLOperation):
    """Older releases end the body of an executable with this; it has no meaning."""

    name = "hal.executable_end"
    assembly_format = "attr-dict"


@irdl_op_definition
class ExecutableSourceEndOp(IRDLOperation):
    """The same in a source."""

    name = "hal.executable.source_end"
    assembly_format = "attr-dict"


@irdl_op_definition
class ExecutableVariantEndOp(IRDLOperation):
    """The same in a variant."""

    name = "hal.executable.variant_end"
    assembly_format = "attr-dict"


@irdl_op_definition
class ExecutableSourceOp(IRDLOperation):
    """An executable without a target: one variant is made of it for each target that has objects."""

    name = "hal.executable.source"
    sym_name = prop_def(StringAttr)
    sym_visibility = opt_prop_def(StringAttr)
    objects = opt_prop_def(ExecutableObjectsAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator(), IsolatedFromAbove(), SymbolTable(), SymbolOpInterface())

    @classmethod
    def parse(cls, p: Parser) -> ExecutableSourceOp:
        properties: dict[str, Attribute | None] = {"sym_visibility": p.parse_optional_visibility_keyword()}
        properties["sym_name"] = p.parse_symbol_name()
        start = p.pos
        if p.parse_optional_punctuation(",") is not None:
            p.parse_keyword("objects")
            p.parse_punctuation("=")
            properties["objects"] = syntax.parse_attr_of(p, ExecutableObjectsAttr)
        elif p.parse_optional_keyword("objects") is not None:
            with p.in_parens():
                properties["objects"] = syntax.parse_attr_of(p, ExecutableObjectsAttr)
        attributes = syntax.parse_attributes(p)
        for key in ("objects", "hal.executable.objects"):
            if key in attributes:
                properties["objects"] = attributes.pop(key)
        if not isinstance(properties.get("objects"), ExecutableObjectsAttr | None):
            p.raise_error("the objects of a source are #hal.executable.objects<{#target = [...]}>", start, p.pos)
        return cls(properties=properties, attributes=attributes, regions=[parse_body(p)])

    def print(self, printer: Printer) -> None:
        syntax.print_visibility(printer, self.sym_visibility)
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        if self.objects is not None:
            printer.print_string(" objects(")
            printer.print_attribute(self.objects)
            printer.print_string(")")
        syntax.print_attributes(printer, self.attributes)
        print_body(printer, self.body)


@irdl_op_definition
class ExecutableVariantOp(IRDLOperation):
    """An executable for one target: exports, condition, constants and a module (none when objects define all)."""

    name = "hal.executable.variant"
    sym_name = prop_def(StringAttr)
    sym_visibility = opt_prop_def(StringAttr)
    target = prop_def(ExecutableTargetAttr)
    objects = opt_prop_def(ArrayAttr)
    sources = opt_prop_def(DictionaryAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator(), IsolatedFromAbove(), SymbolTable(), SymbolOpInterface())

    @classmethod
    def parse(cls, p: Parser) -> ExecutableVariantOp:
        start = p.pos
        properties: dict[str, Attribute | None] = {"sym_visibility": p.parse_optional_visibility_keyword()}
        properties["sym_name"] = p.parse_symbol_name()
        while True:  # `target(#t) objects([...])` or `, target = #t, objects = [...]`
            comma = p.parse_optional_punctuation(",") is not None
            at = p.pos
            clause = p.parse_optional_keyword_in(("target", "objects", "sources"))
            if clause is None:
                if comma:
                    p.raise_error("expected target, objects or sources")
                break
            if clause in properties:
                p.raise_error(f"'{clause}' is given twice", at, at + len(clause))
            if p.parse_optional_punctuation("=") is None:
                with p.in_parens():
                    properties[clause] = _parse_clause(p, clause)
            else:
                properties[clause] = _parse_clause(p, clause)
        if "target" not in properties:
            p.raise_error("a variant needs a target: target(#hal.executable.target<...>)", start, p.pos)
        attributes = syntax.parse_attributes(p)
        return cls(properties=properties, attributes=attributes, regions=[parse_body(p)])

    def print(self, printer: Printer) -> None:
        syntax.print_visibility(printer, self.sym_visibility)
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        for clause in ("target", "objects", "sources"):
            value = self.properties.get(clause)
            if value is not None:
                printer.print_string(f" {clause}(")
                printer.print_attribute(value)
                printer.print_string(")")
        syntax.print_attributes(printer, self.attributes)
        print_body(printer, self.body)

    def verify_(self) -> None:
        check_children(self, self.body, (
            "hal.executable.condition", "hal.executable.constant.block", "hal.executable.export", "builtin.module",
            "hal.executable.variant_end",
        ))  # fmt: skip
        ordinals: set[int] = set()
        for export in self.body.ops:
            if isinstance(export, ExecutableExportOp) and export.ordinal is not None:
                if (ordinal := export.ordinal.value.data) in ordinals:
                    raise VerifyException(f"ordinal {ordinal} is given to two exports of @{self.sym_name.data}")
                ordinals.add(ordinal)


def _parse_clause(p: Parser, clause: str) -> Attribute:
    if clause == "objects":
        return parse_object_list(p)
    if clause == "target":
        return syntax.parse_attr_of(p, ExecutableTargetAttr)
    return p.parse_attribute()


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


def check_region(op: Operation, region: Region, results: Sequence[Attribute], what: str, device: bool) -> None:
    """The entry block takes the device first, then index values, and each return gives `results`."""
    block = region.blocks.first
    if block is None:
        return
    types = list(block.arg_types)
    if device and types and isinstance(types[0], DeviceType):
        types = types[1:]
    for i, type in enumerate(types):
        if not isinstance(type, IndexType):
            raise VerifyException(f"argument {i} of the {what} region is {type}, expected index")
    for child in region.blocks:
        last = child.last_op
        if last is None:
            raise VerifyException(f"the {what} region has no return")
        if last.name.endswith("return") and [o.type for o in last.operands] != list(results):
            got = ", ".join(str(o.type) for o in last.operands)
            raise VerifyException(
                f"the {what} region returns ({got}), expected ({', '.join(str(r) for r in results)})"
            )


def check_count(op: Operation, region: Region, device: bool) -> None:
    check_region(op, region, [IndexType()] * 3, "count", device)


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


def parse_host_region(p: Parser, results: Sequence[Attribute]) -> Region:
    """`(%device: !hal.device, %w: index) -> (T...) {...}`, with the results that are wanted."""
    arguments = syntax.parse_signature_args(p)
    start = p.pos
    p.parse_punctuation("->", " after the arguments of a host region")
    types = syntax.parse_types(p)
    if types != list(results):
        wanted = ", ".join(str(r) for r in results)
        p.raise_error(f"this region returns ({wanted}), got ({', '.join(str(t) for t in types)})", start, p.pos)
    return p.parse_region(arguments)


def parse_layout(p: Parser) -> PipelineLayoutAttr:
    return syntax.parse_attr_of(p, PipelineLayoutAttr)


@irdl_op_definition
class ExecutableConditionOp(IRDLOperation):
    """Whether a variant may be used: a host region from the device to i1."""

    name = "hal.executable.condition"
    body = region_def()
    traits = traits_def(IsolatedFromAbove())

    @classmethod
    def parse(cls, p: Parser) -> ExecutableConditionOp:
        body = parse_host_region(p, [i1])
        return cls(regions=[body], attributes=syntax.parse_attributes(p))

    def print(self, printer: Printer) -> None:
        syntax.print_region_signature(printer, self.body, [i1])
        syntax.print_attributes(printer, self.attributes)

    def verify_(self) -> None:
        check_region(self, self.body, [i1], "condition", device=True)


@irdl_op_definition
class ExecutableConstantBlockOp(IRDLOperation):
    """Computes the executable constants `keys` on the host at load."""

    name = "hal.executable.constant.block"
    keys = prop_def(ArrayAttr[StringAttr])
    function_type = prop_def(FunctionType)
    body = region_def()
    traits = traits_def(IsolatedFromAbove())

    @classmethod
    def parse(cls, p: Parser) -> ExecutableConstantBlockOp:
        start = p.pos
        arguments = syntax.parse_signature_args(p)
        p.parse_punctuation("->", " after the arguments of a constant block")
        types = syntax.parse_types(p)
        p.parse_keyword("as")
        if p._current_token.text == "(":
            names = p.parse_comma_separated_list(p.Delimiter.PAREN, p.parse_str_literal)
        else:
            names = [p.parse_str_literal()]
        if len(names) != len(types):
            p.raise_error(f"the block gives {len(types)} value(s), but {len(names)} key(s)", start, p.pos)
        attributes = syntax.parse_attributes(p)
        body = p.parse_region(arguments)
        type = FunctionType.from_lists([a.type for a in arguments], types)
        keys = syntax.strings(names)
        return cls(properties={"keys": keys, "function_type": type}, attributes=attributes, regions=[body])

    def print(self, printer: Printer) -> None:
        block = self.body.blocks.first
        assert block is not None
        with printer.in_parens():
            printer.print_list(block.args, printer.print_block_argument)
        printer.print_string(" -> (")
        printer.print_list(self.function_type.outputs, printer.print_attribute)
        printer.print_string(") as (")
        printer.print_list(self.keys, printer.print_attribute)
        printer.print_string(")")
        syntax.print_attributes(printer, self.attributes)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)

    def verify_(self) -> None:
        check_region(self, self.body, self.function_type.outputs.data, "constant", device=True)


@irdl_op_definition
class ExecutableConstantLoadOp(IRDLOperation):
    """Reads an executable constant in a kernel."""

    name = "hal.executable.constant.load"
    key = prop_def(StringAttr)
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$key attr-dict `:` type($result)"


@irdl_op_definition
class DeviceQueryOp(IRDLOperation):
    """Asks the device for `category :: key`: whether it knows the key, and its value or `default_value`."""

    name = "hal.device.query"
    device = operand_def(DeviceType)
    category = prop_def(StringAttr)
    key = prop_def(StringAttr)
    default_value = opt_prop_def(Attribute)
    ok = result_def(i1)
    value = result_def()
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, p: Parser) -> DeviceQueryOp:
        with p.in_angle_brackets():
            name = p.parse_unresolved_operand()
            p.parse_punctuation(":")
            device = p.resolve_operand(name, p.parse_type())
        p.parse_keyword("key")
        with p.in_parens():
            category = p.parse_str_literal(" for the category")
            p.parse_punctuation(":", " between category and key")
            p.parse_punctuation(":", " between category and key")
            key = p.parse_str_literal(" for the key")
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        first = p.parse_type()
        p.parse_punctuation(",", " between the result types")
        type = p.parse_type()
        default: Attribute | None = None
        if p.parse_optional_punctuation("=") is not None:
            default = parse_typed_literal(p, type)
        default = attributes.pop("default_value", default)
        properties: dict[str, Attribute | None] = {
            "category": StringAttr(category), "key": StringAttr(key), "default_value": default,
        }  # fmt: skip
        return cls(operands=[device], result_types=[first, type], properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string("<")
        printer.print_ssa_value(self.device)
        printer.print_string(" : ")
        printer.print_attribute(self.device.type)
        printer.print_string("> key(")
        printer.print_attribute(self.category)
        printer.print_string(" :: ")
        printer.print_attribute(self.key)
        printer.print_string(")")
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        printer.print_attribute(self.ok.type)
        printer.print_string(", ")
        printer.print_attribute(self.value.type)
        if self.default_value is not None:
            printer.print_string(" = ")
            printer.print_attribute(self.default_value)


def parse_typed_literal(p: Parser, type: Attribute) -> Attribute:
    """A literal whose type may be left out when the operation has stated it."""
    start = p.pos
    value = p.parse_attribute()
    if isinstance(value, IntegerAttr) and value.type != type and isinstance(type, IntegerType | IndexType):
        if p.lexer.input.content[start : p.pos].find(":") >= 0:
            p.raise_error(f"the default is of type {value.type}, expected {type}", start, p.pos)
        return IntegerAttr(value.value.data, type)
    return value


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """Ends a host region."""

    name = "hal.return"
    arguments = var_operand_def()
    traits = traits_def(IsTerminator())
    assembly_format = "attr-dict ($arguments^ `:` type($arguments))?"


@irdl_op_definition
class ExecutableBinaryOp(IRDLOperation):
    """A compiled executable; kept so that printed programs parse."""

    name = "hal.executable.binary"
    sym_name = prop_def(StringAttr)
    sym_visibility = opt_prop_def(StringAttr)
    attrs = attr_def(DictionaryAttr, attr_name="attributes")

    @classmethod
    def parse(cls, p: Parser) -> ExecutableBinaryOp:
        visibility = p.parse_optional_visibility_keyword()
        name = p.parse_symbol_name()
        attributes = DictionaryAttr(syntax.parse_attributes(p))
        properties: dict[str, Attribute | None] = {"sym_name": name, "sym_visibility": visibility}
        return cls(properties=properties, attributes={"attributes": attributes})

    def print(self, printer: Printer) -> None:
        syntax.print_visibility(printer, self.sym_visibility)
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        syntax.print_attributes(printer, self.attrs.data)


OPERATIONS: list[type[Operation]] = [
    ExecutableOp, ExecutableEndOp, ExecutableSourceOp, ExecutableSourceEndOp, ExecutableVariantOp,
    ExecutableVariantEndOp, ExecutableExportOp, ExecutableConditionOp, ExecutableConstantBlockOp,
    ExecutableConstantLoadOp, DeviceQueryOp, ReturnOp, ExecutableBinaryOp,
]  # fmt: skip
