"""What the operations of the `transform` dialect share: a syntax that is written as a row of pieces."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, FunctionType, StringAttr, SymbolRefAttr, UnitAttr, i64
from xdsl.dialects.transform import (
    AffineMapType,
    AnyOpType,
    AnyParamType,
    AnyValueType,
    OperationType,
    ParamType,
    TypeParamType,
)
from xdsl.ir import Attribute, Operation, Region
from xdsl.irdl import IRDLOperation, opt_prop_def, region_def, traits_def, var_operand_def, var_result_def
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import NoTerminator

from pydispatch.ir.core import syntax

TYPES: list[type[Attribute]] = [
    AffineMapType, AnyOpType, AnyValueType, AnyParamType, OperationType, ParamType, TypeParamType,
]  # fmt: skip


class _State:
    """What has been read of an operation."""

    def __init__(self) -> None:
        self.names: list[UnresolvedOperand] = []
        self.inputs: list[Attribute] = []
        self.outputs: list[Attribute] = []
        self.properties: dict[str, Attribute | None] = {}
        self.attributes: dict[str, Attribute] = {}
        self.regions: list[Region] = []


class TransformOp(IRDLOperation):
    """An operation over handles. `PIECES` says how it is written, piece by piece; see `_PARSE` for the kinds."""

    PIECES: ClassVar[tuple[str, ...]] = ("operand", "attributes", "signature")

    handles = var_operand_def()
    results_ = var_result_def()

    @classmethod
    def parse(cls, p: Parser) -> Operation:
        state = _State()
        for piece in cls.PIECES:
            kind, _, argument = piece.partition(":")
            _PARSE[kind](p, state, argument)
        if len(state.inputs) == 1 and not state.outputs:  # One type may stand for all.
            state.inputs *= len(state.names)
        if len(state.inputs) != len(state.names):
            p.raise_error(f"'{cls.name}' has {len(state.names)} operand(s), but {len(state.inputs)} operand type(s)")
        operands = [p.resolve_operand(name, type) for name, type in zip(state.names, state.inputs, strict=True)]
        return cls(
            operands=[operands], result_types=[state.outputs], properties=state.properties,
            attributes=state.attributes, regions=state.regions,
        )  # fmt: skip

    def print(self, printer: Printer) -> None:
        at = 0
        for piece in self.PIECES:
            kind, _, argument = piece.partition(":")
            at = _PRINT[kind](printer, self, argument, at)

    def positions(self, count: int) -> list[int] | None:
        """The numbers that the brackets pick out of `count`; None when one is out of range."""
        listed = self.properties["positions"]
        assert isinstance(listed, DenseArrayBase)
        if "is_all" in self.properties:
            return list(range(count))
        numbers = [int(v) + (count if v < 0 else 0) for v in listed.get_values()]
        if any(not 0 <= n < count for n in numbers):
            return None
        return [n for n in range(count) if n not in numbers] if "is_inverted" in self.properties else numbers


class PositionOp(TransformOp):
    """An operation with `[0, -1]`, `[all]` or `[except(0)]` behind its operand."""

    PIECES: ClassVar[tuple[str, ...]] = ("operand", "positions", "attributes", "signature")
    positions_ = opt_prop_def(DenseArrayBase, prop_name="positions")
    is_all = opt_prop_def(UnitAttr)
    is_inverted = opt_prop_def(UnitAttr)


class RegionOp(TransformOp):
    """An operation with a body, whose last operation may be left out when it yields nothing."""

    body = region_def()
    traits = traits_def(NoTerminator())


# --- reading ---


def _operand(p: Parser, s: _State, _: str) -> None:
    s.names.append(p.parse_unresolved_operand())


def _operands(p: Parser, s: _State, word: str) -> None:
    """`%a, %b`; with a word, nothing unless the word stands there."""
    name = p.parse_optional_unresolved_operand()
    while name is not None:
        s.names.append(name)
        name = p.parse_unresolved_operand() if p.parse_optional_punctuation(",") is not None else None


def _word(p: Parser, s: _State, word: str) -> None:
    if word in ("=", ","):
        p.parse_punctuation(word)  # type: ignore[arg-type]
    else:
        p.parse_keyword(word)


def _flag(p: Parser, s: _State, argument: str) -> None:
    """`name=words`: the words may stand there."""
    name, _, words = argument.partition("=")
    first, *rest = words.split()
    if p.parse_optional_keyword(first) is not None:
        for word in rest:
            p.parse_keyword(word)
        s.properties[name] = UnitAttr()


def _choice(p: Parser, s: _State, argument: str) -> None:
    """`name=a|b|c`: one of the words."""
    name, _, words = argument.partition("=")
    start = p.pos
    word = p.parse_identifier(f" ({', '.join(words.split('|'))})")
    if word not in words.split("|"):
        p.raise_error(f"expected one of {', '.join(words.split('|'))}, got '{word}'", start, start + len(word))
    s.properties[name] = StringAttr(word)


def _failures(p: Parser, s: _State, _: str) -> None:
    if p.parse_optional_keyword("failures") is not None:
        with p.in_parens():
            _choice(p, s, "failures=propagate|suppress")


def _symbol(p: Parser, s: _State, name: str) -> None:
    start = p.pos
    value = p.parse_attribute()
    if not isinstance(value, SymbolRefAttr):
        p.raise_error("expected @name", start, p.pos)
    s.properties[name] = value


def _string(p: Parser, s: _State, name: str) -> None:
    s.properties[name] = StringAttr(p.parse_str_literal())


def _attribute(p: Parser, s: _State, name: str) -> None:
    s.properties[name] = p.parse_attribute()


def _type(p: Parser, s: _State, name: str) -> None:
    s.properties[name] = p.parse_type()


def _positions(p: Parser, s: _State, _: str) -> None:
    with p.in_square_brackets():
        numbers: list[int] = []
        if p.parse_optional_keyword("all") is not None:
            s.properties["is_all"] = UnitAttr()
        else:
            inverted = p.parse_optional_keyword("except") is not None
            if inverted:
                s.properties["is_inverted"] = UnitAttr()
                p.parse_punctuation("(")
            numbers.append(p.parse_integer(allow_boolean=False))
            while p.parse_optional_punctuation(",") is not None:
                numbers.append(p.parse_integer(allow_boolean=False))
            if inverted:
                p.parse_punctuation(")")
    s.properties["positions"] = DenseArrayBase.from_list(i64, numbers)


def _attributes(p: Parser, s: _State, _: str) -> None:
    s.attributes.update(p.parse_optional_attr_dict())


def _region(p: Parser, s: _State, _: str) -> None:
    s.regions.append(p.parse_region())


def _signature(p: Parser, s: _State, _: str) -> None:
    """`: (T, ...) -> (T, ...)`, `: T, T` or `: T, T -> T`."""
    if not s.names and p._current_token.text != ":":
        return
    p.parse_punctuation(":")
    if p._current_token.text == "(":
        s.inputs = list(p.parse_comma_separated_list(p.Delimiter.PAREN, p.parse_type, " in operand types"))
    else:
        s.inputs = [p.parse_type()]
        while p.parse_optional_punctuation(",") is not None:
            s.inputs.append(p.parse_type())
    if p.parse_optional_punctuation("->") is not None:
        s.outputs = syntax.parse_types(p)


def _same(p: Parser, s: _State, _: str) -> None:
    """`: T`, of every operand and of the result."""
    p.parse_punctuation(":")
    s.outputs = [p.parse_type()]
    s.inputs = s.outputs * len(s.names)


def _result(p: Parser, s: _State, _: str) -> None:
    """`-> T`."""
    p.parse_punctuation("->")
    s.outputs = syntax.parse_types(p)


_PARSE: dict[str, Callable[[Parser, _State, str], None]] = {
    "operand": _operand, "operands": _operands, "word": _word, "flag": _flag, "choice": _choice, "symbol": _symbol,
    "string": _string, "attribute": _attribute, "type": _type, "positions": _positions, "attributes": _attributes,
    "region": _region, "signature": _signature, "same": _same, "result": _result, "failures": _failures,
}  # fmt: skip


# --- printing: each gives the number of operands that have been printed ---


def _print_operand(q: Printer, op: TransformOp, _: str, at: int) -> int:
    q.print_string(" ")
    q.print_ssa_value(op.handles[at])
    return at + 1


def _print_operands(q: Printer, op: TransformOp, _: str, at: int) -> int:
    if op.handles:
        q.print_string(" ")
        q.print_list(op.handles, q.print_ssa_value)
    return len(op.handles)


def _print_word(q: Printer, op: TransformOp, word: str, at: int) -> int:
    q.print_string(word if word == "," else f" {word}")
    return at


def _print_flag(q: Printer, op: TransformOp, argument: str, at: int) -> int:
    name, _, words = argument.partition("=")
    q.print_string(f" {words}" if name in op.properties else "")
    return at


def _print_choice(q: Printer, op: TransformOp, argument: str, at: int) -> int:
    value = op.properties[argument.partition("=")[0]]
    assert isinstance(value, StringAttr)
    q.print_string(f" {value.data}")
    return at


def _print_failures(q: Printer, op: TransformOp, _: str, at: int) -> int:
    value = op.properties.get("failures")
    q.print_string(f" failures({value.data})" if isinstance(value, StringAttr) else "")
    return at


def _print_attribute(q: Printer, op: TransformOp, name: str, at: int) -> int:
    q.print_string(" ")
    q.print_attribute(op.properties[name])
    return at


def _print_positions(q: Printer, op: TransformOp, _: str, at: int) -> int:
    listed = op.properties["positions"]
    assert isinstance(listed, DenseArrayBase)
    numbers = ", ".join(str(v) for v in listed.get_values())
    inverted = "is_inverted" in op.properties
    q.print_string("[all]" if "is_all" in op.properties else f"[except({numbers})]" if inverted else f"[{numbers}]")
    return at


def _print_attributes(q: Printer, op: TransformOp, _: str, at: int) -> int:
    syntax.print_attributes(q, op.attributes, keyword=False)
    return at


def _print_region(q: Printer, op: TransformOp, _: str, at: int) -> int:
    q.print_string(" ")
    q.print_region(op.regions[0])
    return at


def _print_signature(q: Printer, op: TransformOp, _: str, at: int) -> int:
    if op.handles or op.results:
        q.print_string(" : ")
        q.print_attribute(FunctionType.from_lists([o.type for o in op.handles], [r.type for r in op.results]))
    return at


def _print_same(q: Printer, op: TransformOp, _: str, at: int) -> int:
    q.print_string(" : ")
    q.print_attribute(op.results[0].type)
    return at


def _print_result(q: Printer, op: TransformOp, _: str, at: int) -> int:
    q.print_string(" -> ")
    q.print_list(op.results, lambda r: q.print_attribute(r.type))
    return at


_PRINT: dict[str, Callable[[Printer, TransformOp, str, int], int]] = {
    "operand": _print_operand, "operands": _print_operands, "word": _print_word, "flag": _print_flag,
    "choice": _print_choice, "symbol": _print_attribute, "string": _print_attribute, "attribute": _print_attribute,
    "type": _print_attribute, "positions": _print_positions, "attributes": _print_attributes,
    "region": _print_region, "signature": _print_signature, "same": _print_same, "result": _print_result,
    "failures": _print_failures,
}  # fmt: skip


def strings_of(attribute: Attribute | None) -> list[str]:
    """The texts of a list of strings."""
    if not isinstance(attribute, ArrayAttr):
        return []
    return [a.data for a in attribute.data if isinstance(a, StringAttr)]
