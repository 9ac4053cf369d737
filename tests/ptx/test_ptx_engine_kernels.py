"""Kernels that nvcc compiled, against NumPy; kernels that LLVM compiled, too."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tools
from ptx_engine import DATA, Kernels, wrap


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return Kernels.of("engine_sm_80")


def test_multiply(kernels: Kernels) -> None:
    rng = np.random.default_rng(0)
    for n in (1, 31, 1000, 70000):  # the last in several batches of blocks
        a, b, c = rng.random(n, np.float32), rng.random(n, np.float32), np.zeros(n, np.float32)
        kernels("multiply", -(-n // 256), 256, a, b, c, n)
        assert (c == a * b).all()


@pytest.mark.parametrize("shape", [(64, 64, 64), (50, 70, 45), (1, 1, 1)])
def test_matmul(kernels: Kernels, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    rng = np.random.default_rng(1)
    a, b, c = rng.random((m, k), np.float32), rng.random((k, n), np.float32), np.zeros((m, n), np.float32)
    kernels("matmul", (-(-n // 16), -(-m // 16)), (16, 16), a, b, c, m, n, k)
    # One fma after the other: the product is exact in f64, whose sum seldom rounds differently.
    want = np.zeros((m, n), np.float32)
    for i in range(k):
        want = (a[:, i : i + 1].astype(np.float64) * b[i : i + 1] + want).astype(np.float32)
    assert (c == want).all()


def test_reductions(kernels: Kernels) -> None:
    rng = np.random.default_rng(2)
    x, y = rng.integers(0, 100, 5000).astype(np.float32), np.zeros(4, np.float32)
    kernels("reduce_shared", 4, 128, x, y, 5000, shared=512)
    assert y.sum() == x.sum()
    v, total = rng.integers(-9, 9, 5000).astype(np.int32), np.zeros(1, np.int32)
    kernels("reduce_warp", 20, 256, v, total, 5000)
    assert total[0] == v.sum()
    total[:] = 0
    kernels("reduce_warp", 53, 96, v, total, 5000)
    assert total[0] == v.sum()


def test_histogram_scan_and_transpose(kernels: Kernels) -> None:
    rng = np.random.default_rng(3)
    x, h = rng.integers(0, 256, 20000).astype(np.uint8), np.zeros(256, np.uint32)
    kernels("histogram", 16, 128, x, h, 20000)
    assert (h == np.bincount(x, minlength=256)).all()
    v, sums = rng.integers(-9, 9, (2, 512)).astype(np.int32), np.zeros((2, 512), np.int32)
    kernels("scan", 2, 512, v, sums)
    assert (sums == np.cumsum(v, axis=1)).all()
    m, t = rng.random((70, 45), np.float32), np.zeros((45, 70), np.float32)
    kernels("transpose", (2, 3), (32, 8), m, t, 70, 45)
    assert (t == m.T).all()


def test_divergent_loops(kernels: Kernels) -> None:
    x = np.random.default_rng(4).integers(1, 1000, 700).astype(np.uint32)
    steps = np.zeros(700, np.uint32)
    kernels("collatz", 3, 256, x, steps, 700)

    def count(value: int) -> int:
        found = 0
        while value != 1:
            value, found = (3 * value + 1 if value & 1 else value // 2), found + 1
        return found

    assert [int(v) for v in steps] == [count(int(v)) for v in x]


def ackermann(m: int, n: int) -> int:
    if m == 0:
        return n + 1
    return ackermann(m - 1, 1) if n == 0 else ackermann(m - 1, ackermann(m, n - 1))


def digits(value: int, depth: int) -> int:
    held = [0] * 8
    for k in range(8):
        held[(k + depth) % 8] = value >> 4 * k & 15
    rest = digits(value // 3, depth - 1) if depth > 0 else 0
    return rest + sum(held[(k * 3 + depth) % 8] * (k + 1) for k in range(8))


def test_calls(kernels: Kernels) -> None:
    out = np.zeros(12, np.int32)
    kernels("recursion", 1, 12, out)
    assert [int(v) for v in out] == [ackermann(t % 3, t // 3 % 4) for t in range(12)]
    out = np.zeros(70, np.int32)
    kernels("frames", 1, 70, out)
    assert [int(v) for v in out] == [digits(t * 1234567, t % 5) for t in range(70)]
    x, y = np.random.default_rng(5).random(64, np.float32), np.zeros(64, np.float32)
    kernels("indirect", 1, 64, x, y)
    assert (y == np.where(np.arange(64) % 2, x * x, 2 * x)).all()


def test_structs_constants_and_tables_of_jumps(kernels: Kernels) -> None:
    pair = np.dtype({"names": ["first", "second"], "formats": ["i4", "f8"], "offsets": [0, 8], "itemsize": 16})
    out, given = np.zeros(40, pair), np.array([(5, 7.75)], pair)
    kernel = kernels.loaded.entry("structs")
    assert kernel.offsets == (0, 16)
    address = kernels.machine.memory.adopt(out)
    kernels.machine.launch(kernel, (1, 1, 1), (40, 1, 1), given.tobytes() + address.to_bytes(8, "little"))
    assert (out["first"] == 7).all()
    assert (out["second"] == np.arange(40) + 5).all()
    words = np.zeros(40, np.int32)
    kernels("constants", 1, 40, words)
    assert (words == np.array([3, 1, 4, 1])[np.arange(40) % 4]).all()
    address, size = kernels.loaded.variable("weights")
    assert size == 16
    kernels.machine.memory.write(address, np.array([9, 8, 7, 6], np.int32))
    kernels("constants", 1, 40, words)
    assert (words == np.array([9, 8, 7, 6])[np.arange(40) % 4]).all()
    x, y = np.arange(64, dtype=np.int32) % 9, np.zeros(64, np.int32)
    kernels("cases", 1, 64, x, y)
    i = np.arange(64)
    want = np.choose(x, [i * 0 + 11, 7 + i, i * i, i * 0 - 5, ~i, i ^ 99, i % 3, i * 0 + 1007, i * 0 + 1008])
    assert (y == want).all()


def test_locks_of_threads_in_a_warp(kernels: Kernels) -> None:
    lock, count = np.zeros(1, np.int32), np.zeros(1, np.int32)
    kernels("locked", 2, 64, lock, count)
    assert count[0] == 128 and lock[0] == 0


def test_votes_and_matches(kernels: Kernels) -> None:
    x = np.random.default_rng(6).integers(0, 120, 64).astype(np.int32)
    out = np.zeros((64, 8), np.uint32)
    kernels("votes", 1, 64, x, out)
    for t in range(64):
        warp = x[t // 32 * 32 :][:32]
        assert out[t, 0] == sum(1 << k for k in range(32) if warp[k] & 1)
        assert out[t, 1] == (warp > 100).any() and out[t, 2] == 1
        assert out[t, 3] == sum(1 << k for k in range(32) if warp[k] & 3 == x[t] & 3)
        assert out[t, 4] == warp.sum() and out[t, 5] == warp.max() and out[t, 6] == 0xFFFFFFFF
        assert out[t, 7] == (warp[7 - t % 8] if t % 32 < 8 else np.bitwise_xor.reduce(warp[8:]))


def test_atomics_run_in_order(kernels: Kernels) -> None:
    x = np.random.default_rng(7).integers(0, 1 << 20, 320).astype(np.int32)
    out, old = np.zeros(16, np.int32), np.zeros(320, np.int32)
    out[2], out[3] = 1 << 30, -1
    kernels("atomics", 5, 64, x, out, old)
    assert (old == np.concatenate(([0], np.cumsum(x)[:-1]))).all()
    assert list(out[:6]) == [x.sum(), x.max(), x.min(), np.bitwise_and.reduce(x), np.bitwise_or.reduce(x),
                             np.bitwise_xor.reduce(x)]  # fmt: skip
    assert out[6] == 0 and out[7] == 0  # 320 steps around ten values
    single, double = np.float32(0), np.float64(0)
    for value in x:
        single = single + np.float32(0.1) * np.float32(value)
        double = double + 0.1 * np.float64(value)
    assert out[8:9].view(np.float32)[0] == single
    assert out[10:12].view(np.int64)[0] == x.sum() and out[12:14].view(np.float64)[0] == double
    assert list(out[14:15].view(np.float16)) == [320, 640]


@pytest.mark.parametrize(("type_", "one"), [("f16", 0x3C00), ("bf16", 0x3F80)])
def test_atomics_of_single_halves(type_: str, one: int) -> None:
    """Sums of halves are exact up to 2**8 of bf16; each thread sees the sum before its own."""
    body = f""".reg .u32 %i; .reg .u64 %p, %q; .reg .b16 %h<4>; mov.u32 %i, %tid.x; ld.param.u64 %p, [sums];
      ld.param.u64 %q, [old]; mad.wide.u32 %q, %i, 2, %q; mov.b16 %h0, {one}; mov.b16 %h3, %h0;
      atom.global.add.noftz.{type_} %h1, [%p], %h0; red.global.add.noftz.{type_} [%p+2], %h0;
      red.global.add.noftz.v2.{type_} [%p+4], {{%h0, %h3}}; st.global.b16 [%q], %h1; ret;"""
    sums, old = np.zeros(4, np.uint16), np.zeros(64, np.uint16)
    Kernels(wrap(body, params=".param .u64 sums, .param .u64 old"))("k", 1, 64, sums, old)

    def numbers(bits: np.ndarray) -> np.ndarray:
        return bits.view(np.float16) if type_ == "f16" else (bits.astype(np.uint32) << 16).view(np.float32)

    assert (numbers(sums) == 64).all()
    assert (numbers(old) == np.arange(64)).all()


def test_tensor_cores_and_asynchronous_copies(kernels: Kernels) -> None:
    rng = np.random.default_rng(8)
    a, b = rng.random((16, 16)).astype(np.float16), rng.random((16, 8)).astype(np.float16)
    c = np.zeros((16, 8), np.float32)
    kernels("tensor", 1, 32, a, np.ascontiguousarray(b.T), c)
    start = np.tile(np.array([[1, 2]]), (16, 4)) + 2 * (np.arange(16) >= 8)[:, None]
    assert (c == (a.astype(np.float64) @ b.astype(np.float64) + start).astype(np.float32)).all()
    x, y = rng.random((64, 4), np.float32), np.ones((64, 4), np.float32)
    kernels("copies", 1, 64, x, y, 50)
    assert (y == np.where(np.arange(64)[:, None] < 50, x, 0)[::-1]).all()


def test_printing(kernels: Kernels, capsys: pytest.CaptureFixture[str]) -> None:
    kernels("printing", 1, 3, 3)
    assert capsys.readouterr().out == "0 of 3: x  0.00%\n1 of 3: x  1.50%\n2 of 3: x  3.00%\n"


def test_library_functions(tmp_path: Path) -> None:
    """sin, exp, log, pow, … of CUDA's library: thousands of instructions whose errors would add up."""
    path = tmp_path / "math.ptx"
    subprocess.run([tools.nvcc(), "-ptx", "-arch=sm_80", str(DATA / "engine_math.cu"), "-o", str(path)], check=True)
    x = np.random.default_rng(9).normal(size=500) * 2
    y, z = np.zeros(500), np.zeros(500, np.float32)
    Kernels(path.read_text())("functions", 1, 500, x, y, z)
    size = np.abs(x)
    want = np.sin(x) + np.exp(x) * np.log(size + 1) + size**1.3 + np.sqrt(size) / (1 + x * x)
    assert np.allclose(y, want, rtol=1e-15, atol=1e-15)
    f = x.astype(np.float32)
    from math import erf

    g = (f * np.float32(1e5)).astype(np.float64)
    wide = f.astype(np.float64)
    wanted = np.sin(g) + np.exp(wide) * np.log(np.abs(wide) + 1) + np.abs(wide) ** 1.3 + [erf(v) for v in wide]
    assert np.allclose(z, wanted, rtol=1e-6, atol=1e-6)


def llvm(ir: str) -> str:
    import llvmlite.binding as binding

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    machine = binding.Target.from_triple("nvptx64-nvidia-cuda").create_target_machine(
        cpu="sm_80", features="+ptx70", opt=3
    )
    return machine.emit_assembly(binding.parse_assembly(ir))


def test_code_of_llvm() -> None:
    """A reduction through addrspace(3) and generic pointers, with llvm.nvvm intrinsics."""
    text = llvm("""
target triple = "nvptx64-nvidia-cuda"
@buffer = internal addrspace(3) global [128 x float] undef, align 16
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare void @llvm.nvvm.barrier0()
declare float @llvm.fma.f32(float, float, float)
define ptx_kernel void @sums(ptr align 16 %x, ptr align 16 %y, i16 %scale) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %b = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %base = mul i32 %b, 128
  %i = add i32 %base, %t
  %p = getelementptr float, ptr %x, i32 %i
  %v = load float, ptr %p
  %s = sitofp i16 %scale to float
  %w = call float @llvm.fma.f32(float %v, float %s, float 1.0)
  %g = addrspacecast ptr addrspace(3) @buffer to ptr
  %q = getelementptr float, ptr %g, i32 %t
  store float %w, ptr %q
  br label %loop
loop:
  %k = phi i32 [64, %0], [%half, %next]
  call void @llvm.nvvm.barrier0()
  %c = icmp ult i32 %t, %k
  br i1 %c, label %add, label %next
add:
  %o = add i32 %t, %k
  %r = getelementptr float, ptr %g, i32 %o
  %l = load float, ptr %q
  %u = load float, ptr %r
  %sum = fadd float %l, %u
  store float %sum, ptr %q
  br label %next
next:
  %half = lshr i32 %k, 1
  %go = icmp ne i32 %half, 0
  br i1 %go, label %loop, label %end
end:
  %first = icmp eq i32 %t, 0
  br i1 %first, label %write, label %done
write:
  %z = getelementptr float, ptr %y, i32 %b
  %total = load float, ptr %g
  store float %total, ptr %z
  br label %done
done:
  ret void
}
""")
    x, y = np.arange(384, dtype=np.float32), np.zeros(3, np.float32)
    kernels = Kernels(text, races=True)
    kernels("sums", 3, 128, x, y, 2)
    assert (y == (2 * x + 1).reshape(3, 128).sum(axis=1)).all()


def test_many_blocks_at_a_time_or_few(kernels: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results do not depend on how many blocks run at once."""
    from pydispatch.runtime.simulators.ptx import launch

    rng = np.random.default_rng(10)
    x = rng.random(5000, np.float32)
    results: list[Any] = []
    for threads in (1, 500, 1 << 20):
        monkeypatch.setattr(launch, "THREADS_AT_ONCE", threads)
        y = np.zeros(16, np.float32)
        kernels("reduce_shared", 16, 64, x, y, 5000, shared=256)
        results.append(y)
    assert (results[0] == results[1]).all() and (results[0] == results[2]).all()
