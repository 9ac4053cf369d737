"""What loops over points become in PTX: straight code, barriers where memory changes hands, registers, atomics.

Their values are in `conformance/kernels`. What a barrier is for is shown by taking it out.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import cuda_kernels
import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[1] / "conformance" / "kernels"))
from points import TURNED, f32, invocations, kernel, packed_elements, private_memory, reductions_in_loop

from pydispatch.errors import CompileError, KernelError


def test_as_many_points_as_invocations_are_straight_code() -> None:
    source = kernel("""
      %m = hal.interface.binding.subspan binding(0) : memref<256xf32>
      scf.parallel (%i) = (%c0) to (%c256) step (%c1) {
        %x = memref.load %m[%i] : memref<256xf32>
        %y = arith.addf %x, %x : f32
        memref.store %y, %m[%i] : memref<256xf32>
      }""", invocations(256))  # fmt: skip
    made = cuda_kernels.emit(source, bindings=1)
    assert made.blocks == {"kernel": (256, 1, 1)}
    assert "bra" not in made.ptx and "setp" not in made.ptx and ".reqntid 256, 1, 1" in made.ptx


def test_sums_have_one_order() -> None:
    """Without reassoc one by one; with it a tree, the same in every workgroup and for every run."""

    def source(flags: str) -> str:
        return kernel(f"""
      %a = hal.interface.binding.subspan binding(0) flags(ReadOnly) : memref<1000xf32>
      %b = hal.interface.binding.subspan binding(1) : memref<4xf32>
      %zero = arith.constant 0.0 : f32
      %w = hal.interface.workgroup.id[0] : index
      %r = scf.parallel (%i) = (%c0) to (%c1000) step (%c1) init (%zero) -> f32 {{
        %x = memref.load %a[%i] : memref<1000xf32>
        scf.reduce(%x : f32) {{
        ^bb0(%l: f32, %r: f32):
          %s = arith.addf %l, %r {flags} : f32
          scf.reduce.return %s : f32
        }}
      }}
      memref.store %r, %b[%w] : memref<4xf32>""", invocations(64))  # fmt: skip

    a = f32(1000, seed=2)
    plain, tree = np.zeros(4, np.float32), np.zeros(4, np.float32)
    cuda_kernels.load(source(""), bindings=2, races=True).run(a, plain, grid=(4, 1, 1))
    cuda_kernels.load(source("fastmath<reassoc>"), bindings=2, races=True).run(a, tree, grid=(4, 1, 1))
    in_order = np.float32(0)
    for x in a:
        in_order += x
    partial = np.zeros(64, np.float32)
    partial[1:] = -0.0
    for i, x in enumerate(a):
        partial[i % 64] += x
    lanes = partial.reshape(2, 32)
    while lanes.shape[1] > 1:
        lanes = lanes[:, : lanes.shape[1] // 2] + lanes[:, lanes.shape[1] // 2 :]
    assert (plain == in_order).all() and (tree == lanes[0, 0] + lanes[1, 0]).all() and in_order != tree[0]


@pytest.mark.parametrize("lanes", [8, 32])
def test_shuffles_read_participating_lanes_only(lanes: int) -> None:
    """A workgroup smaller than a warp: PTX leaves the value of a lane that does not take part undefined."""
    made = cuda_kernels.emit(reductions_in_loop("one", lanes), bindings=2)
    shuffles = re.findall(r"shfl\.sync\.(down|idx)\.b32\s+\S+, \S+, \d+, (\d+), (-?\d+);", made.ptx)
    assert {mode for mode, *_ in shuffles} == {"down", "idx"}
    assert {(int(last), int(mask) % 2**32) for _, last, mask in shuffles} == {(lanes - 1, (1 << lanes) - 1)}


@pytest.mark.parametrize("name", ["one", "two"])
def test_a_reduction_in_a_loop_has_two_barriers(name: str) -> None:
    made = cuda_kernels.emit(reductions_in_loop(name, 256), bindings=2)
    assert made.llvm.count("call void @llvm.nvvm.barrier") == 2


def test_barriers_stand_where_memory_changes_hands() -> None:
    source = kernel(TURNED, invocations(64))
    made = cuda_kernels.emit(source, bindings=2)
    lines = made.ptx.splitlines()
    barriers = [number for number, line in enumerate(lines) if "bar" in line.split("//")[0] and "sync" in line]
    assert barriers
    without = "\n".join(line for number, line in enumerate(lines) if number != barriers[-1])
    with pytest.raises(KernelError, match="race"):
        cuda_kernels.Loaded(made, ["kernel"], 0, True, without).run(f32(64), np.zeros(64, np.float32))


def test_no_barrier_without_need() -> None:
    """Loops whose points keep to themselves in different memory need none, nor does the last one."""
    source = kernel("""
      %a = hal.interface.binding.subspan binding(0) flags(ReadOnly) : memref<64xf32>
      %b = hal.interface.binding.subspan binding(1) : memref<64xf32>
      %c = hal.interface.binding.subspan binding(2) : memref<64xf32>
      scf.parallel (%i) = (%c0) to (%c64) step (%c1) {
        %x = memref.load %a[%i] : memref<64xf32>
        memref.store %x, %b[%i] : memref<64xf32>
      }
      scf.parallel (%i) = (%c0) to (%c64) step (%c1) {
        %x = memref.load %a[%i] : memref<64xf32>
        memref.store %x, %c[%i] : memref<64xf32>
      }""")
    assert "bar.sync" not in cuda_kernels.emit(source, bindings=3).ptx


def test_private_memory_lives_in_registers() -> None:
    ptx = cuda_kernels.emit(private_memory(), bindings=2).ptx
    assert ".local" not in ptx and "bar.sync" not in ptx


@pytest.mark.parametrize("whole", [False, True])
def test_elements_that_share_bytes_are_written_atomically(whole: bool) -> None:
    ptx = cuda_kernels.emit(packed_elements(whole), bindings=2).ptx
    atomic = [line for line in ptx.splitlines() if line.strip().startswith(("atom.", "red."))]
    assert bool(atomic) != whole, atomic


REFUSED = [
    ("scf.parallel (%i) = (%c0) to (%c64) step (%c1) {\ngpu.barrier\n}", "gpu.barrier inside a parallel loop"),
    ("%t = gpu.thread_id x", "operation 'gpu.thread_id' cannot be compiled into a kernel"),
    ('%t = arith.constant true\ncf.assert %t, "never"', r"cf.assert cannot be .* for this target \('never'\)"),
    ("""%one = arith.constant 1 : i32
        %x = memref.atomic_rmw addi %one, %m[%c0] : (i32, memref<64xi32>) -> i32
        memref.store %x, %m[%c1] : memref<64xi32>""", "the result of 'memref.atomic_rmw' outside a parallel loop"),
    ("%x = arith.constant 1 : i128\n%y = arith.sitofp %x : i128 to f32", "a float of i128"),
    ("%x = arith.constant 1.0 : f32\n%y = arith.fptosi %x : f32 to i128", r"llvm.fptosi.sat.i128.f32"),
    ("%l = memref.alloc() : memref<100000xf32, #gpu.address_space<workgroup>>", "400000 bytes of workgroup memory"),
    ("""%l = memref.alloca() : memref<64xi32, 5>
        %t = hal.interface.constant.load ordinal(0) : i1
        %s = memref.alloc() : memref<64xi32>
        %one = arith.constant 1 : i32
        scf.parallel (%i) = (%c0) to (%c64) step (%c1) { memref.store %one, %s[%i] : memref<64xi32> }
        %p = memref.cast %l : memref<64xi32, 5> to memref<64xi32>
        %w = arith.select %t, %p, %s : memref<64xi32>
        memref.store %one, %w[%c0] : memref<64xi32>""", "memory of the workgroup or in an invocation's own"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "message"), REFUSED)
def test_refused(body: str, message: str) -> None:
    source = kernel(f"%m = hal.interface.binding.subspan binding(0) : memref<64xi32>\n{body}", invocations(64))
    with pytest.raises(CompileError, match=message):
        cuda_kernels.emit(source, bindings=1, constants=1)
