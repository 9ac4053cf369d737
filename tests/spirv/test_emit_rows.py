"""The tests of the CPU's emitter on lavapipe: the same kernels in kernel IR, the same NumPy answers.

They are taken from tests/emit as they are, with `load` compiling SPIR-V: every module passes spirv-val, and runs with
the validation layer. What this target refuses is listed, with its message.
"""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "emit")]
import kernels as cpu_kernels  # noqa: E402
import vulkan_kernels  # noqa: E402

from pydispatch.errors import CompileError  # noqa: E402

FILES = (
    "test_arith",
    "test_math",
    "test_control",
    "test_more_control",
    "test_reductions",
    "test_small",
    "test_complete",
)

REFUSED = {
    "test_blocks": "branches between blocks",
    "test_regions_and_views": "branches between blocks",
    **{f"test_integer_atomics[{bits}]": "atomic" for bits in (8, 16, 64)},
    **{f"test_float_atomics[{k}-{t}]": "atomic"
       for k in ("maximumf", "minimumf", "maxnumf", "minnumf") for t in ("f32", "f64")},
}  # fmt: skip
"""Cases that are a CompileError on this target -> a part of its message."""

ELSEWHERE = {
    "test_unary": "takes 58 buffers, devices have fewer: test_math_accuracy.py, test_math_doubles.py",
    "test_fma_rounds_once": "Fma is fused where the device does so",
    "test_float_operations": "remf comes from the device: the others are in test_math_accuracy.py",
    "test_grid_constants_offsets": "looks into the tables of an ELF",
    "test_every_op_has_a_lowering": "of LLVM: test_refusals.py",
}
"""Tests of the CPU alone -> why."""


def _modules() -> list[Any]:
    """The files, with `load` of this folder in them and in what they take from each other."""
    shim = types.ModuleType("kernels")
    shim.__dict__.update(cpu_kernels.__dict__)
    shim.load = vulkan_kernels.load  # type: ignore[attr-defined]
    others = {name: sys.modules.pop(name, None) for name in FILES}
    sys.modules["kernels"] = shim
    found = []
    try:
        for name in FILES:
            module = vulkan_kernels.load_file(HERE.parent / "emit" / f"{name}.py", f"vulkan_{name}")
            sys.modules[name] = module
            found.append(module)
        return found
    finally:
        sys.modules["kernels"] = cpu_kernels
        for name, other in others.items():
            if other is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = other


def _values(mark: Any) -> list[tuple[tuple[Any, ...], str | None]]:
    names = [n.strip() for n in mark.args[0].split(",")] if isinstance(mark.args[0], str) else list(mark.args[0])
    rows = []
    for value in mark.args[1]:
        rows.append((dict(zip(names, value if len(names) > 1 else (value,), strict=True)), None))
    return rows  # type: ignore[return-value]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else getattr(value, "__name__", str(value))


def _cases() -> list[Any]:
    found = []
    for module in _modules():
        for name, function in vars(module).items():
            if not name.startswith("test_") or name in ELSEWHERE or not callable(function):
                continue
            combinations: list[dict[str, Any]] = [{}]
            for mark in getattr(function, "pytestmark", []):
                if mark.name == "parametrize":
                    combinations = [{**a, **b} for b, _ in _values(mark) for a in combinations]  # type: ignore[dict-item]
            for values in combinations:
                if values.get("cpu") == "generic":
                    continue
                words = "-".join(_text(v) for k, v in values.items() if k != "cpu")
                found.append(pytest.param(function, values, id=f"{name}[{words}]" if words else name))
    return found


@pytest.mark.parametrize(("function", "values"), _cases())
def test_on_lavapipe(function: Any, values: dict[str, Any], request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.id
    if name not in REFUSED:
        function(**values)
        return
    with pytest.raises(CompileError, match=REFUSED[name]):
        function(**values)
