"""Whole programs: they parse, print, and parse again to the same program; each operation knows its place."""

from pathlib import Path

import pytest

from pydispatch import ir
from pydispatch.ir.core.locations import location_of, set_location

DATA = Path(__file__).parent / "data"
PROGRAMS = sorted(p.name for p in DATA.glob("*.mlir"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_print_then_parse_gives_the_same_program(name: str) -> None:
    module = ir.parse((DATA / name).read_text(), name)
    text = ir.print_module(module)
    again = ir.parse(text)
    assert module.is_structurally_equivalent(again)
    assert ir.print_module(again) == text


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_operation_stands_where_its_name_is(name: str) -> None:
    lines = (DATA / name).read_text().splitlines()
    module = ir.parse((DATA / name).read_text(), name)
    seen = 0
    for op in module.walk():
        place = location_of(op)
        # A module or terminator that the text leaves out has no place of its own.
        if place is None or op.location is not getattr(op, "location", None):
            continue
        assert place.file == name
        assert place.text == lines[place.line - 1]
        rest = place.text[place.column - 1 :]
        if rest.startswith((op.name, op.name.split(".", 1)[-1])):
            seen += 1
    assert seen >= 20


def test_location_climbs_and_is_copied() -> None:
    module = ir.parse("func.func @f(%a: index) {\n  %0 = arith.addi %a, %a : index\n  return\n}\n", "x.mlir")
    func, add = list(module.walk())[1], list(module.walk())[2]
    assert str(location_of(add)) == "x.mlir:2:8"
    assert str(location_of(add.results[0])) == "x.mlir:2:8"
    assert str(location_of(add.operands[0])) == "x.mlir:1:1"
    fresh = add.clone()
    from xdsl.dialects.builtin import UnknownLoc

    fresh.location = UnknownLoc()
    assert location_of(fresh) is None
    set_location(fresh, add)
    assert str(location_of(fresh)) == "x.mlir:2:8"
    assert location_of(func).caret() == "  func.func @f(%a: index) {\n  ^^^^^^^^^"


def test_import_is_light() -> None:
    import subprocess
    import sys

    code = "import sys, pydispatch.ir; print('xdsl' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"
