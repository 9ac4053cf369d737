"""`hal` operations of host code on tensors: crossing the boundary of a program, external dispatches."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, IndexType, IntegerAttr, StringAttr
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core import syntax
from pydispatch.ir.dialects.flow.base import DispatchLikeOp, dispatch_properties
from pydispatch.ir.dialects.hal.device import ExecutableTargetAttr, FenceType
from pydispatch.ir.dialects.hal.export import check_sizes
from pydispatch.ir.dialects.hal.layout import PipelineLayoutAttr, parse_layout
from pydispatch.ir.dialects.hal.object import parse_object_list
from pydispatch.ir.dialects.hal.region import check_count, parse_host_region


def _parse_prefix(p: Parser, properties: dict[str, Attribute | None]) -> SSAValue | None:
    """`on(#affinity) wait(%fence) =>`, both optional."""
    if p.parse_optional_keyword("on") is not None:
        with p.in_parens():
            properties["affinity"] = p.parse_attribute()
    if p.parse_optional_keyword("wait") is None:
        return None
    with p.in_parens():
        fence = p.parse_operand(FenceType())
    p.parse_punctuation("=")
    p.parse_punctuation(">")
    return fence


def _print_prefix(printer: Printer, affinity: Attribute | None, fence: SSAValue | None) -> None:
    if affinity is not None:
        printer.print_string(" on(")
        printer.print_attribute(affinity)
        printer.print_string(")")
    if fence is not None:
        printer.print_string(" wait(")
        printer.print_ssa_value(fence)
        printer.print_string(") =>")


@irdl_op_definition
class TensorImportOp(IRDLOperation):
    """A tensor of what the caller passed."""

    name = "hal.tensor.import"
    source = operand_def()
    target_dims = var_operand_def(IndexType)
    wait_fence = opt_operand_def(FenceType)
    target_encoding = opt_prop_def(Attribute)
    label = opt_prop_def(StringAttr, prop_name="name")
    affinity = opt_prop_def(Attribute)
    consume = opt_prop_def(Attribute)
    target = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @classmethod
    def parse(cls, p: Parser) -> TensorImportOp:
        properties: dict[str, Attribute | None] = {}
        fence = _parse_prefix(p, properties)
        if p.parse_optional_keyword("consume") is not None:
            properties["consume"] = syntax.UNIT
        name = p.parse_unresolved_operand()
        if (label := p.parse_optional_str_literal()) is not None:
            properties["name"] = StringAttr(label)
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        source = p.resolve_operand(name, p.parse_type())
        p.parse_punctuation("->")
        type = p.parse_type()
        if p.parse_optional_keyword("as") is not None:
            properties["target_encoding"] = type
            type = p.parse_type()
        dims = syntax.parse_dims(p, type)
        fences = [] if fence is None else [fence]
        return cls(operands=[source, dims, fences], result_types=[type], properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        _print_prefix(printer, self.affinity, self.wait_fence)
        printer.print_string(" " if self.consume is None else " consume ")
        printer.print_ssa_value(self.source)
        if self.label is not None:
            printer.print_string(" ")
            printer.print_attribute(self.label)
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        printer.print_attribute(self.source.type)
        printer.print_string(" -> ")
        if self.target_encoding is not None:
            printer.print_attribute(self.target_encoding)
            printer.print_string(" as ")
        printer.print_attribute(self.target.type)
        syntax.print_dims(printer, self.target_dims)


@irdl_op_definition
class TensorExportOp(IRDLOperation):
    """What the caller gets for a tensor."""

    name = "hal.tensor.export"
    source = operand_def()
    source_dims = var_operand_def(IndexType)
    source_encoding = opt_prop_def(Attribute)
    label = opt_prop_def(StringAttr, prop_name="name")
    affinity = opt_prop_def(Attribute)
    target = result_def()

    @classmethod
    def parse(cls, p: Parser) -> TensorExportOp:
        properties: dict[str, Attribute | None] = {}
        _parse_prefix(p, properties)
        name = p.parse_unresolved_operand()
        if (label := p.parse_optional_str_literal()) is not None:
            properties["name"] = StringAttr(label)
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        type = p.parse_type()
        if p.parse_optional_keyword("as") is not None:
            properties["source_encoding"] = type
            type = p.parse_type()
        source = p.resolve_operand(name, type)
        dims = syntax.parse_dims(p, type)
        p.parse_punctuation("->")
        return cls(
            operands=[source, dims], result_types=[p.parse_type()], properties=properties, attributes=attributes
        )

    def print(self, printer: Printer) -> None:
        _print_prefix(printer, self.affinity, None)
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        if self.label is not None:
            printer.print_string(" ")
            printer.print_attribute(self.label)
        syntax.print_attributes(printer, self.attributes, keyword=False)
        printer.print_string(" : ")
        if self.source_encoding is not None:
            printer.print_attribute(self.source_encoding)
            printer.print_string(" as ")
        printer.print_attribute(self.source.type)
        syntax.print_dims(printer, self.source_dims)
        printer.print_string(" -> ")
        printer.print_attribute(self.target.type)


@irdl_op_definition
class TensorBarrierOp(IRDLOperation):
    """Signals a fence when tensors are ready."""

    name = "hal.tensor.barrier"
    sources = var_operand_def()
    signal_fence = operand_def(FenceType)
    results_ = var_result_def()

    @classmethod
    def parse(cls, p: Parser) -> TensorBarrierOp:
        p.parse_keyword("join")
        with p.in_parens():
            names = []
            while (name := p.parse_optional_unresolved_operand()) is not None:
                names.append(name)
                p.parse_optional_punctuation(",")
            start = p.pos
            p.parse_punctuation(":")
            types = [p.parse_type()]
            while p.parse_optional_punctuation(",") is not None:
                types.append(p.parse_type())
        sources = p.resolve_operands(names, types, start)
        p.parse_punctuation("=")
        p.parse_punctuation(">")
        fence = p.parse_operand(FenceType())
        p.parse_punctuation(":")
        p.parse_type()
        return cls(
            operands=[sources, fence], result_types=[types], attributes=p.parse_optional_attr_dict()
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" join(")
        printer.print_list(self.sources, printer.print_ssa_value)
        printer.print_string(" : ")
        printer.print_list(self.sources, lambda s: printer.print_attribute(s.type))
        printer.print_string(") => ")
        printer.print_ssa_value(self.signal_fence)
        printer.print_string(" : ")
        printer.print_attribute(self.signal_fence.type)
        syntax.print_attributes(printer, self.attributes, keyword=False)


@irdl_op_definition
class DispatchExternOp(DispatchLikeOp):
    """Dispatches an export of objects that stand right here.

    `targets[i]` has `target_ordinals[i]` and `target_objects[i]`.
    """

    name = "hal.dispatch.extern"
    export_name = prop_def(StringAttr)
    layout = prop_def(PipelineLayoutAttr)
    targets = prop_def(ArrayAttr[ExecutableTargetAttr])
    target_ordinals = prop_def(ArrayAttr[IntegerAttr])
    target_objects = prop_def(ArrayAttr)
    workgroup_size = opt_prop_def(ArrayAttr)
    subgroup_size = opt_prop_def(IntegerAttr)
    workgroup_local_memory = opt_prop_def(IntegerAttr)
    count = region_def()

    @classmethod
    def parse(cls, p: Parser) -> DispatchExternOp:
        start = p.pos
        properties: dict[str, Attribute | None] = {"export_name": StringAttr(p.parse_str_literal(" for the export"))}
        workload = syntax.parse_index_operands(p)
        names = p.parse_op_args_list()
        p.parse_punctuation(":", " in front of the types of a dispatch")
        signature = syntax.parse_shaped_signature(p, names)
        properties.update(dispatch_properties(signature))
        attributes: dict[str, Attribute] = {}
        count = Region()
        while (clause := p.parse_optional_keyword_in(_CLAUSES)) is not None:
            if clause == "count":
                count = parse_host_region(p, [IndexType()] * 3)
            elif clause == "layout":
                with p.in_parens():
                    properties["layout"] = parse_layout(p)
            elif clause == "attributes":
                attributes.update(p.parse_optional_attr_dict())
            elif clause == "bindings":  # Of older releases: the bindings are those of the layout, in order.
                with p.in_parens():
                    p.parse_attribute()
            else:
                with p.in_parens():
                    properties.update(_parse_extern_objects(p))
        syntax.take_inherent(cls, attributes, _SIZES, properties)
        if p.parse_optional_punctuation("<") is not None:
            while p.parse_optional_punctuation(">") is None:
                key, value = p._parse_attribute_entry()
                properties[key] = value
                p.parse_optional_punctuation(",")
        for key in ("layout", "targets"):
            if key not in properties:
                p.raise_error(f"an external dispatch needs {key.replace('targets', 'objects')}(...)", start, p.pos)
        return cls(
            operands=[workload, signature.arguments, signature.argument_dims, signature.result_dims],
            result_types=[signature.result_types],
            properties=properties,
            attributes=attributes,
            regions=[count],
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.export_name)
        self.print_call(printer)
        printer.print_string(" : ")
        self.print_types(printer)
        if self.count.blocks:
            printer.print_string(" count")
            syntax.print_region_signature(printer, self.count, [IndexType()] * 3)
        printer.print_string(" layout(")
        printer.print_attribute(self.layout)
        printer.print_string(") objects({")
        rows = list(zip(self.targets, self.target_ordinals, self.target_objects, strict=True))
        printer.print_list(rows, lambda row: _print_extern_objects(printer, *row))
        printer.print_string("})")
        given = {key: self.properties[key] for key in _SIZES if key in self.properties}
        syntax.print_attributes(printer, {**given, **self.attributes})

    def verify_(self) -> None:
        super().verify_()
        check_count(self, self.count, device=True)
        check_sizes(self.workgroup_size)
        buffers = sum(1 for a in self.arguments if hasattr(a.type, "get_shape"))
        fresh = sum(1 for i in range(len(self.results_)) if self.tied_argument(i) is None)
        if buffers + fresh != len(self.layout.bindings):
            raise VerifyException(
                f"{buffers} tensor operand(s) and {fresh} new result(s) are passed, "
                f"but the layout has {len(self.layout.bindings)} binding(s)"
            )


_CLAUSES = ("count", "layout", "bindings", "objects", "attributes")
_SIZES = ("workgroup_size", "subgroup_size", "workgroup_local_memory")


def _parse_extern_objects(p: Parser) -> dict[str, Attribute | None]:
    """`{#target ordinal(N) = [objects], ...}`."""
    targets: list[Attribute] = []
    ordinals: list[Attribute] = []
    objects: list[Attribute] = []

    def entry() -> None:
        target = syntax.parse_attr_of(p, ExecutableTargetAttr)
        ordinal = IntegerAttr(0, IndexType())
        if p.parse_optional_keyword("if") is not None:
            p.raise_error("conditions on the objects of an external dispatch are not supported: "
                          "write an executable with a condition on its variant")  # fmt: skip
        if p.parse_optional_keyword("ordinal") is not None:
            with p.in_parens():
                ordinal = syntax.parse_integer_attr(p, IndexType())
        p.parse_punctuation("=")
        targets.append(target)
        ordinals.append(ordinal)
        objects.append(parse_object_list(p))

    p.parse_comma_separated_list(p.Delimiter.BRACES, entry, " in the objects of an external dispatch")
    return {
        "targets": ArrayAttr(targets), "target_ordinals": ArrayAttr(ordinals), "target_objects": ArrayAttr(objects),
    }  # fmt: skip


def _print_extern_objects(printer: Printer, target: Attribute, ordinal: IntegerAttr, objects: Attribute) -> None:
    printer.print_attribute(target)
    printer.print_string(f" ordinal({ordinal.value.data}) = ")
    printer.print_attribute(objects)


OPERATIONS: list[type[Operation]] = [TensorImportOp, TensorExportOp, TensorBarrierOp, DispatchExternOp]
