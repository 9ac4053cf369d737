"""Access of storage buffers, changed in the text."""

from __future__ import annotations

from pydispatch.formats.wgsl.module import Declaration, WgslModule

_ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "++", "--"}
"""Tokens after a name that is assigned to, besides `<<=` and `>>=`: these are three tokens each, which `_is_assigned`
compares."""


def all_read_write(module: WgslModule) -> str:
    """Return the module's text with all storage buffers declared as read_write.

    Line numbers stay the same, except after a template such as `<storage, read>` that spans several lines.
    """
    parts, at = [], 0
    for declaration in module.declarations:
        if declaration.kind == "var" and declaration.space == "storage" and declaration.access == "read":
            tokens = module.tokens
            start = next(i for i in range(declaration.first, declaration.end) if tokens[i].text == "<")
            end = next(i for i in range(start, declaration.end) if tokens[i].text == ">")
            parts += [module.text[at : tokens[start].start], "<storage, read_write>"]
            at = tokens[end].end
    return "".join([*parts, module.text[at:]])


def written(module: WgslModule, function: Declaration) -> set[int]:
    """Return the bindings of group 0 that a function may write.

    These are the storage buffers that the function or its callees assign to, or whose address they take; a name alone
    in parentheses, as in `(a)[i] = x`, counts as assigned to. Others may be declared read_write without being written.
    """
    reached = module.reached([function])
    numbers = {
        declaration.name: module.number(declaration, "binding")
        for declaration in reached
        if declaration.kind == "var" and declaration.space == "storage"
    }
    bindings: set[int] = set()
    for declaration in reached:
        for i in range(declaration.first, declaration.end) if declaration.kind == "fn" else ():
            binding = numbers.get(module.tokens[i].text)
            if binding is None or module.tokens[i - 1].text == ".":  # after a dot, a member that has the name
                continue
            if module.tokens[i - 1].text == "&" or _is_assigned(module, i + 1) or _is_parenthesized(module, i):
                bindings.add(binding)
    return bindings


def _is_parenthesized(module: WgslModule, at: int) -> bool:
    """Return whether the name at token `at` is alone in parentheses, as in `(a)[i] = x`, which may be an assignment."""
    before, opening, closing = module.tokens[at - 2], module.tokens[at - 1], module.tokens[at + 1]
    return opening.text == "(" and closing.text == ")" and before.kind != "name"


def _is_assigned(module: WgslModule, at: int) -> bool:
    """Return whether an assignment follows a name, after index and member accesses; `at` is the token after the
    name."""
    tokens, depth = module.tokens, 0
    while at + 2 < len(tokens):
        text = tokens[at].text
        depth += (text == "[") - (text == "]")
        if depth == 0 and text == ".":
            at += 1  # skips the name of the member
        elif depth == 0 and text != "]":
            shifts = [token.text for token in tokens[at : at + 3]]  # the lexer makes three tokens of `<<=`
            return text in _ASSIGNMENTS or shifts in (["<", "<", "="], [">", ">", "="])
        at += 1
    return False
