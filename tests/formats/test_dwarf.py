"""Parameters in debug information of both versions that compilers write, and of files that are broken."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from pydispatch.formats.elf.dwarf import DebugParameter, parameters

SOURCE = """
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
typedef float real;
typedef const real *restrict input;
enum color { RED, BLUE };
struct pair { int a, b; };
void k(input a, real *b, float *const out, const volatile size_t n, double s, struct pair *p, bool t, int8_t i,
       enum color c, void *v, float **q, long double w) { out[0] = a[0] + b[0] + n + s + p->a + t + i + c + w; }
void none(void) {}
int many(int n, ...) { return n; }
"""
WANTED = [
    DebugParameter("a", "f32", True, True),
    DebugParameter("b", "f32", True, False),
    DebugParameter("out", "f32", True, False),
    DebugParameter("n", "i64", False, False),
    DebugParameter("s", "f64", False, False),
    DebugParameter("p", "", True, False),
    DebugParameter("t", "i1", False, False),
    DebugParameter("i", "i8", False, False),
    DebugParameter("c", "i32", False, False),
    DebugParameter("v", "", True, False),
    DebugParameter("q", "", True, False),
    DebugParameter("w", "", False, False),
]
CLANG = (sys.executable, "-m", "ziglang", "cc", "-target", "x86_64-linux-musl")


def compiled(folder: Path, *command: str) -> bytes:
    (folder / "k.c").write_text(SOURCE)
    subprocess.run([*command, "-c", folder / "k.c", "-o", folder / "k.o"], check=True)
    return (folder / "k.o").read_bytes()


@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize("version", ["4", "5"])
@pytest.mark.parametrize("compiler", [("cc",), CLANG], ids=["cc", "clang"])
def test_parameters(compiler: tuple[str, ...], version: str, level: str, tmp_path: Path) -> None:
    data = compiled(tmp_path, *compiler, f"-gdwarf-{version}", level)
    assert parameters(data, "k") == WANTED
    assert parameters(data, "none") == []
    assert parameters(data, "many") is None  # nobody knows how many
    assert parameters(data, "absent") is None


def test_an_object_of_another_machine(tmp_path: Path) -> None:
    data = compiled(tmp_path, *CLANG[:-1], "aarch64-linux-musl", "-gdwarf-5", "-O2")
    assert parameters(data, "k") == WANTED


ASSEMBLY = """
.section .debug_abbrev,"",@progbits
.byte 1, 0x11, 1, 0, 0                             # a compilation unit, with children
.byte 2, 0x2E, 1, 0x03, 0x08, 0, 0                 # a function: its name
.byte 3, 0x05, 0, 0x03, 0x08, 0x49, 0x10, 0, 0     # a parameter: name, and offset of the type in the section
.byte 4, 0x05, 0, 0x31, 0x10, 0, 0                 # a parameter: offset of its description in the section
.byte 5, 0x24, 0, 0x0B, 0x0B, 0x3E, 0x0B, 0, 0, 0  # a base type: size and encoding
.section .debug_info,"",@progbits
info:
.long first_end - . - 4
.short 4
.long 0
.byte 8, 1
own: .byte 5, 4, 4
.byte 2
.asciz "k"
PARAMETER
.byte 0, 0
first_end:
.long second_end - . - 4
.short 4
.long 0
.byte 8, 1
other: .byte 5, 4, 4
.byte 2
.asciz "f"
described: .byte 3
.asciz "x"
.long other - info
.byte 0, 0
second_end:
"""


@pytest.mark.parametrize(
    ("parameter", "wanted"),
    [
        ('.byte 3\n.asciz "x"\n.long own - info', [DebugParameter("x", "f32", False, False)]),
        ('.byte 3\n.asciz "x"\n.long other - info', None),
        (".byte 4\n.long described - info", None),
    ],
)
def test_another_unit(parameter: str, wanted: list[DebugParameter] | None, tmp_path: Path) -> None:
    """Nothing is known of a parameter that another unit describes, or whose type another unit has."""
    (tmp_path / "k.s").write_text(ASSEMBLY.replace("PARAMETER", parameter))
    subprocess.run([*CLANG, "-c", tmp_path / "k.s", "-o", tmp_path / "k.o"], check=True)
    data = (tmp_path / "k.o").read_bytes()
    assert parameters(data, "k") == wanted
    assert parameters(data, "f") == [DebugParameter("x", "f32", False, False)]


def test_nothing_is_known_without_debug_information(tmp_path: Path) -> None:
    assert parameters(compiled(tmp_path, *CLANG, "-g0"), "k") is None
    assert parameters(b"no object", "k") is None


def test_broken_files_say_nothing_or_something(tmp_path: Path) -> None:
    data = compiled(tmp_path, *CLANG, "-gdwarf-5")
    rng = random.Random(1)
    for _ in range(400):
        broken = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            broken[rng.randrange(len(broken))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        found = parameters(bytes(broken), "k")
        assert found is None or all(isinstance(each, DebugParameter) for each in found)
    for size in range(0, len(data), 97):
        assert parameters(data[:size], "k") is None
