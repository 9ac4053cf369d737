# ruff: noqa: E501 - the C text
"""aarch64 and riscv64 under qemu-user: the same bits as the host's library with fused multiply-add.

Kernels and tables are the same and every fused operation is written out, so any difference is a fault of the target's
own paths (half in floating-point registers, unaligned access, 128-bit division without an instruction, rounding).
"""

import hashlib
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from devlib_driver import FUNCTIONS, TYPES, samples

from pydispatch.compiler import devlib
from pydispatch.compiler.toolchain import linker
from pydispatch.compiler.toolchain import tools as toolchain

NAMES = [f for f in FUNCTIONS if f.arguments == 1]
COUNT = 60

PROGRAM = r"""
#ifndef __x86_64__
static long call(long n, long a, long b, long c) {
#if defined(__aarch64__)
  register long x8 __asm__("x8") = n, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
  return x0;
#else
  register long a7 __asm__("a7") = n, a0 __asm__("a0") = a, a1 __asm__("a1") = b, a2 __asm__("a2") = c;
  __asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2) : "memory");
  return a0;
#endif
}
#endif
typedef unsigned char u8;
void* memmove(void*, const void*, unsigned long); void* memset(void*, int, unsigned long);
_Float16 __truncsfhf2(float); float __extendhfsf2(_Float16); __bf16 __truncsfbf2(float);
typedef unsigned __int128 U; U __udivti3(U, U); U __umodti3(U, U); double __floatuntidf(U); double fma(double, double, double);
static u8 room[1 << 20];
static unsigned long fill(void) {  // all results, one behind the other
  u8* p = room;
#define PUT(value) do { __typeof__(value) v = (value); __builtin_memcpy(p, &v, sizeof v); p += sizeof v; } while (0)
  CALLS
  for (int i = 0; i < 200; ++i) { float x = (float)(i * i * i) * 0.37f - 9000.0f; PUT(__truncsfhf2(x)); PUT(__truncsfbf2(x)); PUT(__extendhfsf2(__truncsfhf2(x))); }
  U a = ((U)0x123456789abcdef0 << 64) | 0xfedcba9876543210, b = 3;
  for (int i = 0; i < 120; ++i, b = b * 5 + 1) { PUT(__udivti3(a, b)); PUT(__umodti3(a, b)); PUT(__floatuntidf(b)); PUT(fma((double)i, 0x1.1p-1, -(double)(b >> 3))); }
  for (int i = 0; i < 200; ++i) p[i] = (u8)(i * 7);
  for (int i = 0; i < 60; ++i) { memmove(p + (i * 5) % 90, p + (i * 11) % 70, i * 2); memset(p + i * 3, i, i % 23); }
  return (unsigned long)(p + 200 - room);
}
#if !defined(__x86_64__)
void entry(void) {
  unsigned long n = fill();
  call(64, 1, (long)room, (long)n);
  call(93, 0, 0, 0);
}
#else
const u8* result(unsigned long* n) { *n = fill(); return room; }
#endif
"""


def program() -> bytes:
    head, calls = [], []
    for f in NAMES:
        for suffix, (kind, _) in TYPES.items():
            values = samples(f, suffix, COUNT // len(f.ranges))[0]
            text = ", ".join(float(v).hex() + suffix for v in values)
            head.append(f"{kind} {f.name}{suffix}({kind}); static const {kind} x_{f.name}{suffix}[] = {{{text}}};")
            calls.append(f"for (int i = 0; i < {values.size}; ++i) PUT({f.name}{suffix}(x_{f.name}{suffix}[i]));")
    text = "#pragma GCC visibility push(default)\n" + "\n".join(head)
    return (text + PROGRAM).replace("CALLS", " ".join(calls)).encode()


def results_here(tmp_path) -> bytes:
    import ctypes

    tools = toolchain.find()
    code = tools.compile_c(
        program(), arch="x86_64", cpu="x86-64-v3", extra_args=["-fno-builtin", "-ffp-contract=off"], opt="-O1"
    )
    data = tools.link_shared([code], arch="x86_64", exports=["result"], archives=devlib.objects("x86_64", "x86-64-v3"))
    path = tmp_path / "here.so"
    path.write_bytes(data)
    dll = ctypes.CDLL(str(path))
    dll.result.restype = ctypes.c_void_p
    size = ctypes.c_ulong()
    where = dll.result(ctypes.byref(size))
    return ctypes.string_at(where, size.value)


@pytest.mark.parametrize("arch", ["aarch64", "riscv64"])
def test_same_bits_as_here(arch, tmp_path):
    emulator = shutil.which(f"qemu-{arch}-static") or shutil.which(f"qemu-{arch}")
    if emulator is None:
        pytest.skip("needs qemu-user (Debian: qemu-user-static)")
    with Path("/proc/cpuinfo").open() as file:
        if " fma " not in file.read():
            pytest.skip("this machine has no fused multiply-add to compare with")
    tools = toolchain.find()
    code = tools.compile_c(program(), arch=arch, extra_args=["-fno-builtin", "-ffp-contract=off"], opt="-O1")
    objects = [tmp_path / "program.o"]
    objects[0].write_bytes(code)
    for i, data in enumerate(devlib.objects(arch)):
        objects.append(tmp_path / f"devlib{i}.o")
        objects[-1].write_bytes(data)
    binary = tmp_path / "program"
    lld = tools.lld().argv
    subprocess.run(
        [*lld, "-m", linker._EMULATION[arch], "-static", "--gc-sections", "-e", "entry", "-o", binary, *objects],
        check=True,
    )
    binary.chmod(0o755)
    got = subprocess.run([emulator, binary], capture_output=True, check=True, timeout=300).stdout
    wanted = results_here(tmp_path)
    assert len(got) == len(wanted)
    if got != wanted:
        offset = int(np.flatnonzero(np.frombuffer(got, np.uint8) != np.frombuffer(wanted, np.uint8))[0])
        pytest.fail(f"first difference at byte {offset} of {len(got)}: {_owner(offset)}")
    assert hashlib.sha256(got).digest() != hashlib.sha256(bytes(len(got))).digest()


def _owner(offset):
    for f in NAMES:
        for suffix in TYPES:
            values = samples(f, suffix, COUNT // len(f.ranges))[0]
            if offset < values.nbytes:
                return f"{f.name}{suffix}({values[offset // values.itemsize].item().hex()})"
            offset -= values.nbytes
    return f"builtins, byte {offset}"
