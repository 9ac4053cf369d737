"""The `memref` and `gpu` dialects of xDSL, with the syntax that it lacks for some of their operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects import gpu, memref
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation
from xdsl.irdl.declarative_assembly_format import AttributeVariable, CustomDirective, ParsingState, PrintingState
from xdsl.parser import Parser
from xdsl.printer import Printer

from pydispatch.ir.core import syntax
from pydispatch.ir.core.directives import NumberedChoice, directive
from pydispatch.ir.core.refine import refine
from pydispatch.ir.dialects.memref.views import ReshapeOp, TransposeOp


@directive
class Combiner(NumberedChoice):
    """Directive for the combining function of an atomic read-modify-write operation.

    The order of `WORDS` is MLIR's: the property is the index of the word.
    """

    WORDS: ClassVar[Sequence[str]] = (
        "addf", "addi", "assign", "maximumf", "maxs", "maxu", "minimumf", "mins", "minu", "mulf", "muli", "ori", "andi",
        "maxnumf", "minnumf", "xori",
    )  # fmt: skip
    WHAT: ClassVar[str] = "kind"


@directive
class Memfence(CustomDirective):
    """Directive for `memfence [...]`, which is discarded, because a barrier orders all memory."""

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse and discard `memfence [...]` if it is next."""
        if parser.parse_optional_keyword("memfence") is not None:
            parser.parse_attribute()

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print nothing: `parse` discards the fence, as a barrier orders all memory."""


@directive
class Dimension(CustomDirective):
    """Directive for a dimension `x`, `y` or `z`, as in `gpu.block_dim z upper_bound 64`.

    The upper bound, which states a range of the result to optimizations, is parsed and discarded.
    """

    value: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse a dimension x, y or z, with an optional `upper_bound 64`, which is dropped."""
        start = parser.pos
        name = parser.parse_identifier(context_msg=" for the dimension")
        if name not in ("x", "y", "z"):
            parser.raise_error(f"unknown dimension '{name}', expected x, y or z", start, parser.pos)
        self.value.set(state, gpu.DimensionAttr(gpu.DimensionEnum(name)))
        if parser.parse_optional_keyword("upper_bound") is not None:
            syntax.parse_integer_attr(parser, IndexType())

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print the dimension."""
        value = self.value.get(op)
        assert isinstance(value, gpu.DimensionAttr)
        state.print_whitespace(printer)
        printer.print_string(value.data.value)


refine(memref.CopyOp, assembly_format="$source `,` $destination attr-dict `:` type($source) `to` type($destination)")
for _cast in (memref.CastOp, memref.MemorySpaceCastOp):
    refine(_cast, assembly_format="$source attr-dict `:` type($source) `to` type($dest)")
refine(memref.ExtractAlignedPointerAsIndexOp,
       assembly_format="$source `:` type($source) `->` type($aligned_pointer) attr-dict")  # fmt: skip
refine(memref.AtomicRMWOp, directives=(Combiner,), check=lambda op: Combiner.verify_index(op.kind), assembly_format=(
    "custom<Combiner>($kind) $value `,` $memref `[` $indices `]` attr-dict `:` "
    "`(` type($value) `,` type($memref) `)` `->` type($result)"
))  # fmt: skip
refine(gpu.BarrierOp, assembly_format="custom<Memfence>() attr-dict", directives=(Memfence,))
for _number in (gpu.ThreadIdOp, gpu.BlockIdOp, gpu.BlockDimOp, gpu.GridDimOp, gpu.GlobalIdOp):
    refine(_number, assembly_format="custom<Dimension>($dimension) attr-dict", directives=(Dimension,))

MemRef = Dialect("memref", [*memref.MemRef.operations, TransposeOp, ReshapeOp], [*memref.MemRef.attributes])
GPU: Dialect = gpu.GPU  # xDSL's dialect, whose operations are refined above
