"""The tests of the CPU's emitter as PTX on the interpreter: the same kernels in kernel IR, the same NumPy answers.

They are taken from tests/emit as they are, with `load` making PTX. Nothing of kernel IR is refused but what is listed.
"""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "emit")]
import cuda_kernels  # noqa: E402
import kernels as cpu_kernels  # noqa: E402

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

REFUSED = {f"test_integer_atomics[{bits}]": "atomic 'addi' on i" for bits in (8, 16)}
"""Cases that are a CompileError on this target -> a part of its message."""

ELSEWHERE = {
    "test_grid_constants_offsets": "looks into the tables of an ELF: test_cuda_generated.py",
    "test_every_op_has_a_lowering": "is about the tables of the CPU",
    "test_table_agrees_with_ml_dtypes": "runs no kernel",
}
"""Tests of the CPU alone -> why."""


def _modules() -> list[Any]:
    """The files, with `load` of this folder in them and in what they take from each other."""
    shim = types.ModuleType("kernels")
    shim.__dict__.update(cpu_kernels.__dict__)
    shim.load = cuda_kernels.load  # type: ignore[attr-defined]
    others = {name: sys.modules.pop(name, None) for name in FILES}
    sys.modules["kernels"] = shim
    found = []
    try:
        for name in FILES:
            module = cuda_kernels.load_file(HERE.parent / "emit" / f"{name}.py", f"cuda_{name}")
            sys.modules[name] = module
            found.append(module)
        return found
    finally:
        sys.modules["kernels"] = cpu_kernels
        for name, other in others.items():
            sys.modules.pop(name, None)
            if other is not None:
                sys.modules[name] = other


def _values(mark: Any) -> list[dict[str, Any]]:
    names = [n.strip() for n in mark.args[0].split(",")] if isinstance(mark.args[0], str) else list(mark.args[0])
    return [dict(zip(names, value if len(names) > 1 else (value,), strict=True)) for value in mark.args[1]]


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
                    combinations = [{**a, **b} for b in _values(mark) for a in combinations]
            for values in combinations:
                if values.get("cpu") != "generic":
                    words = "-".join(_text(v) for k, v in values.items() if k != "cpu")
                    found.append(pytest.param(function, values, id=f"{name}[{words}]" if words else name))
    return found


@pytest.mark.parametrize(("function", "values"), _cases())
def test_on_the_interpreter(function: Any, values: dict[str, Any], request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.id
    if name not in REFUSED:
        function(**values)
        return
    with pytest.raises(CompileError, match=REFUSED[name]):
        function(**values)
