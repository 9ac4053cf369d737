"""docs/onnx.md lists the operators that there are."""

from __future__ import annotations

from pathlib import Path

from pydispatch.frontends.onnx.operators import OPERATORS, SUBJECTS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "onnx.md"


def test_the_page_lists_every_operator() -> None:
    rows = {subject: sorted(table) for subject, table in SUBJECTS.items()}
    rows["com.microsoft"] = sorted(OPERATORS["com.microsoft"])
    table = [f"| {subject} | {', '.join(names)} |" for subject, names in rows.items()]
    assert PAGE.read_text().split("| subject | operators |\n|---|---|\n")[1].splitlines() == table


def test_no_operator_has_two_conversions() -> None:
    names = [name for table in SUBJECTS.values() for name in table]
    assert len(names) == len(set(names))
