"""`hal` operations of host code on tensors: crossing the boundary of a program, external dispatches."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, IndexType, IntegerAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    var_operand_def,
    var_result_def,
)
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    TypeDirective,
    VariadicOperandVariable,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core import syntax
from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.core.directives import directive
from pydispatch.ir.dialects.flow.base import CALL, SIGNATURE, DispatchLikeOp
from pydispatch.ir.dialects.hal.device import ExecutableTargetAttr, FenceType
from pydispatch.ir.dialects.hal.export import PropertyList, check_sizes
from pydispatch.ir.dialects.hal.layout import PipelineLayoutAttr
from pydispatch.ir.dialects.hal.object import parse_object_list
from pydispatch.ir.dialects.hal.region import check_count
from pydispatch.ir.dialects.hal.tiles import check_tiles


@directive
class Encoded(CustomDirective):
    """Directive for a type with its dynamic sizes, `T{%d}`, or `E as T{%d}` if the caller's array has another type E.

    For example, `tensor<?x4xf32> as tensor<?xf32>{%n}` is a tensor of %n numbers that the caller has as a matrix.
    """

    type: TypeDirective  # T
    encoding: AttributeVariable  # E
    dims: VariadicOperandVariable  # one size per dynamic dimension of T

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse `T{%dims}`, or `E as T{%dims}`; E is the property `encoding`."""
        type = parser.parse_type()
        if parser.parse_optional_keyword("as") is not None:
            self.encoding.set(state, type)
            type = parser.parse_type()
        self.type.set(state, (type,))
        self.dims.set(state, syntax.parse_dim_names(parser, type))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print `E as T{%dims}`, or `T{%dims}` if the operation has no encoding E."""
        if self.encoding.is_present(op):
            self.encoding.print(printer, state, op)
            printer.print_string(" as")
        self.type.print(printer, state, op)
        syntax.print_dims(printer, self.dims.get(op))


@op_definition
class TensorImportOp(IRDLOperation):
    """Conversion of an argument of the program, the caller's buffer or buffer view, to a tensor.

    Example: the argument "x" as a matrix of %n rows, which may be read when %fence is signaled:

        %0 = hal.tensor.import wait(%fence) => %view "x" : !hal.buffer_view -> tensor<?x4xf32>{%n}

    Attributes:
        source: The buffer or buffer view.
        target_dims: Sizes of the tensor's dynamic dimensions.
        wait_fence: Fence that is signaled when the contents are ready; absent if they are ready at once.
        target_encoding: Type that the tensor has for the caller, if it differs from that of the result: E in
            `E as T{%n}`, see `Encoded`.
        label: Name of the argument.
        affinity: Device of the tensor.
        consume: Present if the program may overwrite the memory.
        target: The tensor.
    """

    name = "hal.tensor.import"
    source = operand_def()
    target_dims = var_operand_def(IndexType)
    wait_fence = opt_operand_def(FenceType)
    target_encoding = opt_prop_def(Attribute)
    label = opt_prop_def(StringAttr, prop_name="name")
    affinity = opt_prop_def(Attribute)
    consume = opt_prop_def(UnitAttr)
    target = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    custom_directives = (Encoded,)
    assembly_format = (
        "(`on` `(` $affinity^ `)`)? (`wait` `(` $wait_fence^ `)` `=` `` `>`)? (`consume` $consume^)? $source "
        "($name^)? attr-dict `:` type($source) `->` custom<Encoded>(type($target), $target_encoding, $target_dims)"
    )


@op_definition
class TensorExportOp(IRDLOperation):
    """Conversion of a tensor to a result of the program, a buffer or buffer view that the caller receives.

    Example: `%view = hal.tensor.export %0 "y" : tensor<?x4xf32>{%n} -> !hal.buffer_view`.

    Attributes:
        source: The tensor.
        source_dims: Sizes of the tensor's dynamic dimensions.
        source_encoding: Type that the tensor has for the caller, if it differs from that of `source`: E in
            `E as T{%n}`, see `Encoded`.
        label: Name of the result.
        affinity: Device of the tensor.
        target: The buffer or buffer view.
    """

    name = "hal.tensor.export"
    source = operand_def()
    source_dims = var_operand_def(IndexType)
    source_encoding = opt_prop_def(Attribute)
    label = opt_prop_def(StringAttr, prop_name="name")
    affinity = opt_prop_def(Attribute)
    target = result_def()
    custom_directives = (Encoded,)
    assembly_format = (
        "(`on` `(` $affinity^ `)`)? $source ($name^)? attr-dict `:` custom<Encoded>(type($source), "
        "$source_encoding, $source_dims) `->` type($target)"
    )


@op_definition
class TensorAliasOp(IRDLOperation):
    """Store of a tensor into memory of the caller; the result is the tensor in that memory.

    Example: `%1 = hal.tensor.alias wait(%fence) => %0 : tensor<?xf32>{%n} to %view : !hal.buffer_view`.

    Attributes:
        source: The tensor.
        source_dims: Sizes of the tensor's dynamic dimensions.
        storage: Buffer or buffer view that receives the elements.
        wait_fence: Fence that is signaled when the memory may be written; absent if it may be written at once.
        affinity: Device of the tensor.
    """

    name = "hal.tensor.alias"
    source = operand_def()
    source_dims = var_operand_def(IndexType)
    storage = operand_def()
    wait_fence = opt_operand_def(FenceType)
    affinity = opt_prop_def(Attribute)
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "(`on` `(` $affinity^ `)`)? (`wait` `(` $wait_fence^ `)` `=` `` `>`)? $source `:` custom<Typed>(type($source), "
        "$source_dims) `to` $storage `:` type($storage) attr-dict custom<SameTypes>(type($result), ref(type($source)))"
    )


@op_definition
class TensorBarrierOp(IRDLOperation):
    """Signaling of a fence when all source tensors are ready; the results are these tensors.

    Syntax: `join(%a, %b : T, U) => %fence : !hal.fence`. The types of the results are not written: they are T and U.
    """

    name = "hal.tensor.barrier"
    sources = var_operand_def()
    signal_fence = operand_def(FenceType)
    results_ = var_result_def()
    assembly_format = (
        "`join` `(` $sources `:` type($sources) `)` `=` `` `>` $signal_fence `:` type($signal_fence) attr-dict "
        "custom<SameTypes>(type($results_), ref(type($sources)))"
    )


@directive
class Ignored(CustomDirective):
    """Directive that parses and discards an attribute.

    Older releases list the bindings of an external dispatch; they are always those of the layout, in order.
    """

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse an attribute, and discard it."""
        parser.parse_attribute()

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print nothing: the parsed attribute was discarded."""

    def is_present(self, op: IRDLOperation) -> bool:
        """Return False, so that the attribute is never printed."""
        return False


@directive
class ExternObjects(CustomDirective):
    """Directive for the objects of an external dispatch, `{#target ordinal(N) = [objects], ...}`.

    Entry i sets element i of the three properties.
    """

    targets: AttributeVariable  # list of the targets
    ordinals: AttributeVariable  # list of the numbers N, the indices of the export in the objects; 0 if omitted
    objects: AttributeVariable  # list of the lists of objects

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse `{target ordinal(n) = [objects], ...}`, the object files of each target, into three properties: the
        lists of the targets, of the ordinals (which export of the object files is dispatched) and of the objects.
        """
        rows: list[tuple[Attribute, Attribute, Attribute]] = []

        def parse_entry() -> None:
            """Parse `target ordinal(n) = [objects]`, and append it to `rows`; the ordinal is 0 if it is absent."""
            target = syntax.parse_attr_of(parser, ExecutableTargetAttr)
            ordinal = IntegerAttr(0, IndexType())
            if parser.parse_optional_keyword("if") is not None:
                parser.raise_error("conditions on the objects of an external dispatch are not supported: "
                                   "write an executable with a condition on its variant")  # fmt: skip
            if parser.parse_optional_keyword("ordinal") is not None:
                with parser.in_parens():
                    ordinal = syntax.parse_integer_attr(parser, IndexType())
            parser.parse_punctuation("=")
            rows.append((target, ordinal, parse_object_list(parser)))

        parser.parse_comma_separated_list(
            parser.Delimiter.BRACES, parse_entry, " in the objects of an external dispatch"
        )
        for column, variable in enumerate((self.targets, self.ordinals, self.objects)):
            variable.set(state, ArrayAttr([row[column] for row in rows]))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print `{target ordinal(n) = [objects], ...}`."""
        assert isinstance(op, DispatchExternOp)

        def print_entry(row: tuple[Attribute, IntegerAttr, Attribute]) -> None:
            """Print `target ordinal(n) = [objects]`."""
            target, ordinal, objects = row
            printer.print_attribute(target)
            printer.print_string(f" ordinal({ordinal.value.data}) = ")
            printer.print_attribute(objects)

        with printer.in_braces():
            printer.print_list(list(zip(op.targets, op.target_ordinals, op.target_objects, strict=True)), print_entry)


@op_definition
class DispatchExternOp(DispatchLikeOp):
    """Dispatch of a kernel that is defined in object files, which the operation lists for each target.

    Example: the grid is computed from %d, and the kernel gets the constant %n and two bindings, %a and the result:

        %0 = hal.dispatch.extern "f"[%d](%n, %a) : (i32, tensor<?xf32>{%d}) -> tensor<?xf32>{%d}
          count(%device: !hal.device, %w: index) -> (index, index, index) {
            hal.return %w, %w, %w : index, index, index
          }
          layout(#layout) objects({#target ordinal(0) = [#hal.executable.object<{path = "f.o"}>]})

    Target i of `targets` has the export ordinal `target_ordinals[i]` and the objects `target_objects[i]`. The attribute
    `pyd.tiles` may state the bytes of each binding that one workgroup accesses. The region `count` and the properties
    of the kernel, such as `workgroup_size`, are those of `ExecutableExportOp`.
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
    custom_directives = (ExternObjects, Ignored, PropertyList)  # PropertyList: `<workgroup_size = [...], ...>`
    irdl_options = (ParsePropInAttrDict(),)  # type: ignore[assignment]  # added to the options of the base class
    assembly_format = (
        f"$export_name {CALL} `:` {SIGNATURE} oilist(`count` custom<Count>($count) | `layout` `(` $layout `)` | "
        "`bindings` `(` custom<Ignored>() `)` | "
        "`objects` `(` custom<ExternObjects>($targets, $target_ordinals, $target_objects) `)` | "
        "custom<PropertyList>()) attr-dict-with-keyword"
    )

    def verify_(self) -> None:
        """Check the count region, the workgroup size, the tiles and the number of bindings.

        Each tensor operand has a binding, and each result that is not tied to an operand. A tied result overwrites the
        memory of its operand, and so has the operand's binding.
        """
        super().verify_()
        check_count(self.count, has_device_argument=True)
        check_sizes(self.workgroup_size)
        check_tiles(self, bindings=len(self.layout.bindings.data))
        # Operands without a shape are scalars, which are passed as push constants.
        tensor_count = sum(1 for a in self.arguments if hasattr(a.type, "get_shape"))
        new_count = sum(1 for i in range(len(self.results_)) if self.tied_argument(i) is None)
        if tensor_count + new_count != len(self.layout.bindings):
            raise VerifyException(
                f"{tensor_count} tensor operand(s) and {new_count} new result(s) are passed, "
                f"but the layout has {len(self.layout.bindings)} binding(s)"
            )


OPERATIONS: list[type[Operation]] = [TensorImportOp, TensorExportOp, TensorAliasOp, TensorBarrierOp, DispatchExternOp]
