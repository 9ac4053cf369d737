"""PTX linked with PTX: what is taken, what it is called, what is refused; ptxas takes what comes out."""

from __future__ import annotations

import contextlib
import re
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tools import DATA, assemble
from work import count_calls

from pydispatch.errors import ArtifactError, InvalidArgumentError
from pydispatch.formats.ptx.module import PtxModule
from pydispatch.formats.ptx.read import read
from pydispatch.link.ptx.library import BUILT_IN
from pydispatch.link.ptx.link import LinkedPtx, imports_of, link, open_library, prototypes_of

CALLER = (DATA / "caller_sm_80.ptx").read_text()
LIBRARY = (DATA / "library_sm_90.ptx").read_text()
HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
KERNEL = """
.visible .entry k(.param .u64 p) {{
  .reg .b64 %rd<3>; .reg .f32 %f<5>; .reg .b32 %r<5>;
  ld.param.u64 %rd1, [p]; cvta.to.global.u64 %rd1, %rd1; ld.global.f32 %f1, [%rd1];
  {}
  st.global.f32 [%rd1], %f1;
  ret;
}}
"""
CALL = "{{ .param .b32 a; .param .b32 r; st.param.f32 [a], %f1; call.uni (r), {}, (a); ld.param.f32 %f1, [r]; }}"
EXTERN = ".extern .func (.param .b32 r) {} (.param .b32 a);\n"


def kernel(*symbols: str, head: str = HEAD, more: str = "") -> str:
    """A kernel that calls functions float → float."""
    return head + "".join(map(EXTERN.format, symbols)) + more + KERNEL.format("\n  ".join(map(CALL.format, symbols)))


def function(name: str, code: str = "add.f32 %f1, %f1, 0f3F800000;", linkage: str = ".visible ") -> str:
    return (
        f"{linkage}.func (.param .f32 back) {name} (.param .f32 given)\n{{ .reg .f32 %f<4>; .reg .b64 %rd<3>; "
        f".reg .b32 %r<3>;\nld.param.f32 %f1, [given]; {code}\nst.param.f32 [back], %f1; ret; }}\n"
    )


def linked(kernel: str, *libraries: str, **options: Any) -> tuple[LinkedPtx, PtxModule]:
    """Links with libraries a.ptx, b.ptx, ...; what comes out can be read, and ptxas takes what lacks nothing."""
    opened = [open_library(text, f"{'abcdef'[number]}.ptx") for number, text in enumerate(libraries)]
    result = link(kernel, opened, where="k.ptx", **options)
    module = read(result.data, "linked.ptx")
    assert (result.target, result.version) == (module.target, module.version)
    return result, module


def checked(kernel: str, *libraries: str, **options: Any) -> tuple[LinkedPtx, PtxModule]:
    result, module = linked(kernel, *libraries, **options)
    assert result.unresolved == ()
    takes(result.data, module.target)
    return result, module


def takes(text: str, target: str, *flags: str) -> None:
    """ptxas takes a text. Where there is none, the rest of a test holds nevertheless; others say that it is missing."""
    with contextlib.suppress(pytest.skip.Exception):
        assert assemble(text, target, *flags) == "", text


def names(module: PtxModule) -> list[str]:
    return sorted({each.name for each in (*module.functions, *module.variables)})


# What is taken


def test_what_nvcc_compiled_is_linked() -> None:
    result, module = checked(CALLER, LIBRARY)
    assert result.providers == {"user_op": "a.ptx"}
    assert (result.target, result.version, result.raised) == ("sm_90", (9, 0), ("a.ptx",))
    # `calls` is a variable of both; what nobody asks for stays away.
    (hidden,) = (name for name in names(module) if "hidden" in name)
    assert names(module) == sorted(["apply", "calls", "calls$2", hidden, "scale", "user_op", "_Z6helperf"])
    values = {v.name: v.values for v in module.variables}
    assert values["calls"] == (9,) and values["calls$2"] == (3,)
    helper = module.function("_Z6helperf")
    assert helper is not None and helper.linkage == ""
    text = module.text[helper.start : helper.end]
    assert "[calls$2]" in text and ".loc" not in text
    entry = module.function("apply")
    assert entry is not None and "[calls]" in module.text[entry.start : entry.end]
    assert ".extern" not in result.data and "// a.ptx:" in result.data


def run(text: str, name: str, values: np.ndarray[Any, Any], *params: bytes) -> np.ndarray[Any, Any]:
    """What a kernel (in, out, ...) makes of values, one thread for each."""
    from pydispatch.runtime.simulators.ptx.machine import Machine

    machine = Machine()
    given, out = machine.memory.allocate(values.nbytes), machine.memory.allocate(values.nbytes)
    machine.memory.write(given, values.tobytes())
    machine.memory.write(out, bytes(values.nbytes))
    packed = struct.pack("<QQ", given, out) + b"".join(params)
    machine.launch(machine.load(text, "linked.ptx").entry(name), (1, 1, 1), (len(values), 1, 1), packed)
    return np.frombuffer(machine.memory.read(out, values.nbytes), values.dtype)


def test_what_is_linked_runs() -> None:
    values = np.array([0.0, 1.0, -2.5, 7.25, 100.0], np.float32)
    text = link(CALLER, [open_library(LIBRARY, "a.ptx")]).data
    found = run(text, "apply", values, struct.pack("<I", 4))
    # user_op(x, 2) = (x * scale[1] + scale[2] + calls of the library) * 2, and calls of the kernel
    assert found.tolist() == [*((values[:4] * 2 + 3 + 3) * 2 + 9).tolist(), 0]


def test_missing_functions_run_as_asked() -> None:
    def result(*libraries: str) -> float:
        opened = [open_library(text, "a.ptx") for text in libraries]
        text = link(ASKING, opened, ("f",)).data.replace("st.global.f32 [%rd1]", "st.global.f32 [%rd2]")
        text = text.replace("k(.param .u64 p)", "k(.param .u64 p, .param .u64 q)")
        text = text.replace("ld.param.u64 %rd1, [p];", "ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [q];")
        return float(run(text, "k", np.array([5.0], np.float32))[0])

    assert result(HEAD + function("f")) == 6.0
    assert result() == 5.0


def test_the_same_text_comes_out() -> None:
    one, two = (link(CALLER, [open_library(LIBRARY, f"/home/{who}/library.ptx")]) for who in "ab")
    assert one.data == two.data and "// library.ptx:" in one.data


def test_nothing_to_do() -> None:
    text = kernel() + "// the end"
    result, _ = checked(text, HEAD + function("f"))
    assert result.data == text and result.providers == {}


def test_libraries_that_need_each_other_and_the_kernel() -> None:
    a = HEAD + EXTERN.format("inner") + function("outer", CALL.format("inner"))
    b = HEAD + EXTERN.format("own") + EXTERN.format("outer") + function("inner", CALL.format("own")) + function("x")
    text = kernel("outer", more=function("own"))
    result, module = checked(text, a, b)
    assert result.providers == {"outer": "a.ptx", "inner": "b.ptx"}
    assert names(module) == ["inner", "k", "outer", "own"]
    # Without b, what a needs is what the program lacks.
    result, _ = linked(text, a)
    assert result.unresolved == ("inner",) and result.data.count(".extern .func") == 1


def test_what_is_left_is_linked_later() -> None:
    first, module = linked(kernel("f", "g"), HEAD + function("f"))
    assert first.unresolved == ("g",) and imports_of(first.data) == ("g",)
    assert first.providers == {"f": "a.ptx"}
    second, module = checked(first.data, HEAD + function("g") + function("f"))
    assert second.providers == {"g": "a.ptx"} and names(module) == ["f", "g", "k"]


def test_the_first_library_is_taken_and_the_others_keep_their_own() -> None:
    use = "ld.global.f32 %f2, [state]; add.f32 %f1, %f1, %f2;"
    a = HEAD + ".visible .global .f32 state = 1.0;\n" + function("f", use) + function("h")
    b = HEAD + ".visible .global .f32 state = 2.0;\n" + function("h", use) + function("g", CALL.format("h"))
    b += function("f")
    result, module = checked(kernel("f", "g"), a, b)
    assert result.providers == {"f": "a.ptx", "g": "b.ptx"}
    assert names(module) == ["f", "g", "h", "k", "state", "state$2"]
    assert {v.name: v.values for v in module.variables} == {"state": (1.0,), "state$2": (2.0,)}
    result, _ = checked(kernel("f"), b, a)
    assert result.providers == {"f": "a.ptx"} and "state" not in result.data
    with pytest.raises(InvalidArgumentError, match=r"^'f' is defined twice, in a.ptx:5 and in b.ptx:13; leave out one"):
        linked(kernel("f"), a, b, unique=True)
    assert linked(kernel("g"), a, b, unique=True)[0].providers == {"g": "b.ptx"}


def test_static_names_of_libraries_make_way() -> None:
    mine = "ld.const.f32 %f2, [table]; add.f32 %f1, %f1, %f2;" + CALL.format("helper")
    a = HEAD + ".const .f32 table = 1.0;\n" + function("helper", linkage="") + function("f", mine)
    text = kernel("f", "helper", more=".global .b32 table$2;\n.global .b32 table;\n")
    result, module = checked(text, a, HEAD + function("helper"))
    assert result.providers == {"f": "a.ptx", "helper": "b.ptx"}
    assert names(module) == ["f", "helper", "helper$2", "k", "table", "table$2", "table$3"]
    f = module.function("f")
    assert f is not None and re.findall(r"table\S*\]|helper\S*,", module.text[f.start : f.end]) == [
        "table$3]", "helper$2,",
    ]  # fmt: skip


def test_names_that_are_instructions_too() -> None:
    library = HEAD + function("trap", "@%p trap; trap;".replace("@%p ", ""), "") + function("f", CALL.format("trap"))
    _, module = checked(kernel("f", more=".global .b32 trap;\n"), library)
    f = module.function("trap$2")
    assert f is not None and module.text[f.start : f.end].count("trap;") == 2


def test_variables_are_linked() -> None:
    use = "ld.const.f32 %f2, [table+4]; add.f32 %f1, %f1, %f2;"
    text = HEAD + ".extern .const .align 4 .b8 table[];\n" + KERNEL.format(use)
    library = (
        HEAD
        + ".visible .const .align 16 .b8 table[8] = {0,0,0,0,0,0,128,63};\n.visible .global .u64 unused;\n"
        + function("x")
    )
    result, module = checked(text, library)
    assert result.providers == {"table": "a.ptx"} and names(module) == ["k", "table"]
    # Variables that point at others and at functions, in an order that PTX takes.
    library = (
        HEAD + ".func (.param .f32 back) s (.param .f32 given);\n.global .f32 last = 4.0;\n"
        ".visible .global .u64 list[3] = {0, generic(last), s};\n" + function("s", linkage="")
    )
    text = HEAD + ".extern .global .align 8 .u64 list[3];\n" + KERNEL.format("ld.global.u64 %rd2, [list+8];")
    result, module = linked(text, library + function("x"))
    assert [v.name for v in module.variables] == ["last", "list"]
    assert names(module) == ["k", "last", "list", "s"]
    takes(result.data, "sm_80")


@pytest.mark.parametrize("needed", ["a", "b"])
def test_variables_of_one_statement_follow_what_their_initializers_name(needed: str) -> None:
    library = HEAD + ".global .f32 x = 4.0;\n.visible .global .u64 a = generic(x), b;\n" + function("f")
    text = HEAD + f".extern .global .u64 {needed};\n" + KERNEL.format(f"ld.global.u64 %rd2, [{needed}];")
    _, module = checked(text, library)
    assert [v.name for v in module.variables] == ["x", "a", "b"] and module.text.count(".global .u64") == 1
    # Of two variables that one statement declares, one cannot be linked without the other.
    with pytest.raises(InvalidArgumentError, match=f"^'{needed}' .* is declared together with unresolved names"):
        linked(
            HEAD
            + f".extern .global .u64 {needed}, none;\n"
            + KERNEL.format(f"ld.global.u64 %rd2, [{needed}]; ld.global.u64 %rd2, [none];"),
            library,
        )


def test_shared_memory_of_libraries() -> None:
    use = "mov.u32 %r1, own; st.shared.f32 [%r1], %f1; mov.u32 %r1, dynamic; ld.shared.f32 %f1, [%r1];"
    library = HEAD + ".shared .f32 own;\n.extern .shared .align 16 .b8 dynamic[];\n" + function("f", use)
    _, module = checked(kernel("f", more=".extern .shared .align 16 .b8 dynamic[];\n.shared .b32 own;\n"), library)
    assert names(module) == ["dynamic", "dynamic$2", "f", "k", "own", "own$2"]


def test_functions_of_the_driver_are_no_imports() -> None:
    text = HEAD + ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n"
    call = "{ .param .b64 a; .param .b64 b; .param .b32 r; call.uni (r), vprintf, (a, b); }"
    result, _ = linked(text + KERNEL.format(call), text + function("vprintf$"))
    assert result.unresolved == () and imports_of(text + KERNEL.format(call)) == ()
    assert "vprintf" in BUILT_IN
    # A library's need of one is declared once.
    result, _ = linked(kernel("f", "g"), text + function("f", call) + function("g", call))
    assert result.data.count("vprintf (") == 1 and result.unresolved == ()
    takes(result.data, "sm_80", "-c")


ASKING = HEAD + (
    ".extern .func (.param .b32 r) pyd_has_f ();\n" + EXTERN.format("f")
    + KERNEL.format(
        "{ .reg .pred %p; .param .b32 r; call.uni (r), pyd_has_f; ld.param.b32 %r1, [r]; setp.ne.s32 %p, %r1, 0; "
        "@!%p bra L;\n" + CALL.format("f") + "\nL: }"
    )
)  # fmt: skip


def test_what_may_be_missing() -> None:
    assert imports_of(ASKING) == ("f",) and prototypes_of(ASKING)["f"] == "(.b32) -> .b32"
    answer = r"\.func \(\.param \.b32 r\) pyd_has_f \(\)\s*\{\s*st\.param\.b32 \[r\], (\d);"
    result, module = checked(ASKING, HEAD + function("f"), optional=("f",))
    assert re.findall(answer, result.data) == ["1"] and result.providers == {"f": "a.ptx"}
    assert names(module) == ["f", "k", "pyd_has_f"]
    result, module = checked(ASKING, optional=("f",))
    assert re.findall(answer, result.data) == ["0"] and result.providers == {}
    missing = module.function("f")
    assert missing is not None and missing.body is not None and "trap;" in module.text[missing.start : missing.end]
    result, module = linked(ASKING)
    assert result.unresolved == ("f",) and result.data == ASKING


def test_names_and_prototypes() -> None:
    library = open_library(LIBRARY, "lib.ptx")
    assert sorted(library.names()) == ["_Z6helperf", "unused", "user_op"]
    assert library.prototype("user_op") == "(.b32, .b32) -> .b32"
    assert prototypes_of(CALLER) == {"user_op": "(.b32, .b32) -> .b32"}
    struct = HEAD + ".extern .func f (.param .align 8 .b8 s[24], .param .f64 d);\n" + KERNEL.format("call f, (s, d);")
    struct = struct.replace("call f, (s, d);", "{ .param .align 8 .b8 s[24]; .param .f64 d; call f, (s, d); }")
    assert prototypes_of(struct) == {"f": "(.align 8 .b8[24], .f64) -> nothing"}


# Architectures


@pytest.mark.parametrize("one, two, expected", [
    ("sm_80", "sm_75", "sm_80"), ("sm_75", "sm_80", "sm_80"), ("sm_90", "sm_90a", "sm_90a"),
    ("sm_90a", "sm_80", "sm_90a"), ("sm_100f", "sm_100a", "sm_100a"), ("sm_100f", "sm_103a", "sm_103a"),
])  # fmt: skip
def test_the_highest_architecture_is_needed(one: str, two: str, expected: str) -> None:
    def head(target: str) -> str:
        return HEAD.replace("sm_80", target).replace("8.0", "8.8")

    result, _ = checked(kernel("f", head=head(one)), head(two) + function("f"))
    assert result.target == expected and result.raised == (() if one == expected else ("a.ptx",))
    # A library that gives nothing raises nothing.
    result, _ = linked(kernel("f", head=head(one)), head(one) + function("f"), head(two) + function("g"))
    assert result.target == one


@pytest.mark.parametrize("one, two", [("sm_90a", "sm_100"), ("sm_100", "sm_90a"), ("sm_100f", "sm_120")])
def test_architectures_that_exclude_each_other(one: str, two: str) -> None:
    low = min(one, two, key=lambda name: int(name[3:].rstrip("af")))
    with pytest.raises(InvalidArgumentError, match=f"is only for {low} and .* they cannot be linked; compile both"):
        linked(kernel("f", head=HEAD.replace("sm_80", one)), HEAD.replace("sm_80", two) + function("f"))


# What is refused


F = ".visible .func (.param .{0} r) f (.param .{1} a{2}) {{ ret; }}\n"
TABLE = HEAD + ".extern .const .align 4 .b8 table[8];\n" + KERNEL.format("ld.const.f32 %f1, [table];")


@pytest.mark.parametrize("text, library, message", [
    (kernel("f"), F.format("f32", "f32", ", .param .u64 b"),
     "the function 'f' of a.ptx does not fit its call: k.ptx:4 calls (.b32) -> .b32, a.ptx:4 defines (.f32, .u64) -> "
     ".f32"),
    (kernel("f"), F.format("f32", "f64", ""), "the function 'f' of a.ptx does not fit its call: k.ptx:4 calls (.b32)"),
    (kernel("f"), F.format("b64", "f32", ""), "the function 'f' of a.ptx does not fit its call"),
    (kernel("f").replace(".param .b32 a);", ".param .f32 a);", 1), F.format("b32", "s32", ""),
     "the function 'f' of a.ptx does not fit its call: k.ptx:4 calls (.f32) -> .b32, a.ptx:4 defines (.s32) -> .b32"),
    (kernel("f"), ".visible .global .b32 f;" + function("g"), "'f' is a function in k.ptx:4 and a variable in a.ptx:4"),
    (TABLE, ".visible .const .b8 table[4];\n" + function("g"),
     "the variable 'table' of a.ptx is not the one that is declared: k.ptx:4 declares .const .align 4 .b8[8], a.ptx:4 "
     "defines .const .align 1 .b8[4]"),
    (TABLE, ".visible .global .align 8 .b8 table[8];\n" + function("g"), "the variable 'table' of a.ptx is not the"),
    (kernel("f", more=".global .b32 x;\n"), ".extern .global .b32 x;\n" + function("f", "mov.u64 %rd1, x;"),
     "'x' of a.ptx is imported from elsewhere, and k.ptx:5 has one for itself; make that one .visible, or rename it"),
    (HEAD + ".extern .global .b32 a, b;\n" + KERNEL.format("mov.u64 %rd1, a; mov.u64 %rd1, b;"),
     ".visible .global .b32 a;\n" + function("g"),
     "'a' (k.ptx:4) is declared together with unresolved names; write a declaration for each"),
    (ASKING.replace("pyd_has_f ();", "pyd_has_f (.param .b32 a);"), function("f"),
     "'pyd_has_f' (k.ptx:4) asks for a symbol and is no function () -> .b32"),
])  # fmt: skip
def test_what_does_not_fit(text: str, library: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        linked(text, HEAD + library)
    assert str(caught.value).startswith(message), caught.value


@pytest.mark.parametrize("text, message", [
    (HEAD, "x.ptx offers no function: it defines none; write extern \"C\" __device__ before a function, and "
           "compile with nvcc -ptx -rdc=true"),
    (HEAD + function("f", linkage=""), "x.ptx offers no function: the functions f are not .visible"),
    (HEAD + EXTERN.format("f"), "x.ptx offers no function: it defines none"),
    (kernel(), "x.ptx offers no function: it has the kernels k, which cannot be called"),
])  # fmt: skip
def test_what_is_no_library(text: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        open_library(text, "x.ptx")
    assert str(caught.value).startswith(message)


def test_broken_libraries() -> None:
    with pytest.raises(ArtifactError, match=r"^x.ptx:4:1: expected a declaration such as"):
        open_library(HEAD + "}", "x.ptx")
    with pytest.raises(ArtifactError, match=r"^k.ptx:1:1: no PTX"):
        link(b"SPIR-V", [], where="k.ptx")
    alias = HEAD + function("g") + ".alias f, g;\n"
    with pytest.raises(ArtifactError, match=r"^a.ptx:8:1: the alias 'f' lacks a declaration .func f"):
        linked(kernel("f"), alias)


def test_aliases_are_taken_with_what_they_name() -> None:
    library = HEAD + ".visible .func (.param .f32 back) f (.param .f32 given);\n" + function("g") + ".alias f, g;\n"
    _, module = checked(kernel("f"), library)
    assert names(module) == ["f", "g", "k"]


def test_large_libraries_take_little_time() -> None:
    """Nothing here is more than linear in the size of a library, whatever it holds."""

    def calls(size: int) -> int:
        many = ", ".join(f"v{n}" for n in range(10 * size))
        chain = "".join(function(f"f{n}", CALL.format(f"f{n + 1}"), "") for n in range(size))
        library = HEAD + f".global .b32 {many};\n" + chain + function(f"f{size}", "mov.u64 %rd1, v7;", "")
        library += function("f", CALL.format("f0")) + "".join(f".alias a{n}, f;\n" for n in range(5 * size))
        text = kernel("f", more=".global .b32 f5;\n" + f".extern .global .b32 {many};\n")
        found: list[tuple[LinkedPtx, PtxModule]] = []
        count = count_calls(lambda: found.append(linked(text, library)))
        ((result, module),) = found
        assert result.providers == {"f": "a.ptx"} and len(module.functions) == 2 * (size + 2) + 1
        assert {"f5", "f5$2", "v7", "v7$2"} <= set(names(module))
        return count

    calls(10)  # what is done once
    assert calls(300) < 2.2 * calls(150)


# Changed texts

WORDS = [re.findall(r"\s+|[\w.%$]+|.", text) for text in (CALLER, LIBRARY)]


@given(st.integers(0, 1), st.data())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_words_changed(which: int, data: st.DataObject) -> None:
    words = list(WORDS[which])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(words) - 1))
        words[at] = data.draw(
            st.sampled_from([*WORDS[data.draw(st.integers(0, 1))], "", "user_op", ".visible", ".loc"])
        )
    texts = [CALLER, LIBRARY]
    texts[which] = "".join(words)
    try:
        result = link(texts[0], [open_library(texts[1], "a.ptx")], where="k.ptx")
    except (ArtifactError, InvalidArgumentError) as error:
        assert "a.ptx" in str(error) or "k.ptx" in str(error) or "is no architecture" in str(error), error
    else:
        read(result.data, "linked.ptx")
