"""The picture of speed in the README: a few rows of the committed figures of one machine → docs/images/speed.svg."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape

from report.figures import CONSTANT, OURS, ROOT, Figures, text

TARGET = ROOT / "docs" / "images" / "speed.svg"
"""The picture that is written."""
MACHINE = "AMD EPYC Zen 4"
"""Name of the machine whose figures are drawn."""
GROUPS = (
    ("Call of three small kernels", "calls", "", 1, {OURS: OURS, "np.add of the same arrays": "NumPy, one np.add",
                                                     "iree local-sync": "IREE"}),
    ("GPT-2, one token, two threads", "models", "gpt2_decode", 2, {CONSTANT: OURS, "jax": "JAX", "iree": "IREE",
                                                                   "onnxruntime": "onnxruntime"}),
    ("ResNet-50 from ONNX, two threads", "networks", "ResNet-50", 2, {OURS: OURS, "onnxruntime": "onnxruntime"}),
)  # fmt: skip
"""Title, benchmark, size, workers, and the contenders with their labels; sizes as in `Row`."""
WIDTH, BAR, LABEL = 720, 20, 170
"""Widths of the picture and of the labels to the left of bars, and the height of a bar's line, in units of the SVG."""
STYLE = """text{font:13px system-ui,sans-serif;fill:#333}.title{font-weight:600}.ours{fill:#3f6fb5}.peer{fill:#b9c0c8}
@media(prefers-color-scheme:dark){text{fill:#ddd}.peer{fill:#666f78}}"""


def lines(figures: Mapping[str, Figures]) -> Iterator[tuple[str, str, float]]:
    """Yield (title of a group, "", 0) and then (label, text of the value, share of the longest bar) of its bars."""
    for title, benchmark, size, workers, contenders in GROUPS:
        rows = [
            row
            for row in figures[benchmark].rows
            if row.name == "a call" and row.size == size and row.workers == workers and row.contender in contenders
        ]
        longest = max(row.value for row in rows)
        yield title, "", 0.0
        for row in sorted(rows, key=lambda row: [*contenders].index(row.contender)):
            yield contenders[row.contender], text(row.value, row.unit), row.value / longest


def picture(figures: Mapping[str, Mapping[str, Figures]]) -> str:
    """Return the SVG. figures: by benchmark, then by machine; those of `MACHINE` are drawn."""
    parts, top = [], 4
    of_machine = {benchmark: machines[MACHINE] for benchmark, machines in figures.items() if MACHINE in machines}
    for label, value, share in lines(of_machine):
        if not value:  # the title of a group
            top += 14
            parts.append(f'<text class="title" x="0" y="{top + 13}">{escape(label)}</text>')
        else:
            width = max(2.0, share * (WIDTH - LABEL - 90))  # 90: for the value to the right of the bar
            kind = "ours" if label == OURS else "peer"
            parts.append(f'<text x="{LABEL - 8}" y="{top + 14}" text-anchor="end">{escape(label)}</text>')
            parts.append(f'<rect class="{kind}" x="{LABEL}" y="{top + 2}" width="{width:.1f}" height="{BAR - 5}"/>')
            parts.append(f'<text x="{LABEL + width + 6:.1f}" y="{top + 14}">{escape(value)}</text>')
        top += BAR
    name = f"Time per call on two cores of an {MACHINE}, shorter is better"
    parts.append(f'<text x="0" y="{top + 22}">{name}. f32, one process.</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top + 30}" role="img" aria-label="{name}">'
    return f"{head}<style>{STYLE}</style>{''.join(parts)}</svg>\n"
