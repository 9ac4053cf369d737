"""Loops in which each invocation takes every Wth element become steps that all invocations take together."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import memref, scf
from xdsl.dialects.func import FuncOp

import pydispatch as pd
from pydispatch.compiler.kernel_ir.build import constant_or_value
from pydispatch.compiler.kernel_ir.kernel import WHOLE_VECTORS
from pydispatch.compiler.kernel_ir.stack import MOST_OPTIMIZED_BYTES, stack_bytes
from pydispatch.compiler.kernel_ir.strided import MOST_CARRIED_BYTES, interchange_strided_loops
from pydispatch.ir import parse


def kernel(
    start: str = "%lane", step: int = 64, end: str = "%n", inside: str = "", body: str = "", after: str = "",
    invocations: int = 64, before: str = "",
) -> FuncOp:  # fmt: skip
    """A sum of every stepth element in each invocation.

    Taken together, the initial values, a whole step of four vectors, the last step and the rest are parallel loops.
    There is no last step where none has an element.
    """
    module = parse(f"""
func.func @kernel(%a: memref<?xf32>, %b: memref<64xf32>, %n: index, %half: index) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant {invocations} : index
  %step = arith.constant {step} : index
  %zero = arith.constant 0.0 : f32
  %memory = memref.alloc() : memref<64xf32, 3>
  {before}
  scf.parallel (%lane) = (%c0) to (%c64) step (%c1) {{
    %twice = arith.addi %lane, %lane : index
    {inside}
    %sum = scf.for %i = {start} to {end} step %step iter_args(%so_far = %zero) -> (f32) {{
      %x = memref.load %a[%i] : memref<?xf32>
      {body}
      %next = arith.addf %so_far, %x : f32
      scf.yield %next : f32
    }}
    {after}
    memref.store %sum, %b[%lane] : memref<64xf32>
    scf.reduce
  }}
  func.return
}}
""")
    (function,) = (op for op in module.walk() if isinstance(op, FuncOp))
    return function


@pytest.mark.parametrize(
    ("changed", "loops"),
    [
        ({}, 7),
        (
            {
                "start": "%begin",
                "inside": "%twelve = arith.addi %c1, %half : index %begin = arith.addi %twelve, %lane : index",
                "end": "%twelve",
            },
            6,
        ),
        ({"start": "%half"}, 1),
        ({"start": "%twice"}, 1),
        ({"step": 32}, 1),
        ({"end": "%twice"}, 1),
        ({"inside": "%y = memref.load %a[%lane] : memref<?xf32>"}, 1),
        ({"inside": "%y = memref.load %memory[%lane] : memref<64xf32, 3>"}, 7),
        (
            {
                "inside": "%y = memref.load %memory[%lane] : memref<64xf32, 3>",
                "body": "memref.store %x, %memory[%lane] : memref<64xf32, 3>",
            },
            1,
        ),
    ],
    ids=[
        "strided",
        "elsewhere",
        "not by the number",
        "by its double",
        "another step",
        "another end",
        "read before",
        "memory of the workgroup read before",
        "and written in the loop",
    ],
)
def test_which_loops_are_turned(changed: dict[str, Any], loops: int) -> None:
    function = kernel(**changed)
    interchange_strided_loops(function)
    function.verify()
    assert sum(isinstance(op, scf.ParallelOp) for op in function.walk()) == loops
    nested = [op for op in function.walk() if isinstance(op, scf.ForOp) and isinstance(op.parent_op(), FuncOp)]
    assert len(nested) == (loops > 1)


def products(count: int) -> str:
    """Return the text of `count` strided loops, each of which begins with what the one before it has computed."""
    return "%product0 = arith.negf %sum : f32\n" + "\n".join(
        f"""%product{k + 1} = scf.for %i{k} = %lane to %n step %step iter_args(%old{k} = %product{k}) -> (f32) {{
      %x{k} = memref.load %a[%i{k}] : memref<?xf32>
      %new{k} = arith.mulf %old{k}, %x{k} : f32
      scf.yield %new{k} : f32
    }}"""
        for k in range(count)
    )


@pytest.mark.parametrize(
    ("changed", "vectors", "parallel_loops"),
    [
        ({}, 16, 16),
        ({"after": products(1)}, 28, 28),
        ({"body": "%old = memref.atomic_rmw addf %x, %b[%lane] : (f32, memref<64xf32>) -> f32"}, 0, 3),
        (
            {"body": "scf.if %is_large { scf.yield }", "inside": "%is_large = arith.cmpi sgt, %lane, %half : index"},
            4,
            7,
        ),
    ],
    ids=["plain", "two loops", "atomic", "with a branch"],
)
def test_steps_of_vectors_under_masks(changed: dict[str, Any], vectors: int, parallel_loops: int) -> None:
    """The initial values, a whole step, the last step and the rest are four vectors each, if masks can replace a
    branch around the body; else the whole step alone. A loop with atomic operations has one loop for all steps."""
    function = kernel(**changed)
    interchange_strided_loops(function, has_masks=True)
    function.verify()
    loops = [op for op in function.walk() if isinstance(op, scf.ParallelOp)]
    assert sum(WHOLE_VECTORS in loop.attributes for loop in loops) == vectors
    assert len(loops) == parallel_loops


@pytest.mark.parametrize(("workgroup", "loops", "lanes"), [(64, 4, 64), (96, 12, 32), (128, 8, 64), (48, 12, 16)])
def test_vectors_that_are_computed_together(workgroup: int, loops: int, lanes: int) -> None:
    """The initial values, a whole step, the last step and the rest have loops of up to four vectors."""
    function = kernel(step=workgroup, invocations=workgroup)
    interchange_strided_loops(function, has_masks=True, most_vectors=4)
    function.verify()
    marked = [op for op in function.walk() if WHOLE_VECTORS in op.attributes]
    assert len(marked) == loops
    assert {constant_or_value(op.upperBound[0]) for op in marked if isinstance(op, scf.ParallelOp)} == {lanes}


def test_loops_with_long_bodies_are_not_marked() -> None:
    """Copies of the body for each vector would be too long, so LLVM decides how to vectorize one loop."""
    function = kernel(body="\n".join(f"%y{i} = arith.addf %x, %x : f32" for i in range(70)))
    interchange_strided_loops(function, has_masks=True, most_vectors=4)
    function.verify()
    assert not any(WHOLE_VECTORS in op.attributes for op in function.walk())


def test_values_of_many_loops_are_in_workgroup_memory() -> None:
    """The stack has room for those of some loops: 64 values of 8 bytes at most are carried by each."""
    function = kernel(after=products(count=33))
    interchange_strided_loops(function, has_masks=True)
    function.verify()
    on_stack = sum(isinstance(op, memref.AllocaOp) for op in function.walk())
    shared = sum(isinstance(op, memref.AllocOp) for op in function.walk())
    assert on_stack == MOST_CARRIED_BYTES // (64 * 8) and on_stack + shared == 35  # and one of the kernel itself


@pytest.mark.parametrize("allocation", ["alloca", "alloc"])
def test_arrays_of_the_function_are_part_of_its_stack(allocation: str) -> None:
    """Of two strided loops, the stack has room for the value of one beside the array: for 64 values of 8 bytes."""
    array_bytes = MOST_OPTIMIZED_BYTES - 64 * 8
    function = kernel(before=f"%own = memref.{allocation}() : memref<{array_bytes}xi8>", after=products(1))
    assert stack_bytes(function) == array_bytes
    interchange_strided_loops(function, has_masks=True)
    function.verify()
    assert stack_bytes(function) == array_bytes + 64 * 4  # one value, an f32


Floats = Annotated[pd.View, pd.f32["n"]]


@pd.kernel(workgroup=16, grid=1)
def all_kinds(
    x: Floats,
    sums: Annotated[pd.View, pd.f32[16]],
    counts: Annotated[pd.View, pd.i32[16]],
    twice: Floats,
    bins: Annotated[pd.View, pd.i32[4]],
    a: Annotated[float, pd.f32],
) -> None:
    """Two loops after each other, variables of two types, conditions, atomics, a loop inside."""
    lane = pd.local_id(0)
    total, count = a, 0
    for j in range(lane, x.shape[0], 16):
        if x[j] > 0.0:
            total += x[j]
            count += 1
            for _ in range(2):
                total += 1.0
        twice[j] = 2.0 * x[j] + pd.f32(lane)
    begin = pd.group_id(0) * 16
    for j in range(begin + lane, min(begin + 300, x.shape[0]), 16):
        pd.atomic_add(bins, j % 4, 1)
        if x[j] > 1.0:
            continue
        total += 0.5
    sums[lane] = total
    counts[lane] = count


@pd.kernel(workgroup=32, grid=1)
def plain_steps(x: Floats, sums: Annotated[pd.View, pd.f32[32]], twice: Floats) -> None:
    """Loops whose bodies a mask can guard: one that carries a value, and one that stores."""
    lane = pd.local_id(0)
    total = 1.0
    for j in range(lane, x.shape[0], 32):
        total += x[j]
    sums[lane] = total
    for j in range(lane, x.shape[0], 32):
        twice[j] = 2.0 * x[j]


@cache
def program(kernel: Any = all_kinds) -> Any:
    return pd.device("cpu").load(pd.compile(kernel, cpu="native"))[kernel.name]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 200), st.integers(0, 1 << 16))
def test_invocations_make_the_same_steps(n: int, seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal(n).astype(np.float32)
    given = np.zeros(16, np.float32), np.zeros(16, np.int32), np.zeros_like(x), np.zeros(4, np.int32)
    sums, counts, twice, bins = program()(x, *given, 3.0)
    for lane in range(16):
        mine = x[lane::16]
        above = mine[mine > 0]
        expected = 3 + above.sum(dtype=np.float64) + 2 * len(above) + 0.5 * np.count_nonzero(mine <= 1)
        assert counts[lane] == len(above)
        np.testing.assert_allclose(sums[lane], expected, rtol=1e-5)
        np.testing.assert_array_equal(twice[lane::16], 2 * mine + lane)
    np.testing.assert_array_equal(bins, [len(np.arange(n)[r::4]) for r in range(4)])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 200), st.integers(0, 1 << 16))
def test_the_last_step_ends_with_the_elements(n: int, seed: int) -> None:
    """Nothing beyond the elements is read or written: each array is followed by others in one buffer."""
    x = np.random.default_rng(seed).standard_normal(n).astype(np.float32)
    around = np.full(n + 128, 7, np.float32)
    sums, twice = program(plain_steps)(x, np.zeros(32, np.float32), around[64 : 64 + n].copy())
    program(plain_steps)(x, sums.copy(), around[64 : 64 + n], out=(sums, around[64 : 64 + n]))
    np.testing.assert_allclose(
        sums, [1 + x[lane::32].sum(dtype=np.float64) for lane in range(32)], rtol=1e-5, atol=1e-5
    )
    np.testing.assert_array_equal(twice, 2 * x)
    np.testing.assert_array_equal(around, np.concatenate([[7] * 64, 2 * x, [7] * 64]))


@pd.kernel(workgroup=64, grid=1)
def even_elements(x: Floats, sums: Annotated[pd.View, pd.f32[64]]) -> None:
    """A loop whose condition has the slope 2 in the lane of a vector: `index_sets` splits no vectors."""
    lane = pd.local_id(0)
    total = 0.0
    for j in range(lane, x.shape[0], 64):
        if 2 * j < x.shape[0]:
            total += x[2 * j]
    sums[lane] = total


@pytest.mark.parametrize("n", [0, 1, 100, 129, 300])
def test_conditions_on_every_second_element(n: int) -> None:
    x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    expected = [x[::2][lane::64].sum(dtype=np.float64) for lane in range(64)]
    np.testing.assert_allclose(program(even_elements)(x, np.zeros(64, np.float32)), expected, rtol=1e-5, atol=1e-5)
