"""`pydispatch plugin build`: what is built loads and works, and what a standalone plugin must not have is named."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import fork_server
import pytest
from pydispatch._core import elf as core_elf
from pydispatch._core import plugin

from pydispatch.formats.elf import elf, fatelf

ROOT = Path(__file__).resolve().parents[2]
PLAIN = """int f(void* p, void* c, void* r) { *(int*)p += 2; return 0; }
int g(void* p, void* c, void* r) { return 7; }
"""


def build(*arguments: object) -> subprocess.CompletedProcess[str]:
    return fork_server.run(["-m", "pydispatch.cli", "plugin", "build", *arguments])


def resolve(path: Path, *names: str) -> list[bool]:
    manager = plugin.Manager()
    manager.add(plugin.Plugin(path))
    return [address != 0 for address, _ in manager.resolution().resolve([f"?{name}" for name in names])]


def test_the_example(tmp_path: Path) -> None:
    out = tmp_path / "simple_mul.sos"
    done = build(ROOT / "examples" / "plugin" / "simple_mul.c", "-o", out)
    assert done.stdout.startswith(f"{out}: standalone plugin for x86_64, aarch64, riscv64, "), done.stderr
    assert [core_elf.validate(part) for _, part in fatelf.split(out.read_bytes())] == ["x86_64", "aarch64", "riscv64"]
    assert plugin.Plugin(out).name == "simple_mul" and resolve(out, "simple_mul_workgroup", "other") == [True, False]
    again = tmp_path / "again.sos"
    build(ROOT / "examples" / "plugin" / "simple_mul.c", "-o", again)
    assert again.read_bytes() == out.read_bytes()


def test_plain_functions(tmp_path: Path) -> None:
    source, out = tmp_path / "my.c", tmp_path / "my.so"
    source.write_text(PLAIN)
    done = build(source, "-o", out, "--export=f", "--export=g", '--description=a "quoted" ü')
    assert done.returncode == 0, done.stderr
    facts = elf.read(out.read_bytes())
    assert facts.exports == ["iree_hal_executable_plugin_query"] and facts.imports == [] and facts.needed == []
    loaded = plugin.Plugin(out)
    assert (loaded.kind, loaded.name, loaded.description) == ("embedded", "my", 'a "quoted" ü')
    assert resolve(out, "f", "g", "h") == [True, True, False]
    done = build(source, "-o", out, "--system", "--export=f", "--name=mine", "--flag=-lm")
    assert done.stdout.startswith(f"{out}: system plugin for {platform.machine()}"), done.stderr
    assert plugin.Plugin(out).kind == "system" and plugin.Plugin(out).name == "mine"


def test_the_math_library_is_linked_in(tmp_path: Path) -> None:
    source, out = tmp_path / "m.c", tmp_path / "m.sos"
    source.write_text("#include <math.h>\n#include <string.h>\nint f(void* p, void* c, void* r)"
                      "{ float* a = p; a[0] = expf(a[1]) * sinf(a[2]); memmove(a + 3, a, 40); return 0; }")  # fmt: skip
    assert build(source, "-o", out, "--export=f").returncode == 0
    assert resolve(out, "f") == [True]


@pytest.mark.parametrize(
    ("text", "options", "message", "note"),
    [
        ("static int n;" + PLAIN.replace("return 0", "return n++"), ["--export=f"],
         "bad.c has 4 bytes of writable data in section .bss.n (n)", "make it const, or keep it in the instance"),
        ("static _Thread_local int n;" + PLAIN.replace("return 0", "return n++"), ["--export=f"],
         "bad.c has thread-local data in section .tbss.n", "keep the value on the stack, or build with --system"),
        ("#include <stdio.h>\n" + PLAIN.replace("return 0", 'printf("%d", 1); return 0'), ["--export=f"],
         "bad.c refers to 'printf', which nothing defines", "has no C library and cannot print"),
        ("#include <stdlib.h>\n" + PLAIN.replace("return 0", "return malloc(*(int*)p) == p"), ["--export=f"],
         "bad.c refers to 'malloc'", "pyd_plugin_alloc(&environment->allocator, size)"),
        ("int other(int);" + PLAIN.replace("return 0", "return other(1)"), ["--export=f"],
         "bad.c refers to 'other'", "add the source that defines it"),
        (PLAIN, [], "no source defines the query function iree_hal_executable_plugin_query", "--export"),
        (PLAIN, ["--export=h"], "no source defines 'h'", "int NAME(void* params, void* context, void* reserved)"),
        (PLAIN, ["--export=f", "--export=f"], "a name is there twice", ""),
        (PLAIN, ["--export=f-g"], "export 'f-g': expected the name of a C function", ""),
        (PLAIN, ["--export=f", "--arch=x86_64,sparc"], "arch 'sparc': expected one of x86_64, aarch64, riscv64", ""),
        (PLAIN, ["--export=f", "--flag=-lm"], "--flag: only a --system plugin", ""),
        (PLAIN, ["--export=f", "--arch=x86_64,aarch64"], "name it bad.sos", ""),
        (PLAIN, ["--system", "--arch=x86_64"], "--arch: a --system plugin is built for this machine", ""),
        (PLAIN, ["--system"], "does not export iree_hal_executable_plugin_query", "--export"),
        ("int f(void* p { }", ["--export=f"], "bad.c:1:", ""),
        ("int f(void* p { }", ["--export=f", "--system"], "building the system plugin failed", ""),
        ('#include "pydispatch/plugin.h"\nint f(void* p, void* c, void* r) { return 0; }\n'
         'PYD_PLUGIN("x", "", PYD_PLUGIN_FN("f", f))', ["--export=f"],
         "a source defines iree_hal_executable_plugin_query itself", "leave --export out"),
    ],
)  # fmt: skip
def test_refusals(tmp_path: Path, text: str, options: list[str], message: str, note: str) -> None:
    source, out = tmp_path / "bad.c", tmp_path / "bad.so"
    source.write_text(text)
    done = build(source, "-o", out, *options)
    assert done.returncode == 1 and message in done.stderr and note in done.stderr, done.stderr
    assert not out.exists()


def test_a_missing_source(tmp_path: Path) -> None:
    done = build(tmp_path / "none.c", "-o", tmp_path / "none.so")
    assert done.returncode == 1 and "none.c" in done.stderr


def test_the_header_stands_alone(tmp_path: Path) -> None:
    """In C and C++, with every warning, and with the names of the standard library untouched."""
    text = (
        '#include "pydispatch/plugin.h"\nstatic int f(void* p, void* c, void* r)'
        " { (void)p; (void)c; (void)r; return 0; }\n"
        'PYD_PLUGIN("x", "y", PYD_PLUGIN_FN("f", f), PYD_PLUGIN_FN_CONTEXT("g", f, 0))\n'
    )
    for compiler, name, standard in (("gcc", "a.c", "c99"), ("gcc", "a.c", "c11"), ("g++", "a.cpp", "c++11")):
        source = tmp_path / name
        source.write_text(text)
        command = [compiler, f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-nostdlib",
                   f"-I{ROOT}/csrc/include", str(source), "-o", str(tmp_path / "a.so")]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert resolve(tmp_path / "a.so", "f", "g") == [True, True]
