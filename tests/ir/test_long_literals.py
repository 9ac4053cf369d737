"""Long hexadecimal literals are decoded while a text is read: the program, its errors and its texts stay the same."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pydispatch import files, ir
from pydispatch.errors import CompileError
from pydispatch.ir.core import long_literals
from pydispatch.ir.core.long_literals import ElidedText, read_program, read_small_program

COUNT = 3000
WEIGHTS = np.random.default_rng(3).standard_normal(COUNT).astype(np.float32)
DIGITS = WEIGHTS.tobytes().hex()
TYPE = f"tensor<{COUNT}xf32>"


def program(literal: str, after: str = "") -> str:
    return f"func.func @f() {{\n  // ünïcode\n  %0 = arith.constant dense<{literal}> : {TYPE} {after}\n  return\n}}\n"


def constants(module: Any) -> list[np.ndarray[Any, Any]]:
    """Return the elements of the constants of a module."""
    values = [op.properties["value"] for op in module.walk() if op.name == "arith.constant"]
    return [np.frombuffer(value.data.data, np.float32) for value in values]


def test_files_and_texts(tmp_path: Path) -> None:
    mixed = "".join(c.upper() if i % 3 else c for i, c in enumerate(DIGITS))
    for digits in (DIGITS, DIGITS.upper(), mixed):
        text = program(f'"0x{digits}"')
        (tmp_path / "f.mlir").write_bytes(text.replace("\n", "\r\n").encode())
        read = read_program(tmp_path / "f.mlir")
        assert isinstance(read, ElidedText) and len(read) < 200 and "\r" not in read
        assert [*read.blobs.values()] == [WEIGHTS.tobytes()]
        for source in (read, text):
            np.testing.assert_array_equal(constants(ir.parse(source)), [WEIGHTS])


def test_resources() -> None:
    text = (
        f"func.func @f() {{\n  %0 = arith.constant dense_resource<w> : {TYPE}\n  return\n}}\n"
        f'{{-#\n  dialect_resources: {{\n    builtin: {{\n      w: "0x04000000{DIGITS}"\n    }}\n  }}\n#-}}\n'
    )
    assert len(long_literals.elide_literals(text)) < 200
    np.testing.assert_array_equal(constants(ir.parse(text)), [WEIGHTS])


@pytest.mark.parametrize("first_line", ["", "// {-#\n"])
@pytest.mark.parametrize("comment", ["", " // dense<", "// weights:", '// dense<"0x00'])
def test_comments_before_a_literal(comment: str, first_line: str, tmp_path: Path) -> None:
    """Also comments whose ends precede a literal in other lines."""
    text = first_line + program(f'{comment}\n"0x{DIGITS}"')
    (tmp_path / "f.mlir").write_text(text, "utf-8")
    for source in (text, read_program(tmp_path / "f.mlir")):
        np.testing.assert_array_equal(constants(ir.parse(source)), [WEIGHTS])


TEXTS = {
    "two": 'dense<"0x00112233445566778899">, dense< "0xffeeddccbbaa99887766554433">',
    "short": 'dense<"0x0011223344">, dense<"0x00112233445566778899">',
    "resource": '{-# é: "0x0400000000112233445566778899", "é": "0x04000000445566778899aabbccddeeff"',
    "string after a colon": 'a: "0x0400000000112233445566778899" {-# dense<"0x00112233445566778899">',
    "strings of a resource": '{-# a: "0x12", "0x00112233445566778899"',
    "after a comment": 'dense<// a:\n"0x00112233445566778899">, dense< // dense<\n"0x00112233445566778899">',
    "other strings": 'a = "0x00112233445566778899", #b<"0x00112233445566778899">',
    "odd": 'dense<"0x0011223344556677889">, dense<"0x00112233445566778899">',
    "not hexadecimal": 'dense<"0x00112233445566778899g">, dense<"0x00112233445566778899">',
    "not closed": 'dense<"0x00112233445566778899',
    "at the end": 'dense<"0x00112233445566778899"',
    "opened only": 'dense<"0x',
}
LONG = {"two": 2, "short": 1, "resource": 2, "string after a colon": 1, "strings of a resource": 0,
        "after a comment": 0, "other strings": 0, "odd": 1, "not hexadecimal": 1, "not closed": 0, "at the end": 1,
        "opened only": 0}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_pieces_of_any_size(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text with its digits is the text of the file, wherever it is cut while it is read."""
    monkeypatch.setattr(long_literals, "LEAST_DIGITS", 16)
    (tmp_path / "f.mlir").write_text(TEXTS[name])
    for size in range(1, len(TEXTS[name]) + 2):
        monkeypatch.setattr(files, "_PIECE_BYTES", size)
        monkeypatch.setattr(long_literals, "_PIECE_CHARACTERS", size)
        for read in (read_program(tmp_path / "f.mlir"), long_literals.elide_literals(TEXTS[name])):
            blobs = read.blobs if isinstance(read, ElidedText) else {}
            assert len(blobs) == LONG[name]
            whole = str(read)
            for at in reversed(blobs):
                assert whole[at] == '"'
                whole = whole[:at] + blobs[at].hex() + whole[at:]
            assert whole == TEXTS[name]


@pytest.mark.parametrize(
    ("literal", "message"),
    [
        (f'"0x{DIGITS}0"', "pairs of hexadecimal digits"),
        (f'"0x{DIGITS[:-1]}g"', "pairs of hexadecimal digits"),
        (f'"0x{DIGITS}', "not closed|expected"),
        (f'"0x{DIGITS}00"', f"{4 * COUNT + 1} bytes are given"),
    ],
)
def test_wrong_literals(literal: str, message: str) -> None:
    with pytest.raises(CompileError, match=message) as caught:
        ir.parse(program(literal), "f.mlir")
    assert caught.value.location.line == 3


@pytest.mark.parametrize("before", ["", "ab"])
def test_columns_count_the_digits(before: str) -> None:
    text = program(f'"0x{DIGITS}"', f"{before} wrong")
    with pytest.raises(CompileError) as caught:
        ir.parse(text, "f.mlir")
    location = caught.value.location
    line = text.splitlines()[2]
    assert (location.line, location.column) == (3, line.rindex(before or "wrong") + 1)
    assert location.text == ""  # of a line with the bytes of a constant


def test_errors_before_a_literal_show_the_line() -> None:
    text = program(f'"0x{DIGITS}"').replace("arith.constant", "arith.konstant")
    with pytest.raises(CompileError, match=r"arith\.konstant") as caught:
        ir.parse(text, "f.mlir")
    location = caught.value.location
    assert (location.line, location.column) == (3, 8) and location.text == '  %0 = arith.konstant dense<"0x'


def test_unknown_attributes_keep_their_text() -> None:
    for attribute in (f'#pyd_test.a<dense<"0x{DIGITS.upper()}">>', f'"dense<\\"0x{DIGITS}\\">"'):
        text = f'func.func @f() attributes {{a = {attribute}, b = "0x{DIGITS}"}} {{\n  return\n}}\n'
        printed = ir.print_module(ir.parse(text))
        assert re.search(DIGITS, printed, re.IGNORECASE) and f'"0x{DIGITS}"' in printed
        assert ir.print_module(ir.parse(printed)) == printed


def test_programs_that_are_too_large_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "f.mlir"
    path.write_text(program(f'"0x{DIGITS}"'))
    assert read_small_program(path, 200) == read_program(path)
    assert read_small_program(path, 50) is None
    path.write_bytes(b"\x08\x07 model")
    assert read_small_program(path, 50) is None
    assert read_small_program(tmp_path, 100) is None
