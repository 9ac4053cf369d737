"""The text of a host program: whatever the bytes are, it is text or an ArtifactError."""

from __future__ import annotations

import struct

import pytest

from pydispatch.errors import ArtifactError
from pydispatch.formats.program.program import (
    NONE,
    BindingRange,
    FunctionArgument,
    Numerical,
    Opcode,
    Program,
    Result,
    disassemble,
    dtype_word,
)


def program() -> bytes:
    made = Program()
    f = made.add_function("f", "(tensor<?xf32>) -> tensor<?xf32>")
    f.add_argument(FunctionArgument(dtype_word(Numerical.FLOAT, 32), (-1,), "x"))
    n = f.emit(Opcode.DIM, 0, 0)
    f.check_equal(n, f.constant(8), "{a} is not {b}")
    size = f.multiply([n, f.constant(4)])
    out = f.add_result_buffer(0, size)
    f.dispatch(f.constant(0), [n, n, n], [n], [BindingRange(0), BindingRange(out)])
    f.copy(0, NONE, out, NONE, size)
    f.results.append(Result(dtype_word(Numerical.FLOAT, 32), (n,), out))
    return made.encode()


def test_text() -> None:
    text = disassemble(program())
    assert "argument 0 x: ?xf32" in text
    assert "result 0: [r0]xf32 in buffer 1" in text
    assert "(r0) over (buffer 0, buffer 1)" in text


def test_operands() -> None:
    """Registers are named as such, other operands are not."""
    made = Program()
    f = made.add_function("f")
    f.add_argument(FunctionArgument(dtype_word(Numerical.FLOAT, 32), None))
    x = f.emit(Opcode.SCALAR, 0)
    f.emit(Opcode.FMATH, x, 10, modifier=32)
    f.emit(Opcode.FCVT, x, 32, modifier=64)
    f.emit(Opcode.FNEG, x, modifier=32)
    f.emit(Opcode.FMA, x, x, x, modifier=32)
    text = disassemble(made.encode())
    for line in ("r1 = fmath.32 r0, asin", "r2 = fcvt.64 r0, from 32", "r3 = fneg.32 r0", "r4 = fma.32 r0, r0, r0"):
        assert f"  {line}\n" in text


@pytest.mark.parametrize("value", [0, 7, 1000, 0x7FFFFFFF, 0xFFFFFFFF])
def test_every_word_may_be_anything(value: int) -> None:
    data = program()
    refused = 0
    for at in range(0, len(data), 4):
        try:
            disassemble(data[:at] + struct.pack("<I", value) + data[at + 4 :])
        except ArtifactError:
            refused += 1
    assert refused >= 2  # magic and version at least
