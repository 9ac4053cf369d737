"""Generated WGSL: what a person reads in it, what it refuses, and what it computes that WGSL has no types for."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from webgpu_kernels import emit, load

import pydispatch as pd
from pydispatch.errors import CompileError

rng = np.random.default_rng(5)


def elementwise(body: str, inputs: list[str], output: str) -> str:
    """A kernel over elements: %x0, %x1, ... -> %y."""
    types = [*inputs, output]
    slots = ", ".join(["#hal.pipeline.binding<storage_buffer>"] * len(types))
    layout = f"layout(#hal.pipeline.layout<constants = 1, bindings = [{slots}]>)"
    lines = [
        f"%b{n} = hal.interface.binding.subspan {layout} binding({n}) : memref<?x{type_}>{{%dim}}"
        for n, type_ in enumerate(types)
    ]
    loads = [f"%x{n} = memref.load %b{n}[%i] : memref<?x{type_}>" for n, type_ in enumerate(inputs)]
    return f"""func.func @kernel() {{
      %n = hal.interface.constant.load {layout} ordinal(0) : i32
      %dim = arith.index_cast %n : i32 to index
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      {chr(10).join(lines)}
      scf.parallel (%i) = (%zero) to (%dim) step (%one) {{
        {chr(10).join(loads)}
        {body}
        memref.store %y, %b{len(inputs)}[%i] : memref<?x{output}>
        scf.reduce
      }}
      return
    }}"""


def computed(body: str, inputs: list[tuple[str, np.ndarray]], output: str, dtype: type) -> np.ndarray:
    given = [np.ascontiguousarray(data) for _, data in inputs]
    kernel = load(elementwise(body, [type_ for type_, _ in inputs], output), constants=1, bindings=len(inputs) + 1)
    result = np.zeros(given[0].shape, dtype)
    kernel.run(*given, result, constants=[given[0].size])
    return result


def test_text() -> None:
    """One variable for each binding, with the type of its elements, and an entry point named like the export."""
    text, (entry,) = emit(elementwise("%y = arith.addf %x0, %x1 : f32", ["f32", "f32"], "f32"), constants=1, bindings=3)
    assert "@group(0) @binding(2) var<storage, read_write> binding2_f: array<f32>;" in text
    assert "@group(3) @binding(0) var<uniform> constants: array<vec4u, 1>;" in text
    assert "@compute @workgroup_size(64, 1, 1)\nfn kernel(" in text
    assert (entry.name, entry.size, entry.bindings, entry.reads_constants) == ("kernel", (64, 1, 1), (0, 1, 2), True)


@pytest.mark.parametrize("name", ["i32", "switch", "pyd_f32_is_nan", "a.b"])
def test_names_that_wgsl_keeps(name: str) -> None:
    source = elementwise("%y = arith.addf %x0, %x0 : f32", ["f32"], "f32").replace("@kernel", f'@"{name}"')
    text, (entry,) = emit(source, exports=(name,), constants=1, bindings=2)
    assert entry.name == "entry0" and f"// {name!r}\n" in text


def test_elements_that_share_a_word() -> None:
    """No invocation changes an element of another one."""
    x = rng.integers(-128, 128, 1001).astype(np.int8)
    np.testing.assert_array_equal(computed("%y = arith.addi %x0, %x0 : i8", [("i8", x)], "i8", np.int8), x + x)
    halves = rng.standard_normal(1001).astype(np.float16)
    same = computed("%y = arith.mulf %x0, %x0 : f16", [("f16", halves)], "f16", np.float16)
    np.testing.assert_array_equal(same, halves * halves)


def unsigned(operation: np.ufunc) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    return lambda a, b: operation(a.view(np.uint64), b.view(np.uint64)).view(np.int64)


WIDE = np.array([0, 1, -1, 2**31, -(2**31), 2**32 - 1, 2**32, -(2**63), 2**63 - 1, 10**18, -(10**9)], np.int64)


@pytest.mark.parametrize(("op", "expected"), [
    ("addi", np.add), ("muli", np.multiply), ("divui", unsigned(np.floor_divide)), ("remui", unsigned(np.remainder)),
])  # fmt: skip
def test_integers_of_64_bits(op: str, expected: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> None:
    more = rng.integers(-(2**63), 2**63, 120) >> rng.integers(0, 63, 120)
    halves = np.meshgrid(np.concatenate([WIDE, more[:60]]), np.concatenate([WIDE, more[60:]]))
    a, b = (each.reshape(-1) for each in halves)
    b = np.where(b == 0, 3, b)
    found = computed(f"%y = arith.{op} %x0, %x1 : i64", [("i64", a), ("i64", b)], "i64", np.int64)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found, expected(a, b))


EDGES = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 2.0**-1022, np.finfo(np.float64).max, 1.0, -1.5])


@pytest.mark.parametrize(("op", "expected"), [
    ("arith.addf", np.add), ("arith.mulf", np.multiply), ("arith.divf", np.divide), ("math.sqrt", np.sqrt),
])  # fmt: skip
def test_doubles_are_exact(op: str, expected: np.ufunc) -> None:
    any_bits = rng.integers(-(2**63), 2**63, 1500).view(np.float64)
    near = 1 + rng.integers(-9, 9, 500) * 2.0**-52
    count = 1 if op == "math.sqrt" else 2
    pairs = (np.tile(EDGES, 10), np.repeat(EDGES, 10))
    given = [np.concatenate([pairs[n], rng.permutation(any_bits), near]) for n in range(count)]
    values = ", ".join(f"%x{n}" for n in range(count))
    found = computed(f"%y = {op} {values} : f64", [("f64", each) for each in given], "f64", np.float64)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found, expected(*given))


def test_cf_is_refused() -> None:
    with pytest.raises(CompileError, match=r"cf\.assert cannot be compiled"):
        emit('func.func @kernel() {\n %t = arith.constant true\n cf.assert %t, "no"\n return\n}')


def test_inspect_prints_the_text(tmp_path: Path) -> None:
    source = tmp_path / "add.mlir"
    source.write_text("func.func @f(%a: tensor<8xf32>) -> tensor<8xf32> {\n  %b = arith.addf %a, %a : tensor<8xf32>\n"
                      "  return %b : tensor<8xf32>\n}\n")  # fmt: skip
    artifact = tmp_path / "add.pdx"
    pd.compile(source, targets="webgpu").save(artifact)
    command = [sys.executable, "-m", "pydispatch", "inspect", "--code", str(artifact)]
    assert "\n@compute @workgroup_size(" in subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("bits", [64, 40])
@pytest.mark.parametrize("op", ["shli", "shrsi", "shrui"])
def test_shifts_of_two_words_by_known_counts(op: str, bits: int) -> None:
    """All counts in one kernel: the results times different odd numbers, joined by exclusive or."""
    x = np.concatenate([WIDE, rng.integers(-(2**63), 2**63, 50)])
    counts = [1, 7, 31, 32, 33, 39, *([63] if bits == 64 else [])]
    narrow, wide = ("%v = arith.trunci %x0 : i64 to i40", "arith.extsi %s{0} : i40 to i64") if bits == 40 else (
        "%o = arith.constant 0 : i64\n%v = arith.ori %x0, %o : i64", "arith.ori %s{0}, %o : i64")  # fmt: skip
    lines = [narrow, "%y0 = arith.constant 0 : i64"]
    expected = np.zeros_like(x)
    unused = 64 - bits
    value = x << unused >> unused
    plain = value.view(np.uint64) << np.uint64(unused) >> np.uint64(unused)
    for n, count in enumerate(counts, 1):
        lines += [f"%k{n} = arith.constant {count} : i{bits}", f"%s{n} = arith.{op} %v, %k{n} : i{bits}",
                  f"%w{n} = {wide.format(n)}", f"%f{n} = arith.constant {2 * n + 1} : i64",
                  f"%m{n} = arith.muli %w{n}, %f{n} : i64",
                  f"%y{n if n < len(counts) else ''} = arith.xori %y{n - 1}, %m{n} : i64"]  # fmt: skip
        shifted = {"shli": value << count << unused >> unused, "shrsi": value >> count,
                   "shrui": (plain >> np.uint64(count)).view(np.int64) << unused >> unused}[op]  # fmt: skip
        expected ^= shifted * (2 * n + 1)
    np.testing.assert_array_equal(computed("\n".join(lines), [("i64", x)], "i64", np.int64), expected)


def test_the_result_of_a_function_has_the_width_of_its_type() -> None:
    """A function returns an i8 as an i32, whose upper bits may be anything; an i32 is used as it is."""

    def source(type_: str, body: str) -> str:
        call = f"%r = func.call @function(%x0) : (i32) -> {type_}\n{body}"
        return f"func.func private @function(i32) -> {type_}\n" + elementwise(call, ["i32"], "i32")

    text, _ = emit(source("i8", "%y = arith.extsi %r : i8 to i32"), constants=1, bindings=2)
    assert re.search(r"let (v\d+) = import0_function\(v\d+\);\n *let v\d+ = extractBits\(\1, 0u, 8u\);", text)
    text, _ = emit(source("i32", "%y = arith.addi %r, %x0 : i32"), constants=1, bindings=2)
    assert "extractBits" not in text
