"""Tables and texts in notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]], figures: int = 0) -> str:
    """Return rows of plain text as an HTML table.

    head: titles of the columns. figures: the number of leading columns that are aligned to the right.
    """

    def line(row: Sequence[str], cell: str) -> str:
        """Return a row as HTML. cell: the name of its tags, "th" or "td"."""
        sides = ["right"] * figures + ["left"] * (len(row) - figures)
        cells = (f'<{cell} style="text-align: {side}">{_escaped(text)}</{cell}>'
                 for side, text in zip(sides, row, strict=True))  # fmt: skip
        return f"<tr>{''.join(cells)}</tr>"

    body = "".join(line(row, "td") for row in rows)
    return f"<table><thead>{line(head, 'th')}</thead><tbody>{body}</tbody></table>"


def paragraph(text: str) -> str:
    """Return plain text as an HTML paragraph."""
    return f"<p>{_escaped(text)}</p>"


def columns(texts: Iterable[tuple[str, str]]) -> str:
    """Return (title, text) pairs of plain text as HTML: columns side by side, their texts in a fixed-width font."""
    cells = "".join(
        f'<div style="flex: 1 1 20em; min-width: 0"><b>{_escaped(title)}</b><pre style="overflow: auto; '
        f'max-height: 30em; line-height: 1.25">{_escaped(text)}</pre></div>'
        for title, text in texts
    )
    return f'<div style="display: flex; flex-wrap: wrap; gap: 1em">{cells}</div>'


def _escaped(text: str) -> str:
    """Return plain text as HTML."""
    from html import escape  # imports a table of 2,231 characters, which programs that show no table do not need

    return escape(text)
