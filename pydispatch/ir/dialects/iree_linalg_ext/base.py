"""Base classes and checks of `iree_linalg_ext` operations: operands, results, bodies and syntax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IndexType, IntegerType, ShapedType, TensorType, i1
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.irdl.declarative_assembly_format import CustomDirective, ParsingState, PrintingState
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core import syntax
from pydispatch.ir.core.assembly import op_definition
from pydispatch.ir.core.directives import directive, request_space
from pydispatch.ir.core.elements import element_type
from pydispatch.ir.core.syntax import DYNAMIC
from pydispatch.ir.dialects.linalg.base import Numbers, ResultTypes, Sides, check_results


@directive
class ListedTypes(ResultTypes):
    """Directive for result types `-> T, U`, with or without parentheses; if omitted, they are those of the output
    tensors."""

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse optional result types, `-> (T, U)` or `-> T, U`."""
        if parser.parse_optional_punctuation("->") is None:
            super().parse(parser, state)  # without `->` it sets the types of the output tensors
        elif parser._current_token.text == "(":
            self.types.set(state, syntax.parse_types(parser))
        else:
            self.types.set(state, parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print `-> T, U`; nothing without results."""
        if types := self.types.get(op):
            printer.print_string(" -> ")
            printer.print_list(types, printer.print_attribute)
            request_space(state)


class Yield(IRDLOperation):
    """Base of terminators of a body; the operands are the values that the body yields."""

    arguments = var_operand_def()
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "attr-dict ($arguments^ `:` type($arguments))?"


@op_definition
class YieldOp(Yield):
    """Terminator of a body."""

    name = "iree_linalg_ext.yield"


class DestinationOp(IRDLOperation):
    """Base of operations `ins(…) outs(…) -> …` whose results are the new values of the tensors in `outs`.

    Attributes:
        inputs: Tensors, memrefs or scalars.
        outputs: Tensors, whose elements are the initial values of results unless an operation uses only their types, or
            memrefs, which are updated in place.
        res: One result for each output that is a tensor, of its type.
    """

    inputs = var_operand_def()
    outputs = var_operand_def(ShapedType)
    res = var_result_def(TensorType)
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    custom_directives: ClassVar[tuple[type[CustomDirective], ...]] = (ListedTypes, Numbers, Sides)

    def verify_(self) -> None:
        """Verify that results have the types of the outputs that are tensors, then the operands."""
        check_results(self.outputs, [r.type for r in self.res])
        self.verify_operands()

    def verify_operands(self) -> None:
        """Verify the operands, and the body if the operation has one; raise VerifyException otherwise."""
        raise NotImplementedError


class OnTensorsOp(DestinationOp):
    """Base of destination-style operations on tensors only."""

    def verify_(self) -> None:
        """Check that the outputs are tensors, the types of the results, and the operands."""
        for value in self.outputs:
            if not isinstance(value.type, TensorType):
                raise VerifyException(f"the operation works on tensors, got {value.type}")
        super().verify_()


class BodyOp(DestinationOp):
    """Base of destination-style operations with a region `body` that computes on single elements."""

    body = region_def("single_block")


SIDES = "custom<Sides>($inputs, type($inputs), $outputs, type($outputs))"
"""Inputs and outputs with their types: `ins(%a : T) outs(%b : U)`."""
RESULTS = "custom<ListedTypes>(type($res), ref(type($outputs)))"
"""Types of the results, `-> U`; nothing is written for an operation on buffers, which has none."""


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """Return the sizes of a value, with DYNAMIC for a dynamic one; () for a scalar."""
    return tuple(value.type.get_shape()) if isinstance(value.type, ShapedType) else ()


def check_count(kind: str, count: int, *wanted: int) -> None:
    """Check that `count`, a number of operands, is one of `wanted`; raise VerifyException otherwise.

    `kind` names these operands in the message: "input" or "output".
    """
    if count not in wanted:
        raise VerifyException(f"expected {' or '.join(map(str, wanted))} {kind}(s), got {count}")


def check_dimension(dimension: int, value: SSAValue) -> None:
    """Check that a tensor has the dimension `dimension`, an index from 0; raise VerifyException otherwise."""
    rank = len(shape_of(value))
    if not 0 <= dimension < rank:
        raise VerifyException(f"dimension {dimension} is not one of the {rank} of {value.type}")


def check_shape(subject: str, value: SSAValue, expected: Sequence[int]) -> None:
    """Check that a tensor has the expected shape; raise VerifyException otherwise. Dynamic sizes match any size.

    `subject` names the tensor in the message, such as "the mask".
    """
    shape = shape_of(value)
    is_same = len(shape) == len(expected) and all(
        DYNAMIC in (a, b) or a == b for a, b in zip(shape, expected, strict=True)
    )
    if not is_same:
        text = "x".join("?" if n == DYNAMIC else str(n) for n in expected) or "no dimensions"
        raise VerifyException(f"{subject} is {value.type}, expected the shape {text}")


def check_integers(subject: str, value: SSAValue) -> None:
    """Check that the element type of a tensor is an integer type or index; raise VerifyException otherwise.

    `subject` names the tensor in the message, such as "the tensor of indices".
    """
    if not isinstance(element_type(value.type), IndexType | IntegerType):
        raise VerifyException(f"{subject} has integers or index for elements, got {value.type}")


def check_body(body: Region, arguments: Sequence[Attribute], results: Sequence[Attribute]) -> None:
    """Check that a body takes `arguments` and yields `results`, lists of types; raise VerifyException otherwise."""
    actual = [a.type for a in body.block.args]
    if actual != list(arguments):
        raise VerifyException(f"the body takes ({_listed(actual)}), expected ({_listed(arguments)})")
    last = body.block.last_op
    yielded = [v.type for v in last.operands] if isinstance(last, Yield) else []
    if yielded != list(results):
        raise VerifyException(f"the body yields ({_listed(yielded)}), expected ({_listed(results)})")


def check_comparator(body: Region, elements: Sequence[Attribute]) -> None:
    """Check that a comparator body takes two elements of each type, as (T, T, U, U) for [T, U], and yields an i1."""
    check_body(body, [t for element in elements for t in (element, element)], [i1])


def _listed(types: Sequence[Attribute]) -> str:
    """Return types as text for messages, separated by commas."""
    return ", ".join(map(str, types))


OPERATIONS: list[type[Operation]] = [YieldOp]
