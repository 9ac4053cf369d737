"""The map of docs/architecture.md: folders, and what passes from one to the next → docs/images/map.svg.

python docs/site/map.py
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

TARGET = Path(__file__).resolve().parents[1] / "images" / "map.svg"
WIDTH, BOX, GAP = 600, 50, 22
"""Width of the picture, height of a box, and height of the arrow between two boxes, in pixels."""


class Folders(NamedTuple):
    """A box: the folders that do a step, and the result that they pass on."""

    kind: str
    left: int
    width: int
    row: int
    folders: Sequence[str]
    result: str


COMPILER, RUNTIME = "pydispatch/compiler", "pydispatch/runtime"
BOXES = (
    Folders("main", 0, 600, 0, ("pydispatch/frontends", "pydispatch/ir"), "a module of tensor operations"),
    Folders("main", 0, 600, 1, (f"{COMPILER}/match",), "the module, with kernels of the user in place of what matched"),
    Folders("main", 0, 600, 2, (f"{COMPILER}/normalize", f"{COMPILER}/flatten"), "few kinds of operations, one body"),
    Folders("main", 0, 600, 3, (f"{COMPILER}/constants", f"{COMPILER}/fusion", f"{COMPILER}/outline"),
            "dispatch functions, and a host function that dispatches them"),
    Folders("main", 0, 390, 4, (f"{COMPILER}/kernels",), "kernel IR: loops over buffers, for one target"),
    Folders("main", 0, 390, 5, (f"{COMPILER}/kernel_ir", f"{COMPILER}/emit"), "LLVM IR, SPIR-V or WGSL"),
    Folders("main", 0, 390, 6, (f"{COMPILER}/backends", f"{COMPILER}/toolchain", "pydispatch/link"),
            "ELF, PTX, cubin, SPIR-V or WGSL"),
    Folders("main", 410, 190, 4, (f"{COMPILER}/host",), "the host program"),
    Folders("file", 0, 600, 7, ("pydispatch/formats",), "the artifact: one .pdx file"),
    Folders("run", 0, 600, 8, (f"{RUNTIME}/program",), "a loaded program: one variant for this machine, linked"),
    Folders("run", 0, 290, 9, ("_core", "csrc/program"), "a plan for the sizes of a call"),
    Folders("run", 0, 290, 10, ("csrc/sched",), "workgroups on all cores"),
    Folders("run", 310, 290, 9, (f"{RUNTIME}/accelerators",), "the plan as data"),
    Folders("run", 310, 290, 10, (f"{RUNTIME}/devices",), "command buffers of a GPU driver"),
)  # fmt: skip
ARROWS = ((300, 0, 1), (300, 1, 2), (300, 2, 3), (195, 3, 4), (505, 3, 4), (195, 4, 5), (195, 5, 6), (195, 6, 7),
          (505, 4, 7), (300, 7, 8), (145, 8, 9), (455, 8, 9), (145, 9, 10), (455, 9, 10))  # fmt: skip
"""Arrows down: x, from row, to row."""
STYLE = """text{font-family:system-ui,sans-serif;fill:#222;text-anchor:middle}
.t{font-size:15px;font-weight:600}.s{font-size:14px}
rect{fill:#eef1f5;stroke:#b9c0c8}.main{fill:#dbe7f7;stroke:#3f6fb5}.file{fill:#fff4d6;stroke:#c9a227}
path{stroke:#889;stroke-width:1.5;fill:none;marker-end:url(#p)}@media(prefers-color-scheme:dark){text{fill:#e6e6e6}
rect{fill:#2b3036;stroke:#5a636c}.main{fill:#1f344f;stroke:#6d9fe0}.file{fill:#4a3f1c}}"""
MARKER = (
    '<defs><marker id="p" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path style="marker:none;stroke:none;fill:#889" d="M0 0L8 4L0 8z"/></marker></defs>'
)


def top(row: int) -> int:
    return 1 + row * (BOX + GAP)


def shown(folder: str) -> str:
    """Return the name of a folder as the map shows it: without the packages that hold most folders."""
    return folder.removeprefix(f"{COMPILER}/").removeprefix("pydispatch/") + "/"


def picture() -> str:
    """Return the SVG."""
    parts = []
    for box in BOXES:
        y, middle = top(box.row), box.left + box.width // 2
        name = ", ".join(map(shown, box.folders))
        parts += [
            f'<rect class="{box.kind}" x="{box.left + 1}" y="{y}" width="{box.width - 2}" height="{BOX}" rx="6"/>',
            f'<text class="t" x="{middle}" y="{y + 21}">{escape(name)}</text>',
            f'<text class="s" x="{middle}" y="{y + 40}">{escape(box.result)}</text>',
        ]
    parts += [f'<path d="M{x} {top(first) + BOX + 2}V{top(last) - 2}"/>' for x, first, last in ARROWS]
    height = top(BOXES[-1].row) + BOX + 1
    label = "Folders of pydispatch, and what each passes on, from a program to its run"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
    body = "\n".join(parts)
    return f'{head} role="img" aria-label="{label}">\n<style>{STYLE}</style>\n{MARKER}\n{body}\n</svg>\n'


if __name__ == "__main__":
    TARGET.write_text(picture())
