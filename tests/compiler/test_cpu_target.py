# ruff: noqa: E501  (tables and lines of MLIR)
"""The CPU target as a whole: architectures, CPU levels, foreign libraries, the and the peer's runtime."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
from pathlib import Path

import machine_levels
import numpy as np
import pytest
from elftools.elf.elffile import ELFFile
from llvmlite import binding as llvm

sys.path.insert(0, str(Path(__file__).parents[1] / "emit"))
from kernels import FORMAT, HOST_FORMAT, Loaded, buffer, elementwise, load, variant
from pydispatch._core.sched import known_cpu_features

import pydispatch as pd
from pydispatch.compiler.backends.cpu.backend import compile_variant
from pydispatch.compiler.kernel_ir.kernel import Binding, Export, Layout, ObjectFile, Target, Variant
from pydispatch.compiler.target import native
from pydispatch.compiler.target.cpu import LEVELS, machine_of
from pydispatch.compiler.toolchain import tools
from pydispatch.errors import CompileError

BODY = """
  %a = math.exp %x0 : f32
  %h = arith.truncf %a : f32 to f16
  %f = math.floor %a : f32
  %b = arith.addf %a, %f : f32
  %y0 = func.call @user(%b) : (f32) -> f32
  %y1 = arith.extf %h : f16 to f64
"""
SOURCE = "func.func private @user(f32) -> f32 attributes {hal.import.static}\n" + elementwise(
    BODY, ["f32"], ["f32", "f64"]
)
USER = b"float user(float x) { return x * 2.0f; }\n"
MACHINE = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64", "riscv64": "EM_RISCV"}


def facts(elf: bytes) -> ELFFile:
    return ELFFile(io.BytesIO(elf))


@pytest.mark.parametrize("kind", [".o", ".bc", ".c"])
@pytest.mark.parametrize("arch", FORMAT)
def test_every_architecture_links_clean(arch: str, kind: str) -> None:
    data = USER if kind == ".c" else tools.find().compile_c(USER, arch=arch, emit="bc" if kind == ".bc" else "obj")
    binary = compile_variant(
        variant(
            SOURCE,
            constants=1,
            bindings=3,
            format=FORMAT[arch],
            cpu="generic",
            objects=[ObjectFile(f"user{kind}", data)],
        )
    )
    elf = facts(binary.data)
    assert elf["e_machine"] == MACHINE[arch] and elf["e_type"] == "ET_DYN"
    dynamic = elf.get_section_by_name(".dynsym")
    assert [s.name for s in dynamic.iter_symbols() if s.name] == ["iree_hal_executable_library_query"]
    types = {r["r_info_type"] for s in elf.iter_sections() if s["sh_type"] == "SHT_RELA" for r in s.iter_relocations()}
    assert types <= {{"x86_64": 8, "aarch64": 1027, "riscv64": 3}[arch]}  # relative ones alone
    assert not [
        s
        for s in elf.iter_segments()
        if s["p_type"] == "PT_TLS" or (s["p_type"] == "PT_LOAD" and s["p_flags"] & 3 == 3)
    ]
    assert binary.requires == () and binary.suffix == ".so"


def test_levels() -> None:
    for level in LEVELS:
        machine = machine_of(Target("llvm-cpu", "embedded-elf-x86_64", level))
        assert set(machine.requires) == LEVELS[level] and machine.cpu == level
    assert machine_of(Target("llvm-cpu", "embedded-elf-x86_64", "generic", ("+avx2",))).requires == (
        "avx", "avx2", "sse3", "sse4.1", "sse4.2", "ssse3")  # fmt: skip
    znver = machine_of(Target("llvm-cpu", "embedded-elf-x86_64", "znver4", ("-avx512bf16",)))
    assert znver.cpu == "x86-64-v4" and "avx512bf16" not in znver.requires and "avx512vnni" in znver.requires
    assert machine_of(Target("llvm-cpu", "embedded-elf-arm_64", "neoverse-n1")).requires[:3] == (
        "aes",
        "crc",
        "dotprod",
    )
    assert machine_of(Target("llvm-cpu", "embedded-elf-riscv_64")).llvm_features == "+m,+a,+f,+d,+c"
    native = machine_of(Target("llvm-cpu", HOST_FORMAT, "native"))
    assert set(native.requires) <= native.has


SHIFTS = """
target triple = "x86_64-unknown-linux-gnu"
define void @words(ptr %p) {
  %x = load <32 x i16>, ptr %p
  %y = shl <32 x i16> %x, %x
  store <32 x i16> %y, ptr %p
  ret void
}
define void @doubles(ptr %p) {
  %x = load <8 x double>, ptr %p
  %y = fadd <8 x double> %x, %x
  store <8 x double> %y, ptr %p
  ret void
}
"""


@pytest.mark.parametrize(
    ("stated", "without", "still"),
    [
        ("-avx512f", "avx512f avx512bw avx512cd avx512dq avx512vl", "avx2 fma f16c"),
        ("-fma", "fma avx512f avx512bw", "avx2 f16c"),
        ("-avx", "avx avx2 fma f16c avx512f avx512bw", "sse4.2 bmi2"),
        ("+avx512vnni,-avx512bw", "avx512bw", "avx512f avx512vnni"),
        ("+avx512vbmi,-avx512bw", "avx512bw avx512vbmi", "avx512f"),
        ("-avx512f,+avx512bw", "avx512cd avx512dq", "avx512f avx512bw"),
    ],
)
def test_removed_features(stated: str, without: str, still: str) -> None:
    """LLVM removes the features that imply the removed one, and uses none of them."""
    machine = machine_of(Target("llvm-cpu", "embedded-elf-x86_64", "x86-64-v4", tuple(stated.split(","))))
    assert not machine.has & set(without.split()) and not set(machine.requires) & set(without.split())
    assert set(still.split()) <= machine.has
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(machine.triple)
    code = target.create_target_machine(machine.cpu, machine.llvm_features).emit_assembly(llvm.parse_assembly(SHIFTS))
    assert ("zmm" in code) == ("avx512f" in machine.has)
    assert ("vpsllvw" in code) == ("avx512bw" in machine.has)


@pytest.mark.parametrize(
    ("name", "like"),
    [("rocketlake", "sapphirerapids"), ("znver9", "znver5"), ("tigerlake", "icelake-client"), ("old", "x86-64-v2")],
)
def test_an_unknown_cpu_is_taken_for_the_nearest_one(name: str, like: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its features: LLVM takes models that it does not know for older ones with the same number."""
    has = machine_of(Target("llvm-cpu", "embedded-elf-x86_64", like)).has
    monkeypatch.setattr(native, "host", lambda: ("x86_64", name, has))
    machine = machine_of(Target("llvm-cpu", "embedded-elf-x86_64", "native"))
    assert machine.tune == ("old" if like in LEVELS else like) and set(machine.requires) <= has


SMALL_STACK = """
import ctypes
class Stack(ctypes.Structure):
    _fields_ = [("sp", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]
memory = ctypes.create_string_buffer(4096)
assert ctypes.CDLL(None).sigaltstack(ctypes.byref(Stack(ctypes.addressof(memory), 0, 4096)), None) == 0
import numpy as np
import pydispatch as pd
from pydispatch._core.sched import cpu_features
from pydispatch.compiler.kernel_ir.kernel import Target
from pydispatch.compiler.target.cpu import machine_of
machine = machine_of(Target("llvm-cpu", "FORMAT", "native"))
assert not any(name.startswith("amx") for name in (*cpu_features(), *machine.requires)), cpu_features()
artifact = pd.compile(open("product.mlir").read(), targets="cpu", cpu="native")
a, b = np.full((64, 64), -3, np.int8), np.full((64, 64), 7, np.int8)
assert (np.asarray(pd.device("cpu").load(artifact).f(a, b)) == 64 * -21).all()
"""
PRODUCT = """
func.func @f(%a: tensor<64x64xi8>, %b: tensor<64x64xi8>) -> tensor<64x64xi32> {
  %zero = arith.constant 0 : i32
  %e = tensor.empty() : tensor<64x64xi32>
  %z = linalg.fill ins(%zero : i32) outs(%e : tensor<64x64xi32>) -> tensor<64x64xi32>
  %r = linalg.matmul ins(%a, %b : tensor<64x64xi8>, tensor<64x64xi8>) outs(%z : tensor<64x64xi32>) -> tensor<64x64xi32>
  return %r : tensor<64x64xi32>
}
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives a process leave to use AMX")
def test_native_uses_what_the_process_may_use(tmp_path: Path) -> None:
    """Linux refuses the registers of AMX to a process with a signal stack that is too small for them."""
    (tmp_path / "product.mlir").write_text(PRODUCT)
    code = SMALL_STACK.replace("FORMAT", HOST_FORMAT)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# What compilers write that list all of a CPU's features.
LISTED = {
    "x86_64": "+prfchw,-cldemote,+avx2,+aes,+sahf,+pclmul,-xop,+crc32,-amx-fp8,+xsaves,+sse4.2,+invpcid,+64bit,+xsavec,"
    "+popcnt,+clwb,+clzero,+rdrnd,+rdseed,+fsgsbase,+mwaitx,+pku,+shstk,+wbnoinvd,+rdpid,+rdpru,+cmov,+evex512,+x87",
    "aarch64": "+v8.2a,+aes,+dotprod,+fp-armv8,+neon,+perfmon,+ras,+sha2,+spe,+ssbs,+outline-atomics,+reserve-x18",
    "riscv64": "+m,+a,+f,+d,+c,+relax,+v,+zicsr,+zmmul,+zaamo,+zalrsc,+zca,+zcd,+zve64d,+zvl128b,+zvl256b",
}
REQUIRED = {
    "x86_64": {"aes", "avx", "avx2", "pclmul", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"},
    "aarch64": {"aes", "crc", "dotprod", "lse", "rdm", "sha2"},
    "riscv64": {"v", "zvl256b"},
}


@pytest.mark.parametrize("arch", sorted(LISTED))
def test_a_variant_requires_only_what_its_code_may_use(arch: str) -> None:
    format = {"aarch64": "embedded-elf-arm_64", "riscv64": "embedded-elf-riscv_64"}.get(arch, f"embedded-elf-{arch}")
    machine = machine_of(Target("llvm-cpu", format, "generic", tuple(LISTED[arch].split(","))))
    assert set(machine.requires) == REQUIRED[arch]
    if format == HOST_FORMAT:
        assert set(machine.requires) <= set(known_cpu_features())  # the loader can tell whether they are there


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (Target("llvm-cpu", "embedded-elf-x86_64", "pentium9"), "CPU 'pentium9' is not known for x86_64"),
        (Target("llvm-cpu", "embedded-elf-x86_64", "generic", ("avx2",)), "CPU feature 'avx2': expected a sign"),
        (Target("llvm-cpu", "embedded-elf-mips"), "format 'embedded-elf-mips' has no machine code here"),
        (Target("llvm-cpu", "embedded-elf-riscv_64", "native"), "CPU 'native' is this machine's"),
        (Target("llvm-cpu", "embedded-elf-riscv_64", "generic", ("-d",)), "riscv64 without -d"),
    ],
)
def test_unknown_machines(target: Target, message: str) -> None:
    with pytest.raises(CompileError, match=re.escape(message)):
        machine_of(target)


def test_cpus_of_several_architectures() -> None:
    """A CPU becomes a variant of the architecture that has it; one that no target has is refused."""
    source = (
        "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n  %y = arith.addf %x, %x : tensor<4xf32>\n"
        "  return %y : tensor<4xf32>\n}"
    )
    artifact = pd.compile(source, targets=("x86_64", "aarch64"), cpu=("generic", "znver2", "neoverse-n1"))
    names = {Path(member).stem for member in artifact.members if member.startswith("executables/")}
    assert names == {
        "embedded_elf_x86_64",
        "embedded_elf_x86_64_znver2",
        "embedded_elf_arm_64",
        "embedded_elf_arm_64_neoverse_n1",
    }
    with pytest.raises(CompileError, match="CPU 'neoverse-n1' belongs to an architecture that is not compiled for"):
        pd.compile(source, targets="x86_64", cpu=("generic", "neoverse-n1"))
    with pytest.raises(CompileError, match="CPU 'neoverse-n9' is not known for x86_64"):
        pd.compile(source, targets=("x86_64", "aarch64"), cpu="neoverse-n9")


def test_same_input_same_bytes() -> None:
    made = {
        compile_variant(variant(SOURCE, constants=1, bindings=3, objects=[ObjectFile("user.c", USER)])).data
        for _ in range(3)
    }
    assert len(made) == 1


@pytest.mark.parametrize("level", machine_levels.parameters(["generic", *machine_levels.X86_64]))
def test_levels_give_the_same_results(level: str) -> None:
    """Without fast-math flags no level contracts or reorders what the program says."""
    body = "%p = arith.mulf %x0, %x0 : f32\n%y0 = arith.addf %p, %x0 : f32"
    kernel = load(elementwise(body, ["f32"], ["f32"]), constants=1, bindings=2, cpu=level)
    x = np.random.default_rng(1).standard_normal(1000).astype(np.float32)
    y = buffer(np.zeros(1000, np.float32))
    kernel.run(buffer(x), y, constants=[1000])
    np.testing.assert_array_equal(y, x * x + x)


def test_whole_kernels_in_c() -> None:
    """No module: the objects define the exports, the tables are made; and a linked library passes through as it is."""
    code = b"""#include <stdint.h>
    int32_t first(const void* env, const void* state, const void* wg) {
      float* out = ((float***)state)[4][0]; out[0] = 5.0f; return 0; }
    int32_t second(const void* env, const void* state, const void* wg) { return 9; }"""
    layout = Layout(0, (Binding(),))
    exports = (Export("first", 0, layout), Export("second", 1, layout))
    target = Target("llvm-cpu", HOST_FORMAT)
    binary = compile_variant(Variant("whole", "v", target, exports, None, (ObjectFile("k.c", code),)))
    assert binary.alignment == 64
    out = buffer(np.zeros(1, np.float32))
    kernel = Loaded(binary)
    assert kernel.run(out) == 0 and out[0] == 5 and kernel.run(out, export=1) == 9
    same = compile_variant(Variant("whole", "v", target, exports, None, (ObjectFile("k.so", binary.data),)))
    assert same.data == binary.data and same.alignment == 64
    with pytest.raises(CompileError, match="does not export 'iree_hal_executable_library_query'"):
        broken = binary.data.replace(b"iree_hal_executable_library_query", b"iree_hal_executable_library_quarx")
        compile_variant(Variant("whole", "v", target, exports, None, (ObjectFile("k.so", broken),)))
    with pytest.raises(CompileError, match="is a whole library and cannot be combined"):
        compile_variant(variant(SOURCE, constants=1, bindings=3, objects=[ObjectFile("k.so", binary.data)]))


def test_constructors_of_a_linked_library_run_when_it_is_loaded() -> None:
    """Objects with constructors are refused; a library that its author has linked is loaded as it is."""
    code = b"""
    #include "pydispatch/library.h"
    static float set = 1;
    __attribute__((constructor)) static void begin(void) { set += 4; }
    static int32_t kernel(const pyd_environment_t* environment, const pyd_dispatch_state_t* dispatch,
                          const pyd_workgroup_state_t* workgroup) {
      *(float*)dispatch->binding_ptrs[0] = set; return 0; }
    static const pyd_dispatch_fn_t functions[] = {kernel};
    static const pyd_library_export_attrs_t attributes[] = {{.binding_count = 1}};
    static const char* const names[] = {"kernel"};
    static const pyd_library_header_t header = {.version = PYD_LIBRARY_VERSION, .name = "constructed"};
    static const pyd_library_t library = {.header = &header,
      .exports = {.count = 1, .ptrs = functions, .attrs = attributes, .names = names}};
    const void* iree_hal_executable_library_query(uint32_t version, const pyd_environment_t* environment) {
      return version == PYD_LIBRARY_VERSION ? &library : 0; }"""
    arch, toolchain = native.host()[0], tools.find()
    kernel = toolchain.compile_c(code, arch=arch, include_dirs=[pd.get_include()])
    linked = toolchain.link_shared([kernel], arch=arch, exports=["iree_hal_executable_library_query"])
    target, exports = Target("llvm-cpu", HOST_FORMAT), (Export("kernel", 0, Layout(0, (Binding(),))),)
    binary = compile_variant(Variant("constructed", "v", target, exports, None, (ObjectFile("k.so", linked),)))
    out = buffer(np.zeros(1, np.float32))
    assert Loaded(binary).run(out) == 0 and out[0] == 5


@pytest.mark.parametrize("name", ["k.ptx", "kernel"])
def test_unknown_objects(name: str) -> None:
    with pytest.raises(CompileError, match="cannot be linked into an embedded ELF"):
        compile_variant(variant(SOURCE, constants=1, bindings=3, objects=[ObjectFile(name, b"x")]))


def peer_tool() -> str:
    """IREE's executable tool. This is the one place that says so when it is absent."""
    beside = Path(sys.executable).parent / "iree-benchmark-executable"
    found = str(beside) if beside.exists() else shutil.which("iree-benchmark-executable")
    if found is None:
        pytest.skip("iree-benchmark-executable is not installed: pip install iree-base-runtime")
    return found


@pytest.mark.peer
def test_runs_in_the_peer(tmp_path: Path) -> None:
    body = "%c = arith.constant 2.0 : f32\n%e = math.exp %x0 : f32\n%m = arith.mulf %e, %c : f32\n%y0 = arith.addf %m, %x1 : f32"
    binary = compile_variant(variant(elementwise(body, ["f32", "f32"], ["f32"]), constants=1, bindings=3))
    path = tmp_path / "kernel.so"
    path.write_bytes(binary.data)
    done = subprocess.run(
        [peer_tool(), "--device=local-sync", f"--executable_format={HOST_FORMAT}", f"--executable_file={path}",
         "--entry_point=0", "--binding=64xf32=1", "--binding=64xf32=3", "--binding=64xf32", "--constant=64",
         "--workgroup_count=1,1,1", "--benchmark_min_time=1x"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_small_executable_says_what_took_how_long() -> None:
    """Three tiny kernels and an object; bench/ has the figures."""
    user = ObjectFile("user.o", tools.find().compile_c(b"void mul(const float* a, const float* b, float* c, long n) {"
                                                           b"for (long i = 0; i < n; ++i) c[i] = a[i] * b[i]; }", arch="x86_64"))  # fmt: skip
    kernels = []
    for name, op in (("one", "addf"), ("two", "mulf")):
        kernels.append(
            elementwise(f"%y0 = arith.{op} %x0, %x1 : f32", ["f32", "f32"], ["f32"]).replace("@kernel", f"@{name}")
        )
    kernels.append("""
      func.func private @mul(memref<f32>, memref<f32>, memref<f32>, index) attributes {hal.import.static, llvm.bareptr}
      func.func @three() {
        %n = hal.interface.constant.load[0] : index
        %a = hal.interface.binding.subspan binding(0) : memref<f32>
        %b = hal.interface.binding.subspan binding(1) : memref<f32>
        %c = hal.interface.binding.subspan binding(2) : memref<f32>
        func.call @mul(%a, %b, %c, %n) : (memref<f32>, memref<f32>, memref<f32>, index) -> ()
        func.return
      }""")
    program = variant("\n".join(kernels), constants=1, bindings=3, exports=("one", "two", "three"),
                      format="embedded-elf-x86_64", cpu="generic", objects=[user])  # fmt: skip
    binary = compile_variant(program)
    phases = binary.notes["seconds"]
    assert phases and all(seconds >= 0 for seconds in phases.values())  # what --dump and bench/ show
    assert compile_variant(program).data == binary.data


def test_threads_take_turns() -> None:
    from concurrent.futures import ThreadPoolExecutor

    programs = [variant(SOURCE, constants=1, bindings=3, objects=[ObjectFile("user.c", USER)]) for _ in range(8)]
    with ThreadPoolExecutor(4) as pool:
        made = {binary.data for binary in pool.map(compile_variant, programs)}
    assert len(made) == 1


def test_bitcode_for_another_cpu() -> None:
    """Bitcode that was compiled for more than the target has is refused: its code would not run there."""
    code = b"float user(float x) { return x + 1; }"
    data = tools.find().compile_c(code, arch="x86_64", cpu="x86-64-v4", emit="bc")
    objects = [ObjectFile("user.bc", data)]
    with pytest.raises(CompileError) as caught:
        compile_variant(
            variant(SOURCE, constants=1, bindings=3, format="embedded-elf-x86_64", cpu="x86-64-v2", objects=objects)
        )
    assert "'user.bc' was compiled for avx, avx2, avx512bw" in caught.value.message
    program = variant(SOURCE, constants=1, bindings=3, format="embedded-elf-x86_64", cpu="x86-64-v4", objects=objects)
    assert "avx512f" in compile_variant(program).requires
