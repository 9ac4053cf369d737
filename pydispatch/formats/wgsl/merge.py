"""Rewrites kernels with more storage buffers than a device can bind: several buffers are merged into one.

Runtime-sized arrays of one type become slices of one array. A uniform buffer has the offset of each slice, in elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydispatch.formats.wgsl.access import written
from pydispatch.formats.wgsl.module import Declaration, UniformBinding, WgslModule
from pydispatch.formats.wgsl.types import layout

OFFSETS = UniformBinding(group=1, binding=0)
"""Uniform buffer of the offsets of the merged arrays, in elements: an array of `vec4<u32>`."""

ALIGNMENT = 16
"""Alignment of each array within the array that contains it, in bytes."""


@dataclass(frozen=True)
class Merged:
    """Module with one entry point whose storage buffers are merged.

    Attributes:
        text: Text of the module.
        bindings: For each binding of the new text, the bindings of the original kernel that it contains, in
            order.
        bytes: For each binding of the new text, the size of an element in bytes; 4 if it is not known.
        written: Bindings of the original kernel that it may write.
    """

    text: str
    bindings: tuple[tuple[int, ...], ...]
    bytes: tuple[int, ...]
    written: frozenset[int]


def least_buffer_count(module: WgslModule, entry: Declaration) -> int:
    """Return the smallest number of storage buffers to which an entry point can be reduced by merging."""
    buffers = _buffers(module, entry)
    return len(buffers) - sum(len(group) - 1 for group in _mergeable_groups(module, entry, buffers))


def with_merged_buffers(module: WgslModule, entry: Declaration, most: int) -> Merged | None:
    """Return a module with only this entry point, using at most `most` storage buffers; None if it needs more.

    Arrays of one type become slices of one array, and each access adds the offset of its slice. With `most` = 2, the
    bindings 0 and 1 of `c[i] = a[i] + b[i]` are merged. The result has the `bindings` ((0, 1), (2,)), and the text

        @group(1) @binding(0) var<uniform> merged_offsets: array<vec4<u32>, 1>;
        @group(0) @binding(0) var<storage, read_write> merged_0: array<f32>;
        @group(0) @binding(1) var<storage, read_write> c: array<f32>;
        ... c[i] = merged_0[merged_offsets[0].x + u32(i)] + merged_0[merged_offsets[0].y + u32(i)] ...

    All its buffers, also those that are not merged, are declared read_write, because a merged buffer may contain an
    array that is written, and the runtime binds all buffers of such a kernel as writable.

    Args:
        module: The original module.
        entry: Its entry point.
        most: Largest number of storage buffers that the result may have.
    """
    # Begin with one new buffer for each original one, and merge until `excess` buffers less remain.
    buffers = _buffers(module, entry)
    writes = frozenset(written(module, entry))
    groups = {binding: [binding] for binding in buffers}  # first binding of a new buffer → all that it contains
    excess = len(buffers) - most
    for alike in _mergeable_groups(module, entry, buffers):
        if excess <= 0:
            break
        # A merged buffer is copied before the dispatch, and a written one also after it. Written ones are therefore
        # merged last.
        alike.sort(key=lambda binding: (binding in writes, binding))
        first, *others = alike[: excess + 1]  # n + 1 buffers become one, which is n less
        for binding in others:
            groups[first] += groups.pop(binding)
        excess -= len(others)
    if excess > 0:
        return None
    # The new bindings, and the size in bytes of an element of each.
    bindings = tuple(tuple(sorted(group)) for group in groups.values())
    elements = [layout(module, _element(buffers[group[0]])) for group in bindings]
    sizes = tuple(4 if element is None else element.size for element in elements)  # None: of unknown size, a word
    return Merged(_text(module, entry, buffers, bindings), bindings, sizes, writes)


def _buffers(module: WgslModule, entry: Declaration) -> dict[int, Declaration]:
    """Return the storage buffers that an entry point uses, by binding, in order."""
    buffers = {}
    for declaration in module.reached([entry]):
        binding = module.number(declaration, "binding")
        if declaration.kind == "var" and declaration.space == "storage" and binding is not None:
            buffers[binding] = declaration
    return dict(sorted(buffers.items()))


def _element(buffer: Declaration) -> str:
    """Return the element type T of a buffer of type `array<T>`; for other buffers a text that is no type.

    Examples: "f32" for `array<f32>`, "" for `array<f32, 4>` and `Params`, and "vec4<f32>, 4" for
    `array<vec4<f32>, 4>`. For the last three, `layout` returns None.
    """
    if not buffer.type.startswith("array<"):
        return ""
    inner = buffer.type.removeprefix("array<")[:-1]
    has_length = "," in inner and "<" not in inner  # `f32, 4`: the comma cannot be one of a type such as `vec2<f32>`
    return "" if has_length else inner


def _mergeable_groups(module: WgslModule, entry: Declaration, buffers: dict[int, Declaration]) -> list[list[int]]:
    """Return groups of bindings that can be merged, the largest group first.

    A group consists of runtime-sized arrays of one type that the entry point accesses only by element: a use of a whole
    array, such as `arrayLength(&a)`, would see the merged array.
    """
    used_whole: set[str] = set()  # names of arrays that are used as a whole
    names = {buffer.name for buffer in buffers.values()}
    for declaration in module.reached([entry]):
        if declaration.kind != "fn":
            continue
        for i in range(declaration.first, declaration.end):
            token = module.tokens[i]
            is_buffer = token.text in names and module.tokens[i - 1].text != "."  # after a dot, a member of this name
            if is_buffer and module.tokens[i + 1].text != "[":
                used_whole.add(token.text)
    lists: dict[str, list[int]] = {}
    for binding, buffer in buffers.items():
        element = layout(module, _element(buffer))
        # The offset of a slice is a multiple of ALIGNMENT bytes, which is a whole number of elements of these sizes.
        is_mergeable = element is not None and element.size in (4, 8, 16) and element.alignment <= ALIGNMENT
        if is_mergeable and buffer.name not in used_whole:
            lists.setdefault(buffer.type, []).append(binding)
    return sorted((bindings for bindings in lists.values() if len(bindings) > 1), key=len, reverse=True)


def _text(
    module: WgslModule, entry: Declaration, buffers: dict[int, Declaration], bindings: Sequence[tuple[int, ...]]
) -> str:
    """Return the text of the merged module: directives, offsets, buffers, and the other declarations.

    For `c[i] = a[i] + b[i]` and the bindings ((0, 1), (2,)) it is

        @group(1) @binding(0) var<uniform> merged_offsets: array<vec4<u32>, 1>;
        @group(0) @binding(0) var<storage, read_write> merged_0: array<f32>;
        @group(0) @binding(1) var<storage, read_write> c: array<f32>;
        ... c[i] = merged_0[merged_offsets[0].x + u32(i)] + merged_0[merged_offsets[0].y + u32(i)] ...

    Args:
        module: The original module.
        entry: Its entry point.
        buffers: Storage buffers of the entry point by their original bindings.
        bindings: For each new binding, the original bindings of the buffers that become slices of it; a single one
            for a buffer that is not merged.
    """
    prefix = module.unused_prefix("merged")
    # The uniform buffer of offsets in elements, in the order of `bindings`: one for every original buffer, also for
    # those that are not merged. Four offsets make up a vector, because array elements in uniform buffers are aligned
    # to 16 bytes.
    offset_count = max(1, sum(len(group) for group in bindings))
    parts = [module.directives] if module.directives else []
    parts.append(f"@group({OFFSETS.group}) @binding({OFFSETS.binding}) var<uniform> {prefix}offsets: "
                 f"array<vec4<u32>, {-(-offset_count // 4)}>;")  # fmt: skip
    names = [buffers[group[0]].name if len(group) == 1 else f"{prefix}{new}" for new, group in enumerate(bindings)]
    parts += [
        f"@group(0) @binding({new}) var<storage, read_write> {name}: {buffers[group[0]].type};"
        for new, (name, group) in enumerate(zip(names, bindings, strict=True))
    ]
    # Merged array → name of the array that contains it, and the expression of its offset.
    containers = [(name, group, binding) for name, group in zip(names, bindings, strict=True) for binding in group]
    slices = {
        buffers[binding].name: (name, f"{prefix}offsets[{i // 4}].{'xyzw'[i % 4]}")
        for i, (name, group, binding) in enumerate(containers)
        if len(group) > 1
    }
    # The other declarations, with accesses to merged arrays redirected.
    buffer_names = {buffer.name for buffer in buffers.values()}
    parts += [
        _redirected_text(module, declaration, slices)
        for declaration in module.reached([entry])
        if declaration.name not in buffer_names
    ]
    return "\n".join(parts) + "\n"


def _redirected_text(module: WgslModule, declaration: Declaration, slices: dict[str, tuple[str, str]]) -> str:
    """Return the text of a declaration with accesses to merged arrays redirected.

    If `slices` has "b": ("merged_0", "merged_offsets[0].y"), then `b[i]` becomes
    `merged_0[merged_offsets[0].y + u32(i)]`. The index is converted because it may be an i32. Declarations other than
    functions stay as they are.

    Args:
        module: The original module.
        declaration: A declaration of it.
        slices: Name of each merged array → name of the array that contains it, and the expression of its offset in
            elements.
    """
    tokens, parts, at = module.tokens, [], module.tokens[declaration.first].start
    closing: list[bool] = []  # for each open bracket, whether it encloses an index of a merged array
    for i in range(declaration.first, declaration.end) if declaration.kind == "fn" else ():
        token = tokens[i]
        if token.text in slices and tokens[i - 1].text != ".":  # after a dot, it is a member of this name
            # A `[` follows, because arrays that are used in another way are not merged. It is replaced as well.
            name, offset = slices[token.text]
            parts += [module.text[at : token.start], f"{name}[{offset} + u32("]
            at = tokens[i + 1].end
        elif token.text == "[":
            closing.append(tokens[i - 1].text in slices and tokens[i - 2].text != ".")
        elif token.text == "]" and closing.pop():
            parts += [module.text[at : token.start], ")]"]
            at = token.end
    return "".join([*parts, module.text[at : tokens[declaration.end - 1].end]])
