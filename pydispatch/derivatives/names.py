"""List of the operations that have derivatives, in docs/derivatives.md; `make lists` writes it."""

from __future__ import annotations

from pydispatch.derivatives.rules.elements import ELEMENT_RULES
from pydispatch.derivatives.rules.table import RULES


def listed() -> str:
    """Return a Markdown list of the operations on tensors and of the functions of numbers that have derivatives."""
    shown = [
        ", ".join(f"`{name}`" for name in sorted(rules) if not name.startswith("builtin."))
        for rules in (RULES, ELEMENT_RULES)
    ]
    return f"- Operations: {shown[0]}.\n- Functions of numbers: {shown[1]}.\n"
