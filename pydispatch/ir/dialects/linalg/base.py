"""The syntax that all structured `linalg` operations share: `name {…} ins(%a : T) outs(%b : U) -> U`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    ShapedType,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Data, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_attr_definition,
    opt_prop_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from pydispatch.ir.core import syntax
from pydispatch.ir.dialects.linalg.structure import Structure, check_sizes


class _WordAttr(Data[str]):
    """`<word>`."""

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        with parser.in_angle_brackets():
            return parser.parse_identifier()

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


@irdl_attr_definition
class ElementwiseKindAttr(_WordAttr):
    """What `linalg.elementwise` computes."""

    name = "linalg.elementwise_kind"


@irdl_attr_definition
class TypeFnAttr(_WordAttr):
    """How operands become the accumulator's type: cast_signed or cast_unsigned."""

    name = "linalg.type_fn"


@irdl_attr_definition
class UnaryFnAttr(_WordAttr):
    """What `linalg.elemwise_unary` computes."""

    name = "linalg.unary_fn"


@irdl_attr_definition
class BinaryFnAttr(_WordAttr):
    """What `linalg.elemwise_binary` computes."""

    name = "linalg.binary_fn"


ATTRIBUTES: list[type[Attribute]] = [ElementwiseKindAttr, TypeFnAttr, UnaryFnAttr, BinaryFnAttr]


class Operands(NamedTuple):
    """What `ins(…) outs(…)` gives."""

    inputs: list[SSAValue]
    outputs: list[SSAValue]


def parse_operands(p: Parser) -> Operands:
    """`ins(%a, %b : T, U) outs(%c : V)`."""
    return Operands(_parse_side(p, "ins"), _parse_side(p, "outs"))


def _parse_side(p: Parser, keyword: str) -> list[SSAValue]:
    if p.parse_optional_keyword(keyword) is None:
        return []
    p.parse_punctuation("(")
    if p.parse_optional_punctuation(")") is not None:
        return []
    names = p.parse_comma_separated_list(p.Delimiter.NONE, p.parse_unresolved_operand)
    start = p.pos
    p.parse_punctuation(":")
    types = p.parse_comma_separated_list(p.Delimiter.NONE, p.parse_type)
    if len(types) != len(names):
        p.raise_error(f"{len(names)} operand(s) are given, but {len(types)} type(s)", start, p.pos)
    p.parse_punctuation(")")
    return [p.resolve_operand(name, type) for name, type in zip(names, types, strict=True)]


def parse_results(p: Parser, outputs: Sequence[SSAValue]) -> list[Attribute]:
    """`-> T` or `-> (T, U)`; without it the tensors among the outputs."""
    if p.parse_optional_punctuation("->") is not None:
        return syntax.parse_types(p)
    return [o.type for o in outputs if isinstance(o.type, TensorType)]


def print_operands(printer: Printer, inputs: Sequence[SSAValue], outputs: Sequence[SSAValue]) -> None:
    for keyword, values in ((" ins(", inputs), (" outs(", outputs)):
        if values:
            printer.print_string(keyword)
            printer.print_list(values, printer.print_ssa_value)
            printer.print_string(" : ")
            printer.print_list(values, lambda v: printer.print_attribute(v.type))
            printer.print_string(")")


def print_results(printer: Printer, types: Sequence[Attribute]) -> None:
    if types:
        printer.print_string(" -> ")
        if len(types) == 1:
            printer.print_attribute(types[0])
        else:
            with printer.in_parens():
                printer.print_list(types, printer.print_attribute)


def parse_integers(p: Parser, keyword: str) -> DenseArrayBase[Any]:
    """`keyword = [1, 0]`, or as `array<i64: 1, 0>`."""
    p.parse_keyword(keyword)
    p.parse_punctuation("=")
    start = p.pos
    if p._current_token.text == "[":
        return DenseArrayBase.from_list(i64, p.parse_comma_separated_list(p.Delimiter.SQUARE, p.parse_integer))
    value = p.parse_attribute()
    if not isinstance(value, DenseArrayBase):
        p.raise_error("expected a list of integers such as [0, 1]", start, p.pos)
    return value


def integers(value: Attribute | None, count: int, default: int = 1) -> list[int]:
    """The numbers of an attribute such as strides, for `count` dimensions; a splat has all of them."""
    if value is None:
        return [default] * count
    if isinstance(value, DenseArrayBase | DenseIntOrFPElementsAttr):
        found = [int(v) for v in value.get_values()]
    elif isinstance(value, ArrayAttr) and all(isinstance(v, IntegerAttr) for v in value):
        found = [v.value.data for v in value]
    else:
        raise VerifyException(f"expected {count} integer(s), got {value}")
    if len(found) != count:
        raise VerifyException(f"expected {count} integer(s), got {value}")
    return found


def maps_of(value: Attribute) -> list[Any]:
    """The affine maps of an `indexing_maps` attribute."""
    if not isinstance(value, ArrayAttr) or not all(isinstance(m, AffineMapAttr) for m in value):
        raise VerifyException(f"indexing_maps is a list of affine maps, got {value}")
    return [m.data for m in value]


def operand_names(inputs: int, outputs: int) -> list[str]:
    """How errors call the operands."""
    return [f"input {i}" for i in range(inputs)] + [f"output {i}" for i in range(outputs)]


class StructuredOp(IRDLOperation):
    """inputs: scalars or shaped. outputs: what is accumulated into or only gives the shape. res: the new outputs.

    The region that the generic spelling carries is not looked at: the name says what is computed.
    """

    inputs = var_operand_def()
    outputs = var_operand_def(ShapedType)
    res = var_result_def(TensorType)
    indexing_maps = opt_prop_def(ArrayAttr)
    cast = opt_prop_def(TypeFnAttr)
    strides = opt_prop_def(Attribute)
    dilations = opt_prop_def(Attribute)
    kind = opt_prop_def(ElementwiseKindAttr)
    fun = opt_prop_def(Attribute)
    hidden = var_region_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def structure(self) -> Structure:
        """The iterations of this operation and how its operands are reached. VerifyException when it has none."""
        raise NotImplementedError

    @classmethod
    def parse(cls, p: Parser) -> Operation:
        properties: dict[str, Attribute | None] = {}
        attributes: dict[str, Attribute] = {}
        known = cls.get_irdl_definition().properties
        while True:
            text = p._current_token.text
            if text == "{":
                attributes |= p.parse_optional_attr_dict()
            elif text in known:
                p.parse_keyword(text)
                p.parse_punctuation("=")
                attributes[text] = p.parse_attribute()
            elif text == "<":
                attributes["kind"] = ElementwiseKindAttr(ElementwiseKindAttr.parse_parameter(p))
            else:
                break
        inputs, outputs = parse_operands(p)
        if p.parse_optional_keyword("attrs") is not None:
            p.parse_punctuation("=")
            attributes |= p.parse_optional_attr_dict()
        syntax.take_inherent(cls, attributes, known, properties)
        results = parse_results(p, outputs)
        return cls(
            operands=[inputs, outputs], result_types=[results], properties=properties, attributes=attributes,
            regions=[[]],
        )  # fmt: skip

    def print(self, printer: Printer) -> None:
        given = {k: self.properties[k] for k in _WRITTEN if k in self.properties}
        for key in ("kind", "indexing_maps"):
            if key in given:
                printer.print_string(f" {key} = ")
                printer.print_attribute(given.pop(key))
        syntax.print_attributes(printer, {**given, **self.attributes}, keyword=False)
        print_operands(printer, self.inputs, self.outputs)
        print_results(printer, [r.type for r in self.res])

    def verify_(self) -> None:
        check_results(self.outputs, [r.type for r in self.res])
        structure = self.structure()
        types = [v.type for v in self.operands]
        names = operand_names(len(self.inputs), len(self.outputs))
        check_sizes(types, structure.maps, len(structure.parallel), names)


_WRITTEN = ("indexing_maps", "cast", "strides", "dilations", "kind", "fun")


def check_results(outputs: Sequence[SSAValue], results: Sequence[Attribute]) -> None:
    """The results are the tensors among the outputs."""
    expected = [o.type for o in outputs if isinstance(o.type, TensorType)]
    if not outputs:
        raise VerifyException("expected at least one output: outs(%value : type)")
    if list(results) != expected:
        got, wanted = (", ".join(map(str, t)) or "none" for t in (results, expected))
        raise VerifyException(f"the results are ({got}), expected ({wanted}) as the outputs")


def check_counts(op: Any, inputs: int, outputs: int = 1) -> None:
    """An operation has so many operands."""
    if len(op.inputs) != inputs or len(op.outputs) != outputs:
        raise VerifyException(
            f"expected {inputs} input(s) and {outputs} output(s), got {len(op.inputs)} and {len(op.outputs)}"
        )


Printing = Callable[[Any, Printer], None]
