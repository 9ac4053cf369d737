"""Features of the x86-64 levels, which LLVM processes import without the names and models of CPUs."""

from __future__ import annotations

V2 = "sse3 ssse3 sse4.1 sse4.2 popcnt cx16 sahf"
"""LLVM's names of the features of x86-64-v2 beyond x86-64."""
V3 = f"{V2} avx avx2 bmi bmi2 f16c fma lzcnt movbe xsave"
"""LLVM's names of the features of x86-64-v3 beyond x86-64."""
V4 = f"{V3} avx512f avx512bw avx512cd avx512dq avx512vl"
"""LLVM's names of the features of x86-64-v4 beyond x86-64."""

LEVELS: dict[str, frozenset[str]] = {
    "x86-64": frozenset(),
    "x86-64-v2": frozenset(V2.split()),
    "x86-64-v3": frozenset(V3.split()),
    "x86-64-v4": frozenset(V4.split()),
}
"""Level -> its features beyond those of every x86-64 CPU."""
