"""The walk over nested operations against the library's, also while the program changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from xdsl.ir import Operation

from pydispatch import ir
from pydispatch.ir.core.walk import walk

PROGRAMS = sorted((Path(__file__).parent / "samples").glob("*.mlir"))


@pytest.mark.parametrize("path", PROGRAMS, ids=[path.stem for path in PROGRAMS])
def test_the_order_is_that_of_the_library(path: Path) -> None:
    module = ir.parse(path.read_text())
    assert list(walk(module)) == list(module.walk())
    for op in module.walk():
        for region in op.regions:
            assert list(walk(region)) == list(region.walk())
            for block in region.blocks:
                assert list(walk(block)) == list(block.walk())


NESTED = """func.func @f(%c: i1, %n: index) {
  %z = arith.constant 0 : index
  %o = arith.constant 1 : index
  scf.for %i = %z to %n step %o {
    scf.if %c {
      %a = arith.addi %i, %o : index
    }
    %d = arith.addi %i, %i : index
    %b = arith.muli %i, %o : index
  }
  return
}"""


def names(steps: object) -> list[str]:
    """The operations that a walk meets when each branch is erased, and each product is moved to the front."""
    found = []
    for op in steps:  # type: ignore[attr-defined]
        found.append(op.name)
        if op.name == "scf.if":
            op.detach()
            op.erase()
        elif op.name == "arith.muli":
            first = op.parent.first_op
            op.detach()
            first.parent.insert_op_before(op, first)
    return found


def test_what_changes_meanwhile() -> None:
    """An operation may be erased or moved when it is met: what follows is found before, what is inside after."""
    one, two = ir.parse(NESTED), ir.parse(NESTED)
    assert names(walk(one)) == names(Operation.walk(two))
    assert ir.print_module(one) == ir.print_module(two)
