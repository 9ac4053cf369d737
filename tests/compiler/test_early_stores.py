"""Which stores of globals move to where their values are computed."""

from __future__ import annotations

import numpy as np
import pytest

import pydispatch as pd
from pydispatch import ir
from pydispatch.compiler.outline.early_stores import store_early
from pydispatch.ir.dialects.util.dialect import GlobalStoreOp

TEXT = """
util.global private mutable @state = dense<1> : tensor<2xi32>
func.func @f(%go: i1) -> tensor<2xi32> {
  %old = util.global.load @state : tensor<2xi32>
  %new = arith.addi %old, %old : tensor<2xi32>
  cf.cond_br %go, ^then, ^other
^then:
  THEN
^other:
  OTHER
^end:
  END
  return %new : tensor<2xi32>
}
"""
STORE = "util.global.store %new, @state : tensor<2xi32>"
LOAD = "%read = util.global.load @state : tensor<2xi32>"
JUMP = "cf.br ^end"
CASES = {
    "behind branches": ({"END": STORE}, True),
    "on one path": ({"THEN": f"{STORE}\n  {JUMP}"}, False),
    "a path that ends before it": ({"OTHER": "return %new : tensor<2xi32>", "END": STORE}, False),
    "read in between": ({"THEN": f"{LOAD}\n  {JUMP}", "END": STORE}, False),
    "stored in between": ({"THEN": f"util.global.store %old, @state : tensor<2xi32>\n  {JUMP}", "END": STORE}, False),
    "another global in between": ({"THEN": f"{LOAD.replace('@state', '@other')}\n  {JUMP}", "END": STORE}, True),
}


def source(words: dict[str, str]) -> str:
    text = TEXT
    for word in ("THEN", "OTHER", "END"):
        text = text.replace(word, words.get(word, "" if word == "END" else JUMP))
    return text + "util.global private mutable @other = dense<5> : tensor<2xi32>\n"


@pytest.mark.parametrize("name", CASES)
def test_what_moves(name: str) -> None:
    words, moves = CASES[name]
    module = ir.parse(source(words), "f.mlir")
    (function,) = (op for op in module.body.block.ops if op.name == "func.func")
    store_early(function)
    entry = function.regions[0].blocks[0]
    assert any(isinstance(op, GlobalStoreOp) for op in entry.ops) == moves


@pytest.mark.parametrize("name", CASES)
def test_state_is_what_the_text_says(name: str) -> None:
    """The result doubles with each call that stored it before; the path decides."""
    words, _ = CASES[name]
    program = pd.device("cpu").load(pd.compile(source(words)))
    state = np.ones(2, np.int32)
    for go in (True, False, True, True):
        stores = "END" in words and (go or "return" not in words.get("OTHER", ""))
        stores = stores or (go and STORE in words.get("THEN", ""))
        assert program.f(go).tolist() == (2 * state).tolist()
        state = 2 * state if stores else state


LOOP = """
util.global private mutable @state = dense<1> : tensor<2xi32>
func.func @f(%n: index) -> tensor<2xi32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  BEFORE
  cf.br ^round(%zero : index)
^round(%i: index):
  INSIDE
  %new = arith.addi %old, %old : tensor<2xi32>
  %next = arith.addi %i, %one : index
  %more = arith.cmpi ult, %next, %n : index
  cf.cond_br %more, ^round(%next : index), ^end
^end:
  util.global.store %new, @state : tensor<2xi32>
  return %new : tensor<2xi32>
}
"""


@pytest.mark.parametrize("place", ["BEFORE", "INSIDE"])
def test_a_value_of_a_loop_is_stored_behind_it(place: str) -> None:
    text = LOOP.replace(place, "%old = util.global.load @state : tensor<2xi32>")
    text = text.replace("BEFORE", "").replace("INSIDE", "")
    module = ir.parse(text, "f.mlir")
    (function,) = (op for op in module.body.block.ops if op.name == "func.func")
    store_early(function)
    assert any(isinstance(op, GlobalStoreOp) for op in function.regions[0].blocks[-1].ops)
    program = pd.device("cpu").load(pd.compile(text))
    assert [program.f(3).tolist() for _ in range(2)] == [[2, 2], [4, 4]]
