"""Library functions that generated WGSL calls, read from the .wgsl files of this folder."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_HEAD = re.compile(r"^fn (\w+)\(", re.MULTILINE)
"""Beginning of a definition, `fn name(`, with the function's name."""
_CALL = re.compile(r"\bpyd_\w+(?=\()")
"""Name of a called library function; all begin with pyd_."""


@cache
def functions() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return name -> (text, callees) of each library function.

    The text includes the comments and structures before the function; callees are names of library functions.
    "pyd_i32_product" has the text "fn pyd_i32_product(a: i32, b: i32) -> vec2u {...}" and ("pyd_u32_product",).
    """
    functions_: dict[str, tuple[str, tuple[str, ...]]] = {}
    for path in sorted(Path(__file__).parent.glob("*.wgsl")):
        before = ""  # text of the structures that precede the next function
        # A line "}" ends each function and structure. `split` removes it except from the last one of a file.
        for text in path.read_text("utf-8").strip().split("\n}\n"):
            body = before + text.strip().removesuffix("}").rstrip() + "\n}"
            head = _HEAD.search(body)
            before = "" if head else body + "\n\n"
            if head is None:  # a structure belongs to the function after it
                continue
            called = dict.fromkeys(name for name in _CALL.findall(body) if name != head[1])
            functions_[head[1]] = body, tuple(called)
    return functions_
