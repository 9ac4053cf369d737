"""Lists in documents have what the tables have that they are read from."""

from __future__ import annotations

import pytest
from documents import ROOT
from lists import LISTS, updated


@pytest.mark.parametrize("name", LISTS)
def test_a_list_is_that_of_its_table(name: str) -> None:
    text = (ROOT / name).read_text()
    is_current = updated(text, LISTS[name]()) == text
    assert is_current, f"{name} lacks a new name, or has one that is gone; `make lists` writes it"


def test_what_is_replaced() -> None:
    assert updated("text\n## Names\n- `old`\n", "## Names\n- `new`\n") == "text\n## Names\n- `new`\n"
    document = "- Functions: `a`.\n- Methods: `b`.\n\ntext\n"
    assert updated(document, "- Functions: `a`, `c`.\n- Methods: `b`.\n") == document.replace("`a`", "`a`, `c`")
    with pytest.raises(AssertionError, match="'- Names: ' begins 0 lines"):
        updated(document, "- Names: `a`.\n")
