"""The page and the tables of documents are what the committed figures make; rows and comparisons keep their meaning."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "bench"))

from report import documents, headline, overview, reasons, tables  # noqa: E402
from report.catalog import CATALOG  # noqa: E402
from report.figures import FOLDER, Figures, Row, comparisons, load  # noqa: E402
from report.page import page, runs_of  # noqa: E402
from report.reasons import Reason  # noqa: E402
from report.spreads import Spread, spreads  # noqa: E402

VOID = {"meta", "link", "br", "img", "hr"}


class Reader(HTMLParser):
    """Checks that tags close in order, and collects ids and addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.open = list[str]()
        self.ids, self.addresses = set[str](), list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.ids.add(values.get("id") or "")
        self.addresses += [values[key] or "" for key in ("href", "src") if key in values]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}>"


def test_the_page_has_every_file_and_needs_nothing_else() -> None:
    figures = load()
    text = page(figures, runs_of())
    reader = Reader()
    reader.feed(text)
    assert reader.open == [] and set(figures) <= reader.ids
    assert all(each.startswith("#") for each in reader.addresses)
    assert not re.search(r"<(script|link|img)|@import|url\(", text)
    assert (FOLDER.parent / "index.html").read_text() == text, "run `make bench-page`"


@pytest.mark.parametrize("name", documents.DOCUMENTS)
def test_tables_of_documents_are_those_of_the_figures(name: str) -> None:
    text = (ROOT / name).read_text()
    assert documents.filled(text, load()) == text, "run `make bench-page`"
    marks = re.findall(r"<!-- figures: (.*?) -->", text)
    assert marks and len(marks) == text.count("<!-- end -->") == len(set(marks))


def test_tables_are_of_benchmarks() -> None:
    assert (
        {file for block in documents.TABLES.values() for file in block.files}
        <= {each.name for each in CATALOG}
        >= set(load())
    )


ROWS = [Row("a call", "pydispatch", 2e-6, size="8"), Row("a call", "iree", 1e-6, size="8"),
        Row("a call", "numpy", 4e-6, size="8"), Row("a call", "roof", 1e-7, size="8"),
        Row("rows", "pydispatch", 30.0, "/s"), Row("rows", "iree", 10.0, "/s")]  # fmt: skip


def test_advantages() -> None:
    """Of times and of rates; what is no peer is not compared."""
    found = {(each.row.name, each.row.contender): (each.advantage, each.is_loss) for each in comparisons(ROWS)}
    assert found == {("a call", "iree"): (0.5, True), ("a call", "numpy"): (2.0, False), ("rows", "iree"): (3.0, False)}


def test_files_and_machines_side_by_side(tmp_path: Path) -> None:
    """What is saved is read again; each machine has columns of its own, and losses their mark."""
    for machine in ("one", "two"):
        Figures("Calls", "Medians.", ROWS[:3]).save(tmp_path / machine / "contract.json")
    figures = load(tmp_path)
    assert figures["contract"]["two"].rows == ROWS[:3]
    text = documents.filled("<!-- figures: contract -->\nold\n<!-- end -->\n", figures)
    assert text.splitlines()[2:5] == [
        "|  | one: µs | iree | numpy | two: µs | iree | numpy |", "| --- | --- | --- | --- | --- | --- | --- |",
        "| 8 | 2 | 0.50 ▼ | 2.00 | 2 | 0.50 ▼ | 2.00 |",
    ]  # fmt: skip
    assert "old" in documents.filled("<!-- figures: sched -->\nold\n<!-- end -->\n", figures)


def test_a_table_that_is_too_wide_is_divided_by_machines(tmp_path: Path) -> None:
    """What fits side by side stays one table; a machine without figures has no table."""
    for machine in ("one", "two", "three", "four"):
        Figures("Calls", "Medians.", ROWS[:3]).save(tmp_path / machine / "contract.json")
    block = documents.TABLES["contract"]
    figures = load(tmp_path)
    parts = block.tables(figures)
    assert [part.heads for part in parts] == [[name, "µs", "iree", "numpy"] for name in sorted(figures["contract"])]
    text = documents.filled("<!-- figures: contract -->\nold\n<!-- end -->\n", figures)
    assert text.count("| 8 | 2 | 0.50 ▼ | 2.00 |\n\n") == 4, "an empty line follows each table"
    narrow = dict(list(figures["contract"].items())[:3])
    assert [len(part.heads) for part in block.tables({"contract": narrow})] == [documents.WIDEST]
    assert block.tables({}) == []


def test_losses_have_their_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reason stands beside the losses of its machine, sizes and peers, in place of those that are known less well."""
    few_rows = Reason("one", ("8*",), "few rows", peers=("iree",))
    monkeypatch.setattr(reasons, "REASONS", (few_rows, Reason("one", ("*",), "memory")))
    slow = Figures("Calls", "Medians.", [Row("a call", "pydispatch", 2e-6, size=size) for size in ("8", "9")])
    slow.rows += [Row("a call", peer, 1e-6, size=size) for size in ("8", "9") for peer in ("iree", "roof")]
    lines = tables.losses({"one": slow, "two": slow}).rows
    assert [[str(cell) for cell in (line[0], *line[-2:])] for line in lines] == [
        ["one: 8", "50 %", "few rows"], ["one: 9", "50 %", "memory"], ["two: 8", "50 %", ""], ["two: 9", "50 %", ""],
    ]  # fmt: skip


def test_contenders_of_ours_have_roofs_of_their_own() -> None:
    """A roof is for the contender that it is against, or for those without one; it is no column of a table."""
    bytewise = "pydispatch, bytes"
    figures = Figures("Calls", "Medians.", [
        Row("a call", "pydispatch", 4e-6, size="8"), Row("a call", bytewise, 2e-6, size="8"),
        Row("a call", "iree", 2e-6, size="8"), Row("a call", "iree, bytes", 1e-6, size="8", against=bytewise),
        Row("a call", "roof", 3e-6, size="8"), Row("a call", "roof", 5e-7, size="8", against=bytewise),
    ])  # fmt: skip
    table = tables.losses({"one": figures})
    share = table.heads.index("of the roof")
    assert [str(line[share]) for line in table.rows] == ["75 %", "25 %"]
    assert not any("roof" in head for head in tables.grid({"one": figures}).heads)


def test_each_reason_explains_a_loss() -> None:
    figures = load()
    for known in reasons.REASONS:
        lost = (
            each.row
            for machines in figures.values()
            for machine, measured in machines.items()
            if machine == known.machine
            for each in comparisons(measured.rows)
            if each.is_loss
        )
        assert any(known.explains(known.machine, row) for row in lost), f"{known.text!r} is not needed any more"


@pytest.mark.parametrize("drawing", [headline, overview])
def test_pictures_of_documents_have_the_committed_figures(drawing: ModuleType) -> None:
    assert drawing.TARGET.read_text() == drawing.picture(load()), "run `make bench-page`"


def test_spreads_are_medians_and_tenths_of_calls() -> None:
    """Of eleven advantages 0.5 to 5.5: the tenths leave out one on each side; compile times do not count."""
    rows = [Row("a call", "pydispatch", 1.0, size=str(n)) for n in range(1, 12)]
    rows += [Row("a call", "iree", n / 2, size=str(n)) for n in range(1, 12)]
    rows += [Row("compile", contender, 1.0, size="1") for contender in ("pydispatch", "iree")]
    ((title, peer, known),) = spreads({"kernels": {"one": Figures("Kernels", "Medians.", rows)}})
    assert (title, peer, known) == ("Single kernels", "iree", {"one": Spread(1.0, 3.0, 5.0, count=11, lost=1)})
