"""Integer operations are expanded into those that every machine executes alike."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import IndexType, IntegerType, UnitAttr
from xdsl.dialects.func import FuncOp

from pydispatch.compiler.kernel_ir.build import constant_or_value
from pydispatch.compiler.kernel_ir.expand.integers import TargetIntegers, expand_integers
from pydispatch.compiler.kernel_ir.kernel import IN_RANGE
from pydispatch.compiler.kernel_ir.readers import INT_PREDICATES, integer, op_name
from pydispatch.ir import parse, print_module
from pydispatch.ir.core.walk import walk

DIVISIONS = ("divsi", "divui", "remsi", "remui", "floordivsi", "ceildivsi", "ceildivui")
SHIFTS = ("shli", "shrsi", "shrui")
OTHERS = ("addi", "subi", "muli", "minsi", "maxsi", "minui", "maxui")
TRUTHS = {"arith.andi", "arith.ori", "arith.xori", "arith.select", "arith.constant", "arith.cmpi"}
INTEGERS = ("i1", "i8", "i32", "i64", "index")


def expanded(body: str, type_: str, target: TargetIntegers | None = None) -> FuncOp:
    """Return a function of two operands %a and %b whose operations are expanded."""
    module = parse(f"func.func @f(%a: {type_}, %b: {type_}) -> {type_} {{\n{body}\nfunc.return %r : {type_}\n}}")
    (function,) = module.body.block.ops
    assert isinstance(function, FuncOp)
    expand_integers(function, target or TargetIntegers())
    module.verify()
    return function


def names(function: FuncOp) -> list[str]:
    return [op_name(op).removeprefix("arith.") for op in walk(function) if op_name(op).startswith("arith.")]


@pytest.mark.parametrize("type_", INTEGERS)
@pytest.mark.parametrize("name", [*DIVISIONS, *SHIFTS])
def test_divisions_and_shifts_are_guarded(name: str, type_: str) -> None:
    function = expanded(f"%r = arith.{name} %a, %b : {type_}", type_)
    kinds = {f"arith.{kind}" for kind in (*DIVISIONS, *SHIFTS)}
    left = [op for op in walk(function) if op_name(op) in kinds]
    assert all(op.attributes[IN_RANGE] == UnitAttr() for op in left)
    assert not {op_name(op) for op in left} & {"arith.floordivsi", "arith.ceildivsi", "arith.ceildivui"}
    assert bool(left) == (type_ != "i1")


@pytest.mark.parametrize("name", DIVISIONS)
@pytest.mark.parametrize(("divisor", "is_guarded"), [(3, False), (-1, False), (0, False), ("%b", True)])
def test_a_constant_divisor_needs_no_guard(name: str, divisor: int | str, is_guarded: bool) -> None:
    constant = "" if divisor == "%b" else f"%c = arith.constant {divisor} : i32\n"
    function = expanded(f"{constant}%r = arith.{name} %a, {'%b' if divisor == '%b' else '%c'} : i32", "i32")
    assert ("select" in names(function)) == is_guarded


@pytest.mark.parametrize(("count", "result"), [(31, "shift"), (32, "constant"), (-1, "constant")])
def test_a_constant_count_needs_no_guard(count: int, result: str) -> None:
    for name in SHIFTS:
        function = expanded(f"%c = arith.constant {count} : i32\n%r = arith.{name} %a, %c : i32", "i32")
        assert "select" not in names(function)
        end = function.body.block.last_op
        assert end is not None
        (value,) = end.operands
        if name == "shrsi" and result == "constant":  # copies of the sign
            assert constant_or_value(value.owner.operands[1]) == 31
        else:
            assert (type(constant_or_value(value)) is int) == (result == "constant")


def test_the_255_of_8_bits_is_minus_one() -> None:
    function = expanded("%c = arith.constant 255 : i8\n%r = arith.divsi %a, %c : i8", "i8")
    assert names(function).count("subi") == 1
    assert "divsi" not in names(function)
    function = expanded("%c = arith.constant 255 : i8\n%r = arith.divui %a, %c : i8", "i8")
    assert "divui" in names(function)


@pytest.mark.parametrize(
    "name", [*DIVISIONS, *SHIFTS, *OTHERS, *(f"cmpi {predicate}," for predicate in INT_PREDICATES)]
)
def test_truth_values_have_logical_operations_only(name: str) -> None:
    function = expanded(f"%r = arith.{name} %a, %b : i1", "i1")
    found = [op for op in walk(function) if op_name(op).startswith("arith.")]
    assert {op_name(op) for op in found} <= TRUTHS
    comparisons = [op for op in found if op_name(op) == "arith.cmpi"]
    assert all(INT_PREDICATES[integer(op, "predicate")] == "eq" for op in comparisons)


def test_integers_of_more_bits_keep_their_operations() -> None:
    for name in OTHERS:
        assert names(expanded(f"%r = arith.{name} %a, %b : i2", "i2")) == [name]


@pytest.mark.parametrize(("bits", "last"), [(32, 31), (64, 63)])
def test_the_width_of_an_index_is_that_of_the_target(bits: int, last: int) -> None:
    function = expanded("%r = arith.shrsi %a, %b : index", "index", TargetIntegers(index_bits=bits))
    constants = [constant_or_value(op.results[0]) for op in walk(function) if op_name(op) == "arith.constant"]
    assert constants == [last]
    assert isinstance(function.function_type.inputs.data[0], IndexType)


@pytest.mark.parametrize(("type_", "has_word_counts", "is_bounded"),
                         [("i64", True, True), ("i64", False, False), ("i32", True, False)])  # fmt: skip
def test_counts_beyond_a_word_are_bounded(type_: str, has_word_counts: bool, is_bounded: bool) -> None:
    function = expanded(f"%r = arith.shli %a, %b : {type_}", type_, TargetIntegers(has_word_counts=has_word_counts))
    assert ("minui" in names(function)) == is_bounded
    assert isinstance(function.function_type.inputs.data[0], IntegerType)


def test_a_second_run_changes_nothing() -> None:
    for type_ in INTEGERS:
        for name in (*DIVISIONS, *SHIFTS):
            function = expanded(f"%r = arith.{name} %a, %b : {type_}", type_)
            before = print_module(function)
            expand_integers(function, TargetIntegers())
            assert print_module(function) == before


@pytest.mark.parametrize(("type_", "register"), [("i5", 32), ("i8", 32), ("i16", 32), ("i33", 64)])
def test_other_widths_are_computed_in_registers(type_: str, register: int) -> None:
    """Arithmetic is between conversions; what keeps sign-extended registers sign-extended stays on the narrow type."""
    kept = {"andi", "ori", "xori", "minsi", "maxsi", "minui", "maxui", "select", "cmpi", "constant"}
    for name in (*DIVISIONS, *SHIFTS, *OTHERS):
        function = expanded(f"%r = arith.{name} %a, %b : {type_}", type_, TargetIntegers(registers=(32, 64)))
        for op in walk(function):
            if op_name(op).startswith("arith.") and op_name(op).removeprefix("arith.") not in kept:
                types = {value.type.width.data for value in (*op.operands, *op.results)}  # type: ignore[attr-defined]
                is_conversion = op_name(op) in ("arith.extsi", "arith.extui", "arith.trunci")
                assert register in types or (is_conversion and 1 in types), (name, op_name(op))
                assert (len(types) == 2) == is_conversion, (name, op_name(op))


def test_constants_are_extended_while_compiling() -> None:
    for name, extended in (("divui", 200), ("divsi", -56)):
        body = f"%c = arith.constant 200 : i8\n%r = arith.{name} %a, %c : i8"
        function = expanded(body, "i8", TargetIntegers(registers=(32, 64)))
        (division,) = (op for op in walk(function) if op_name(op) == f"arith.{name}")
        assert constant_or_value(division.operands[1]) == extended


@pytest.mark.parametrize("type_", ["i1", "i32", "i64", "i128", "index"])
def test_other_types_stay(type_: str) -> None:
    for name in OTHERS:
        with_registers = expanded(f"%r = arith.{name} %a, %b : {type_}", type_, TargetIntegers(registers=(32, 64)))
        assert print_module(with_registers) == print_module(expanded(f"%r = arith.{name} %a, %b : {type_}", type_))
