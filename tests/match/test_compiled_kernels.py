# ruff: noqa: E501, F821, UP037  (programs; sizes of a pattern are names)
"""Kernels of patterns in bitcode and objects: what a function is passed is checked against its signature and debug
information."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import match_cases as cases
import numpy as np
import pytest

import pydispatch as pd
from pydispatch.errors import CompileError
from pydispatch.patterns import Pattern

P = np.linspace(-3, 5, 40, dtype=np.float32)
Q = np.linspace(2, -1, 40, dtype=np.float32)
BODY = "{ for (size_t i = 0; i < n; ++i) out[i] = (a[i] - b[i]) * (a[i] - b[i]) + 100; }"
NAMELESS = ("-O2", "-g0")


def square_of_difference() -> Pattern:
    @pd.pattern
    def square(a: pd.f32["n"], b: pd.f32["n"]):
        d = a - b
        return d * d

    return square


def compiled(source: str, folder: Path, kind: str, *flags: str) -> bytes:
    """C source as bitcode ("bc") or as an object ("o")."""
    (folder / "k.c").write_text(f"#include <stddef.h>\n{source}")
    command = [sys.executable, "-m", "ziglang", "cc", "-c", "-fno-sanitize=all", "-ffreestanding", "-mcpu=baseline"]
    command += ["-emit-llvm"] if kind == "bc" else []
    subprocess.run([*command, *flags, folder / "k.c", "-o", folder / f"k.{kind}"], check=True)
    return (folder / f"k.{kind}").read_bytes()


def kernel(parameters: str, folder: Path, kind: str, *flags: str) -> bytes:
    """A function that squares differences."""
    return compiled(f"void k({parameters}) {BODY}", folder, kind, *flags)


@pytest.mark.parametrize(
    ("kind", "flags"),
    [("bc", ("-O2", "-g0", "-fno-discard-value-names")), ("bc", ("-O2", "-g")), ("o", ("-O2", "-g"))],
    ids=["bitcode, names", "bitcode, debug information", "object, debug information"],
)
def test_arguments_are_bound_by_name(kind: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    data = kernel("size_t n, float* out, const float* b, const float* a", tmp_path, kind, *flags)
    pattern = square_of_difference().replace(pd.CFunction(data, "k"))
    program = pd.device("cpu").load(pd.compile(cases.DYNAMIC, patterns=[pattern]))
    np.testing.assert_array_equal(program.f(P, Q), (P - Q) ** 2 + 100)


@pytest.mark.parametrize(
    ("parameters", "flags", "arguments", "message"),
    [
        ("size_t n, const float* a, const float* b, float* out", NAMELESS, (), r"k\(i64, ptr, ptr, ptr\): parameter 1 is passed 'a', which is a pointer to f32"),
        ("const float* a, const float* b, float* out, int n", NAMELESS, (), r"parameter 4 is passed 'n', which is a size \(size_t\)"),
        ("const float* a, const float* b, float* out, size_t n, size_t m", NAMELESS, (), "takes 5 arguments, and is passed a, b, out, n"),
        ("const float* a, const float* b, float* out, size_t n", ("-O0", "-g"), ("b", "a", "out", "n"), "parameter 1 is passed 'b', and 'a' is another value of the pattern"),
        ("float* a, float* b, float* out, size_t n", NAMELESS, ("a", "out", "b", "n"), "parameter 2 is passed 'out', which is a result, but the function only reads it"),
    ],
)  # fmt: skip
def test_arguments_that_bitcode_does_not_take(
    parameters: str, flags: tuple[str, ...], arguments: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    function = pd.CFunction(kernel(parameters, tmp_path, "bc", *flags), "k", *arguments)
    with pytest.raises(CompileError, match=message):
        pd.compile(cases.DYNAMIC, patterns=[square_of_difference().replace(function)])


@pytest.mark.parametrize(
    ("parameters", "arguments", "message"),
    [
        ("size_t n, const float* x, const float* y, float* out", (), r"k\(int64_t n, const float \*x, .*\): parameter 1 is passed 'a', which is a pointer to f32"),
        ("const float* a, const float* b, float* out, int n", (), r"parameter 4 is passed 'n', which is a size \(size_t\)"),
        ("const double* a, const float* b, float* out, size_t n", (), "parameter 1 is passed 'a', which is a pointer to f32"),
        ("const float* a, const float* b, float* out, size_t n, size_t m", (), "takes 5 arguments, and is passed a, b, out, n"),
        ("const float* a, const float* b, float* out, size_t n", ("b", "a", "out", "n"), "parameter 1 is passed 'b', and 'a' is another value of the pattern"),
        ("float* a, const float* z, float* out, size_t n", ("a", "out", "b", "n"), "parameter 2 is passed 'out', which is a result, but the function only reads it"),
    ],
)  # fmt: skip
def test_arguments_that_an_object_does_not_take(
    parameters: str, arguments: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    renamed = "" if "* x" not in parameters else "const float *a = x, *b = y; "
    renamed += "const float* b = z; " if "* z" in parameters else ""
    source = f"void k({parameters}) {{ {renamed}{BODY} }}"
    function = pd.CFunction(compiled(source, tmp_path, "o", "-O2", "-g"), "k", *arguments)
    with pytest.raises(CompileError, match=message):
        pd.compile(cases.DYNAMIC, patterns=[square_of_difference().replace(function)])


def test_bitcode_that_keeps_state_is_refused(tmp_path: Path) -> None:
    """As C source and objects with writable variables are."""
    source = (
        "void s(const float* a, const float* b, float* out, size_t n) { static float sum; sum += a[0]; out[0] = sum; }"
    )
    pattern = square_of_difference().replace(pd.CFunction(compiled(source, tmp_path, "bc", "-O2"), "s"))
    with pytest.raises(CompileError, match=r"has the writable variable 's\.sum'"):
        pd.compile(cases.DYNAMIC, patterns=[pattern])
