# ruff: noqa: E501  (lines of MLIR and of tables)
"""Broken modules: the linker refuses them with a place, or makes something; it never crashes and never hangs."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from link_cases import BUFFERS, HAND, SCALE, assembled, compiled, kernel, scale_call

from pydispatch.errors import ArtifactError, InvalidArgumentError
from pydispatch.link.spirv.link import link, open_library

LIBRARIES = [
    compiled(BUFFERS + "\nvoid main() {}\n"),
    compiled(
        "layout(local_size_x_id = 0) in; shared uint s[4];\nfloat g(float x) { switch (int(x)) { case 1: return 2; "
        "default: break; } return x; }\nvoid scale(uint a, uint b, uint n, float k) { if (k > 1) s[a % 4] = n; "
        "barrier(); float r = g(k) + float(gl_WorkGroupSize.x); }\nvoid main() {}\n"
    ),
    assembled(HAND),
]
KERNEL = kernel(SCALE, scale_call("b0", "b1", 0, 0, 4, "2.0"))
REFUSED = (ArtifactError, InvalidArgumentError)


def attempt(code: bytes, library: bytes) -> None:
    try:
        linked = link(code, [open_library(library, "lib.spv")], (), "kernel.spv")
    except REFUSED as error:
        assert "lib.spv" in str(error) or "kernel.spv" in str(error) or "linking" in str(error) or "does not fit" in str(
            error
        ) or "the function" in str(error), error  # fmt: skip
    else:
        assert len(linked.data) % 4 == 0


@given(st.integers(0, 2), st.data())
@settings(max_examples=400, deadline=None, derandomize=True)
def test_words_of_a_library_changed(which: int, data: st.DataObject) -> None:
    words = list(struct.unpack(f"<{len(LIBRARIES[which]) // 4}I", LIBRARIES[which]))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(words) - 1))
        words[at] = data.draw(
            st.one_of(
                st.integers(0, 200),
                st.integers(0, 2**32 - 1),
                st.sampled_from(words),
                st.just(words[at] ^ 1 << data.draw(st.integers(0, 31))),
            )
        )
    attempt(KERNEL, struct.pack(f"<{len(words)}I", *words))


@given(st.data())
@settings(max_examples=200, deadline=None, derandomize=True)
def test_words_of_a_kernel_changed(data: st.DataObject) -> None:
    words = list(struct.unpack(f"<{len(KERNEL) // 4}I", KERNEL))
    at = data.draw(st.integers(0, len(words) - 1))
    words[at] = data.draw(st.one_of(st.integers(0, 60), st.integers(0, 2**32 - 1), st.sampled_from(words)))
    attempt(struct.pack(f"<{len(words)}I", *words), LIBRARIES[0])


@given(st.integers(0, 2), st.data())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_instructions_dropped_repeated_and_moved(which: int, data: st.DataObject) -> None:
    library = LIBRARIES[which]
    words = struct.unpack(f"<{len(library) // 4}I", library)
    lines, at = [], 5
    while at < len(words):
        lines.append(words[at : at + (words[at] >> 16)])
        at += words[at] >> 16
    for _ in range(data.draw(st.integers(1, 3))):
        i, j = (data.draw(st.integers(0, len(lines) - 1)) for _ in range(2))
        kind = data.draw(st.integers(0, 2))
        if kind == 0:
            del lines[i]
        elif kind == 1:
            lines.insert(i, lines[j])
        else:
            lines[i], lines[j] = lines[j], lines[i]
    flat = [*words[:5], *(word for line in lines for word in line)]
    attempt(KERNEL, struct.pack(f"<{len(flat)}I", *flat))


@pytest.mark.parametrize("which", [0, 1, 2])
def test_every_prefix(which: int) -> None:
    """A module that ends early is refused, with the word where it does."""
    library = LIBRARIES[which]
    for size in range(0, len(library) - 4, 4 if len(library) < 2000 else 12):
        attempt(KERNEL, library[:size])
    with pytest.raises(ArtifactError, match="and a multiple of 4"):
        open_library(library[:-1], "lib.spv")


def words_of(*lines: tuple[int, ...]) -> bytes:
    """A module of instructions (opcode, operands...)."""
    flat = [0x07230203, 0x00010300, 0, 1000, 0]
    for opcode, *operands in lines:
        flat += [(len(operands) + 1) << 16 | opcode, *operands]
    return struct.pack(f"<{len(flat)}I", *flat)


HEAD = ((17, 1), (14, 0, 1))


@pytest.mark.parametrize(
    ("lines", "match"),
    [
        (((19, 1), (19, 1)), "word 12: id 1 is defined twice"),
        (((23, 2, 1, 4),), "word 10: opcode 23 uses id 1, which is not declared before it"),
        (((22, 1, 32), (43, 1, 2, 0), (59, 3, 4, 6)), "word 1[78]: id 3 is no type that was declared before|word 17"),
        (((9999, 1),), "word 10: opcode 9999, which the linker does not know"),
        (((39, 1, 12),), "word 10: pointers declared ahead"),
        (((73, 1),), "word 10: groups of decorations cannot be linked"),
        (((19, 1), (33, 2, 1), (54, 1, 3, 0, 2), (253,), (56,)), "word 20: a function begins with opcode 253"),
        (((19, 1), (33, 2, 1), (54, 1, 3, 0, 2), (248, 4), (249, 77), (253,), (56,)), "word 22: id 77 is not defined"),
        (((19, 1), (33, 2, 1), (54, 1, 3, 0, 1), (248, 4), (253,), (56,)), "the type 1 of a function is no function type"),
        (((19, 1), (22, 5, 32), (33, 2, 1, 5), (54, 1, 3, 0, 2), (248, 4), (253,), (56,)),
         "does not have the parameters and result of its type"),
        (((19, 1), (33, 2, 1), (54, 1, 3, 0, 2), (248, 4), (57, 1, 6, 77), (253,), (56,)), "a call of id 77, which is no function"),
        (((19, 1), (33, 2, 1), (54, 1, 3, 0, 2), (248, 4), (12, 1, 6, 77, 1), (253,), (56,)), "id 77 is no set of instructions"),
        (((19, 2000),), "id 2000, the bound is 1000"),
        (((22, 1, 32), (32, 2, 6, 1), (59, 2, 3, 6), (1, 3, 4)), "word 2[0-9]: id 3 is no type that was declared before"),
    ],
)  # fmt: skip
def test_what_is_wrong_and_where(lines: tuple[tuple[int, ...], ...], match: str) -> None:
    with pytest.raises(ArtifactError, match=match):
        open_library(words_of(*HEAD, *lines), "x")


def test_deep_nesting_takes_no_stack() -> None:
    """Types nested and calls chained thousands deep."""
    count = 20_000
    flat: list[tuple[int, ...]] = [*HEAD, (22, 1, 32)]
    flat += [(30, i, i - 1) for i in range(2, count)]
    flat += [(19, count), (33, count + 1, count)]
    code = words_of(*flat)
    code = code[:12] + struct.pack("<I", 400_000) + code[16:]
    base, void, type_ = count + 2, count, count + 1
    body = b""
    for i in range(count):
        first = base + 3 * i
        lines = [(54, void, first, 0, type_), (248, first + 1)]
        if i + 1 < count:
            lines.append((57, void, first + 2, base + 3 * (i + 1)))
        body += words_of(*lines, (253,), (56,))[20:]
    name = struct.pack("<8I", 3 << 16 | 5, base, ord("f"), 3 << 16 | 5, base + 3, ord("g"), 1 << 16 | 0, 1 << 16 | 0)
    library = open_library(code[:40] + name + code[40:] + body, "deep.spv")
    source = kernel("func.func private @f()", "func.call @f() : () -> ()")
    assert len(link(source, [library]).data) > 20 * count


def test_copies_are_bounded() -> None:
    """A chain of functions that pass two buffers on in both orders would double at every step; copies are shared."""
    depth = 200
    text = (
        HAND[: HAND.index("      %inner = OpFunction")]
        .replace('%inner "inner"', '%g0 "inner"')
        .replace("%f Linkage", "%g0 Linkage")
    )
    for i in range(depth):
        calls = f"%x{i} = OpFunctionCall %void %g{i + 1} %p{i} %o{i} %q{i} %u{i} %n{i} %k{i}\n" if i + 1 < depth else ""
        swapped = (
            f"%y{i} = OpFunctionCall %void %g{i + 1} %q{i} %o{i} %p{i} %u{i} %n{i} %k{i}\n" if i + 1 < depth else ""
        )
        text += f"""
        %g{i} = OpFunction %void None %type
        %p{i} = OpFunctionParameter %pointer
        %o{i} = OpFunctionParameter %uint
        %q{i} = OpFunctionParameter %pointer
        %u{i} = OpFunctionParameter %uint
        %n{i} = OpFunctionParameter %uint
        %k{i} = OpFunctionParameter %float
        %l{i} = OpLabel
        {calls}{swapped}OpReturn
        OpFunctionEnd
        """
    linked = link(KERNEL, [open_library(assembled(text), "x")])
    assert np.frombuffer(linked.data, "<u4").size < 100 * depth
