"""Access of storage buffers, changed in the text."""

from __future__ import annotations

from pydispatch.formats.wgsl.module import Declaration, Module

_ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "++", "--"}


def all_read_write(module: Module) -> str:
    """Return the text with every storage buffer declared read_write, on the same lines."""
    parts, at = [], 0
    for each in module.declarations:
        if each.kind == "var" and each.space == "storage" and each.access == "read":
            tokens = module.tokens
            start = next(i for i in range(each.first, each.end) if tokens[i].text == "<")
            end = next(i for i in range(start, each.end) if tokens[i].text == ">")
            parts += [module.text[at : tokens[start].start], "<storage, read_write>"]
            at = tokens[end].end
    return "".join([*parts, module.text[at:]])


def written(module: Module, function: Declaration) -> set[int]:
    """Return the bindings of group 0 that a function may write, which may be fewer than are declared read_write.

    Those are the bindings whose variable is assigned to, or whose address is taken, in what the function reaches.
    """
    reached = module.reached([function])
    numbers = {each.name: each.number("binding") for each in reached if each.kind == "var" and each.space == "storage"}
    found: set[int] = set()
    for each in reached:
        for i in range(each.first, each.end) if each.kind == "fn" else ():
            number = numbers.get(module.tokens[i].text)
            if number is None or module.tokens[i - 1].text == ".":
                continue
            if module.tokens[i - 1].text == "&" or _is_assigned(module, i + 1) or _is_in_brackets(module, i):
                found.add(number)
    return found


def _is_in_brackets(module: Module, at: int) -> bool:
    """Return whether a name is alone in brackets of its own, behind which an assignment may follow."""
    before, opening, closing = module.tokens[at - 2], module.tokens[at - 1], module.tokens[at + 1]
    return opening.text == "(" and closing.text == ")" and before.kind != "name"


def _is_assigned(module: Module, at: int) -> bool:
    """Return whether an assignment follows the name before token `at`, after any elements and members that are selected
    from it.
    """
    tokens, depth = module.tokens, 0
    while at + 2 < len(tokens):
        text = tokens[at].text
        depth += (text == "[") - (text == "]")
        if depth == 0 and text == ".":
            at += 1
        elif depth == 0 and text != "]":
            shifts = [each.text for each in tokens[at : at + 3]]
            return text in _ASSIGNMENTS or shifts in (["<", "<", "="], [">", ">", "="])
        at += 1
    return False
