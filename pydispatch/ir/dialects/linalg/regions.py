"""`linalg` operations with a body of their own: `generic`, `map` and `reduce`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    ShapedType,
    StringAttr,
    TensorType,
)
from xdsl.dialects.linalg import ops
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import (
    IRDLOperation,
    SameVariadicOperandSize,
    irdl_op_definition,
    operand_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.mlir_lexer import MLIRTokenKind

from pydispatch.ir.core import syntax
from pydispatch.ir.core.widen import element_type, give_syntax
from pydispatch.ir.dialects.linalg.base import (
    check_results,
    operand_names,
    parse_integers,
    parse_operands,
    parse_results,
    print_operands,
    print_results,
)
from pydispatch.ir.dialects.linalg.structure import Structure, check_sizes, identity, shape_of


def _parse_generic(cls: type[ops.GenericOp], p: Parser) -> ops.GenericOp:
    start = p.pos
    attributes = p.parse_optional_attr_dict()
    if p._current_token.kind is MLIRTokenKind.HASH_IDENT:  # An alias of the dictionary.
        given = p.parse_attribute()
        attributes = dict(getattr(given, "data", {}))
    end = p.pos
    inputs, outputs = parse_operands(p)
    if p.parse_optional_keyword("attrs") is not None:
        p.parse_punctuation("=")
        attributes |= p.parse_optional_attr_dict()
    body = p.parse_region()
    results = parse_results(p, ())
    maps, kinds = attributes.pop("indexing_maps", None), attributes.pop("iterator_types", None)
    if not isinstance(maps, ArrayAttr) or not all(isinstance(m, AffineMapAttr) for m in maps):
        p.raise_error("linalg.generic needs indexing_maps = [affine_map<…>, …]", start, end)
    if not isinstance(kinds, ArrayAttr):
        p.raise_error('linalg.generic needs iterator_types = ["parallel", …]', start, end)
    iterators = [_iterator(p, kind, start, end) for kind in kinds]
    doc, call = attributes.pop("doc", None), attributes.pop("library_call", None)
    generic = cls(
        inputs, outputs, body, maps, iterators, results,
        doc if isinstance(doc, StringAttr) else None, call if isinstance(call, StringAttr) else None,
    )  # fmt: skip
    generic.attributes |= attributes
    return generic


def _iterator(p: Parser, kind: Attribute, start: int, end: int) -> IteratorTypeAttr:
    if isinstance(kind, StringAttr) and kind.data in ("parallel", "reduction"):
        return IteratorTypeAttr(IteratorType(kind.data))
    if not isinstance(kind, IteratorTypeAttr) or kind.data == IteratorType.WINDOW:
        p.raise_error(f'expected the iterator types "parallel" and "reduction", got {kind}', start, end)
    return kind


def _verify_generic(op: ops.GenericOp) -> None:
    check_results(op.outputs, [r.type for r in op.res])
    names = operand_names(len(op.inputs), len(op.outputs))
    maps = [m.data for m in op.indexing_maps]
    iterators = list(op.iterator_types)
    check_sizes([v.type for v in op.operands], maps, len(iterators), names)
    for map in maps[len(op.inputs) :]:
        if any(iterators[d].data != IteratorType.PARALLEL for d in map.used_dims()):
            raise VerifyException(f"an output is reached by a reduction: {map}")
    check_body(op.body, [v.type for v in op.operands], [o.type for o in op.outputs])


def check_body(region: Region, arguments: Sequence[Attribute], results: Sequence[Attribute]) -> None:
    """The body takes one element of each operand and yields one for each result."""
    if len(region.blocks) != 1:
        raise VerifyException("the body has one block")
    block = region.block
    wanted = [element_type(t) for t in arguments]
    got = [a.type for a in block.args]
    if got != wanted:
        raise VerifyException(f"the body takes ({_types(got)}), expected the elements ({_types(wanted)})")
    last = block.last_op
    if not isinstance(last, ops.YieldOp):
        raise VerifyException("the body ends with linalg.yield")
    yields, expected = [o.type for o in last.operands], [element_type(t) for t in results]
    if yields != expected:
        raise VerifyException(f"the body yields ({_types(yields)}), expected ({_types(expected)})")


def _types(types: Sequence[Attribute]) -> str:
    return ", ".join(map(str, types))


class PayloadOp(IRDLOperation):
    """An operation whose body may be written as the name of the one operation in it, `{ arith.addf }`."""

    @classmethod
    def parse_payload(cls, p: Parser) -> tuple[type[Operation], dict[str, Attribute]] | None:
        """`{ name {…} }`, or nothing."""
        if p.parse_optional_punctuation("{") is None:
            return None
        token = p._current_token
        name = p.parse_identifier(" for the operation of the body")
        kind: type[Operation] = p._get_op_by_name_at(name, token.span.start, token.span.end)  # type: ignore[attr-defined]
        attributes = p.parse_optional_attr_dict()
        p.parse_punctuation("}")
        return kind, attributes


def _payload_body(
    payload: tuple[type[Operation], dict[str, Attribute]], arguments: Sequence[Attribute], order: Sequence[int],
    result: Attribute,
) -> Region:  # fmt: skip
    """A body of one operation on the arguments of the numbers `order`."""
    kind, attributes = payload
    assert issubclass(kind, IRDLOperation)
    block = Block(arg_types=[element_type(t) for t in arguments])
    properties: dict[str, Attribute | None] = {}
    syntax.take_inherent(kind, attributes, kind.get_irdl_definition().properties, properties)
    operands: list[Any] = [block.args[i] for i in order]
    inner = kind.build(
        operands=operands, result_types=[element_type(result)], properties=properties, attributes=attributes
    )
    block.add_ops([inner, ops.YieldOp(*inner.results)])
    return Region(block)


def _parse_body(p: Parser, arguments: Sequence[Attribute]) -> Region:
    """`(%a: f32, %b: f32) { … }`, or `{ ^bb0(%a: f32): … }`."""
    if p._current_token.text != "(":
        return p.parse_region()
    return p.parse_region(p.parse_comma_separated_list(p.Delimiter.PAREN, p.parse_argument, " in body arguments"))


def _print_body(printer: Printer, body: Region) -> None:
    printer.print_string(" ")
    with printer.in_parens():
        printer.print_list(body.block.args, printer.print_block_argument)
    printer.print_string(" ")
    printer.print_region(body, print_entry_block_args=False)


@irdl_op_definition
class MapOp(PayloadOp):
    """The body for every element. It takes the elements of the inputs, and may take that of the output behind them."""

    name = "linalg.map"
    inputs = var_operand_def()
    init = operand_def(ShapedType)
    body = region_def("single_block")
    res = var_result_def(TensorType)

    @property
    def outputs(self) -> Sequence[SSAValue]:
        """The one output."""
        return (self.init,)

    @classmethod
    def parse(cls, p: Parser) -> MapOp:
        payload = cls.parse_payload(p)
        start = p.pos
        inputs, outputs = parse_operands(p)
        if len(outputs) != 1:
            p.raise_error(f"linalg.map has one output, got {len(outputs)}", start, p.pos)
        attributes = p.parse_optional_attr_dict() if payload is not None or p._current_token.text == "{" else {}
        types = [v.type for v in inputs]
        if payload is not None:
            body = _payload_body(payload, types, range(len(inputs)), outputs[0].type)
        else:
            body = _parse_body(p, types)
        return cls(
            operands=[inputs, *outputs], result_types=[parse_results(p, outputs)], regions=[body], attributes=attributes
        )

    def print(self, printer: Printer) -> None:
        print_operands(printer, self.inputs, self.outputs)
        syntax.print_attributes(printer, self.attributes, keyword=False)
        _print_body(printer, self.body)

    def structure(self) -> Structure:
        return identity(len(shape_of(self.outputs[0].type)), len(self.operands))

    def verify_(self) -> None:
        check_results(self.outputs, [r.type for r in self.res])
        structure = self.structure()
        names = operand_names(len(self.inputs), 1)
        check_sizes([v.type for v in self.operands], structure.maps, len(structure.parallel), names)
        with_output = len(self.body.block.args) > len(self.inputs)
        types = [v.type for v in (self.operands if with_output else self.inputs)]
        check_body(self.body, types, [self.outputs[0].type])


@irdl_op_definition
class ReduceOp(PayloadOp):
    """The body over `dimensions`: it takes one element of every input and then one of every output."""

    name = "linalg.reduce"
    inputs = var_operand_def()
    outputs = var_operand_def(ShapedType)
    body = region_def("single_block")
    res = var_result_def(TensorType)
    dimensions = prop_def(DenseArrayBase)
    irdl_options = (SameVariadicOperandSize(),)

    @classmethod
    def parse(cls, p: Parser) -> ReduceOp:
        payload = cls.parse_payload(p)
        inputs, outputs = parse_operands(p)
        dimensions = parse_integers(p, "dimensions")
        attributes = p.parse_optional_attr_dict() if payload is not None or p._current_token.text == "{" else {}
        types = [v.type for v in (*inputs, *outputs)]
        if payload is not None and outputs:
            # The operation of the short spelling takes the running value first.
            body = _payload_body(payload, types, [len(types) - 1, *range(len(types) - 1)], outputs[0].type)
        else:
            body = _parse_body(p, types)
        return cls(
            operands=[inputs, outputs], result_types=[parse_results(p, outputs)], regions=[body],
            properties={"dimensions": dimensions}, attributes=attributes,
        )  # fmt: skip

    def print(self, printer: Printer) -> None:
        print_operands(printer, self.inputs, self.outputs)
        printer.print_string(f" dimensions = {[int(d) for d in self.dimensions.get_values()]}")
        syntax.print_attributes(printer, self.attributes, keyword=False)
        _print_body(printer, self.body)

    def structure(self) -> Structure:
        rank = len(shape_of(self.inputs[0].type))
        reduced = [int(d) for d in self.dimensions.get_values()]
        if reduced != sorted(set(reduced)) or any(not 0 <= d < rank for d in reduced):
            raise VerifyException(f"the dimensions {reduced} do not rise from 0 to at most {rank - 1}")
        kept = tuple(AffineExpr.dimension(d) for d in range(rank) if d not in reduced)
        maps = (AffineMap.identity(rank),) * len(self.inputs) + (AffineMap(rank, 0, kept),) * len(self.outputs)
        return Structure(maps, tuple(d not in reduced for d in range(rank)))

    def verify_(self) -> None:
        check_results(self.outputs, [r.type for r in self.res])
        structure = self.structure()
        names = operand_names(len(self.inputs), len(self.outputs))
        types = [v.type for v in self.operands]
        check_sizes(types, structure.maps, len(structure.parallel), names)
        check_body(self.body, types, [o.type for o in self.outputs])


def _print_generic(op: ops.GenericOp, printer: Printer) -> None:
    given: dict[str, Attribute] = {
        "indexing_maps": op.indexing_maps,
        "iterator_types": ArrayAttr([StringAttr(i.data.value) for i in op.iterator_types]),
    }
    for key in ("doc", "library_call"):
        if key in op.properties:
            given[key] = op.properties[key]
    syntax.print_attributes(printer, given, keyword=False)
    print_operands(printer, op.inputs, op.outputs)
    if op.attributes:
        printer.print_string(" attrs =")
        syntax.print_attributes(printer, op.attributes, keyword=False)
    printer.print_string(" ")
    printer.print_region(op.body)
    print_results(printer, [r.type for r in op.res])


give_syntax(ops.GenericOp, _parse_generic, _print_generic)
ops.GenericOp.verify_ = _verify_generic  # type: ignore[method-assign,assignment]


def _verify_index(op: ops.IndexOp) -> None:
    """Its iteration exists. It may stand in the body of linalg.map and linalg.reduce too, and inside of loops there."""
    around = op.parent_op()
    while around is not None and not around.name.startswith("linalg."):
        around = around.parent_op()
    if isinstance(around, ops.GenericOp) and not 0 <= op.dim.value.data < len(around.iterator_types):
        raise VerifyException(f"{op.dim.value.data} is not one of the {len(around.iterator_types)} iteration(s)")


ops.IndexOp.traits = traits_def(Pure())
ops.IndexOp.verify_ = _verify_index  # type: ignore[method-assign,assignment]

OPERATIONS: list[type[Operation]] = [MapOp, ReduceOp]
