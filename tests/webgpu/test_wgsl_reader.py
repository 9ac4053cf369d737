"""The reader of WGSL: declarations, and text that is none."""

from __future__ import annotations

import random

import pytest
from webgpu_programs import SHADER

import pydispatch as pd
from pydispatch.formats.wgsl import interface
from pydispatch.formats.wgsl.access import all_read_write, written
from pydispatch.formats.wgsl.grid import why_not, with_grid
from pydispatch.formats.wgsl.merge import with_merged_buffers
from pydispatch.formats.wgsl.module import WgslMember
from pydispatch.formats.wgsl.overrides import check, overrides_of
from pydispatch.formats.wgsl.read import is_wgsl, read
from pydispatch.formats.wgsl.types import layout, minimum_size
from pydispatch.link.wgsl.link import link, open_library

TEXT = """enable f16; /* a /* b */ c */ requires readonly_and_readwrite_storage_textures;
struct P { @align(16) n: u32, k: array<vec4f, 2>, m: mat3x3<f32>, }
alias Row = array<P, four>; // comment
const four = 4;
override size: i32 = 3;
@id(7) override rate: f32;
@group(0) @binding(0) var<storage> a: array<f32>;
@group(0) @binding(two) var<storage, read_write> b: array<vec3<f16>>;
const two = 2;
var<workgroup> rows: Row;
var<workgroup> unused: array<u32, 100000>;
fn helper(x: ptr<function, i32>, y: vec2f) -> f32 { return y.x >> 1u; }
@compute @workgroup_size(four, 2) fn main() { b[0] = vec3h(helper(a[0])) + vec3h(rows[0].k[0].xyz); }
@fragment fn other() -> @location(0) vec4f { return vec4f(); }
"""


def test_declarations() -> None:
    module = read(TEXT.encode(), "x.wgsl")
    assert module.enables == ("f16",) and [d.name for d in module.entry_points] == ["main"]
    assert [d.name for d in module.functions] == ["helper"] and [d.name for d in module.other_stages] == ["other"]
    helper = module.named["helper"]
    assert (
        helper.members == (WgslMember("x", "ptr<function,i32>"), WgslMember("y", "vec2<f32>")) and helper.type == "f32"
    )
    assert layout(module, "P") == (96, 16) and layout(module, "Row") == (384, 16)
    assert module.number(module.named["rate"], "id") == 7 and module.named["a"].access == "read"
    entry = interface.entry_of(module, module.entry_points[0])
    assert entry.bindings == {0: False, 2: True} and entry.workgroup_size == (4, 2, 1)
    assert entry.workgroup_bytes == 384 and interface.requirements(entry) == ["shader-f16"]
    assert "var<storage, read_write> a:" in all_read_write(module)
    assert all_read_write(module).count("\n") == TEXT.count("\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fn f() {", r"x:1:9: '\}' is missing"), ("fn f( {}", r"x:1:9: '\)' is missing"),
        ("/* /* */", "a comment that"), ("fn f(3) {}", r"x:1:6: expected a name, got '3'"),
        ("var<private> a: u32; fn a() {}", r"x:1:22: 'a' is declared twice"), ("let x = 1;", "expected a declaration"),
        ("fn f() -> { }", "expected a type"), ("#define x", "unexpected character '#'"), ("@compute", "a declaration"),
        ("struct S { a u32 }", "expected ':', got 'u32'"), ("fn f() { (] }", r"'\]' where '\)' was expected"),
    ],
)  # fmt: skip
def test_what_is_broken_names_the_place(text: str, message: str) -> None:
    with pytest.raises(pd.ArtifactError, match=message):
        read(text.encode(), "x")
    with pytest.raises(pd.ArtifactError, match="is no WGSL"):
        read(b"fn f() {}\0", "x")
    assert not is_wgsl(b"\x7fELF\0fn ")


def test_which_buffers_are_written() -> None:
    """Not those that are only declared so."""
    names = "abcde"
    buffers = [f"@group(0) @binding({i}) var<storage, read_write> {n}: array<u32>;" for i, n in enumerate(names)]
    text = "\n".join(buffers).replace("c: array<u32>", "c: array<vec2u>")
    text = text.replace("d: array<u32>", "d: array<atomic<u32>>")
    text += """
    fn helper(i: u32) { e[i] <<= 2u; }
    @compute @workgroup_size(1) fn f() {
      let i = a[0] >> 3u;
      if (a[i] <= 3u && a[b[i]] == 2u) { c[a[i]].x = b[1]; }
      atomicAdd(&d[0], 1u);
      helper(1u);
    }
    @compute @workgroup_size(1) fn g() { a[1]++; b[c[0].x] += 3u; }"""
    module = read(text.encode(), "x")
    assert [written(module, each) for each in module.entry_points] == [{2, 3, 4}, {0, 1}]


def test_writes_through_parentheses_and_named_bindings() -> None:
    declared = """const FIRST = 3;
    @group(0) @binding(FIRST) var<storage, read_write> a: array<vec2u>;
    @group(0) @binding(FIRST + 1) var<storage, read_write> b: array<u32>;"""
    writes = ("(a[i]) = x;", "((a)[i]).x = 1u;", "(((a[i].y))) <<= 2u;", "let p = &(a[i]);", "let p = &((a)[i].x);")
    reads = ("b[(a[i].x)] = 1u;", "b[1] = (a)[i].x;", "b[0] = max((a[i].x), 2u);", "if (a[i].x == 1u) { b[0] = 0u; }")
    for bindings, statements in (({3}, writes), ({4}, reads)):
        for statement in statements:
            text = f"{declared} @compute @workgroup_size(1) fn f() {{ {statement} }}"
            module = read(text.encode(), "x")
            assert written(module, module.entry_points[0]) == bindings, statement
            assert set(interface.entry_of(module, module.entry_points[0]).bindings) >= bindings


@pytest.mark.parametrize(("value", "type_"), [
    ("true", "bool"), ("N > 4", "bool"), ("!(N == 4u) || other", "bool"), ("N <= 4", "bool"), ("other & true", "bool"),
    ("max(1, 2) > N", "bool"), ("array<f32, 2>(1, 2)[0] > 1", "bool"),
    ("u32(N > 4)", "u32"), ("f32(n) * 2", "f32"), ("N", "u32"), ("N + N * 2", "u32"), ("n << 2u", "i32"),
    ("-n >> (N + 1u)", "i32"), ("2 * 3", "i32"), ("1 + 0.5", "f32"), ("two * 0.5", "f32"), ("two", "i32"),
    ("0.5h * 2.0", "f16"), ("0x1.8p3", "f32"), ("0xf", "i32"), ("0xfu", "u32"), ("Real(2)", "f32"), ("1 << 3", "i32"),
    ("select(1, 2, N > 3)", ""), ("array<f32, 2>(1, 2)[0]", ""), ("vec2<f32>(1, 2).x", ""), ("sqrt(2.0)", ""),
    ("1u + 0.5f", ""), ("own", ""), ("unknown", ""), ("c0", ""),
])  # fmt: skip
def test_types_of_defaults(value: str, type_: str) -> None:
    chain = "".join(f"const c{i} = c{i + 1};" for i in range(3000)) + "const c3000 = 1;"
    head = "override N: u32; override n = 3; override other: bool; const two = 2; const own = own; alias Real = f32;"
    module = read(f"enable f16; {head} {chain if value == 'c0' else ''} override k = {value};".encode(), "x")
    if type_:
        assert overrides_of(module, ["k"])[0].type == type_
    else:
        with pytest.raises(pd.ArtifactError, match=r"x:1:\d+: override 'k' has a type that is not known here"):
            overrides_of(module, ["k"])


def test_a_word_goes_to_one_override() -> None:
    """To that of its name; a number is for words without a name in the module."""
    text = "const TWO = 2; override a = 1; @id(0) override b: i32; @id(TWO) override c = 2; @compute fn f() { a; b; }"
    module = read(text.encode(), "x")
    taken = overrides_of(module, ["a", "x"], 3)
    assert [(each.name, each.key, each.word_index) for each in taken] == [("a", "a", 0), ("c", "2", 2)]
    with pytest.raises(pd.ArtifactError, match=r"x:1:\d+: override 'b' has no value: give it a default"):
        check(module, module.entry_points[0], taken)
    assert [each.name for each in overrides_of(module, ["x"])] == ["b"]


@pytest.mark.parametrize(("members", "size"), [
    ("a: u32, @align(16) b: u32", (32, True)), ("a: u32, @size(SIZE * 4) b: u32, c: u32", (40, True)),
    ("@align(SIZE) @size(20) a: vec3f", (24, True)), ("a: u32, @size(max(8, 9)) b: u32", (4, False)),
    ("v: vec3f, a: array<f32>", (16, False)), ("v: vec4f, a: array<f32>", (32, False)),
    ("v: vec4f, a: array<vec3f>", (32, False)), ("n: u32, @align(32) a: array<u32>", (64, False)),
    ("n: u32, a: array<T>", (4, False)), ("n: T, m: T", (4, False)), ("@align(0) n: u32", (4, False)),
])  # fmt: skip
def test_sizes_of_structs(members: str, size: tuple[int, bool]) -> None:
    inside_itself = "struct T { @size(4) @align(4) a: T, @size(4) @align(4) b: T, c: u32 }"
    text = f"const SIZE = 8; struct S {{ {members} }} {inside_itself}"
    assert minimum_size(read(text.encode(), "x"), "S") == size


def test_uniform_blocks_with_attributes() -> None:
    text = """struct Block { n: u32, @align(16) m: u32 } @group(3) @binding(0) var<uniform> given: Block;
    @compute @workgroup_size(1) fn f() { _ = given.m; }"""
    module = read(text.encode(), "x")
    entry = interface.entry_of(module, module.entry_points[0])
    assert interface.mismatch(entry, constants=5, bindings=0) is None
    problem = interface.mismatch(entry, constants=2, bindings=0)
    assert problem is not None and problem.startswith("its uniform block has 32 bytes, the layout has 2 constants of 4")


def test_arguments_of_attributes() -> None:
    text = "@workgroup_size(max(64, 32), 1,) @compute fn f() {} @workgroup_size((2), 1 + 1) @compute fn g() {}"
    module = read(text.encode(), "x")
    f, g = module.entry_points
    assert [each.arguments for each in f.attributes] == [("max(64,32)", "1"), ()]
    assert interface.entry_of(module, f).workgroup_size is None
    assert interface.entry_of(module, g).workgroup_size == (2, 2, 1)
    with pytest.raises(pd.ArtifactError, match=r"x:1:20: '\]' where '\)' was expected"):
        read(b"@workgroup_size(((1]), 1) @compute fn f() {}", "x")


def test_words_of_attributes_are_no_names_of_a_library() -> None:
    kernel = b"// import scale as import0(f32) -> f32\n@compute @workgroup_size(1) fn main() { _ = import0(1.0); }"
    library = b"""
        const flat = 2; const size = 16;
        struct Vertex { @builtin(position) position: vec4f, @interpolate(flat) @size(size) n: u32 }
        fn position(v: Vertex) -> f32 { return v.position.x * flat; }
        fn scale(x: f32) -> f32 { return position(Vertex(vec4f(x), 1)); }"""
    text = link(kernel, [open_library(library, "y")], (), "x").data.decode()
    assert "struct library_Vertex { @builtin(position) position: vec4f" in text
    assert "@interpolate(flat) @size(library_size) n: u32" in text
    assert "fn library_position(v: library_Vertex) -> f32 { return v.position.x * library_flat; }" in text


def test_directives_of_a_library() -> None:
    """Words in its comments are none. A name that the kernel's module has is not added."""
    kernel = b"""requires packed_4x8_integer_dot_product;
// import f as import0_f() -> f32
        @group(0) @binding(0) var<storage, read_write> x: array<f32>;
        @compute @workgroup_size(1) fn main() { x[0] = import0_f(); }"""
    library = b"""// These functions enable fast paths; each requires nothing;
        enable f16, /* enable none; */ subgroups;
        requires packed_4x8_integer_dot_product;
        fn f() -> f32 { return f32(f16(1)); }"""
    text = link(kernel, [open_library(library, "y")], (), "x").data.decode()
    assert [line.strip() for line in text.splitlines() if line.lstrip().startswith(("enable", "requires"))] == [
        "enable f16;", "enable subgroups;", "requires packed_4x8_integer_dot_product;",
    ]  # fmt: skip


def test_any_change_is_an_error_or_another_module() -> None:
    """Cut, repeated, doubled and exchanged: the reader and the linker give an error of ours, in time."""
    chance = random.Random(7)
    library = b"override k: u32 = 1u; fn scale(x: f32, n: u32) -> f32 { return x * f32(n + k); }"
    head = "// import scale as import0(f32, i32) -> f32\n// available scale as there\n"
    for _ in range(1500):
        text = list((TEXT if chance.random() < 0.5 else head + SHADER) + library.decode())
        for _ in range(chance.randrange(1, 6)):
            at, size = chance.randrange(len(text)), chance.randrange(1, 9)
            other = chance.randrange(len(text))
            text[at : at + chance.choice((0, size))] = text[other : other + chance.choice((0, size))]
        data = "".join(text).encode()
        try:
            module = read(data, "x")
            for each in module.entry_points:
                check(module, each, overrides_of(module, ["k"], 4))
                interface.requirements(interface.entry_of(module, each))
                with_merged_buffers(module, each, 1)
                if why_not(module, each) is None:
                    with_grid(module, each)
            link(data, [open_library(data, "y"), open_library(library, "z")], (), "x")
        except pd.Error:
            pass
    nested = "fn f() {" + "(" * 200_000 + ")" * 200_000 + "}"
    nested += "alias a = " + "array<" * 5000 + "u32" + ">" * 5000 + ";"
    with pytest.raises(pd.ArtifactError, match="nested more than"):
        read(nested.encode(), "x")
    nested = "alias a = " + "array<" * 900 + "u32" + ">" * 90 + ";"
    assert layout(read(nested.encode(), "x"), "a") is None


@pytest.mark.parametrize(("text", "value"), [
    ("8", 8), ("0x10u", 16), ("TILE * TILE", 64), ("(TILE + 2) * 3 - 1", 29), ("-7 / 2", -3), ("-7 % 2", -1),
    ("8 - 4 - 2", 2), ("u32(TILE) * 2u", 16), ("SIDE", 24), ("1 << 3", None), ("TILE / 0", None), ("other", None),
    ("own", None), ("max(1, 2)", None), ("(TILE", None), ("+".join("1" * 500), None), ("f", None),
])  # fmt: skip
def test_integers_that_a_text_states(text: str, value: int | None) -> None:
    module = read(b"const TILE = 8; override SIDE: u32 = TILE * 3; const own = own + 1; const f = 1.5;", "a.wgsl")
    assert module.constant(text) == value
    assert module.with_overrides({"SIDE": 5}).constant("SIDE * 2") == 10
    assert module.with_overrides({"SIDE": None}).constant("SIDE * 2") is None


def test_constants_through_constants_end_soon() -> None:
    chain = "".join(f"const c{i} = c{i + 1} + c{i + 1};" for i in range(3000)) + "const c3000 = 1;"
    assert read(chain.encode(), "a.wgsl").constant("c0") is None
    assert read(chain.encode(), "a.wgsl").constant("c2980") == 1 << 20


@pytest.mark.parametrize(
    ("before", "each", "middle", "after", "end"),
    [
        ("const d = ", "(", "1", ")", ";"),
        ("const d = ", "- ", "1", "", ";"),
        ("const d = 1", "+1", "", "", ";"),
        ("const d = true", " && true", "", "", ";"),
        ("alias T = ", "array<", "i32", ",1>", ";"),
        ("fn f() -> f32 { return ", "abs(", "1.0", ")", "; }"),
        ("fn f() { ", "{", "", "}", " }"),
        ("fn f(x: i32) { if x == 0 { } ", "else if x == 1 { } ", "", "", "}"),
    ],
)
def test_nesting_is_bounded(before: str, each: str, middle: str, after: str, end: str) -> None:
    """Drivers walk the syntax tree by recursion: 4,000 levels end the process."""

    def text(count: int) -> bytes:
        return (before + each * count + middle + after * count + end).encode()

    read(text(300), "x")
    with pytest.raises(pd.ArtifactError, match=r"x:1:\d+: nested more than 1000 levels deep .* name parts of it"):
        read(text(4000), "x")


def test_nesting_is_counted_by_expression() -> None:
    statements = "var a = 1 + 2 * (3 - 4); if a < 2 { a += 1; } else { a -= 1; } " * 1000
    arguments = ", ".join(["-1.0 * (2.0 + 3.0)"] * 1000)
    assert len(read(f"fn f() {{ {statements} g({arguments}); }}".encode(), "x").functions) == 1
