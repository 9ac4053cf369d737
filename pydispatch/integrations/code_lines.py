"""Code of a kernel by the source line that each instruction comes from."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping

Lines = Mapping[int, list[str]]
"""Number of a source line → compiled code of that line in order: instructions, or statements of WGSL.

Code without a source line is left out."""

_LOC = re.compile(r"\s*\.loc\s+\d+\s+(\d+)")
"""Directive of assembler and PTX that gives the instructions after it a source line: `.loc 1 12`."""
_NODE = re.compile(r"^(!\d+) = !DILocation\(line: (\d+)", re.MULTILINE)
"""Metadata node of LLVM with a source line: `!7 = !DILocation(line: 12`."""
_DEBUG = re.compile(r", !dbg (!\d+)")
"""Reference of an instruction to such a node: `, !dbg !7`."""
_METADATA = re.compile(r"(, ![\w.]+ !\d+)+$")
"""All references to metadata at the end of an instruction."""
_OP_LINE = re.compile(r"\s*OpLine %\S+ (\d+) ")
"""Instruction of SPIR-V that gives the instructions after it a line."""
_MARK = re.compile(r"(.*) // line (\d+)$")
"""Statement of WGSL with the comment by which the compiler marks its source line."""
_COMMENT = re.compile(r"//.*|#+(?:\s.*|$)")
"""Comment of assembler or PTX: from `//` on, or from a `#` before white space on. AArch64 has immediates like `#16`."""


def assembler_lines(text: str) -> Lines:
    """Return the instructions of assembler or PTX by source line: that of the last `.loc` before an instruction.

    Comments are removed, and white space is reduced to single spaces.
    """
    by_line: dict[int, list[str]] = defaultdict(list)
    line = 0  # none
    for row in text.splitlines():
        if match := _LOC.match(row):
            line = int(match[1])
        elif row.startswith("\t") and not row.startswith("\t.") and line:  # no label and no directive
            by_line[line].append(" ".join(_COMMENT.sub("", row).split()))
    return by_line


def llvm_lines(text: str) -> Lines:
    """Return the instructions of LLVM IR by the source line of their debug location, without references to metadata."""
    line_of = {node: int(line) for node, line in _NODE.findall(text)}
    by_line: dict[int, list[str]] = defaultdict(list)
    for row in text.splitlines():
        match = _DEBUG.search(row) if row.startswith("  ") else None  # only bodies of functions are indented
        if match and match[1] in line_of:
            by_line[line_of[match[1]]].append(_METADATA.sub("", row.strip()))
    return by_line


def spirv_lines(text: str) -> Lines:
    """Return the instructions of disassembled SPIR-V by the `OpLine` before them, which holds to the end of a block."""
    by_line: dict[int, list[str]] = defaultdict(list)
    line = 0  # none
    for row in map(str.strip, text.splitlines()):
        if match := _OP_LINE.match(row):
            line = int(match[1])
        elif row.endswith("= OpLabel") or row == "OpFunctionEnd":
            line = 0
        elif line:
            by_line[line].append(row)
    return by_line


def wgsl_lines(text: str) -> Lines:
    """Return the statements of WGSL by source line, which a comment at their end states."""
    by_line: dict[int, list[str]] = defaultdict(list)
    for match in filter(None, map(_MARK.match, text.splitlines())):
        by_line[int(match[2])].append(match[1].strip())
    return by_line


FORMS: Mapping[str, Mapping[str, tuple[str, Callable[[str], Lines]]]] = {
    "cpu": {"assembler": (".s", assembler_lines), "LLVM IR": (".optimized.ll", llvm_lines)},
    "cuda": {"PTX": (".ptx", assembler_lines)},
    "webgpu": {"WGSL": (".wgsl", wgsl_lines)},
    "vulkan": {"SPIR-V": (".spv", spirv_lines)},
}
"""Target → form of code → (end of its dumped file's name, function that returns its lines by source line)."""
