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
