"""Listing of a kernel: each source line, and the code that it became on the chosen targets."""

from __future__ import annotations

import html
import io
import keyword
import linecache
import re
import token
import tokenize
from collections.abc import Mapping, Sequence
from typing import Any

from pydispatch.errors import InvalidArgumentError
from pydispatch.integrations.code_lines import FORMS, Lines
from pydispatch.integrations.generated_code import CPU_PARTS, texts_of
from pydispatch.kernels.kernel import KernelSource

_NOTE = re.compile(r"[^:]*:(\d+):\d+: (.*)")
"""Note of the vectorizer, `file:line:column: text`: the line and the text."""
_COLORS = {token.STRING: "#0a7d33", token.NUMBER: "#1750eb", tokenize.COMMENT: "#8c8c8c"}
"""Colours of the kinds of tokens."""
_KEYWORD_COLOR = "#a626a4"
_CELL = "vertical-align: top; text-align: left; padding: 0 .8em; white-space: pre; font-family: monospace"
"""Style of a cell of the table."""
_SCROLLED = "max-height: 9em; max-width: 40em; overflow: auto"
"""Style of a cell that scrolls because it may be long."""


class Listing:
    """Source lines of a kernel with their code; text in a terminal, a table with highlighted source in a notebook.

    As text, line 12 of a kernel with its code in the form "WGSL" may be:

           12      y[i] = x[i] * 2.0
               WGSL | let v3 = x[v2] * 2.0;
                    | y[v2] = v3;

    Attributes:
        source: Number of a source line → its text, for the lines of the kernel and of the functions that its code
            comes from.
        code: Form of code, such as "assembler" → number of a source line → lines of code that it became.
        notes: Number of a source line → note of the vectorizer: whether the code from this line on is vectorized, with
            one invocation for each lane, or why not.
    """

    def __init__(self, source: Mapping[int, str], code: Mapping[str, Lines], notes: Mapping[int, str]) -> None:
        self.source, self.code, self.notes = source, code, notes

    def __repr__(self) -> str:
        """Return each source line, and below it the note of the vectorizer and the code of each form, such as PTX."""
        number_width = 5
        indent = number_width + len("  ")  # where source lines begin
        width = indent + max(map(len, self.code))  # of the column with the names of forms
        rows = []
        for line, text in self.source.items():
            rows.append(f"{line:{number_width}}  {text}".rstrip())
            if line in self.notes:
                rows.append(f"{'vectors':>{width}} | {self.notes[line]}")  # note of the vectorizer
            for form, lines in self.code.items():
                rows += [
                    f"{form if index == 0 else '':>{width}} | {text}" for index, text in enumerate(lines.get(line, ()))
                ]
        return "\n".join(rows)

    def _repr_html_(self) -> str:
        """Return the listing as an HTML table: line number, source, and a column for each form of code."""
        head = "".join(f'<th style="text-align: left">{html.escape(name)}</th>' for name in ("", "Python", *self.code))
        colored = _colored(self.source)
        rows = []
        for line in self.source:
            note = self.notes.get(line)
            shown = f'<br><i style="color: #b35900">{html.escape(note)}</i>' if note else ""
            cells = [f'<td style="{_CELL}; color: #8c8c8c">{line}</td>',
                     f'<td style="{_CELL}">{colored[line]}{shown}</td>']  # fmt: skip
            for lines in self.code.values():
                text = html.escape("\n".join(lines.get(line, ())))
                cells.append(f'<td style="{_CELL}"><div style="{_SCROLLED}">{text}</div></td>')
            rows.append(f'<tr style="border-top: 1px solid #ddd">{"".join(cells)}</tr>')
        body = f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"
        return f'<table style="border-collapse: collapse">{body}</table>'


def listing(kernel: KernelSource, targets: Sequence[str], **options: Any) -> Listing:
    """Compile a kernel for targets, and return its listing.

    A compilation dumps the code of the target into files. `FORMS` has the forms of code of each target ("assembler" and
    "LLVM IR" of "cpu"), and for each form the end of the file's name and the reader that sorts the code by source line.

    Args:
        kernel: The kernel.
        targets: At least one of the keys of `FORMS`; "cpu" means this CPU.
        options: Further options of `pydispatch.compile`.

    Raises:
        InvalidArgumentError: A target is unknown.
        CompileError: The kernel is not valid for a target.
    """
    unknown = next((target for target in targets if target not in FORMS), None)
    if unknown is not None or not targets:
        raise InvalidArgumentError(f"show: target: expected some of {', '.join(FORMS)}, got {unknown!r}")
    program = kernel.lowered().program(kernel.name, marks_lines=True)  # code then states its source lines
    code: dict[str, Lines] = {}
    notes: dict[int, str] = {}
    for target in targets:
        endings = [ending for ending, _ in FORMS[target].values()]
        if target == "cpu":
            endings.append(CPU_PARTS["vectors"])  # one more text, after those of the forms: notes of the vectorizer
        machine = {"cpu": "native"} if target == "cpu" else {}
        texts = texts_of(program, target, endings, **{**machine, **options})
        # `strict=False`: the notes of the vectorizer, the last of `texts` for "cpu", are no form of code.
        for (form, (_, reader)), text in zip(FORMS[target].items(), texts, strict=False):
            code[form] = reader(text)
        if target == "cpu":
            # The groups of `_NOTE` are the number of a source line and the note.
            notes = {int(match[1]): match[2] for match in filter(None, map(_NOTE.match, texts[-1].splitlines()))}
    source = dict(enumerate(kernel.source.text.splitlines(), kernel.source.first_line))
    # Code of functions that the kernel calls has the lines of these, if they are in the kernel's file. Code from other
    # files has no line.
    lines_outside = {line for form in code.values() for line in form} - source.keys()
    source |= {line: linecache.getline(kernel.source.file, line).rstrip() for line in lines_outside}
    return Listing({line: source[line] for line in sorted(source)}, code, notes)


def _colored(source: Mapping[int, str]) -> dict[int, str]:
    """Return each line of `source` as HTML, by its number, with coloured keywords, strings, numbers and comments."""
    # Index of a line in `source`, from 0 → (first column, column after the last one, colour), from left to right.
    spans: dict[int, list[tuple[int, int, str]]] = {}
    try:
        for item in tokenize.generate_tokens(io.StringIO("\n".join(source.values()) + "\n").readline):
            is_keyword = item.type == token.NAME and keyword.iskeyword(item.string)
            color = _KEYWORD_COLOR if is_keyword else _COLORS.get(item.type)
            if color and item.start[0] == item.end[0]:  # strings of several lines stay without colour
                spans.setdefault(item.start[0] - 1, []).append((item.start[1], item.end[1], color))
    except (tokenize.TokenError, IndentationError):
        spans = {}  # lines of several functions, one after the other, need not be valid Python
    colored = {}
    for index, (line, code) in enumerate(source.items()):
        text, done = "", 0  # HTML of the line's columns before column `done`
        for start, end, color in spans.get(index, ()):
            text += html.escape(code[done:start])
            text += f'<span style="color: {color}">{html.escape(code[start:end])}</span>'
            done = end
        colored[line] = text + html.escape(code[done:])
    return colored
