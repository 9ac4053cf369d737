"""Access of storage buffers, changed in the text."""

from __future__ import annotations

from pydispatch.formats.wgsl.module import Declaration, WgslModule

_ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "++", "--"}
"""Tokens after a name that is assigned to, besides `<<=` and `>>=`: these are three tokens each, which `_is_written`
compares."""


def all_read_write(module: WgslModule) -> str:
    """Return the module's text with its read-only storage buffers declared as read_write.

    A dispatch that binds one buffer both read-only and writable needs this: WebGPU does not allow both in one dispatch.
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

    These are the storage buffers that the function or its callees assign to, or whose address they take. Others may be
    declared read_write without being written.
    """
    # The storage buffers among the declarations that the function or its callees name, by name.
    reached = module.reached([function])
    numbers = {
        declaration.name: module.number(declaration, "binding")
        for declaration in reached
        if declaration.kind == "var" and declaration.space == "storage"
    }
    # Their uses in the functions: tokens with such a name.
    bindings: set[int] = set()
    for declaration in reached:
        if declaration.kind != "fn":
            continue
        for i in range(declaration.first, declaration.end):
            binding = numbers.get(module.tokens[i].text)
            is_member = module.tokens[i - 1].text == "."  # a member that has the name of a buffer
            if binding is not None and not is_member and _is_written(module, i):
                bindings.add(binding)
    return bindings


def _is_written(module: WgslModule, at: int) -> bool:
    """Return whether the variable at token `at` is assigned to, or its address taken.

    Parts of it, and parentheses around these, count as the variable: `a[i].x = 0;`, `((a)[i]) += 1;` and `&(a[i])`.
    """
    tokens = module.tokens
    before, after = at - 1, _after_accesses(module, at + 1)  # the tokens around the variable and its parts
    # Skip parentheses, but not those of a call or of an `if`, before which there is a name.
    while tokens[before].text == "(" and tokens[after].text == ")" and tokens[before - 1].kind != "name":
        before, after = before - 1, _after_accesses(module, after + 1)
    shifts = [token.text for token in tokens[after : after + 3]]  # the lexer makes three tokens of `<<=`
    is_assigned = tokens[after].text in _ASSIGNMENTS or shifts in (["<", "<", "="], [">", ">", "="])
    return is_assigned or tokens[before].text == "&"


def _after_accesses(module: WgslModule, at: int) -> int:
    """Return the index of the first token after index and member accesses such as `[i].x`, which begin at token
    `at`."""
    tokens, depth = module.tokens, 0  # depth: number of open `[`
    while depth > 0 or tokens[at].text in ("[", "."):
        text = tokens[at].text
        if depth == 0 and text == "." and tokens[at + 1].kind == "name":
            at += 1  # skips the name of the member
        elif text == "[":
            depth += 1
        elif text == "]":
            depth -= 1
        at += 1
    return at
