"""Libraries and kernels that the tests of linking share."""

from __future__ import annotations

import functools
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from vulkan_kernels import emit

from pydispatch.link.spirv.link import SpirvLibrary, open_library


@functools.cache
def compiled(text: str, *flags: str, environment: str = "vulkan1.1") -> bytes:
    """GLSL as SPIR-V, functions kept."""
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "lib.comp"), Path(folder, "lib.spv")
        source.write_text(f"#version 450\n{text}")
        command = ["glslangValidator", "-V", "--keep-uncalled", "--target-env", environment, *flags, "-o", made, source]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
        return made.read_bytes()


@functools.cache
def assembled(text: str, version: str = "spv1.3") -> bytes:
    """SPIR-V assembly as a module."""
    command = ["spirv-as", "--target-env", version, "-", "-o", "-"]
    done = subprocess.run(command, input=text.encode(), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def glsl(text: str, *flags: str, name: str = "lib.spv", environment: str = "vulkan1.1") -> SpirvLibrary:
    return open_library(compiled(text + "\nvoid main() {}\n", *flags, environment=environment), name)


def kernel(declarations: str, body: str, types: tuple[str, ...] = ("f32", "f32"), flags: str = "") -> bytes:
    """A kernel over bindings %b0, %b1 ... of 16 elements each, with %i the workgroup and constants %k0 to %k9."""
    lines = [f"    %k{i} = arith.constant {i} : index" for i in range(10)]
    lines.append("    %i = hal.interface.workgroup.id[0] : index")
    layout = f"<constants = 0, bindings = [{', '.join('<storage_buffer>' for _ in types)}]>"
    for i, type_ in enumerate(types):
        lines.append(
            f"    %b{i} = hal.interface.binding.subspan layout({layout}) binding({i}) {flags if i == 0 else ''} "
            f": memref<16x{type_}>"
        )
    text = "\n".join(lines)
    return emit(f"{declarations}\nfunc.func @kernel() {{\n{text}\n{body}\n return\n}}", bindings=len(types))


X = np.linspace(-3, 3, 16, dtype=np.float32)
ONE = """
    %x = memref.load %b0[%i] : memref<16xf32>
    %y = func.call @f(%x) : (f32) -> f32
    memref.store %y, %b1[%i] : memref<16xf32>
"""

BUFFERS = """
layout(set = 0, binding = 0) readonly buffer A { float a[]; };
layout(set = 0, binding = 1) buffer B { float b[]; };
void scale(uint ao, uint bo, uint n, float k) { for (uint i = 0; i < n; ++i) b[bo + i] = k * a[ao + i]; }
"""
SCALE = (
    "func.func private @scale(memref<?xf32, strided<[1], offset: ?>>, memref<?xf32, strided<[1], offset: ?>>, i32, f32)"
)
VIEW = "memref<?xf32, strided<[1], offset: ?>>"


def scale_call(source: str, target: str, at: int, to: int, count: int, factor: str) -> str:
    mark = f"{source}{target}{at}{to}"
    view = f"memref<{count}xf32, strided<[1], offset: %d>>"
    return f"""
    %s{mark} = memref.subview %{source}[{at}] [{count}] [1] : memref<16xf32> to {view.replace("%d", str(at))}
    %t{mark} = memref.subview %{target}[{to}] [{count}] [1] : memref<16xf32> to {view.replace("%d", str(to))}
    %su{mark} = memref.cast %s{mark} : {view.replace("%d", str(at))} to {VIEW}
    %tu{mark} = memref.cast %t{mark} : {view.replace("%d", str(to))} to {VIEW}
    %n{mark} = arith.constant {count} : i32
    %f{mark} = arith.constant {factor} : f32
    func.call @scale(%su{mark}, %tu{mark}, %n{mark}, %f{mark}) : ({VIEW}, {VIEW}, i32, f32) -> ()
    """


HAND = """
               OpCapability Shader
               OpCapability Linkage
               OpCapability VariablePointersStorageBuffer
               OpExtension "SPV_KHR_variable_pointers"
               OpMemoryModel Logical GLSL450
               OpName %inner "inner"
               OpDecorate %f LinkageAttributes "scale" Export
               OpDecorate %array ArrayStride 4
               OpDecorate %block Block
               OpMemberDecorate %block 0 Offset 0
       %void = OpTypeVoid
       %uint = OpTypeInt 32 0
      %float = OpTypeFloat 32
     %uint_0 = OpConstant %uint 0
      %array = OpTypeRuntimeArray %float
      %block = OpTypeStruct %array
    %pointer = OpTypePointer StorageBuffer %block
    %element = OpTypePointer StorageBuffer %float
        %one = OpTypeFunction %void %pointer %uint %pointer %uint %float
       %type = OpTypeFunction %void %pointer %uint %pointer %uint %uint %float
      %inner = OpFunction %void None %one
         %s0 = OpFunctionParameter %pointer
         %s1 = OpFunctionParameter %uint
         %s2 = OpFunctionParameter %pointer
         %s3 = OpFunctionParameter %uint
         %s4 = OpFunctionParameter %float
         %l0 = OpLabel
         %q0 = OpAccessChain %element %s0 %uint_0 %s1
          %v = OpLoad %float %q0
          %w = OpFMul %float %v %s4
         %q1 = OpAccessChain %element %s2 %uint_0 %s3
               OpStore %q1 %w
               OpReturn
               OpFunctionEnd
          %f = OpFunction %void None %type
         %p0 = OpFunctionParameter %pointer
         %p1 = OpFunctionParameter %uint
         %p2 = OpFunctionParameter %pointer
         %p3 = OpFunctionParameter %uint
         %p4 = OpFunctionParameter %uint
         %p5 = OpFunctionParameter %float
         %l1 = OpLabel
         %c0 = OpFunctionCall %void %inner %p0 %p1 %p2 %p3 %p5
         %c1 = OpFunctionCall %void %inner %p2 %p3 %p0 %p4 %p5
               OpReturn
               OpFunctionEnd
"""

OPTIONAL = "func.func private @f(f32) -> f32 attributes {hal.import.optional}"
GUARDED = """
    %x = memref.load %b0[%i] : memref<16xf32>
    %has = pyd.import.available @f : i1
    %y = scf.if %has -> (f32) {
      %a = func.call @f(%x) : (f32) -> f32
      scf.yield %a : f32
    } else {
      %b = arith.addf %x, %x : f32
      scf.yield %b : f32
    }
    memref.store %y, %b1[%i] : memref<16xf32>
"""


def scalars(types: str, result: str, name: str = "f") -> str:
    return f"func.func private @{name}({types}) -> {result}"
