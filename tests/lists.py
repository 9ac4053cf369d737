"""Lists in documents that are read from tables: of operators, operations and functions.

python tests/lists.py    writes those that are not up to date
"""

from __future__ import annotations

import re
from collections.abc import Callable

from documents import ROOT

from pydispatch.compiler.driver import operations
from pydispatch.derivatives import names as derivatives
from pydispatch.frontends import operators
from pydispatch.programs import names as functions

LISTS: dict[str, Callable[[], str]] = {
    "docs/models.md": operators.chapter,
    "docs/language.md": operations.chapter,
    "docs/python-programs.md": functions.listed,
    "docs/derivatives.md": derivatives.listed,
}
"""Path of a document -> the function that returns its list: its last chapter, or items of a list with labels."""


def updated(text: str, listed: str) -> str:
    """Return a document with a new list: a chapter from its heading on, or each item with a label, "- Label: ..."."""
    heading = listed.partition("\n")[0]
    if heading.startswith("#"):
        return text[: text.index(f"{heading}\n")] + listed
    for item in listed.splitlines():
        label = item.partition(": ")[0]
        old = re.findall(rf"^{re.escape(label)}: .*$", text, re.MULTILINE)
        assert len(old) == 1, f"'{label}: ' begins {len(old)} lines; expected one"
        text = text.replace(old[0], item)
    return text


def main() -> None:
    """Write each document whose list is not up to date, and print its name."""
    for name, listed in LISTS.items():
        text = (ROOT / name).read_text()
        new = updated(text, listed())
        if new != text:
            (ROOT / name).write_text(new)
            print(name)


if __name__ == "__main__":
    main()
