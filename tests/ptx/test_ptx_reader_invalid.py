"""PTX that is broken: refused with a place and with words, whatever was done to it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx_texts import AROUND, HEAD, OPERANDS, kernel
from tools import DATA
from work import count_calls

from pydispatch.errors import ArtifactError
from pydispatch.formats.ptx.module import Instruction, PtxFunction, Register
from pydispatch.formats.ptx.read import read

INVALID = [
    ("", "k.ptx:1:1: no PTX: it begins with the end of the text, expected .version"),
    ("int main() {}", "k.ptx:1:1: no PTX: it begins with 'int', expected .version"),
    (".version eight", "k.ptx:1:10: expected a version such as 8.0, got 'eight'"),
    (".version \u00b2.0", "k.ptx:1:10: expected a version such as 8.0, got '\u00b2'"),
    (".version 1234.0", "k.ptx:1:10: expected a version such as 8.0, got '1234.0'"),
    (HEAD + ".global .u32 a = \u00b2;", "k.ptx:4:18: expected a number or a name, got '\u00b2'"),
    (kernel(".loc \u0663 1 1;"), "k.ptx:8:6: expected the number of a file after .loc, got '\u0663'"),
    (kernel(".loc 1 \u00b2 1;"), "k.ptx:8:8: expected the number of a line after .loc, got '\u00b2'"),
    (".version 8.0\n.entry k { ret; }", "k.ptx:2:1: expected '.target' after .version, got '.entry'"),
    (".version 8.0\n.target texmode_unified\n", "k.ptx:2:24: no architecture is stated; expected .target sm_80"),
    (".version 8.0\n.target sm_80\n.address_size 32\n", "k.ptx:3:15: .address_size 32; only 64 is supported"),
    (HEAD + "/* open", "k.ptx:4:1: a comment begins here and has no end"),
    (HEAD + "garbage", "k.ptx:4:1: expected a declaration such as .entry, .func or .global, got 'garbage'"),
    (HEAD + ".global .u33 a;", "k.ptx:4:9: unknown type '.u33' of a .global variable"),
    (HEAD + ".global .texref t;", "k.ptx:4:9: a .global variable is of type .texref; textures, samplers and surfaces"),
    (HEAD + ".global .align 3 .b8 a[8];", "k.ptx:4:16: an alignment of 3; expected a power of two"),
    (HEAD + ".global .u32 a[2] = {1, 2, 3};", "k.ptx:4:21: 3 values for the 2 elements of 'a'"),
    (HEAD + ".global .u32 a[2][2] = {{1, 2, 3}};", "k.ptx:4:25: 3 values where 'a' has 2 elements"),
    (HEAD + ".global .u32 a = {1};", "k.ptx:4:18: 'a' is a scalar; expected one value, without braces"),
    (HEAD + ".global .u64 a = b;", "k.ptx:4:18: 'b' is not declared"),
    (HEAD + ".global .u32 a;\n.global .u32 a;", "k.ptx:5:14: 'a' is defined twice, first in line 4"),
    (HEAD + ".global .u32 a;\n.func a { ret; }", "k.ptx:5:7: 'a' is a function here and a variable above"),
    (HEAD + ".func f { ret; }\n.func f { ret; }", "k.ptx:5:7: 'f' is defined twice, first in line 4"),
    (HEAD + ".global .u32 a", "k.ptx:4:15: expected ',' or ';' in the declaration of 'a', got the end of the text"),
    (HEAD + ".global .u32 a\n.global .u32 b;", "k.ptx:4:15: the declaration of 'a' has no ';' at its end"),
    (HEAD + ".global .u32 a = 1 / 0;", "k.ptx:4:20: '/' of 1 and 0 has no value"),
    (HEAD + ".global .u32 a = 089;", "k.ptx:4:18: '089' is no number of PTX"),
    (HEAD + ".global .f32 a = 0f3F80;", "k.ptx:4:18: '0f3F80' is no number of PTX"),
    (HEAD + ".global .u8 a = 0xf0(a);", "k.ptx:4:17: '0xf0' selects no byte of an address; expected 0xff, 0xff00"),
    (HEAD + ".global .u8 a = 0xff(3);", "k.ptx:4:17: expected an address in parentheses after a mask"),
    (HEAD + ".global .u8 a = 0xff(a)+1;", "k.ptx:4:24: '+' of an address; one may add and subtract bytes"),
    (HEAD + ".global .u8 a = 0xff00(0xff(a));", "k.ptx:4:17: expected an address in parentheses after a mask"),
    (HEAD + ".visible .weak .global .u32 a;", "k.ptx:4:10: '.visible' and '.weak' at once"),
    (HEAD + ".entry (.param .b32 r) k { ret; }", "k.ptx:4:8: an entry returns nothing"),
    (HEAD + ".entry k (.param .u64 p .param .u64 q) { ret; }", "k.ptx:4:25: expected ')' or ',' after a parameter"),
    (HEAD + ".entry k (.param .u64 p, .param .u64 p) { ret; }", "k.ptx:4:8: two parameters of 'k' are named 'p'"),
    (HEAD + ".entry k (int *p) { ret; }", "k.ptx:4:11: expected .param or .reg before a parameter, got 'int'"),
    (HEAD + ".entry k () .maxtnid 3 { ret; }", "k.ptx:4:13: '.maxtnid' is no directive of a function"),
    (HEAD + ".entry k () ret;", "k.ptx:4:13: expected '{' or ';' after the head of 'k', got 'ret'"),
    (HEAD + ".entry k () { ret;", "k.ptx:4:19: the body of 'k' has no end, expected '}'"),
    (HEAD + ".alias a, b;", "k.ptx:4:1: 'a' is an alias of 'b', which is no function that is defined here"),
    (HEAD + ".section", "k.ptx:4:9: expected the name of a section, got the end of the text"),
    (HEAD + ".section .debug_str { .b8 1", "k.ptx:4:10: this section has no end, expected '}'"),
    (kernel("mov.u32 %r1 %r2;"), "k.ptx:8:13: expected ',' or ';' in 'mov', got '%r2'"),
    (kernel("mov.u32 %r1, %r2\nadd.u32 %r1, %r1, 1;"), "k.ptx:8:17: 'mov' has no ';' at its end"),
    (kernel("mov.u32 %r1, %r10;"), "k.ptx:8:14: the register '%r10' is not declared"),
    (kernel("mov.u32 %r1, %tid.q;"), "k.ptx:8:14: '%tid.q' is no operand"),
    (kernel("{ .reg .b32 t; }\nmov.u32 t, 1;"), "k.ptx:9:9: 't' is not declared"),
    (kernel("mov.u32 %r1, nosuch;"), "k.ptx:8:14: 'nosuch' is not declared"),
    (kernel("bra L;\n{ L: trap; }"), "k.ptx:8:5: 'L' is not declared"),
    (kernel("L: trap;\nL: trap;"), "k.ptx:9:1: 'L' is declared twice in this scope"),
    (kernel(".reg .u32 a;\n.reg .f32 a;"), "k.ptx:9:11: 'a' is declared twice in this scope"),
    (kernel(".reg .u32 %r<5>;"), "k.ptx:8:11: '%r<>' is declared twice in this scope"),
    (kernel("%r1 = 3;"), "k.ptx:8:1: expected an instruction of 'k', got '%r1'"),
    (kernel(".byte 3;"), "k.ptx:8:1: '.byte' is no directive of a function's body"),
    (kernel("@%p1 }"), "k.ptx:8:6: expected an instruction, got '}'"),
    (HEAD + ".entry k { .reg .pred p; @p", "k.ptx:4:28: expected an instruction, got the end of the text"),
    (kernel("@q trap;"), "k.ptx:8:2: expected the predicate of a guard @p or @!p, got 'q'"),
    (kernel("ld.global.u32 %r1, [%rd1;"), "k.ptx:8:25: expected ']' after an address, got ';'"),
    (kernel("ld.global.u32 %r1, [0xff00(q)];"), "k.ptx:8:21: a byte of the address of 'q', which only the value of"),
    (kernel("mov.u64 %rd1, 0xff(q);"), "k.ptx:8:15: a byte of the address of 'q', which only the value of a variable"),
    (kernel("ld.global.u32 %r1, [_];"), "k.ptx:8:21: '_' is no address"),
    (kernel("ld.global.u32 %r1, [%rd1+%r1];"), "k.ptx:8:26: expected a number, got '%r1'"),
    (kernel("mov.b64 {%r1, %r2, %rd1;"), "k.ptx:8:24: expected '}', got ';'"),
    (kernel("setp.lt.s32 %p1|3, %r1, 2;"), "k.ptx:8:17: expected a register after '|', got '3'"),
    (kernel("mov.u32 %r1, 5 ? 3;"), "k.ptx:8:19: expected ':' of a ? b : c, got ';'"),
    (kernel("mov.b32 %r1, 18446744073709551615 * 2;"), "k.ptx:8:35: a number of more than 64 bits"),
    (kernel("mov.u64 %rd1, 'a';"), "k.ptx:8:15: expected a number or a name, got '''"),
    (kernel(".loc 1 2\ntrap;"), "k.ptx:9:1: expected the number of a column after .loc, got 'trap'"),
]  # fmt: skip


@pytest.mark.parametrize("text, message", INVALID, ids=range(len(INVALID)))
def test_invalid_texts(text: str, message: str) -> None:
    with pytest.raises(ArtifactError) as caught:
        read(text, "k.ptx")
    assert str(caught.value).startswith(message)


def test_invalid_bytes() -> None:
    good = kernel("").encode()
    assert read(good + b"\0\0").entries[0].name == "k"
    for data, message in (
        (good + b"\xff", "k.ptx:11:1: byte "), (good[:40] + b"\0" + good[40:], "k.ptx:3:1: a zero byte"),
        (b"\x7fELF\2\1", "k.ptx is an ELF file, a cubin or an object"),
    ):  # fmt: skip
        with pytest.raises(ArtifactError, match=re.escape(message)):
            read(data, "k.ptx")


BOMBS = {
    "comments": HEAD + "/*" * 200_000,
    "strings": HEAD + '.file 1 "' * 50_001,
    "parentheses": kernel("mov.u32 %r1, " + "(" * 50_000),
    "signs": kernel("mov.u32 %r1, " + "-" * 50_000 + "1;"),
    "braces": kernel("{" * 50_000),
    "scopes": kernel("{" * 50_000 + "}" * 50_000),
    "vectors": kernel("mov.b64 " + "{" * 50_000 + "}" * 50_000 + ";"),
    "brackets": kernel("ld.u32 " + "[%rd1," * 50_000),
    "questions": kernel("mov.u32 %r1, " + "1?2:" * 20_000 + "3;"),
    "ors": kernel("mov.u32 %r1, 1" + "|1" * 50_000),
    "registers": kernel(".reg .b32 %q<16777216>; mov.u32 %q16777215, 1;" + "}" * 10 + ".func"),
    "ranges": kernel("".join(f".reg .b32 %q{i}_<16777216>;" for i in range(2_000)) + "?"),
    "zeros": HEAD + ".global .u8 a[16777216][16777216] = {" + "{}," * 10_000 + "};",
    "rows": HEAD + ".global .u8 a[]" + "[9]" * 5_000 + " = {};",
    "sizes": HEAD + ".global .u8 a" + "[99999999999999999999]" * 8 + ";",
    "initial": HEAD + ".global .u8 a[] = " + "{" * 50_000,
    "names": kernel("mov.u32 %r1, " + "a." * 100_000 + ";"),
    "digits": kernel("mov.u32 %r1, %r" + "1" * 200_000 + ";"),
    "decimal": kernel("mov.f32 %f1, " + "1" * 200_000 + ".0;"),
    "labels": kernel("".join(f"L{i}: {{ " for i in range(20_000))),
    "guards": kernel("@" * 100_000),
    "attributes": HEAD + ".global .attribute" + "(" * 100_000,
    "dots": kernel("ld" + " .a" * 50_000),
}


@pytest.mark.parametrize("name", BOMBS)
def test_texts_that_are_made_to_hurt(name: str) -> None:
    text = BOMBS[name]
    with pytest.raises(ArtifactError, match=r"^bomb:\d+:\d+: ") as caught:
        count_calls(lambda: read(text, "bomb"), limit=20 * len(text) + 10_000)  # 9 for a character are the most
    assert len(str(caught.value)) < 300


def test_long_texts_take_little_time() -> None:
    def calls(count: int) -> int:
        text = kernel("add.s32 %r1, %r2, 4;\nld.global.f32 %f1, [%rd1+16];\n" * count)
        found = read(text).functions[0].body
        assert found is not None and len(found) == 2 * count + 1
        return count_calls(lambda: read(text))

    calls(1)
    assert calls(4_000) < 2.2 * calls(2_000)


# Changed texts

SEEDS = [(DATA / name).read_text() for name in ("language_sm_80.ptx", "functions_sm_75.ptx", "library_sm_90.ptx")]
SEEDS.append(
    kernel(" ".join(text for text, _ in OPERANDS), AROUND + ".global .u64 t[2][2] = {{generic(words)+4}, {1-2, 3}};")
)
WORDS = [re.findall(r"\s+|[\w.%$]+|.", text) for text in SEEDS]


def attempt(text: str) -> None:
    try:
        module = read(text, "fuzz")
    except ArtifactError as error:
        assert re.match(r"fuzz:\d+:\d+: ", str(error)), error
        line, column = map(int, str(error).split(":")[1:3])
        lines = text.rstrip("\0").split("\n")
        assert 1 <= line <= len(lines) and 1 <= column <= len(lines[line - 1]) + 1
    else:
        for function in module.functions:
            assert_closed(function)


def assert_closed(function: PtxFunction) -> None:
    """Every register of a body has a type."""

    def walk(operand: Any) -> None:
        if isinstance(operand, Register) and not operand.name.startswith("%") and "." not in operand.name:
            assert operand.name in function.registers
        for part in getattr(operand, "items", ()):
            walk(part)

    for item in function.body or ():
        if isinstance(item, Instruction):
            for operand in item.operands:
                walk(operand)


@given(st.integers(0, len(SEEDS) - 1), st.data())
@settings(max_examples=250, deadline=None, derandomize=True)
def test_words_changed(which: int, data: st.DataObject) -> None:
    words = list(WORDS[which])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(words) - 1))
        kind = data.draw(st.integers(0, 3))
        if kind == 0:
            del words[at : at + data.draw(st.integers(1, 4))]
        elif kind == 1:
            words[at] = data.draw(st.sampled_from(WORDS[data.draw(st.integers(0, len(SEEDS) - 1))]))
        elif kind == 2:
            words.insert(at, data.draw(st.sampled_from([*"{}[]();,.+-!|@<>=\"_:'", "/*", "//", "0x", ".reg", "1e999"])))
        else:
            words[at] = words[at][:-1] + data.draw(st.characters())
    attempt("".join(words))


@given(st.integers(0, len(SEEDS) - 1), st.integers(0, 100_000))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_texts_cut_off(which: int, at: int) -> None:
    attempt(SEEDS[which][: at % len(SEEDS[which])])


@given(st.text(alphabet=st.sampled_from('%.rabx019{}[]()<>;,:+-!|@="/* \n\\$_?&'), max_size=60))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_any_text_in_a_body(text: str) -> None:
    attempt(kernel(text))
