"""`iree_codegen` operations. Its attributes, and those of its sister dialects, are kept as text and ignored."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    StringAttr,
)
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
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
from xdsl.irdl.declarative_assembly_format import ParsingState, PrintingState
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core import syntax
from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.core.directives import Results, directive


@op_definition
class ExtractStridedMetadataOp(IRDLOperation):
    """Base, offset, sizes and strides of a memref; offset and strides in elements.

    `base_buffer` is the memory without the offset. `metadata` has the sizes of all dimensions, outermost first, then
    their strides.
    """

    name = "iree_codegen.extract_strided_metadata"
    source = operand_def(MemRefType)
    base_buffer = result_def(MemRefType)
    offset = result_def(IndexType)
    metadata = var_result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = (
        "$source attr-dict `:` type($source) `->` type($base_buffer) `,` type($offset) (`,` type($metadata)^)?"
    )

    @property
    def rank(self) -> int:
        """Number of dimensions of the memref."""
        assert isinstance(self.source.type, MemRefType)
        return len(self.source.type.get_shape())

    @property
    def sizes(self) -> tuple[SSAValue, ...]:
        """Sizes: the first half of the values in `metadata`."""
        return tuple(self.metadata)[: self.rank]

    @property
    def strides(self) -> tuple[SSAValue, ...]:
        """Strides in elements: the second half of the values in `metadata`."""
        return tuple(self.metadata)[self.rank :]

    def verify_(self) -> None:
        """Check that `metadata` has a size and a stride for each dimension."""
        if len(self.metadata) != 2 * self.rank:
            raise VerifyException(
                f"a memref of rank {self.rank} has {self.rank} size(s) and stride(s): "
                f"{2 + 2 * self.rank} results in all, got {len(self.results)}"
            )


@directive
class UkernelResults(Results):
    """Directive for result types `-> T, U`, with or without parentheses, or nothing."""

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse optional result types, `-> T, U`."""
        types: list[Attribute] = []
        if parser.parse_optional_punctuation("->") is not None:
            types = syntax.parse_types(parser)  # T, or (T, U)
            while parser.parse_optional_punctuation(",") is not None:
                types.append(parser.parse_type())
        self.types.set(state, types)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print `-> T, U`, or nothing without results."""
        if types := self.types.get(op):
            printer.print_string(" -> ")
            printer.print_list(types, printer.print_attribute)


@op_definition
class UkernelGenericOp(IRDLOperation):
    """Call of a microkernel, an external function, by name. The operands are inputs, outputs, then scalars.

    A tensor is passed as base pointer, offset, and the strides that `strided_dims` lists. For example

        %r = iree_codegen.ukernel.generic "f" ins(%a : tensor<8xf32>) outs(%b : tensor<2x4xf32>) (%n : index)
          strided_dims([[], [0]]) -> tensor<2x4xf32>

    calls f(a_base, a_offset, b_base, b_offset, b_stride0, n), which writes %r into the memory of %b.

    Attributes:
        u_kernel_fn_name: Name of the C function.
        inputs: Operands that are read.
        outputs: Operands that are written.
        other_operands: Further operands, such as sizes and flags.
        fn_def_attrs: Attributes of the function's declaration, such as `{hal.import.bitcode = true}`.
        strided_dims: List i has the dimensions whose strides are passed for shaped operand i, counted over inputs, then
            outputs, without scalars. If the attribute is absent, all strides are passed.
        num_strided_outer_dims: Older form of `strided_dims`, `strided_outer_dims(1)`: the number of leading dimensions
            whose strides are passed, for all operands.
        results_: Tensors: the outputs that are tensors, overwritten, in their order. Scalars: what the function
            returns.
    """

    name = "iree_codegen.ukernel.generic"
    u_kernel_fn_name = prop_def(StringAttr)
    inputs = var_operand_def()
    outputs = var_operand_def()
    other_operands = var_operand_def()
    fn_def_attrs = opt_prop_def(DictionaryAttr)
    strided_dims = opt_prop_def(ArrayAttr)
    num_strided_outer_dims = opt_prop_def(IntegerAttr)
    results_ = var_result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    custom_directives = (UkernelResults,)
    assembly_format = (
        "attr-dict $u_kernel_fn_name (`ins` `(` $inputs^ `:` type($inputs) `)`)? (`outs` `(` $outputs^ `:` "
        "type($outputs) `)`)? (` ` `(` $other_operands^ `:` type($other_operands) `)`)? oilist(`fn_def_attrs` "
        "$fn_def_attrs | `strided_dims` `(` $strided_dims `)` | `strided_outer_dims` `(` "
        "custom<Index>($num_strided_outer_dims) `)`) custom<UkernelResults>(type($results_))"
    )


OPERATIONS: list[type[Operation]] = [ExtractStridedMetadataOp, UkernelGenericOp]
Codegen = Dialect("iree_codegen", OPERATIONS, [])
