"""Library functions that generated WGSL calls, read from the .wgsl files of this folder."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_HEAD = re.compile(r"^fn (\w+)\(", re.MULTILINE)
_CALL = re.compile(r"\bpyd_\w+(?=\()")


@cache
def functions() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return, for each library function, its text with the comment before it and the names of the
    functions it calls.
    """
    functions_: dict[str, tuple[str, tuple[str, ...]]] = {}
    for path in sorted(Path(__file__).parent.glob("*.wgsl")):
        before = ""
        for text in path.read_text("utf-8").strip().split("\n}\n"):
            body = before + text.strip().removesuffix("}").rstrip() + "\n}"
            head = _HEAD.search(body)
            before = "" if head else body + "\n\n"
            if head is None:  # a structure belongs to the function after it
                continue
            called = dict.fromkeys(name for name in _CALL.findall(body) if name != head[1])
            functions_[head[1]] = body, tuple(called)
    return functions_
