"""Kernels with more storage buffers than a device binds: the same kernel over fewer of them.

Arrays of one type become parts of one array. Where each of them begins is in a uniform buffer, in elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydispatch.formats.wgsl.access import written
from pydispatch.formats.wgsl.module import Declaration, Module
from pydispatch.formats.wgsl.types import layout

OFFSETS = (1, 0)
"""Group and binding of where arrays begin in those that they are parts of: an array of `vec4<u32>`."""

ALIGNMENT = 16
"""Of each part, in bytes."""


@dataclass(frozen=True)
class Merged:
    """bindings: for each of the new text those of the kernel that it holds, in the order of their words; bytes: of an
    element of each. written: bindings of the kernel that it may write."""

    text: str
    bindings: tuple[tuple[int, ...], ...]
    bytes: tuple[int, ...]
    written: frozenset[int]


def fewest(module: Module, entry: Declaration) -> int:
    """Return the least number of storage buffers that an entry point needs when buffers are merged."""
    buffers = _buffers(module, entry)
    return len(buffers) - sum(len(each) - 1 for each in _alike(module, entry, buffers))


def merged(module: Module, entry: Declaration, most: int) -> Merged | None:
    """Return the entry point with `most` buffers, all of them read_write, without what other entry points need; None
    where it needs more.
    """
    buffers = _buffers(module, entry)
    writes = frozenset(written(module, entry))
    groups = {number: [number] for number in buffers}
    excess = len(buffers) - most
    for alike in _alike(module, entry, buffers):
        if excess <= 0:
            break
        alike.sort(key=lambda number: (number in writes, number))  # what is written is copied twice
        first, *others = alike[: excess + 1]
        for number in others:
            groups[first] += groups.pop(number)
        excess -= len(others)
    if excess > 0:
        return None
    bindings = tuple(tuple(sorted(group)) for group in groups.values())
    sizes = tuple((layout(module, _element(buffers[group[0]])) or (4, 4))[0] for group in bindings)
    return Merged(_text(module, entry, buffers, bindings), bindings, sizes, writes)


def _buffers(module: Module, entry: Declaration) -> dict[int, Declaration]:
    """Return the storage buffers that an entry point uses, by binding."""
    found = {}
    for each in module.reached([entry]):
        number = each.attribute("binding")
        if each.kind == "var" and each.space == "storage" and number is not None:
            found[module.constant(number.arguments[0]) or 0] = each
    return dict(sorted(found.items()))


def _element(buffer: Declaration) -> str:
    """Return the type of the elements of an array without a size, "" for another buffer."""
    inner = buffer.type.removeprefix("array<")
    return inner[:-1] if inner != buffer.type and (inner.count("<") or "," not in inner) else ""


def _alike(module: Module, entry: Declaration, buffers: dict[int, Declaration]) -> list[list[int]]:
    """Return lists of the numbers of buffers that may be merged into one, the longest list first: arrays of one type
    whose elements alone are used.
    """
    used_whole: set[str] = set()
    names = {each.name for each in buffers.values()}
    for function in module.reached([entry]):
        for i in range(function.first, function.end) if function.kind == "fn" else ():
            token = module.tokens[i]
            if token.text in names and module.tokens[i - 1].text != "." and module.tokens[i + 1].text != "[":
                used_whole.add(token.text)
    lists: dict[str, list[int]] = {}
    for number, each in buffers.items():
        known = layout(module, _element(each))
        if each.name not in used_whole and known is not None and known[0] in (4, 8, 16) and known[1] <= ALIGNMENT:
            lists.setdefault(each.type, []).append(number)
    return sorted((each for each in lists.values() if len(each) > 1), key=len, reverse=True)


def _text(
    module: Module, entry: Declaration, buffers: dict[int, Declaration], bindings: Sequence[tuple[int, ...]]
) -> str:
    tokens, text, prefix, number = module.tokens, module.text, "merged_", 0
    while any(token.text.startswith(prefix) for token in tokens):
        prefix, number = f"merged{number}_", number + 1
    words = max(1, sum(len(group) for group in bindings))
    parts = [text[: tokens[module.directives].start]] if module.directives else []
    parts.append(f"@group({OFFSETS[0]}) @binding({OFFSETS[1]}) var<uniform> {prefix}offsets: "
                 f"array<vec4<u32>, {-(-words // 4)}>;")  # fmt: skip
    places: dict[str, tuple[str, str]] = {}
    word = 0
    for new, group in enumerate(bindings):
        one = buffers[group[0]]
        name = one.name if len(group) == 1 else f"{prefix}{new}"
        parts.append(f"@group(0) @binding({new}) var<storage, read_write> {name}: {one.type};")
        for each in group:
            if len(group) > 1:
                places[buffers[each].name] = name, f"{prefix}offsets[{word // 4}].{'xyzw'[word % 4]}"
            word += 1
    kept = {each.name for each in buffers.values()}
    parts += [_changed(module, each, places) for each in module.reached([entry]) if each.name not in kept]
    return "\n".join(parts) + "\n"


def _changed(module: Module, each: Declaration, places: dict[str, tuple[str, str]]) -> str:
    """Return the text of a declaration in which elements of merged arrays are replaced by elements of the arrays that
    contain them.
    """
    tokens, parts, at = module.tokens, [], module.tokens[each.first].start
    closing: list[bool] = []  # of brackets that are open, whether the index in it is a changed one
    for i in range(each.first, each.end) if each.kind == "fn" else ():
        token = tokens[i]
        if token.text in places and tokens[i - 1].text != ".":
            name, offset = places[token.text]
            parts += [module.text[at : token.start], f"{name}[{offset} + u32("]
            at = tokens[i + 1].end
        elif token.text == "[":
            closing.append(tokens[i - 1].text in places and tokens[i - 2].text != ".")
        elif token.text == "]" and closing.pop():
            parts += [module.text[at : token.start], ")]"]
            at = token.end
    return "".join([*parts, module.text[at : tokens[each.end - 1].end]])
