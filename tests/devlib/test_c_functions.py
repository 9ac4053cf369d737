"""The functions of C that docs/math.md lists, called by a kernel in C on a CPU and on the PTX interpreter."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pydispatch as pd

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "math.md").read_text()
CALLS = {
    "copysign": "F(x, -2)", "fdim": "F(x, 0.25)", "fma": "F(x, x, 1)", "fmax": "F(x, 2)", "fmin": "F(x, 2)",
    "fmod": "F(7, x)", "frexp": "F(x, &i) + i", "ldexp": "F(x, 3)", "modf": "F(-1 - x, &whole) + whole",
    "nan": "isnan(F(\"\"))", "nextafter": "F(x, 2)", "remainder": "F(7, x)", "remquo": "F(7, x, &i) + i",
    "scalbln": "F(x, 3L)", "scalbn": "F(x, 3)", "hypot": "F(x, 2)", "pow": "F(x, 3)", "atan2": "F(x, 2)",
    "acosh": "F(1 + x)",
    "sincos": "F", "lgamma_r": "F(-x, &i) + i",
}  # fmt: skip
X = 0.7109375
EXPECTED: dict[str, Any] = {
    "copysign": -X, "fdim": X - 0.25, "fma": X * X + 1, "fmax": 2.0, "fmin": X, "fmod": math.fmod(7, X),
    "frexp": sum(math.frexp(X)), "ldexp": 8 * X, "modf": -1 - X, "nan": 1.0, "nextafter": X, "scalbln": 8 * X,
    "remainder": math.remainder(7, X), "remquo": math.remainder(7, X) + round(7 / X), "scalbn": 8 * X, "logb": -1.0,
    "ilogb": -1.0, "hypot": math.hypot(X, 2), "pow": X**3, "atan2": math.atan2(X, 2), "acosh": math.acosh(1 + X),
    "lgamma_r": math.lgamma(-X) - 1, "tgamma": math.gamma(X), "exp10": 10**X, "cbrt": X ** (1 / 3),
    "sincos": math.sin(X) + math.cos(X), "llrint": 1.0, "lrint": 1.0, "lround": 1.0, "llround": 1.0,
    "exp2": 2**X, "rint": 1.0, "nearbyint": 1.0, "round": 1.0,
}  # fmt: skip


def listed() -> list[str]:
    rows = PAGE.partition("## Functions of C")[2].partition("## Sums")[0]
    kinds = re.findall(r"^\| ([a-z ]+) \| `([a-z0-9_ ]+)`", rows, re.MULTILINE)
    return [name for kind, names in kinds if kind != "macros" for name in names.split()]


def statement(number: int, name: str, suffix: str) -> str:
    real = "float" if suffix else "double"
    function = f"lgamma{suffix}_r" if name == "lgamma_r" else name + suffix
    if name == "sincos":
        return f"{{ {real} s, c; {function}(x, &s, &c); out[{number}] = s + c; }}"
    call = CALLS.get(name, "F(x)").replace("F(", f"{function}(", 1)
    return f"{{ int i = 0; {real} whole = 0; (void)i; (void)whole; out[{number}] = {call}; }}"


def source(suffix: str) -> str:
    real = "float" if suffix else "double"
    body = "\n".join(statement(number, name, suffix) for number, name in enumerate(listed()))
    head = "#define _GNU_SOURCE\n#include <math.h>\n"
    return f"{head}void all(const {real}* a, {real}* out) {{\n{real} x = a[0];\n{body}\n}}"


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("suffix", ["f", ""])
def test_a_kernel_calls_all_of_them(suffix: str, target: str, tmp_path: Path) -> None:
    names = listed()
    assert len(names) > 55 and len(set(names)) == len(names)
    kind = "f32" if suffix else "f64"

    program = f"""
      stream.executable private @kernels attributes {{
        hal.executable.objects = [#hal.executable.object<{{path = "all.c"}}>]
      }} {{
        stream.executable.export public @run workgroups() -> (index, index, index) {{
          %c1 = arith.constant 1 : index
          stream.return %c1, %c1, %c1 : index, index, index
        }}
        builtin.module {{
          func.func private @all(memref<{kind}>, memref<{kind}>) attributes {{hal.import.static, llvm.bareptr}}
          func.func @run(%a: !stream.binding, %b: !stream.binding) {{
            %c0 = arith.constant 0 : index
            %x = stream.binding.subspan %a[%c0] : !stream.binding -> memref<{kind}>
            %y = stream.binding.subspan %b[%c0] : !stream.binding -> memref<{kind}>
            func.call @all(%x, %y) : (memref<{kind}>, memref<{kind}>) -> ()
            return
          }}
        }}
      }}
      func.func @f(%a: tensor<1x{kind}>) -> tensor<{len(names)}x{kind}> {{
        %r = flow.dispatch @kernels::@run(%a) : (tensor<1x{kind}>) -> tensor<{len(names)}x{kind}>
        return %r : tensor<{len(names)}x{kind}>
      }}"""
    (tmp_path / "all.c").write_text(source(suffix))
    artifact = pd.compile(program, targets=target, object_search_path=tmp_path)
    device = pd.device("cpu" if target == "cpu" else "ptx-interpreter")
    dtype = np.float32 if suffix else np.float64
    found = np.asarray(device.load(artifact).f(np.array([X], dtype)))
    expected = [EXPECTED[name] if name in EXPECTED else getattr(math, name)(X) for name in names]
    limit = 4 * float(np.finfo(dtype).eps)
    for name, got, value in zip(names, found.tolist(), expected, strict=True):
        assert got == pytest.approx(value, rel=limit, abs=limit), name
