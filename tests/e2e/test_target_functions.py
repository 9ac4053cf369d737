"""C functions with target features of their own, in a program for a CPU that has fewer."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

import pydispatch as pd

PROGRAM = (Path(__file__).parent / "programs" / "keys.mlir").read_text()

SOURCE = """
#include <immintrin.h>
PRAGMA
FUNCTION static int add(int x) {
  __m128 v = _mm_set1_ps((float)x);
  v = _mm_hadd_ps(v, v);
  return (int)_mm_cvtss_f32(_mm_hadd_ps(v, v));
}
int next_i32(int x) { return add(x) + 1; }
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="SSE 3 is of x86-64")
@pytest.mark.parametrize(("pragma", "attribute"), [
    ("", '__attribute__((target("sse3")))'),
    ('#pragma clang attribute push(__attribute__((target("sse3"))), apply_to = function)', ""),
])  # fmt: skip
def test_intrinsics_of_functions_with_features(pragma: str, attribute: str, tmp_path: Path) -> None:
    end = "\n#pragma clang attribute pop\n" if pragma else ""
    source = SOURCE.replace("PRAGMA", pragma).replace("FUNCTION", attribute) + end
    (tmp_path / "add.c").write_text(source)
    artifact = pd.compile(PROGRAM.replace("kernels.c", "add.c"), object_search_path=[tmp_path], cpu="generic")
    assert int(pd.device("cpu").load(artifact).main(5)) == 21
