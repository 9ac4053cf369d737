"""Access of storage buffers, changed in the text."""

from __future__ import annotations

from pydispatch.formats.wgsl.module import Module


def all_read_write(module: Module) -> str:
    """The text with every storage buffer declared read_write, on the same lines."""
    parts, at = [], 0
    for each in module.declarations:
        if each.kind == "var" and each.space == "storage" and each.access == "read":
            tokens = module.tokens
            start = next(i for i in range(each.first, each.end) if tokens[i].text == "<")
            end = next(i for i in range(start, each.end) if tokens[i].text == ">")
            parts += [module.text[at : tokens[start].start], "<storage, read_write>"]
            at = tokens[end].end
    return "".join([*parts, module.text[at:]])
