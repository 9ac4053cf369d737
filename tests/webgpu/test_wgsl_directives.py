"""Directives of C in WGSL: against a C preprocessor, and shaders that need them run unedited."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from webgpu_programs import source

import pydispatch as pd
from pydispatch import files
from pydispatch.errors import ArtifactError
from pydispatch.formats.wgsl.preprocess import preprocess

NAMES = [f"M{i}" for i in range(6)]
CHAIN = "".join(f"#define A{i} A{i + 1}\n" for i in range(2000))
A = np.arange(70, dtype=np.float32)


def expression(rng: random.Random, depth: int = 3) -> str:
    if depth == 0 or rng.random() < 0.2:
        names = (rng.choice(NAMES), f"defined({rng.choice(NAMES)})", f"defined {rng.choice(NAMES)}")
        return rng.choice((str(rng.randrange(9)), "0x1f", *names))
    if rng.random() < 0.2:
        return f"{rng.choice('!-+~')}({expression(rng, depth - 1)})"
    if rng.random() < 0.1:
        value, divisor = expression(rng, depth - 1), expression(rng, depth - 1)
        guard = rng.choice((f"({divisor}) &&", f"!({divisor}) ||"))
        return f"({guard} ({value}) {rng.choice('/%')} ({divisor}) {rng.choice(('== 0', '> 1'))})"
    mark = rng.choice(("||", "&&", "|", "^", "&", "==", "!=", "<", ">", "<=", ">=", "+", "-", "*", "/ 3 +", "% 5 -"))
    left, right = expression(rng, depth - 1), expression(rng, depth - 1)
    return f"({left}) {mark} {right}" if rng.random() < 0.5 else f"{left} {mark} ({right})"


def lines(rng: random.Random, depth: int = 3) -> list[str]:
    found = []
    for _ in range(rng.randrange(1, 5)):
        kind = rng.randrange(6 if depth else 4)
        if kind == 0:
            value = rng.choice((str(rng.randrange(5)), rng.choice(NAMES), f"{rng.choice(NAMES)} + 1", "0 /* x */"))
            name = rng.choice(NAMES)
            found += [f"#undef {name}", f"#  define {name} {value} // {name}"]
        elif kind == 1:
            found.append(f"#undef {rng.choice(NAMES)}")
        elif kind < 4:
            found.append(f"let x{rng.choice(NAMES)} = {rng.choice(NAMES)}+f({rng.choice(NAMES)}) /* {NAMES[0]} */;")
        else:
            test = rng.choice((f"#ifdef {rng.choice(NAMES)}", f"#ifndef {rng.choice(NAMES)}", f"#if {expression(rng)}"))
            found += [test, *lines(rng, depth - 1)]
            if rng.random() < 0.5:
                found += [f"#elif {expression(rng)}", *lines(rng, depth - 1)]
            if rng.random() < 0.5:
                found += ["#else", *lines(rng, depth - 1)]
            found.append("#endif")
    return found


def words(text: str) -> list[str]:
    return re.findall(r"\w+|\S", text)


def test_they_mean_what_they_mean_in_c() -> None:
    rng = random.Random(0)
    given = [f"#define {name} {i}" for i, name in enumerate(NAMES[:3])]
    for _ in range(300):
        given += lines(rng)
    text = "\n".join(given)
    command = ["cc", "-E", "-P", "-w", "-DM5=7", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    ours = preprocess(text.encode(), "x.wgsl", defines=["M5=7"]).decode()
    assert words(ours) == words(done.stdout)
    assert len(words(ours)) > 500
    assert ours.count("\n") == text.count("\n")


@pytest.mark.parametrize(
    "condition",
    ["defined(N) && 64 % N == 0", "!defined(N) || 64 / N > 4", "0 && (1 / 0 || 1 % 0) || 1", "1 || 0 && 1 / 0",
     "0 && 1 << 63 << 63", "2 && 64 % (N + 3) == 1"],
)  # fmt: skip
def test_operands_that_c_does_not_evaluate(condition: str) -> None:
    text = f"#if {condition}\nyes\n#else\nno\n#endif"
    done = subprocess.run(["cc", "-E", "-P", "-w", "-"], input=text, capture_output=True, text=True, check=True)
    assert words(preprocess(text.encode(), "x").decode()) == words(done.stdout)


def test_files_that_include_others_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    monkeypatch.setattr(files, "read", lambda path: opened.append(path) or path.read_bytes())
    (tmp_path / "16.wgsl").write_text("L\n")
    for i in range(16):
        (tmp_path / f"{i}.wgsl").write_text(f'#include "{i + 1}.wgsl"\n' * 2)
    with pytest.raises(ArtifactError, match=rf"\.wgsl:[12]: the include of {tmp_path}/\d+.wgsl makes more than "):
        preprocess(b'#include "0.wgsl"', str(tmp_path / "x.wgsl"))
    assert 4000 < len(opened) <= 4096
    text = '#define L 7\n#include "6.wgsl"\n#include "7.wgsl"\n'
    command = ["cc", "-E", "-P", "-w", f"-I{tmp_path}", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    assert words(preprocess(text.encode(), str(tmp_path / "x.wgsl")).decode()) == words(done.stdout)
    (tmp_path / "large.wgsl").write_text("#if 0\n" + " " * (1 << 22) + "\n#endif")
    with pytest.raises(ArtifactError, match=r"x.wgsl:4: the include of .*large.wgsl makes more .*; include each file"):
        preprocess(b'#include "large.wgsl"\n' * 9, str(tmp_path / "x.wgsl"))


def test_the_largest_that_is_valid(tmp_path: Path) -> None:
    brackets = "1 + (" * 63 + "1" + ")" * 63
    chain = "\n".join(f"#define A{i} A{i + 1}" for i in range(99))
    text = f"{chain}\n#if {brackets} == 64 && 0xffffffffffffffff && {'0' * 5000}1 && 18446744073709551615\nA0\n#endif\n"
    (tmp_path / "63.wgsl").write_text(text)
    for i in range(63):
        (tmp_path / f"{i}.wgsl").write_text(f'#include "{i + 1}.wgsl"')
    assert preprocess(b'#include "0.wgsl"', str(tmp_path / "x.wgsl")) == b"A99"


def test_lines_stay() -> None:
    text = "#define N \\\n  4u\n/* a\n/* b */ #if 0\n*/ const n = N; // #if\n#if N == 4\nconst m = 0x4N + M;\n"
    text += "#endif\nend"
    assert preprocess(text.encode(), "x", defines=["M=1"]).decode().split("\n") == [
        "", "", " ", "", " const n = 4u;  ", "", "const m = 0x4N + 1;", "", "end",
    ]  # fmt: skip
    plain = b"const n = 4; // #no directive"
    assert preprocess(plain, "x") is plain


def test_includes(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "inner.wgsl").write_text("const inner = N;\n#define TWICE 2\n")
    (tmp_path / "outer.wgsl").write_text('// a file\n#include "inner.wgsl"\nconst outer = 1;\n')
    text = b'#define N 7\n#include "outer.wgsl"\nconst last = TWICE;\n'
    made = preprocess(text, str(tmp_path / "x.wgsl"), include_dirs=[tmp_path / "shared"])
    assert made.decode().split("\n") == ["", "const inner = 7; const outer = 1;", "const last = 2;", ""]
    with pytest.raises(ArtifactError, match=r"outer.wgsl:2: 'inner.wgsl' was not found in .*; name its folder in"):
        preprocess(text, str(tmp_path / "x.wgsl"))
    (tmp_path / "outer.wgsl").write_text('#include "outer.wgsl"')
    with pytest.raises(ArtifactError, match=r"outer.wgsl:1: .*outer.wgsl includes itself"):
        preprocess(text, str(tmp_path / "x.wgsl"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n#if 1", "x:2: a condition without #endif"),
        ("#endif", "x:1: #endif without #if"),
        ("#if 0\n#else\n#elif 1\n#endif", "x:3: #elif after the #else of the condition of line 1"),
        ("#if 1 +\n#endif", r"x:1: unexpected 'the end' in the condition '1 \+'"),
        ("#if 1 / 0\n#endif", r"x:1: division by 0 in the condition '1 / 0'; test the divisor first"),
        ("#if 1 && 1 / 0\n#endif", "x:1: division by 0"),
        ("#if 0 && 1 /\n#endif", "x:1: unexpected 'the end'"),
        ("#if (1\n#endif", r"x:1: '\)' is missing"),
        ("#if 1 1\n#endif", "x:1: unexpected '1'"),
        ("#if defined(1)\n#endif", r"x:1: unexpected '\(' in the condition"),
        ("#if " + "(" * 200 + "\n#endif", "x:1: more than 200 nested operators and brackets in the condition "),
        ("#if " + "(1 || 1 && 1 | 1 ^ 1 & 1 == 1 < 1 << 1 + 1 * " * 95 + "1" + ")" * 95 + "\n#endif",
         "x:1: more than 200 nested operators and brackets in the condition .*; split it"),
        ("#if " + "9" * 5000 + "\n#endif", r"x:1: number '9{100}\.\.\.' has more than 64 bits in .*; write one"),
        ("#if 0 && 18446744073709551616\n#endif", "x:1: number '18446744073709551616' has more than 64 bits"),
        ("#if 0x1" + "0" * 16 + "\n#endif", "x:1: number '0x10000000000000000' has more than 64 bits"),
        ("#if 1 << 63 << 63\n#endif", "x:1: more than 64 bits"),
        ("#ifdef 1\n#endif", "x:1: #ifdef needs the name of a macro, got '1'"),
        ("#define f(x) x", "x:1: macro 'f' has parameters; write a function of WGSL instead"),
        ("#define a+ 1", "x:1: a space is missing after the name of macro 'a'"),
        ("#define", "x:1: #define needs the name of a macro"),
        ("#include <a>", "x:1: #include needs the name of a file"),
        ('\n#include "' + "a" * 300 + '"', "x:2: 'a{300}' cannot be looked up in .: File name too long; include"),
        (CHAIN + "A0", "x:2001: macro 'A100' is nested in 100 other macros; shorten the chain of definitions"),
        (CHAIN + "#if A0\n#endif", "x:2001: macro 'A100' is nested in 100 other macros; shorten the chain"),
        ("#error no such type", "x:1: #error no such type"),
        ("#pragma once", "x:1: #pragma is no directive of WGSL; known are #define"),
        ("#define a b b b b\n#define b c c c c\n" + "".join(f"#define {c} {d} {d} {d} {d} {d} {d}\n" for c, d in
         zip("cdefghijkl", "defghijklm", strict=True)) + "a", "x:.* makes more than 16777216 .*; use shorter macros"),
    ],
)  # fmt: skip
def test_what_is_not_valid(text: str, message: str) -> None:
    with pytest.raises(ArtifactError, match=message):
        preprocess(text.encode(), "x")


SHADER = """
#ifdef TYPE_F16
enable f16;
#define TYPE f16
#else
#define TYPE f32
#endif
@group(0) @binding(0)
var<storage, read_write> first: array<TYPE>;
@group(0) @binding(1)
var<storage, read_write> second: array<TYPE>;
#include "shared.wgsl"
@group(0) @binding(PLACE)
var<uniform> given: Constants;
@compute @workgroup_size(SIZE)
fn main(@builtin(global_invocation_id) at: vec3<u32>) {
    if (at.x < given.n) {
#if defined(ADD)
        third[at.x] = first[at.x] + second[at.x];
#elif defined(MUL)
        third[at.x] = first[at.x] * second[at.x];
#endif
    }
}
"""
SHARED = """
struct Constants { n: u32 };
@group(0) @binding(2) var<storage, read_write> third: array<TYPE>;  // the result
#define PLACE 3
"""


def options(defines: list[str], folder: Path | None = None) -> str:
    listed = ", ".join(f'"{each}"' for each in defines)
    return f"defines = [{listed}]" + ("" if folder is None else f', include_dirs = ["{folder}"]')


def test_a_shader_of_several_kernels_runs(device: Any, wgsl: Callable[..., Path], tmp_path: Path) -> None:
    path = wgsl("main", SHADER)
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "shared.wgsl").write_text(SHARED)
    for defines, expected in ((["ADD", "SIZE=32"], A + (A + 2)), (["MUL", "SIZE=64"], A * (A + 2))):
        mlir = source([path]).replace(f'"{path}"', f'"{path}", {options(defines, tmp_path / "shared")}')
        per = "%per = arith.constant 32 : index"
        program = device.load(pd.compile(mlir.replace("%per = arith.constant 64 : index", per), targets="webgpu"))
        np.testing.assert_array_equal(program.mul(A, A + 2), expected)


def test_directives_at_run_time() -> None:
    with pytest.raises(pd.ArtifactError, match="character '#'; directives are carried out when a program is compiled"):
        pd.device("webgpu:0").add_executable("executable", SHADER.encode())


def test_errors_of_objects(wgsl: Callable[..., Path], tmp_path: Path) -> None:
    def compiled(more: str, text: str = SHADER, kind: str = "wgsl") -> None:
        path = wgsl("main", text).rename(tmp_path / f"main.{kind}")
        pd.compile(source([path]).replace(f'"{path}"', f'"{path}", {more}'), targets="webgpu")

    with pytest.raises(pd.CompileError, match=r"main.wgsl:12: 'shared.wgsl' was not found in "):
        compiled(options(["ADD", "SIZE=32"]))
    with pytest.raises(pd.CompileError, match=r"'-x' of its defines is no macro"):
        compiled(options(["-x"]))
    with pytest.raises(pd.CompileError, match=r"its folder of includes 'nowhere' was not found"):
        compiled(options(["X"], Path("nowhere")))
    with pytest.raises(pd.CompileError, match=r"main.spv' has defines, and is not compiled"):
        compiled(options(["X"]), kind="spv")
    with pytest.raises(pd.CompileError, match=r"the defines of an object are a list of strings"):
        compiled("defines = {X = 1}")
