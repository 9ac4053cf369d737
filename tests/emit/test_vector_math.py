"""Which functions become vectors in a loop over points, read off the assembly."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from kernels import elementwise, variant

from pydispatch.compiler.backends.cpu.backend import compile_variant

FUNCTIONS = [
    "exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "tanh", "erf", "sinh", "cosh", "rsqrt", "sin", "cos",
    "tan", "erfc", "powf", "asin", "acos", "atan", "atan2", "asinh", "acosh", "atanh", "cbrt",
]  # fmt: skip
SIGMOID = """%minus = arith.negf %x0 : f32
  %e = math.exp %minus : f32
  %one = arith.constant 1.0 : f32
  %d = arith.addf %e, %one : f32
  %y0 = arith.divf %one, %d : f32"""


def assembly(body: str, types: list[str], output: str, cpu: str) -> str:
    shown: dict[str, str | bytes] = {}
    source = elementwise(body, types, [output])
    made = variant(source, constants=1, bindings=1 + len(types), cpu=cpu, format="embedded-elf-x86_64")
    compile_variant(made, dump=shown.__setitem__)
    return str(shown[".s"])


@pytest.mark.parametrize(("cpu", "register"), [("x86-64-v3", "ymm"), ("x86-64-v4", "zmm")])
def test_functions(cpu: str, register: str) -> None:
    """Multiplications of whole vectors of the type of the element (f32 may compute in f64), and no call is left."""
    scalar = []
    for name in [(n, t) for n in FUNCTIONS for t in ("f32", "f64")]:
        op, type_ = name
        operands = "%x0, %x1" if op in ("powf", "atan2") else "%x0"
        text = assembly(f"%y0 = math.{op} {operands} : {type_}", [type_] * (operands.count(",") + 1), type_, cpu)
        if not re.search(rf"v(?:f?n?madd\w*|mul|div)p[sd]\s.*{register}", text) or re.search(r"\bcall", text):
            scalar.append(name)
    assert not scalar


def test_composition() -> None:
    text = assembly(SIGMOID, ["f32"], "f32", "x86-64-v4")
    assert re.search(r"vdivps\s.*zmm", text) and not re.search(r"\bcall", text)


@pytest.mark.parametrize("name", ["f8E4M3FN", "f8E5M2", "f8E4M3FNUZ", "bf16"])
def test_small_floats(name: str) -> None:
    """Conversions of small floats are vectors too."""
    text = assembly(f"%y0 = arith.addf %x0, %x0 : {name}", [name], name, "x86-64-v3")
    assert re.search(r"vaddps\s.*ymm", text)


@pytest.mark.parametrize(("cpu", "register"), [("x86-64-v3", "ymm"), ("x86-64-v4", "zmm")])
@pytest.mark.parametrize("op", ["fptosi", "fptoui"])
@pytest.mark.parametrize(("source", "target"), [(f, i) for f in ("f32", "f64") for i in ("i8", "i16", "i32")])
def test_conversions_to_integers(source: str, target: str, op: str, cpu: str, register: str) -> None:
    """Conversions that saturate are vectors: quantized activations are such."""
    text = assembly(f"%y0 = arith.{op} %x0 : {source} to {target}", [source], target, cpu)
    assert re.search(rf"vcvttp[sd]2u?dq\s.*{register}", text)
