"""The bytecode of dataclasses: the same classes with it and without, and whatever is in the file."""

from __future__ import annotations

import dataclasses
import importlib.util
import marshal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pydispatch import bytecode


@pytest.fixture
def file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Where the code is kept, by a process that starts."""
    path = tmp_path / "made" / "code"
    monkeypatch.setattr(bytecode, "_path", lambda: path)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    starts(monkeypatch)
    yield path
    assert "exec" not in vars(dataclasses)


def starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bytecode, "_in_file", {})
    monkeypatch.setattr(bytecode, "_used", {})
    monkeypatch.setattr(bytecode, "_users", 0)


def point() -> type[Any]:
    @dataclasses.dataclass(frozen=True, order=True)
    class Point:
        x: int
        y: float = 0.5

    return Point


def check(kind: type[Any]) -> None:
    assert repr(kind(1)).endswith("Point(x=1, y=0.5)") and kind(1) == kind(1) and kind(1) < kind(2)
    assert hash(kind(1)) == hash(kind(1)) and dataclasses.replace(kind(1), y=2.0).y == 2.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        kind(1).x = 2


def test_code_is_kept(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later process compiles nothing that this one has met, and what is new."""
    with bytecode.cached(), bytecode.cached():
        check(point())
    check(point())
    first = file.read_bytes()
    compiled: list[str] = []

    def counted(text: str, *rest: Any, **named: Any) -> Any:
        compiled.append(text)
        return compile(text, *rest, **named)

    monkeypatch.setattr(bytecode, "compile", counted, raising=False)
    starts(monkeypatch)
    with bytecode.cached():
        check(point())
    assert not compiled and file.read_bytes() == first
    with bytecode.cached():
        made = dataclasses.make_dataclass("Other", ["unheard"])
    assert made(3).unheard == 3 and compiled and len(file.read_bytes()) > len(first)
    assert [path.name for path in file.parent.iterdir()] == ["code"]


@pytest.mark.parametrize("what", ["empty", "cut", "another Python", "no dictionary", "a folder"])
def test_a_file_that_is_wrong_is_as_none(what: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with bytecode.cached():
        point()
    data = file.read_bytes()
    file.unlink()
    if what == "a folder":
        file.mkdir()
    else:
        magic = importlib.util.MAGIC_NUMBER
        contents = {"empty": b"", "cut": data[:-9], "another Python": b"\0" * len(magic) + data[len(magic) :],
                    "no dictionary": magic + marshal.dumps([1])}  # fmt: skip
        file.write_bytes(contents[what])
    starts(monkeypatch)
    with bytecode.cached():
        check(point())
    assert what == "a folder" or file.read_bytes() == data


def test_nothing_is_written_where_python_writes_no_bytecode(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    with bytecode.cached():
        check(point())
    assert not file.parent.exists()


def test_old_code_goes(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above a number of texts the file has only those that the last process met."""
    monkeypatch.setattr(bytecode, "_MOST_TEXTS", 8)
    sizes = []
    for number in range(4):
        starts(monkeypatch)
        with bytecode.cached():
            dataclasses.make_dataclass("Some", [f"field{number}"])
        sizes.append(len(file.read_bytes()))
    assert max(sizes) < 4 * sizes[0]
