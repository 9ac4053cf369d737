"""`transform` operations that look at the program and may fail: they are used in matchers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation, opt_prop_def, prop_def, traits_def
from xdsl.irdl.declarative_assembly_format import AttributeVariable, CustomDirective, ParsingState, PrintingState
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator

from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.core.directives import KeywordChoice, directive
from pydispatch.ir.dialects.transform.syntax import ATTRIBUTES_AND_TYPES, PositionOp, RegionOp, TransformOp


@op_definition
class MatchOperationNameOp(TransformOp):
    """Matcher that requires the operation to have one of the given names: `%op ["a.x", "b.y"] : T`."""

    name = "transform.match.operation_name"
    op_names = prop_def(ArrayAttr[StringAttr])
    assembly_format = f"custom<OneOperand>($handles) $op_names {ATTRIBUTES_AND_TYPES}"


@op_definition
class MatchOperationEmptyOp(TransformOp):
    """Matcher that requires a handle to be empty."""

    name = "transform.match.operation_empty"


@directive
class Comparison(KeywordChoice):
    """Predicate of an integer comparison."""

    WORDS: ClassVar[Sequence[str]] = ("eq", "ne", "lt", "le", "gt", "ge")
    WHAT: ClassVar[str] = "comparison"


@op_definition
class MatchParamCmpIOp(TransformOp):
    """Matcher that requires a comparison of two handles' integer parameters to hold, pair by pair: `eq %a, %b : T`."""

    name = "transform.match.param.cmpi"
    predicate = prop_def(StringAttr)
    assembly_format = f"custom<Comparison>($predicate) $handles {ATTRIBUTES_AND_TYPES}"
    custom_directives = (*TransformOp.custom_directives, Comparison)


@op_definition
class MatchStructuredOp(RegionOp):
    """Matcher that runs its body on a structured operation: `failures(suppress) %op : (T) -> U {...}`.

    The results are the values that the body yields. A mismatch in the body is a mismatch of this matcher; `failures`
    has no effect.
    """

    name = "transform.match.structured"
    failures = opt_prop_def(StringAttr)
    assembly_format = (
        "(`failures` `(` custom<FailureMode>($failures)^ `)`)? custom<OneOperand>($handles) "
        f"{ATTRIBUTES_AND_TYPES} $body"
    )


@op_definition
class MatchStructuredYieldOp(TransformOp):
    """Terminator of the body of `match.structured`."""

    name = "transform.match.structured.yield"
    traits = traits_def(IsTerminator())
    assembly_format = f"$handles {ATTRIBUTES_AND_TYPES}"


@op_definition
class MatchStructuredRankOp(TransformOp):
    """Number of loops of a structured operation."""

    name = "transform.match.structured.rank"


@op_definition
class MatchStructuredNumInputsOp(TransformOp):
    """Number of inputs of a structured operation."""

    name = "transform.match.structured.num_inputs"


@op_definition
class MatchStructuredNumInitsOp(TransformOp):
    """Number of outputs of a structured operation."""

    name = "transform.match.structured.num_inits"


@op_definition
class MatchStructuredElementalBitwidthOp(TransformOp):
    """Width of a value's elements, in bits."""

    name = "transform.match.structured.elemental_bitwidth"


@op_definition
class MatchStructuredDimOp(PositionOp):
    """Matcher that requires the selected loops to be `parallel` or `reduction`, if it has the attribute of that name.

    An optional result holds the trip counts of these loops.
    """

    name = "transform.match.structured.dim"


@op_definition
class MatchStructuredInputOp(PositionOp):
    """Matcher that requires the indexing maps of the selected inputs to be a `projected_permutation` or `permutation`.

    It checks nothing without an attribute of such a name. The type of a result decides whether it holds the values of
    these inputs, their indexing maps, or the operations that define them.
    """

    name = "transform.match.structured.input"


@op_definition
class MatchStructuredInitOp(PositionOp):
    """Matcher for the maps of the selected outputs, with the properties and results of `match.structured.input`."""

    name = "transform.match.structured.init"


@op_definition
class MatchStructuredResultOp(PositionOp):
    """Handle to the selected results if its type is `any_value`, else to an operation that uses each of them.

    With the attribute `any` this is the first user; with `single`, the match fails unless there is exactly one.
    """

    name = "transform.match.structured.result"


@op_definition
class MatchStructuredBodyOp(TransformOp):
    """Matcher for the computation in the body of a structured operation.

    Attributes select the checks: `passthrough` (the body yields all inputs unchanged, in order), `elementwise` (all
    loops are parallel), `reduction_position = n` (result n is combined with the previous value of its output) and
    `contraction = ["arith.mulf", "arith.addf"]` (the body yields a sum of a product, of these operations).
    """

    name = "transform.match.structured.body"


@op_definition
class MatchDagOp(RegionOp):
    """Matcher that requires an operation (the root) and its transitive producers to equal the operations of the body.

    A dynamic size in a type of the body matches any size. The two results hold the values that correspond to the body's
    arguments, and the results of the root.
    """

    name = "transform.iree.match.cast_compatible_dag_from_root"
    assembly_format = f"custom<OneOperand>($handles) $body {ATTRIBUTES_AND_TYPES}"


@op_definition
class MatchTypeOp(TransformOp):
    """Matcher that requires a value to be castable to the given type: `%value = tensor<?xf32> : T`.

    A dynamic size of the given type matches any size.
    """

    name = "transform.iree.match.cast_compatible_type"
    target_type = prop_def(Attribute)
    assembly_format = f"custom<OneOperand>($handles) `=` custom<TypeValue>($target_type) {ATTRIBUTES_AND_TYPES}"


@op_definition
class MatchDimIsMultipleOfOp(TransformOp):
    """Matcher that requires the size of dimension `dim` of a tensor to be a known multiple of `size`.

    `%value[1], 16 : T` requires a multiple of 16 along dimension 1, the second. The operation has no results.
    """

    name = "transform.iree.match.dim_is_multiple_of"
    dim = prop_def(IntegerAttr.constr(i64))
    size = prop_def(IntegerAttr.constr(i64))
    assembly_format = (
        "custom<OneOperand>($handles) `[` $dim `]` `,` $size attr-dict `:` type($handles) "
        "custom<Absent>(type($results_))"
    )


@directive
class Bound(CustomDirective):
    """Directive for an optional bound: `, umin = 1`, or `, none` without one.

    `value` is the property that stores the bound; its name, here `umin`, is the keyword.
    """

    value: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse `, none`, or `, name = value`."""
        parser.parse_punctuation(",")
        if parser.parse_optional_keyword("none") is None:
            parser.parse_keyword(self.value.name)
            parser.parse_punctuation("=")
            self.value.parse(parser, state)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print `, none`, or `, name = value`."""
        if not self.value.is_present(op):
            printer.print_string(", none")
            return
        printer.print_string(f", {self.value.name} =")
        self.value.print(printer, state, op)


@op_definition
class MatchDimBoundsOp(TransformOp):
    """Matcher that requires the size of dimension `dim` of a tensor to be known to be in inclusive bounds.

    `%value[0], umin = 1, umax = 64 : T` requires 1 to 64 along dimension 0, the first. Each bound may be `none`. The
    operation has no results.
    """

    name = "transform.iree.match.dim_bounds"
    dim = prop_def(IntegerAttr.constr(i64))
    umin = opt_prop_def(IntegerAttr.constr(i64))
    umax = opt_prop_def(IntegerAttr.constr(i64))
    custom_directives = (Bound,)
    assembly_format = (
        "custom<OneOperand>($handles) `[` $dim `]` custom<Bound>($umin) custom<Bound>($umax) attr-dict "
        "`:` type($handles) "
        "custom<Absent>(type($results_))"
    )


@op_definition
class MatchRegionsOp(RegionOp):
    """Matcher that requires the regions of an operation to equal those of the one operation in the body.

    Syntax: `%op : T {...}`.
    """

    name = "transform.iree.match.regions"
    assembly_format = f"custom<OneOperand>($handles) {ATTRIBUTES_AND_TYPES} $body"


@op_definition
class MatchHasNoLoweringConfigOp(TransformOp):
    """Matcher that requires that no `lowering_config` is set, which is always true in this compiler."""

    name = "transform.iree.match.has_no_lowering_config"


OPERATIONS: list[type[Operation]] = [
    MatchOperationNameOp, MatchOperationEmptyOp, MatchParamCmpIOp, MatchStructuredOp, MatchStructuredYieldOp,
    MatchStructuredRankOp, MatchStructuredNumInputsOp, MatchStructuredNumInitsOp, MatchStructuredElementalBitwidthOp,
    MatchStructuredDimOp, MatchStructuredInputOp, MatchStructuredInitOp, MatchStructuredResultOp,
    MatchStructuredBodyOp, MatchDagOp, MatchTypeOp, MatchDimIsMultipleOfOp, MatchDimBoundsOp, MatchRegionsOp,
    MatchHasNoLoweringConfigOp,
]  # fmt: skip
