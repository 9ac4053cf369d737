"""`transform` operations that look at the program and may say no: they stand in matchers."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute, Operation
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator

from pydispatch.ir.dialects.transform.syntax import PositionOp, RegionOp, TransformOp


@irdl_op_definition
class MatchOperationNameOp(TransformOp):
    """The operation has one of these names."""

    name = "transform.match.operation_name"
    op_names = prop_def(ArrayAttr[StringAttr])
    PIECES: ClassVar[tuple[str, ...]] = ("operand", "attribute:op_names", "attributes", "signature")


@irdl_op_definition
class MatchOperationEmptyOp(TransformOp):
    """The handle holds no operation."""

    name = "transform.match.operation_empty"


@irdl_op_definition
class MatchParamCmpIOp(TransformOp):
    """Compares numbers."""

    name = "transform.match.param.cmpi"
    predicate = prop_def(StringAttr)
    PIECES: ClassVar[tuple[str, ...]] = ("choice:predicate=eq|ne|lt|le|gt|ge", "operands", "attributes", "signature")


@irdl_op_definition
class MatchStructuredOp(RegionOp):
    """Runs its body on a structured operation; what the body yields are the results."""

    name = "transform.match.structured"
    failures = opt_prop_def(StringAttr)
    PIECES: ClassVar[tuple[str, ...]] = ("failures", "operand", "attributes", "signature", "region")


@irdl_op_definition
class MatchStructuredYieldOp(TransformOp):
    """Ends the body of `match.structured`."""

    name = "transform.match.structured.yield"
    PIECES: ClassVar[tuple[str, ...]] = ("operands", "attributes", "signature")
    traits = traits_def(IsTerminator())


@irdl_op_definition
class MatchStructuredRankOp(TransformOp):
    """The number of loops."""

    name = "transform.match.structured.rank"


@irdl_op_definition
class MatchStructuredNumInputsOp(TransformOp):
    """The number of inputs."""

    name = "transform.match.structured.num_inputs"


@irdl_op_definition
class MatchStructuredNumInitsOp(TransformOp):
    """The number of outputs."""

    name = "transform.match.structured.num_inits"


@irdl_op_definition
class MatchStructuredElementalBitwidthOp(TransformOp):
    """The bits of one element of a value."""

    name = "transform.match.structured.elemental_bitwidth"


@irdl_op_definition
class MatchStructuredDimOp(PositionOp):
    """These loops are `parallel` or `reduction`; the result, when there is one, is their sizes."""

    name = "transform.match.structured.dim"


@irdl_op_definition
class MatchStructuredInputOp(PositionOp):
    """These inputs have a map that is a `projected_permutation` or `permutation`; gives values, operations or maps."""

    name = "transform.match.structured.input"


@irdl_op_definition
class MatchStructuredInitOp(PositionOp):
    """The same of outputs."""

    name = "transform.match.structured.init"


@irdl_op_definition
class MatchStructuredResultOp(PositionOp):
    """`any` or the `single` user of a result, or the result itself."""

    name = "transform.match.structured.result"


@irdl_op_definition
class MatchStructuredBodyOp(TransformOp):
    """What the body does: `passthrough`, `elementwise`, `reduction_position = n`, `contraction = [mul, add]`."""

    name = "transform.match.structured.body"


@irdl_op_definition
class MatchDagOp(RegionOp):
    """The operations above the root are those of the body; gives the inputs of the body and the results of the root."""

    name = "transform.iree.match.cast_compatible_dag_from_root"
    PIECES: ClassVar[tuple[str, ...]] = ("operand", "region", "attributes", "signature")


@irdl_op_definition
class MatchTypeOp(TransformOp):
    """The value may be cast to the type."""

    name = "transform.iree.match.cast_compatible_type"
    target_type = prop_def(Attribute)
    PIECES: ClassVar[tuple[str, ...]] = ("operand", "word:=", "type:target_type", "attributes", "signature")


@irdl_op_definition
class MatchDimIsMultipleOfOp(TransformOp):
    """A size is known to be a multiple of a number."""

    name = "transform.iree.match.dim_is_multiple_of"
    dim = prop_def(IntegerAttr)
    size = prop_def(IntegerAttr)

    @classmethod
    def parse(cls, p: Parser) -> Operation:
        value = p.parse_unresolved_operand()
        with p.in_square_brackets():
            dim = p.parse_integer(allow_boolean=False)
        p.parse_punctuation(",")
        size = p.parse_integer(allow_boolean=False)
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        properties = {"dim": IntegerAttr(dim, 64), "size": IntegerAttr(size, 64)}
        operand = p.resolve_operand(value, p.parse_type())
        return cls(operands=[[operand]], result_types=[[]], properties=properties, attributes=attributes)

    def print(self, q: Printer) -> None:
        q.print_string(" ")
        q.print_ssa_value(self.handles[0])
        q.print_string(f"[{self.dim.value.data}], {self.size.value.data} : ")
        q.print_attribute(self.handles[0].type)


@irdl_op_definition
class MatchDimBoundsOp(TransformOp):
    """A size is known to lie between two numbers, both allowed; either may be `none`."""

    name = "transform.iree.match.dim_bounds"
    dim = prop_def(IntegerAttr)
    umin = opt_prop_def(IntegerAttr)
    umax = opt_prop_def(IntegerAttr)

    @classmethod
    def parse(cls, p: Parser) -> Operation:
        value = p.parse_unresolved_operand()
        with p.in_square_brackets():
            properties: dict[str, Attribute] = {"dim": IntegerAttr(p.parse_integer(allow_boolean=False), 64)}
        for bound in ("umin", "umax"):
            p.parse_punctuation(",")
            if p.parse_optional_keyword("none") is None:
                p.parse_keyword(bound)
                p.parse_punctuation("=")
                properties[bound] = IntegerAttr(p.parse_integer(allow_boolean=False), 64)
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation(":")
        operand = p.resolve_operand(value, p.parse_type())
        return cls(operands=[[operand]], result_types=[[]], properties=properties, attributes=attributes)

    def print(self, q: Printer) -> None:
        q.print_string(" ")
        q.print_ssa_value(self.handles[0])
        q.print_string(f"[{self.dim.value.data}]")
        for name, bound in (("umin", self.umin), ("umax", self.umax)):
            q.print_string(f", {name} = {bound.value.data}" if bound is not None else ", none")
        q.print_string(" : ")
        q.print_attribute(self.handles[0].type)


@irdl_op_definition
class MatchRegionsOp(RegionOp):
    """The regions of the operation are those of the one operation in the body."""

    name = "transform.iree.match.regions"
    PIECES: ClassVar[tuple[str, ...]] = ("operand", "attributes", "signature", "region")


@irdl_op_definition
class MatchHasNoLoweringConfigOp(TransformOp):
    """No `lowering_config` is set: here none ever is."""

    name = "transform.iree.match.has_no_lowering_config"


OPERATIONS: list[type[Operation]] = [
    MatchOperationNameOp, MatchOperationEmptyOp, MatchParamCmpIOp, MatchStructuredOp, MatchStructuredYieldOp,
    MatchStructuredRankOp, MatchStructuredNumInputsOp, MatchStructuredNumInitsOp, MatchStructuredElementalBitwidthOp,
    MatchStructuredDimOp, MatchStructuredInputOp, MatchStructuredInitOp, MatchStructuredResultOp,
    MatchStructuredBodyOp, MatchDagOp, MatchTypeOp, MatchDimIsMultipleOfOp, MatchDimBoundsOp, MatchRegionsOp,
    MatchHasNoLoweringConfigOp,
]  # fmt: skip
