"""Scalar code of the host in integers of any width, against the same references as tensors."""

from __future__ import annotations

import pytest
from harness import examples
from hypothesis import given
from hypothesis import strategies as st
from references import PREDICATES, UNARY, binary, full, signed
from test_math_properties import program

DIVISIONS = ("divsi", "divui", "remsi", "remui", "floordivsi", "ceildivsi", "ceildivui")


def scalar(name: str, expression: str, operands: str, type_: str, result: str) -> str:
    """Operands and the result are i64 outside."""
    arguments = ", ".join(f"%{o}64: i64" for o in operands)
    cuts = "\n".join(f"  %{o} = arith.trunci %{o}64 : i64 to {type_}" for o in operands)
    return f"""func.func @{name}({arguments}) -> i64 {{
{cuts}
  %r = {expression}
  %r64 = arith.extsi %r : {result} to i64
  return %r64 : i64
}}
"""


@pytest.mark.parametrize("bits", [2, 3, 4, 7, 12, 24, 33, 48])
def test_integers_of_any_width(bits: int) -> None:
    type_ = f"i{bits}"
    operations = binary(type_)
    texts = [
        scalar(op.replace(".", "_"), f"{full(op)} %a, %b : {type_}", "ab", type_, type_) for op in operations
    ]  # fmt: skip
    texts += [scalar(op.replace(".", "_"), f"{op} %a : {type_}", "a", type_, type_) for op in UNARY]
    texts += [scalar(f"cmp_{p}", f"arith.cmpi {p}, %a, %b : {type_}", "ab", type_, "i1") for p in PREDICATES]
    loaded = program(tuple(texts))
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    number = st.one_of(st.integers(low, high), st.sampled_from([low, low + 1, -1, 0, 1, high - 1, high]))

    @examples(5)
    @given(number, number)
    def check(x: int, y: int) -> None:
        for op, reference in operations.items():
            if op in DIVISIONS and (y == 0 or (y == -1 and x == low)):
                continue  # a division that has no result refuses the call
            got = int(loaded[op.replace(".", "_")](x, y))
            assert signed(got, bits) == signed(reference(x, y, bits), bits), (op, x, y)
        for op, one in UNARY.items():
            assert signed(int(loaded[op.replace(".", "_")](x)), bits) == signed(one(x, bits), bits), (op, x)
        for predicate, truth in PREDICATES.items():
            assert bool(loaded[f"cmp_{predicate}"](x, y)) == bool(truth(x, y, bits)), (predicate, x, y)

    check()
