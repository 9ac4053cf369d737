"""Values are defined on every path to their uses: dominance against its definition, and what a program is told."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import test as operations
from xdsl.ir import Block, Region

import pydispatch as pd
from pydispatch.ir.core.dominance import Dominance

SIZE = 7


def reached(successors: list[list[int]], without: int | None = None) -> set[int]:
    """Return the blocks that paths from block 0 reach which do not enter a block."""
    seen: set[int] = set()
    pending = [0]
    while pending:
        block = pending.pop()
        if block not in seen and block != without:
            seen.add(block)
            pending += successors[block]
    return seen


@settings(max_examples=200)
@given(st.lists(st.lists(st.integers(1, SIZE - 1), max_size=3), min_size=SIZE, max_size=SIZE))
def test_a_block_dominates_what_no_path_reaches_without_it(successors: list[list[int]]) -> None:
    blocks = [Block() for _ in range(SIZE)]
    for block, others in zip(blocks, successors, strict=True):
        block.add_op(operations.TestTermOp(successors=[blocks[other] for other in others]))
    region = Region(blocks)
    dominance = Dominance()
    assert region.blocks[0] is blocks[0]
    for definition in range(SIZE):
        without = reached(successors, definition)
        for use in range(SIZE):
            assert dominance.dominates(blocks[definition], blocks[use]) == (use not in without), (definition, use)


SKIPPED = """
func.func @f(%c: i1, %a: i64) -> i64 {
  cf.cond_br %c, ^bb1, ^bb2
^bb1:
  %x = arith.addi %a, %a : i64
  cf.br ^bb2
^bb2:
  return %x : i64
}
"""


def test_a_definition_that_a_path_goes_around_is_an_error() -> None:
    with pytest.raises(pd.CompileError, match="uses %x, which is not defined on every path to this block") as caught:
        pd.compile(SKIPPED)
    assert str(caught.value).startswith("<text>:8:3: error: 'func.return'")
    assert "pass it to the block as an argument of the branches" in str(caught.value)


def test_the_same_value_as_an_argument_of_the_block() -> None:
    text = SKIPPED.replace("^bb1, ^bb2", "^bb1, ^bb2(%a : i64)").replace("br ^bb2\n", "br ^bb2(%x : i64)\n")
    text = text.replace("^bb2:", "^bb2(%y: i64):").replace("return %x", "return %y")
    program = pd.device("cpu").load(pd.compile(text))
    assert (program.f(True, 3), program.f(False, 3)) == (6, 3)


def test_a_region_cannot_use_the_result_of_its_operation() -> None:
    text = """
func.func @f(%a: i64, %n: index) -> i64 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%s = %a) -> (i64) {
    %t = arith.addi %s, %r : i64
    scf.yield %t : i64
  }
  return %r : i64
}
"""
    with pytest.raises(pd.CompileError, match="uses %r before its definition"):
        pd.compile(text)
