"""Assembly formats of xDSL's operations that are parsed on first use."""

from __future__ import annotations

from typing import ClassVar

import pytest
from xdsl.dialects import test as tests_of_xdsl
from xdsl.dialects.builtin import i32
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def
from xdsl.utils.exceptions import PyRDLOpDefinitionError

from pydispatch import ir
from pydispatch.ir.core.lazy_formats import formats_parsed_on_use


def defined(format: str) -> type[IRDLOperation]:
    """Define an operation of one operand with an assembly format."""

    class SomeOp(IRDLOperation):
        name = "test.some"
        value = operand_def()
        assembly_format: ClassVar[str] = format

    return irdl_op_definition(SomeOp)


def test_the_text_is_that_of_formats_parsed_at_once() -> None:
    text = "$value attr-dict `:` type($value)"
    at_once = defined(text)
    with formats_parsed_on_use():
        lazy = defined(text)
    (value,) = tests_of_xdsl.TestOp(result_types=[i32]).results
    printed = [ir.print_module(kind(operands=[value])) for kind in (at_once, lazy)]
    assert printed[0] == printed[1] and " : i32" in printed[0]


def test_an_invalid_format_is_refused() -> None:
    with formats_parsed_on_use():
        lazy = defined("$unknown attr-dict")
    with pytest.raises(PyRDLOpDefinitionError, match="assembly format"):
        defined("$unknown attr-dict")  # outside of the block, at its definition
    (value,) = tests_of_xdsl.TestOp(result_types=[i32]).results
    with pytest.raises(Exception, match="expected variable to refer to an operand"):
        ir.print_module(lazy(operands=[value]))
