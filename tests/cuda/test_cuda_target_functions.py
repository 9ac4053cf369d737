"""Functions of the user in generated CUDA kernels: what is linked when compiling, what is left, what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import tools
from cuda_programs import objects, target
from tools import DATA, assemble, compile_cu, nvcc

import pydispatch as pd
from pydispatch.compiler.backends.cuda import tools as cuda_tools
from pydispatch.compiler.kernel_ir.kernel import ObjectFile
from pydispatch.compiler.toolchain import tools as toolchain

MEMREFS = "memref<?xf32>, memref<?xf32>, memref<?xf32>, index, index"


def ukernel(
    files: Any, attributes: str = "hal.import.static", name: str = "simple_mul_workgroup", size: str = ""
) -> str:
    """A program whose kernel calls one function over three vectors. files: paths, or a text of keyed objects."""
    listed = files if isinstance(files, str) else f"[{objects(files)}]"
    return f"""module {{
  stream.executable private @executable {f"attributes {{hal.executable.objects = {listed}}}" if files else ""} {{
    stream.executable.export public @entry workgroups(%n: index) -> (index, index, index) {{
      %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 64)>()[%n]
      %c1 = arith.constant 1 : index
      stream.return %x, %c1, %c1 : index, index, index
    }} {size}
    builtin.module {{
      func.func private @{name}({MEMREFS}) attributes {{{attributes}}}
      func.func @entry(%a: !stream.binding, %b: !stream.binding, %c: !stream.binding, %n: index) {{
        %c0 = arith.constant 0 : index
        %c64 = arith.constant 64 : index
        %id = stream.dispatch.workgroup.id[0] : index
        %first = arith.muli %id, %c64 : index
        %ma = stream.binding.subspan %a[%c0] : !stream.binding -> memref<?xf32>{{%n}}
        %mb = stream.binding.subspan %b[%c0] : !stream.binding -> memref<?xf32>{{%n}}
        %mc = stream.binding.subspan %c[%c0] : !stream.binding -> memref<?xf32>{{%n}}
        func.call @{name}(%ma, %mb, %mc, %n, %first) : ({MEMREFS}) -> ()
        return
      }}
    }}
  }}
  func.func @f(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {{
    %c0 = arith.constant 0 : index
    %n = tensor.dim %a, %c0 : tensor<?xf32>
    %r = flow.dispatch @executable::@entry[%n](%a, %b, %n)
      : (tensor<?xf32>{{%n}}, tensor<?xf32>{{%n}}, index) -> tensor<?xf32>{{%n}}
    return %r : tensor<?xf32>
  }}
}}"""


def scalar(files: Any, declaration: str, call: str, type: str = "f32") -> str:
    """A program whose kernel calls a function for each element of a vector."""
    t, listed = f"memref<?x{type}>", f"[{objects(files)}]"
    return f"""module {{
  stream.executable private @executable {f"attributes {{hal.executable.objects = {listed}}}" if files else ""} {{
    stream.executable.export public @entry workgroups(%n: index) -> (index, index, index) {{
      %c1 = arith.constant 1 : index
      stream.return %c1, %c1, %c1 : index, index, index
    }}
    builtin.module {{
      func.func private {declaration}
      func.func @entry(%a: !stream.binding, %c: !stream.binding, %n: index) {{
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %ma = stream.binding.subspan %a[%c0] : !stream.binding -> {t}{{%n}}
        %mc = stream.binding.subspan %c[%c0] : !stream.binding -> {t}{{%n}}
        scf.parallel (%i) = (%c0) to (%n) step (%c1) {{
          %x = memref.load %ma[%i] : {t}
          %r = {call}
          memref.store %r, %mc[%i] : {t}
          scf.reduce
        }}
        return
      }}
    }}
  }}
  func.func @f(%a: tensor<?x{type}>) -> tensor<?x{type}> {{
    %c0 = arith.constant 0 : index
    %n = tensor.dim %a, %c0 : tensor<?x{type}>
    %r = flow.dispatch @executable::@entry[%n](%a, %n) : (tensor<?x{type}>{{%n}}, index) -> tensor<?x{type}>{{%n}}
    return %r : tensor<?x{type}>
  }}
}}"""


OP = scalar([], "@user_op(f32, f32) -> f32", "func.call @user_op(%x, %x) : (f32, f32) -> f32")
STATIC_OP = "@user_op(f32, f32) -> f32 attributes {hal.import.static}"


def bitcode(tmp_path: Path, **options: Any) -> Path:
    """functions.c as a user's clang makes bitcode of it."""
    made = tmp_path / "functions.bc"
    arch, cpu = options.get("arch", "nvptx64"), options.get("cpu", "sm_75")
    made.write_bytes(
        toolchain.find().compile_c(DATA / "functions.c", arch=arch, cpu=cpu, emit="bc", include_dirs=[pd.get_include()])
    )
    return made


def built(text: str, targets: Any = "sm_80", **options: Any) -> tuple[Any, str]:
    """(the variant, its code as text)."""
    artifact = pd.compile(text, targets=targets, object_search_path=[DATA], **options)
    (variant,) = artifact.executables[0].variants
    return variant, bytes(artifact.read(variant.member)).decode("latin-1")


def refused(text: str, **options: Any) -> str:
    with pytest.raises(pd.CompileError) as caught:
        built(text, **options)
    return str(caught.value)


@pytest.mark.parametrize("kind", [".ptx", ".c", ".bc"])
def test_static_functions_become_part_of_the_text(kind: str, tmp_path: Path) -> None:
    file = {".ptx": DATA / "functions_sm_75.ptx", ".c": DATA / "functions.c"}.get(kind) or bitcode(tmp_path)
    variant, text = built(ukernel([file]))
    assert ".extern .func" not in text and variant.imports == [] and variant.member.endswith(".ptx")
    assert variant.extra["ptx"]["blocks"] == [[64, 1, 1]] and "calls" not in variant.extra
    # Bitcode is inlined; PTX is called.
    assert ("call.uni" in text or "call " in text) == (kind == ".ptx")
    assert assemble(text, "sm_80") == ""
    _, scalar_text = built(scalar([file], STATIC_OP, "func.call @user_op(%x, %x) : (f32, f32) -> f32"))
    assert "fma.rn.f32" in scalar_text and assemble(scalar_text, "sm_80") == ""


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
def test_architectures(arch: str, tmp_path: Path) -> None:
    for file in (DATA / "functions_sm_75.ptx", DATA / "functions.c"):
        variant, text = built(ukernel([file]), arch)
        assert f".target {arch}" in text and arch in variant.requires
        assert assemble(text, arch) == ""


def test_a_library_for_a_newer_architecture_raises_what_is_required(tmp_path: Path) -> None:
    newer = (DATA / "functions_sm_75.ptx").read_text().replace(".target sm_75", ".target sm_90")
    (tmp_path / "newer.ptx").write_text(newer)
    with pytest.warns(pd.CompileWarning, match=r"newer.ptx' is for a newer architecture than sm_80: .* needs sm_90"):
        variant, text = built(ukernel([tmp_path / "newer.ptx"]), "sm_80")
    assert ".target sm_90" in text and "sm_90" in variant.requires


def test_each_architecture_has_its_functions(tmp_path: Path) -> None:
    """Objects by target, C for the CPU among them: one variant each."""
    cpu = '#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">'
    rows = [f"{cpu} = [{objects([DATA / 'functions.c'])}]"]
    for arch in ("sm_75", "sm_90"):
        text = (DATA / "functions_sm_75.ptx").read_text().replace(".target sm_75", f".target {arch}")
        (tmp_path / f"{arch}.ptx").write_text(text)
        rows.append(f"{target(arch)} = [{objects([tmp_path / f'{arch}.ptx'])}]")
    keyed = f"#hal.executable.objects<{{{', '.join(rows)}}}>"
    artifact = pd.compile(ukernel(keyed), targets=("x86_64", "cuda"))
    names = [v.name for v in artifact.executables[0].variants]
    assert names == ["embedded_elf_x86_64", "cuda_nvptx_fb_sm_75", "cuda_nvptx_fb_sm_90"]


def test_c_for_a_cpu_is_called_by_one_thread() -> None:
    """It works in place and knows nothing of other threads; where it does, every thread takes its share."""
    bare = "@serial_scale(memref<?xf32>, index, f32) attributes {hal.import.static, llvm.bareptr}"
    text = ukernel([DATA / "functions.c"]).replace(
        f"@simple_mul_workgroup({MEMREFS}) attributes {{hal.import.static}}", bare
    )
    text = re.sub(
        r"func.call @simple_mul_workgroup.*",
        "%s = arith.constant 2.0 : f32\n func.call @serial_scale(%mc, %n, %s) : (memref<?xf32>, index, f32) -> ()",
        text,
    )  # fmt: skip
    assert built(text)[0].extra["ptx"]["blocks"] == [[1, 1, 1]]
    assert built(ukernel([DATA / "functions.c"]))[0].extra["ptx"]["blocks"] == [[64, 1, 1]]
    stated = ukernel([DATA / "functions.c"], size="attributes {workgroup_size = [128 : index, 1 : index, 1 : index]}")
    assert built(stated)[0].extra["ptx"]["blocks"] == [[128, 1, 1]]


def test_mathematics_in_c_is_ours() -> None:
    """No GPU has a C library: exp and its like come from the device library."""
    declaration = "@user_math(f64) -> f64 attributes {hal.import.static}"
    call = "func.call @user_math(%x) : (f64) -> f64"
    _, text = built(scalar([DATA / "functions.c"], declaration, call, "f64"))
    assert ".extern" not in text and "sqrt.rn.f64" in text and assemble(text, "sm_80") == ""


def test_cuda_sources_of_functions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By nvcc, by NVRTC, and by a clang that knows no CUDA when there is neither."""
    seen = {}
    for how in ("nvcc", "nvrtc", "clang"):
        if how == "nvcc" and cuda_tools.tool("nvcc") is None:
            continue
        if how != "nvcc":
            monkeypatch.setenv("PYDISPATCH_NVCC", "off")
        if how == "clang":
            monkeypatch.setattr(cuda_tools, "has_cuda_compiler", lambda: False)
        elif not cuda_tools.has_cuda_compiler():
            continue
        variant, text = built(ukernel([DATA / "functions.cu"]))
        assert ".extern .func" not in text and variant.extra["ptx"]["blocks"] == [[64, 1, 1]]
        seen[how] = text
    assert "call" not in seen["clang"]
    assert assemble(seen["clang"], "sm_80") == ""


@pytest.mark.parametrize("name", ["include", "my dir"])
def test_sources_are_compiled_again_only_after_edits_of_headers(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapper = tmp_path / "bin" / "nvcc"  # in a prefix that has the headers, too
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nexec {nvcc()} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PYDISPATCH_NVCC", str(wrapper))
    run, tasks = cuda_tools._run, []

    def recorded(task: str, *arguments: Any, **named: Any) -> Any:
        tasks.append(task)
        return run(task, *arguments, **named)

    monkeypatch.setattr(cuda_tools, "_run", recorded)
    folder = tmp_path / name
    folder.mkdir()
    source = b'#include "factor.h"\nextern "C" __device__ int scaled(int x) { return FACTOR * x; }\n'
    file = ObjectFile("scaled.cu", source, include_dirs=(folder,))
    texts = []
    for factor in (5, 5, 7):
        (folder / "factor.h").write_text(f"#define FACTOR {factor}\n")
        texts.append(cuda_tools.compile_cu(file, "sm_80", relocatable=True))
    assert texts[0] == texts[1] != texts[2] and tasks.count("compiling scaled.cu") == 2


SHIM = """
extern "C" __device__ float user_op(float x, float y) {
  __shared__ float tile[64];
  tile[threadIdx.x] = __shfl_xor_sync(0xFFFFFFFFu, x, 1) + y;
  __syncthreads();
  return fmaxf(tile[63 - threadIdx.x], expf(x)) + min((int)blockDim.x, 3) + (blockIdx.x + gridDim.y);
}
extern "C" __device__ int user_add(int* p, int x) { return atomicAdd(p, x); }
"""


def test_what_a_clang_without_cuda_knows_of_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cuda_tools, "has_cuda_compiler", lambda: False)
    (tmp_path / "f.cu").write_text(SHIM)
    program = scalar([tmp_path / "f.cu"], STATIC_OP, "func.call @user_op(%x, %x) : (f32, f32) -> f32")
    _, text = built(program)
    assert "shfl.sync.bfly" in text and "bar" in text and ".shared" in text and assemble(text, "sm_80") == ""
    (tmp_path / "f.cu").write_text(SHIM.replace("expf(x)", "nothing(x)"))
    assert re.search(r"f.cu does not compile for sm_80:\n.*f.cu:6:\d+: error: use of undeclared", refused(program))


def test_imports_stay_open() -> None:
    variant, text = built(ukernel([], ""))
    assert variant.imports == ["simple_mul_workgroup"] and ".extern .func simple_mul_workgroup" in text
    (call,) = variant.extra["calls"]
    assert call["exports"] == ["entry"] and call["optional"] is False
    assert call["cuda"][0].startswith(
        'extern "C" __device__ void simple_mul_workgroup(float* a0, float* a0_aligned, size_t'
    )
    compile_cu(call["cuda"][0] + " {}", "-rdc=true", "-arch=sm_80")  # what people copy compiles
    assert assemble(text, "sm_80", "-c") == ""
    variant, _ = built(ukernel([], "hal.import.optional, hal.import.fallback = @own").replace(
        "func.func @entry(", """func.func @own(%a: memref<?xf32>, %b: memref<?xf32>, %c: memref<?xf32>, %n: index,
            %first: index) {
          return
        }
      func.func @entry("""))  # fmt: skip
    assert variant.imports == ["?simple_mul_workgroup"] and variant.extra["calls"][0]["optional"] is True


def test_calls_are_the_same_text_in_the_next_compilation() -> None:
    text = built(ukernel("", "hal.import.dynamic"))[1]
    assert "call.uni" in text and built(ukernel("", "hal.import.dynamic"))[1] == text


def test_fallbacks_of_static_functions() -> None:
    body = """func.func @own(%x: f32, %y: f32) -> f32 {
          %r = arith.subf %x, %y : f32
          return %r : f32
        }
      func.func @entry("""
    declaration = "@user_op(f32, f32) -> f32 attributes {hal.import.static, hal.import.fallback = @own}"
    call = "func.call @user_op(%x, %x) : (f32, f32) -> f32"
    _, without = built(scalar([], declaration, call).replace("func.func @entry(", body))
    _, with_it = built(scalar([DATA / "functions.c"], declaration, call).replace("func.func @entry(", body))
    assert "sub" in without and "fma.rn.f32" not in without and "fma.rn.f32" in with_it


# What is refused


def test_functions_that_nobody_has() -> None:
    said = refused(ukernel([DATA / "functions_sm_75.ptx"], name="simple_mul_workgrup"))
    assert "function 'simple_mul_workgrup' is declared as hal.import.static, and no object for CUDA defines it" in said
    assert "did you mean 'simple_mul_workgroup'?" in said and "functions_sm_75.ptx" in said
    assert "there are no objects" in refused(ukernel([]))


@pytest.mark.parametrize("name", ["a.b", "a b", "1a", ""])
def test_names_that_ptx_cannot_have(name: str) -> None:
    said = refused(ukernel([], f'hal.import.name = "{name}"', name="x"))
    assert f"function '{name}' has a name that PTX cannot have" in said and "hal.import.name gives another" in said
    named = 'hal.import.static, hal.import.name = "simple_mul_workgroup"'
    _, text = built(ukernel([DATA / "functions_sm_75.ptx"], named, name='"a.b"'))
    assert ".extern" not in text


def test_functions_that_do_not_fit(tmp_path: Path) -> None:
    said = refused(scalar([DATA / "functions_sm_75.ptx"], "@user_op(f64, f32) -> f32 attributes {hal.import.static}",
                          "func.call @user_op(%w, %x) : (f64, f32) -> f32").replace(
        "%r = func.call", "%w = arith.extf %x : f32 to f64\n %r = func.call"))  # fmt: skip
    assert "user_op" in said and re.search(r"\.b64|\.f64", said), said
    (tmp_path / "two.ptx").write_text((DATA / "functions_sm_75.ptx").read_text())
    said = refused(ukernel([DATA / "functions_sm_75.ptx", tmp_path / "two.ptx"]))
    assert "simple_mul_workgroup" in said and "two.ptx" in said and "functions_sm_75.ptx" in said


def test_objects_that_cannot_be_used(tmp_path: Path) -> None:
    program = ukernel([tmp_path / "f.spv"])
    (tmp_path / "f.spv").write_bytes(b"x")
    assert "known kinds of functions: .bc, .c, .cu, .ptx, .cubin, .o" in refused(program)
    file = bitcode(tmp_path, arch="x86_64", cpu="generic")
    said = refused(ukernel([file]))
    assert "is bitcode for x86_64" in said and "clang --target=nvptx64-nvidia-cuda" in said
    (tmp_path / "f.c").write_text("int simple_mul_workgroup(void) { return nothing; }")
    assert re.search(
        r"f.c does not compile for sm_80:\n.*f.c:1:\d+: error: use of undeclared", refused(ukernel([tmp_path / "f.c"]))
    )
    (tmp_path / "k.ptx").write_text((DATA / "kernels_sm_80.ptx").read_text())
    assert "offers no function" in refused(ukernel([tmp_path / "k.ptx"]))
    (tmp_path / "open.ptx").write_bytes(compile_cu(
        'extern "C" __device__ float other(float);\n'
        'extern "C" __device__ float user_op(float x, float y) { return other(x); }',
        "-rdc=true", "-arch=sm_75"))  # fmt: skip
    said = refused(scalar([tmp_path / "open.ptx"], STATIC_OP, "func.call @user_op(%x, %x) : (f32, f32) -> f32"))
    assert "refer to 'other', which nothing defines" in said


def test_what_llvm_cannot_compile_is_an_error_and_not_the_end(tmp_path: Path) -> None:
    """LLVM ends the process over an intrinsic that it has not for a target; it is asked in another process."""
    (tmp_path / "f.c").write_text(
        "typedef double v2 __attribute__((vector_size(16)));\n"
        "float user_op(float x, float y) { v2 v = {x, y}; v = __builtin_elementwise_exp(v); return v[0]; }"
    )
    said = refused(scalar([tmp_path / "f.c"], STATIC_OP, "func.call @user_op(%x, %x) : (f32, f32) -> f32"))
    assert "f.c' cannot become PTX" in said


# NVIDIA's linker


@pytest.mark.parametrize(
    ("kind", "flags"),
    [
        (".cubin", ("-cubin", "-rdc=true", "-arch=sm_80")), (".o", ("-dc", "-arch=sm_80")),
        (".ltoir", ("-dlto", "-ltoir", "-dc", "-arch=sm_80")), (".fatbin", ("-fatbin", "-rdc=true", "-arch=sm_80")),
    ],
)  # fmt: skip
def test_machine_code_is_linked_to_machine_code(kind: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    tools.nvjitlink()
    (tmp_path / f"f{kind}").write_bytes(compile_cu((DATA / "functions.cu").read_text(), *flags))
    artifact = pd.compile(ukernel([tmp_path / f"f{kind}"]), targets="sm_80")
    (variant,) = artifact.executables[0].variants
    assert variant.member.endswith(".cubin") and {"sm_80", "cubin_sm_80"} <= set(variant.requires)
    notes = variant.extra["ptx"]
    assert notes["modules"][0][2] == "cubin" and notes["entries"] == [[0, "entry"]]
    assert notes["parameters"] == [[4, 4]] and notes["blocks"] == [[64, 1, 1]]
    said = refused(ukernel([tmp_path / f"f{kind}"], name="simple_mul"))
    assert (
        "Undefined reference to 'simple_mul'" in said and "machine code cannot be completed when it is loaded" in said
    )


def test_a_linker_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cuda").mkdir()
    (tmp_path / "cuda" / "__init__.py").write_text("raise ImportError('there is none')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "f.ltoir").write_bytes(b"anything")
    said = refused(ukernel([tmp_path / "f.ltoir"]))
    assert "needs nvJitLink, which cannot be loaded" in said and "pip install cuda-bindings nvidia-nvjitlink" in said


def test_the_linker_may_end_and_the_compiler_does_not(tmp_path: Path) -> None:
    """Objects that are cut or changed: an error, whatever becomes of the linker."""
    tools.nvjitlink()
    good = compile_cu((DATA / "functions.cu").read_text(), "-dc", "-arch=sm_80")
    for hurt in (b"", good[: len(good) // 2], good[:64] + bytes(len(good) - 64), b"\x7fELF" + bytes(100)):
        (tmp_path / "f.o").write_bytes(hurt)
        assert "f.o cannot be linked into the kernels for sm_80" in refused(ukernel([tmp_path / "f.o"]))
