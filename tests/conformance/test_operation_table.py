"""Every operation of `arith`, and the exact ones of `math`, means the same on every device and type as in NumPy."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest
from backends import Backend
from operation_table import FLOATS, INTEGERS, source, tables
from references import NEAR

import pydispatch as pd
from pydispatch.compiler.emit.llvm.emitter import lowerings
from pydispatch.compiler.kernel_ir.expand.integers import RULES

INEXACT = "tests/ops/test_math_properties.py, tests/spirv/test_math_accuracy.py, tests/spirv/test_math_doubles.py"
ELSEWHERE = {
    **dict.fromkeys(("arith.scaling_extf", "arith.scaling_truncf"), "tests/conformance/kernels/test_small.py"),
    **dict.fromkeys(
        ("math.clampf", "math.fma", "math.fpowi", "math.isnormal", "math.sincos"),
        "tests/conformance/kernels/test_math.py",
    ),
    **dict.fromkeys(NEAR, INEXACT),
}
"""Operation without cases here -> the tests that it has."""

LACKING = [
    ("vulkan", "i128", "arith.addi", "type i128 has no register on this target"),
    ("webgpu", "i128", "arith.addi", "type i128 has no register on this target"),
    ("vulkan", "i33", "arith.mului_extended", "mului_extended on i33 cannot be compiled into a kernel"),
    ("webgpu", "i33", "arith.mulsi_extended", "mulsi_extended on i33 cannot be compiled into a kernel"),
]
"""Target, type, operation that it lacks, and the message."""


@cache
def program(backend: Backend) -> Any:
    """Compile all tables for a backend, as one artifact."""
    return backend.load(source([table for of_type in tables().values() for table in of_type]))


@pytest.mark.parametrize("type_", [*INTEGERS, *FLOATS])
def test_operations(type_: str, backend: Backend) -> None:
    differences: list[str] = []
    for table in tables()[type_]:
        results = program(backend)[table.name](*table.operands)
        several = results if isinstance(results, tuple) else (results,)
        differences += table.differences([np.asarray(result) for result in several], backend.name)
    assert not differences, "\n".join(differences)


def test_every_operation_has_cases() -> None:
    """The operations are those that docs/language.md lists: `make lists` writes them."""
    words = {word for of_type in tables().values() for table in of_type for case in table.cases
             for word in re.findall(r"(?:arith|math)\.\w+", case.body)}  # fmt: skip
    operations = {name for name in lowerings().keys() | RULES.keys() if name.startswith(("arith.", "math."))}
    assert words | ELSEWHERE.keys() == operations
    assert not words & ELSEWHERE.keys()


@pytest.mark.parametrize(("target", "type_", "operation", "message"), LACKING)
def test_what_a_device_lacks_is_refused_by_name(target: str, type_: str, operation: str, message: str) -> None:
    results = "%r, %s" if operation.endswith("extended") else "%r"
    kernel = f"""func.func @f(%x: tensor<4xi32>) -> tensor<4xi32> {{
  %y = linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]}} ins(%x : tensor<4xi32>) outs(%x : tensor<4xi32>) {{
  ^bb0(%a: i32, %o: i32):
    %w = arith.extsi %a : i32 to {type_}
    {results} = {operation} %w, %w : {type_}
    %n = arith.trunci %r : {type_} to i32
    linalg.yield %n : i32
  }} -> tensor<4xi32>
  return %y : tensor<4xi32>
}}"""
    with pytest.raises(pd.CompileError, match=re.escape(message)):
        pd.compile(kernel, targets=target)
