"""The library's bitcode as one module. Runs where LLVM does."""

from __future__ import annotations

import re
from collections.abc import Sequence

_ATTRIBUTE = re.compile(
    r' "(?:no-builtins?[^"=]*|target-cpu|target-features|tune-cpu|frame-pointer|no-trapping-math|stack-protector[^"=]*|'
    r'min-legal-vector-width|probe-stack|uniform-work-group-size)"(?:="[^"]*")?'
)
_METADATA = re.compile(r"^!(?:llvm\.(?:module\.flags|ident|errno\.tbaa)) = .*\n", re.MULTILINE)


def joined(modules: Sequence[tuple[str, bytes]]) -> bytes:
    """One module out of (name, bitcode), without attributes of a machine."""
    from llvmlite import binding as llvm

    whole = llvm.parse_assembly("")
    for stem, data in modules:
        text = _METADATA.sub("", _ATTRIBUTE.sub("", str(llvm.parse_bitcode(data))))
        part = llvm.parse_assembly(text)
        if not whole.triple:
            whole.triple, whole.data_layout = part.triple, part.data_layout
        for value in part.global_variables:
            value.name = f"pyd.{stem}.{value.name}"  # private tables: no clash with the user's names
        whole.link_in(part)
    whole.verify()
    return bytes(whole.as_bitcode())
