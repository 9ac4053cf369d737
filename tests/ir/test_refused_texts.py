"""What is wrong with an operation is said at its place, in words of the program."""

from __future__ import annotations

import re

import pytest

from pydispatch import ir
from pydispatch.errors import CompileError


@pytest.mark.parametrize(
    ("operation", "type"),
    [('cmpi "sgt"', "i32"), ("cmpi sgt", "i32"), ('cmpf "olt"', "f32"), ("cmpf olt", "f32"), ('cmpi "ne"', "index")],
)
def test_predicates_with_and_without_quotes(operation: str, type: str) -> None:
    text = f"func.func @f(%a: {type}, %b: {type}) -> i1 {{\n  %0 = arith.{operation}, %a, %b : {type}\n  return %0 : i1\n}}"  # noqa: E501
    plain = text.replace('"', "")
    assert ir.print_module(ir.parse(text)) == ir.print_module(ir.parse(plain))


@pytest.mark.parametrize(
    ("body", "column", "message"),
    [
        ('%0 = arith.cmpi "sgtt", %a, %a : i32', 19, "unknown predicate 'sgtt', expected one of eq, ne"),
        ("%0 = arith.constant i32 : index", 8, "a constant is a number, got i32"),
        ("%0 = arith.constant @f : index", 8, "a constant is a number, got @f"),
        ('func.call @f(%a) {"\\FF" = 1} : (i32) -> ()', 21, "expected bare-id or string-literal"),
        ('%0 = "arith.cmpi"(%a, %a) {predicate = 10 : i64} : (i32, i32) -> i1', 8, "a predicate from 0 to 9, got 10"),
        ('%0 = "arith.cmpi"(%a, %a) {predicate = -1 : i64} : (i32, i32) -> i1', 8, "a predicate from 0 to 9, got -1"),
        ("func.call 3(%a) : (i32) -> ()", 3, "SymbolRefAttr|a symbol such as @name"),
    ],
)
def test_the_cause_is_kept(body: str, column: int, message: str) -> None:
    text = f"func.func @f(%a: i32) {{\n  {body}\n  return\n}}"
    with pytest.raises(CompileError) as error:
        ir.verify(ir.parse(text))
    assert re.search(message, error.value.message), error.value.message
    assert error.value.location is not None
    assert (error.value.location.line, error.value.location.column) == (2, column)
    assert "^" in str(error.value) and "cannot be read here" not in str(error.value)


def test_own_faults_say_what_they_met() -> None:
    from pydispatch.ir.core.messages import explain_refusal

    assert explain_refusal("a.b", AssertionError())[0] == (
        "'a.b': its operands, types or attributes are not what it takes"
    )
    assert "no attribute 'shape'" in explain_refusal("a.b", AttributeError("'X' has no attribute 'shape'"))[0]
    assert (
        explain_refusal("a.b", OverflowError("int too large"))[0]
        == "'a.b': a number in it is too large (int too large)"
    )
    found = explain_refusal("a.b", ValueError("The following constraints were not satisfied:\n1 should be of base "
                                              "attribute symbol_ref\n2 should be of base attribute string"))  # fmt: skip  # noqa: E501
    assert found[0] == "'a.b': a symbol such as @name is wanted where it has 1"
    assert explain_refusal("a.b", ValueError(("bad", "name")))[0] == "'a.b': bad name"


FORALL = (
    '%r{results} = "scf.forall"({operands}) <{{operandSegmentSizes = array<i32: {segments}>, static_lower = [{lower}], '
    "static_upper = [4 : i64], static_step = [1 : i64]}}> "
    '({{\n^bb0({arguments}):\n"scf.forall.in_parallel"() ({{\n^bb1:\n}}) : () -> ()\n}}) : ({types}) -> ({given})'
)
DYNAMIC = "-9223372036854775808 : i64"


def forall(**changed: str) -> str:
    valid = {
        "results": "", "operands": "%i, %t", "segments": "1, 0, 0, 1", "lower": DYNAMIC,
        "arguments": "%k: index, %o: tensor<4xf32>", "types": "index, tensor<4xf32>", "given": "tensor<4xf32>",
    }  # fmt: skip
    return FORALL.format(**{**valid, **changed})


def execute(body: str) -> str:
    return f'%r = "scf.execute_region"() ({{\n{body}\n}}) : () -> f32'


def loop(arguments: str, end: str, given: str = "f32") -> str:
    types = f"(index, index, index, f32) -> {given}"
    return f'%r = "scf.for"(%i, %i, %i, %f) ({{\n^bb0({arguments}):\n{end}\n}}) : {types}'


YIELD = '"scf.yield"(%f) : (f32) -> ()'
YIELD_NONE = '"scf.yield"() : () -> ()'


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (forall(), ""),
        (forall(lower="0 : i64"), "static_lower of scf.forall leaves 0 to values, 1 are given"),
        (forall(operands="%t", segments="0, 0, 0, 1", types="tensor<4xf32>"), "leaves 1 to values, 0 are given"),
        (forall(arguments="%o: tensor<4xf32>"), r"the body of scf.forall takes \(tensor<4xf32>\), expected \(index, "),
        (forall(arguments="%k: i1, %o: tensor<4xf32>"), r"takes \(i1, tensor<4xf32>\), expected \(index, "),
        (forall(given="f32"), r"scf.forall gives \(f32\), expected \(tensor<4xf32>\)"),
        (forall(results=":2", given="tensor<4xf32>, f32"), "scf.forall gives"),
        (forall(lower="unit"), "static_lower of scf.forall is a list of integers"),
        (execute(YIELD), ""),
        (execute(YIELD_NONE), r"scf.execute_region yields \(\), expected \(f32\)"),
        (execute(f"^bb0(%a: f32):\n{YIELD}"), r"scf.execute_region takes \(f32\), expected \(\)"),
        (execute(""), "scf.execute_region needs a block"),
        (loop("%k: index, %a: f32", YIELD), ""),
        (loop("%k: index, %a: f32", YIELD, "i1"), r"scf.for gives \(i1\), expected \(f32\)"),
        (loop("%k: i1, %a: f32", YIELD), r"the body of scf.for takes \(i1, f32\), expected \(index, f32\)"),
        (loop("%k: index", YIELD), r"the body of scf.for takes \(index\), expected \(index, f32\)"),
        (loop("%k: index, %a: f32", YIELD_NONE), r"the body of scf.for yields \(\), expected \(f32\)"),
    ],
)
def test_regions_whose_counts_or_types_differ(operation: str, message: str) -> None:
    text = f"func.func @f(%i: index, %f: f32, %t: tensor<4xf32>) {{\n  {operation}\n  return\n}}"
    if not message:
        printed = ir.print_module(ir.parse(text))
        assert ir.print_module(ir.parse(printed)) == printed
        return
    with pytest.raises(CompileError, match=message) as error:
        ir.parse(text)
    assert error.value.location is not None and error.value.location.line == 2


def test_a_region_of_several_blocks_is_printed_whole() -> None:
    text = """
func.func @f(%c: i1, %a: f32, %b: f32) -> f32 {
  %r = scf.execute_region -> (f32) {
    cf.cond_br %c, ^one, ^other
  ^one:
    scf.yield %a : f32
  ^other:
    scf.yield %b : f32
  }
  scf.execute_region {
    scf.yield
  }
  return %r : f32
}
"""
    printed = ir.print_module(ir.parse(text))
    assert printed.count("scf.yield") == 3 and ir.print_module(ir.parse(printed)) == printed
