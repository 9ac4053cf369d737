"""The tables of opcodes in Python, in C and in docs/program.md say the same."""

from __future__ import annotations

import re
from pathlib import Path

from pydispatch.formats.program.commands import COMMANDS
from pydispatch.formats.program.opcodes import MATH_FUNCTIONS, Opcode
from pydispatch.formats.program.steps import Step

ROOT = Path(__file__).resolve().parents[2]
OPCODES = (ROOT / "csrc/program/opcodes.h").read_text()
DEVICE = (ROOT / "csrc/include/pydispatch/program_device.h").read_text()
INTERNAL = (ROOT / "csrc/program/internal.h").read_text()
DOCUMENT = (ROOT / "docs/program.md").read_text()

SCALARS = re.findall(r"^  X\((\w+), (\d+), (\w+), \w+, \w+, (\w+)\)", OPCODES, re.M)
KINDS = re.findall(r"^  X\((\w+), (\d+)\)", DEVICE, re.M)


def test_instructions() -> None:
    letters = {"DST": "d", "A": "a", "B": "b", "C": "c"}
    rows = {name: (int(n), "".join(letters[r] for r in regs.split("_"))) for name, n, regs, _ in SCALARS}
    rows |= {name: (int(number), "") for name, number in KINDS}
    assert {op.name: (op.value, op.registers) for op in Opcode} == rows


def test_commands() -> None:
    assert [(op.name, str(op.value)) for op in COMMANDS] == KINDS
    assert all(op.value == Opcode.DISPATCH + i for i, op in enumerate(COMMANDS))  # as the kinds of program_device.h


def test_math_functions() -> None:
    rows = re.findall(r"^  X\((\d+), (\w+), \w+, \w+\)", OPCODES, re.M)
    assert rows == [(str(i), name) for i, name in enumerate(MATH_FUNCTIONS)]


def test_steps() -> None:
    rows = re.findall(r"^  X\((\w+), (\d+)\)", INTERNAL, re.M)
    assert rows == [(step.name, str(step.value)) for step in Step]


def documented(section: str) -> dict[str, int]:
    """The opcodes of a section's table: "5 `VARIANT`" one by one, "48–52" with their names in order."""
    found: dict[str, int] = {}
    for row in re.findall(r"^\| (\d.*)$", DOCUMENT.split(f"\n## {section}\n")[1].split("\n## ")[0], re.M):
        opcodes, _, effect = row.partition(" |")
        found |= {name: int(number) for number, name in re.findall(r"(\d+) `(\w+)`", opcodes)}
        if run := re.match(r"(\d+)–(\d+)", opcodes):
            names = re.findall(r"[A-Z]+", re.findall(r"`([^`]+)`", opcodes + effect)[0])
            assert len(names) == int(run[2]) - int(run[1]) + 1
            found |= {name: int(run[1]) + i for i, name in enumerate(names)}
    return found


def test_document() -> None:
    assert documented("Instructions") == {op.name: op.value for op in Opcode}
    assert documented("Procedures") == {step.name: step.value for step in Step}
