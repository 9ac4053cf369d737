# ruff: noqa: E501, F821, UP037  (programs; sizes of a pattern are names)
"""Kernels of patterns in bitcode: what a function is passed is checked against its signature and debug information."""

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


def bitcode(parameters: str, folder: Path, *flags: str) -> bytes:
    """A function that squares differences, as bitcode."""
    source = folder / "k.c"
    source.write_text(f"#include <stddef.h>\nvoid k({parameters}) {BODY}")
    command = [
        sys.executable,
        "-m",
        "ziglang",
        "cc",
        "-c",
        "-emit-llvm",
        "-fno-sanitize=all",
        "-ffreestanding",
        "-mcpu=baseline",
        *flags,
    ]
    subprocess.run([*command, source, "-o", folder / "k.bc"], check=True)
    return (folder / "k.bc").read_bytes()


@pytest.mark.parametrize(
    "flags", [("-O2", "-g0", "-fno-discard-value-names"), ("-O2", "-g")], ids=["names", "debug information"]
)
def test_arguments_of_bitcode_are_bound_by_name(flags: tuple[str, ...], tmp_path: Path) -> None:
    data = bitcode("size_t n, float* out, const float* b, const float* a", tmp_path, *flags)
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
    with pytest.raises(CompileError, match=message):
        kernel = pd.CFunction(bitcode(parameters, tmp_path, *flags), "k", *arguments)
        pd.compile(cases.DYNAMIC, patterns=[square_of_difference().replace(kernel)])


def test_bitcode_that_keeps_state_is_refused(tmp_path: Path) -> None:
    """As C source and objects with writable variables are."""
    (tmp_path / "s.c").write_text(
        "#include <stddef.h>\nvoid s(const float* a, const float* b, float* out, size_t n) { static float sum; sum += a[0]; out[0] = sum; }"
    )
    command = [
        sys.executable,
        "-m",
        "ziglang",
        "cc",
        "-c",
        "-emit-llvm",
        "-O2",
        "-fno-sanitize=all",
        "-ffreestanding",
        "-mcpu=baseline",
    ]
    subprocess.run([*command, tmp_path / "s.c", "-o", tmp_path / "s.bc"], check=True)
    pattern = square_of_difference().replace(pd.CFunction(tmp_path / "s.bc", "s"))
    with pytest.raises(CompileError, match=r"has the writable variable 's\.sum'"):
        pd.compile(cases.DYNAMIC, patterns=[pattern])
