"""Chapter of docs/models.md that lists every operator of the frontends; `make lists` writes it."""

from __future__ import annotations

from collections.abc import Iterable

from pydispatch import extensions
from pydispatch.frontends.source import Frontend

HEADING = "## Every operator"
"""First line of the chapter, a heading in Markdown."""


def chapter() -> str:
    """Return the chapter of docs/models.md on supported operators as Markdown, a list for each heading of
    `Frontend.operators`.

    Frontends of other packages are not listed.
    """
    parts = [HEADING, "", "Generated from the frontends' tables."]
    for part in extensions.parts("frontend"):
        frontend: Frontend = part.load()
        for heading, names in frontend.operators().items() if part.owner == "pydispatch" else ():
            parts += ["", f"{heading}:", *_by_group(names)]
    return "\n".join(parts) + "\n"


def _by_group(names: Iterable[str]) -> list[str]:
    """Return a Markdown list item for each group of names, which have the same word before the first dot.

    The names of a group are listed without that word. Names without a dot are one group, which has no label.
    """
    groups: dict[str, list[str]] = {}
    for name in sorted(names):
        group, dot, member = name.partition(".")
        groups.setdefault(group if dot else "", []).append(member or name)
    return [f"- {f'`{group}`: ' if group else ''}{' '.join(f'`{name}`' for name in members)}"
            for group, members in groups.items()]  # fmt: skip
