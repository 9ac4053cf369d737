"""Invalid twins of the programs of this folder: each is refused at its place, with what is wrong and what to do."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

import pydispatch as pd
from pydispatch.compiler.toolchain import tools

PROGRAMS = Path(__file__).parent / "programs"
GOOD = "int next_i32(int x) { return x + 1; }\n"
pytestmark = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="texts name x86-64")

# Program, what is replaced, by what; a part of the line of the error ("": the replacement), parts of the message.
Row = tuple[str, str, str, str, tuple[str, ...]]
TEXTS: dict[str, Row] = {
    "unknown op": (
        "layout_flat", "arith.subf", "arith.subff", "", ("operation 'arith.subff' is not known", "arith.subf"),
    ),
    "unknown dialect": ("layout_flat", "arith.subf", "arit.subf", "", ("'arit.subf' is not known", "arith.subf")),
    "type mismatch": ("layout_flat", "%x, %y : f32", "%x, %y : f64", "", ("f64", "f32")),
    "undefined value": ("layout_flat", "%x, %y : f32", "%x, %yy : f32", "", ("value '%yy' is not defined", "%y")),
    "value of another function": (
        "functions", "%end = affine.min affine_map<(d0)[s0] -> (d0 + 64, s0)>(%first)[%size]",
        "%end = affine.min affine_map<(d0)[s0] -> (d0 + 64, s0)>(%n)[%size]", "",
        ("'affine.min' uses %n", "not defined in this 'func.func'"),
    ),
    "undefined alias": (
        "layout_flat", "target(#target)", "target(#tarjet)", "", ("alias '#tarjet'", "nearest: #target"),
    ),
    "unknown export": ("layout_flat", "@here::@sub[", "@here::@sum[", "", ("no export '@sum'", "exports: @sub")),
    "unknown executable": ("layout_flat", "@kernels::@here::", "@kernel::@here::", "", ("'@kernel'", "@kernels")),
    "unknown variant": ("layout_flat", "::@here::", "::@there::", "", ("no variant '@there'", "variants: @here")),
    "operand count": (
        "layout_flat", "(%word, %a, %b)\n        : (i32, tensor<?xf32>{%size}, ", "(%word, %a)\n        : (i32, ",
        "", ("3 bindings", "gives 2", "in order"),
    ),
    "extra scalar": (
        "layout_flat", "(%word, %a, %b)\n        : (i32, ", "(%word, %word, %a, %b)\n        : (i32, i32, ",
        "", ("takes 1 constants", "2 32-bit words"),
    ),
    "workload arity": (
        "layout_flat", "@sub[%size]", "@sub[%size, %size]", "", ("takes 1 values", "gives 2", "brackets"),
    ),
    "count arity": (
        "layout_flat", "%x, %one, %one : index, index, index", "%x, %one : index, index",
        "hal.executable.export", ("(index, index)", "expected (index, index, index)"),
    ),
    "constant ordinal": ("layout_flat", "ordinal(0) : i32", "ordinal(1) : i32", "", ("ordinal(1)", "1 constant")),
    "constant of an old layout": ("layout_sets", "load[0]", "load[1]", "", ("constant 1 is read", "'@mul' has 1")),
    "binding of an old layout": ("layout_sets", "binding(2)", "binding(7)", "", ("binding 7 is read", "'@mul' has 3")),
    "sizes of an operand": (
        "layout_flat", "tensor<?xf32>{%size}, tensor<?xf32>{%size})", "tensor<?xf32>, tensor<?xf32>{%size})",
        "", ("1 dynamic dimension", "{%dim"),
    ),
    "layouts differ": (
        "entry_points", "#level) {\n      hal.executable.export public @fill ordinal(0) layout(#layout)",
        "#level) {\n      hal.executable.export public @fill ordinal(0) layout(#hal.pipeline.layout<constants = 2, "
        "bindings = [#hal.pipeline.binding<storage_buffer>]>)",
        "hal.executable private", ("different layouts for '@fill'",),
    ),
    "ordinals twice": ("binding_order", "ordinal(1) layout", "ordinal(0) layout", "variant", ("ordinal 0", "two")),
    "ordinal gap": ("binding_order", "ordinal(1) layout", "ordinal(2) layout", "", ("leaves a gap", "0 to 1")),
    "unknown backend": ("layout_flat", '"llvm-cpu"', '"llvm-gpu"', "module", ("no backend 'llvm-gpu'", "llvm-cpu")),
    "unknown format": ("layout_flat", "elf-x86_64", "elf-z80", "variant", ("embedded-elf-z80", "embedded-elf-arm_64")),
    "unknown CPU": (
        "layout_flat", 'x86_64">', 'x86_64", {cpu = "x86-65"}>', "variant", ("'x86-65'", "x86-64-v3"),
    ),
    "no function of an export": ("layout_flat", "func.func @sub(", "func.func @sum(", "variant", ("sub", "sum")),
    "no function of a stream export": (
        "keys", "func.func @next(", "func.func @nexte(", "export", ("'@next'", "@nexte"),
    ),
    "no objects for the target": (
        "keys", '#key = [#hal', '#bigger = [#hal', "stream.executable", ("no objects", "match the target", "keys:"),
    ),
    "missing object": (
        "keys", "kernels.c", "nowhere.o", "stream.executable", ("'nowhere.o' was not found", "object-search-path"),
    ),
    "host operation": (
        "tensors", "%0 = arith.addf %a, %b : tensor<f32>",
        "%1 = memref.alloc() : memref<4xf32>\n    %0 = arith.addf %a, %b : tensor<f32>",
        "memref.alloc", ("'memref.alloc' is not supported in host code", "arith, math and affine on scalars"),
    ),
    "a store into what is only read": (
        "ties", "memref.store %v, %z[%i]", "memref.store %v, %y[%i]", "", ("%v", "only read", "tie a result"),
    ),
    "recursion": ("functions", "@util_helper(%a) : (", "@util_helped(%a) : (", "", ("calls itself", "no recursion")),
    "tied to nothing": ("ties", "-> %a{%n}", "-> %q{%n}", "", ("tied to %q", "not an operand")),
}  # fmt: skip


def refused(text: str, *folders: Path) -> pd.CompileError:
    with pytest.raises(pd.CompileError) as caught:
        pd.compile(text, object_search_path=[*folders, PROGRAMS])
    assert caught.value.location is not None, caught.value
    return caught.value


@pytest.mark.parametrize("name", TEXTS)
def test_refused_where_it_is_wrong(name: str) -> None:
    if name == "unknown CPU" and os.environ.get("PYDISPATCH_TEST_CPU"):
        pytest.skip("x86-64 levels of PYDISPATCH_TEST_CPU take the place of the program's CPU")
    program, old, new, place, parts = TEXTS[name]
    text = (PROGRAMS / f"{program}.mlir").read_text()
    start = text.index(old)
    text = text[:start] + new + text[start + len(old) :]
    error = refused(text)
    for part in parts:
        assert part in str(error)
    assert error.location is not None
    if place:
        assert place in error.location.text
    else:
        first = text.count("\n", 0, start) + 1
        assert first <= error.location.line <= first + new.count("\n")


def test_an_empty_program() -> None:
    with pytest.raises(pd.CompileError, match="the program is empty"):
        pd.compile("\n")


def gcc(folder: Path, text: str, name: str) -> None:
    (folder / "object.c").write_text(text)
    subprocess.run(["gcc", "-O1", "-fPIC", "-ffreestanding", "-c", "object.c", "-o", name], cwd=folder, check=True)


OBJECTS = {
    "thread-local": ("static __thread int n; int next_i32(int x) { return x + n++; }\n", ("thread-local", "binding")),
    "writable": ("int n = 3; int next_i32(int x) { return x + n++; }\n", ("writable data", "(n)", "const")),
    "zeroed": ("static int n; int next_i32(int x) { return x + n++; }\n", ("writable data", "(n)", "const")),
    "stack": (
        'asm(".section .note.GNU-stack,\\"x\\",@progbits\\n.text");\n' + GOOD, ("executable stack", ".note.GNU-stack"),
    ),
    "undefined": (
        "int other(int); int next_i32(int x) { return other(x); }\n", ("'other'", "nothing defines", "C library"),
    ),
    "misspelt": ("int nexti32(int x) { return x; }\n", ("'next_i32'", "no object defines", "nearest: 'nexti32'")),
}  # fmt: skip


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_that_cannot_be_linked(name: str, tmp_path: Path) -> None:
    source, parts = OBJECTS[name]
    gcc(tmp_path, source, "bad.o")
    error = refused((PROGRAMS / "keys.mlir").read_text().replace("kernels.c", "bad.o"), tmp_path)
    for part in (*parts, "" if name == "misspelt" else "bad.o"):
        assert part in str(error)


STATE = {
    "thread-local": ("_Thread_local int n;", "", "has the thread-local variable 'n'"),
    "writable": ("int n = 3;", "", "has the writable variable 'n'"),
    "static": ("", "static int n;", "has the writable variable 'next_i32.n'"),
    "constructor": (
        "static int n; __attribute__((constructor)) static void begin(void) { n = 3; }", "",
        "has constructors or destructors of global variables",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STATE)
def test_c_files_keep_no_state(name: str, tmp_path: Path) -> None:
    outside, inside, message = STATE[name]
    (tmp_path / "bad.c").write_text(f"{outside}\nint next_i32(int x) {{ {inside} return x + n++; }}\n")
    error = refused((PROGRAMS / "keys.mlir").read_text().replace("kernels.c", "bad.c"), tmp_path)
    assert message in str(error) and "bad.c" in str(error)


RUNTIMES = {
    "exceptions": ("int next_i32(int x) { if (x > 3) throw x; return x; }", "bad.o uses exceptions"),
    "constructors": (
        "int f(); static const int n = f(); int next_i32(int x) { return x + n; }",
        "bad.o has constructors or destructors",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RUNTIMES)
def test_objects_that_need_a_runtime(name: str, tmp_path: Path) -> None:
    source, message = RUNTIMES[name]
    (tmp_path / "object.cc").write_text(f'extern "C" {{ {source} }}')
    subprocess.run(["g++", "-O1", "-fPIC", "-c", "object.cc", "-o", "bad.o"], cwd=tmp_path, check=True)
    assert message in str(refused((PROGRAMS / "keys.mlir").read_text().replace("kernels.c", "bad.o"), tmp_path))


def test_members_of_archives_that_need_a_runtime(tmp_path: Path) -> None:
    (tmp_path / "object.cc").write_text(f'extern "C" {{ {RUNTIMES["constructors"][0]} }} int f() {{ return 1; }}')
    for command in (["g++", "-O0", "-fPIC", "-c", "object.cc", "-o", "object.o"], ["ar", "rcs", "bad.a", "object.o"]):
        subprocess.run(command, cwd=tmp_path, check=True)
    error = refused((PROGRAMS / "keys.mlir").read_text().replace("kernels.c", "bad.a"), tmp_path)
    assert "bad.a(object.o) has" in str(error)


def test_an_object_of_another_machine(tmp_path: Path) -> None:
    (tmp_path / "object.c").write_text(GOOD)
    subprocess.run(
        [sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-freestanding", "-c", "object.c", "-o", "arm.o"],
        cwd=tmp_path, check=True,
    )  # fmt: skip
    error = refused((PROGRAMS / "keys.mlir").read_text().replace("kernels.c", "arm.o"), tmp_path)
    assert "arm.o is for machine aarch64, the target is x86_64" in str(error)


@pytest.mark.parametrize(
    ("name", "data", "part"),
    [
        ("empty.o", b"", "is not an ELF file"),
        ("text.o", b"hello", "is not an ELF file"),
        ("broken.bc", b"BC\xc0\xde" + bytes(64), "is not readable bitcode"),
        ("wrong.c", b"int next_i32(int x) { return y; }\n", "use of undeclared identifier 'y'"),
        ("what.xyz", b"hello", "what.xyz"),
    ],
    ids=["empty", "text", "bitcode", "C", "suffix"],
)
def test_objects_that_are_none(name: str, data: bytes, part: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    error = refused((PROGRAMS / "keys.mlir").read_text().replace("kernels.c", name), tmp_path)
    assert part in str(error) and name in str(error)


def test_bitcode_with_a_broken_name(tmp_path: Path) -> None:
    """LLVM reads names of any bytes."""
    source = b"int helper(int x) { return x; } int next_i32(int x) { return helper(x); }"
    data = tools.find().compile_c(source, arch="x86_64", emit="bc")
    (tmp_path / "bad.bc").write_bytes(data.replace(b"helper", b"help\xdfr"))
    error = refused((PROGRAMS / "keys.mlir").read_text().replace("kernels.c", "bad.bc"), tmp_path)
    assert "bad.bc' is broken bitcode" in str(error) and "build it anew" in str(error)
