"""Replacement and removal of operations."""

from __future__ import annotations

import pytest
from xdsl.dialects import arith
from xdsl.dialects.test import TestOp as AnyOp
from xdsl.ir import Block

from pydispatch.ir.core.rewriting import erase_op, replace_op


def test_the_values_that_replace_results_take_over_their_users_and_names() -> None:
    old, new = arith.ConstantOp.from_int_and_width(1, 32), arith.ConstantOp.from_int_and_width(2, 32)
    user = AnyOp([old.result])
    block = Block([old, new, user])
    old.result.name_hint, new.result.name_hint = "size", "other"
    replace_op(old, new.result)
    assert list(block.ops) == [new, user]
    assert user.operands[0] is new.result and new.result.name_hint == "size"


def test_as_many_values_as_results_replace_an_operation() -> None:
    old = arith.ConstantOp.from_int_and_width(1, 32)
    Block([old])
    with pytest.raises(ValueError, match="shorter"):
        replace_op(old)


def test_an_operation_with_users_is_only_erased_where_the_caller_says_so() -> None:
    old = arith.ConstantOp.from_int_and_width(1, 32)
    block = Block([old, AnyOp([old.result])])
    with pytest.raises(Exception, match="still has uses"):
        erase_op(old)
    assert len(list(block.ops)) == 1

    other = arith.ConstantOp.from_int_and_width(1, 32)
    Block([other, AnyOp([other.result])])
    erase_op(other, safe_erase=False)
    assert other.parent is None
