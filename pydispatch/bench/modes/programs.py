"""The programs: a function @main of two tensors of any size, which differ in where the multiplication comes from."""

from __future__ import annotations

# The functions below replace words in capitals, such as CALL, by str.replace(). Only HEAD is filled in by format(), for
# {arch}: its other braces are doubled.
HEAD = """
#x86_64 = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">
#aarch64 = #hal.executable.target<"llvm-cpu", "embedded-elf-arm_64">
#riscv64 = #hal.executable.target<"llvm-cpu", "embedded-elf-riscv_64">
#cpu = #hal.device.target<"local", [#{arch}]> : !hal.device
module @modes attributes {{hal.device.targets = [#cpu]}} {{
"""
"""Beginning of a program with kernels in C, for the CPU of the architecture {arch}."""

GENERATED = """
func.func @main(%lhs: tensor<?xf32>, %rhs: tensor<?xf32>) -> tensor<?xf32> {
  %r = arith.mulf %lhs, %rhs : tensor<?xf32>
  return %r : tensor<?xf32>
}
"""
"""Program whose multiplication the compiler generates."""

MAIN = """
  func.func @main(%lhs: tensor<?xf32>, %rhs: tensor<?xf32>) -> tensor<?xf32> {
    %zero = arith.constant 0 : index
    %size = tensor.dim %lhs, %zero : tensor<?xf32>
    %size_i32 = arith.index_cast %size : index to i32
    CALL
    return %r : tensor<?xf32>
  }
"""
"""@main of the other programs; CALL is replaced by the operation that computes %r."""

DISPATCH = """%r = flow.dispatch @kernels::@EXPORT[%size](OPERANDS)
        : (tensor<?xf32>{%size}, tensor<?xf32>{%size}, index) -> tensor<?xf32>{%size}"""
"""Dispatch of the kernel EXPORT, which replaces CALL in MAIN; EXPORT and OPERANDS are replaced."""

FUNCTION = """
  stream.executable private @kernels OBJECTS {
    stream.executable.export public @mul workgroups(%size: index) -> (index, index, index) {
      %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 1024)>()[%size]
      %one = arith.constant 1 : index
      stream.return %x, %one, %one : index, index, index
    }
    builtin.module {
      func.func private @mul_tile(memref<f32>, index, memref<f32>, index, memref<f32>, index, index, index)
          attributes {ATTRIBUTES}
      func.func @mul(%b0: !stream.binding, %b1: !stream.binding, %b2: !stream.binding, %size: index) {
        %zero = arith.constant 0 : index
        %id = stream.dispatch.workgroup.id[0] : index
        %first = affine.apply affine_map<()[s0] -> (s0 * 1024)>()[%id]
        %lhs = stream.binding.subspan %b0[%zero] : !stream.binding -> memref<?xf32>{%size}
        %rhs = stream.binding.subspan %b1[%zero] : !stream.binding -> memref<?xf32>{%size}
        %out = stream.binding.subspan %b2[%zero] : !stream.binding -> memref<?xf32>{%size}
        %p0, %o0, %n0, %s0 = iree_codegen.extract_strided_metadata %lhs
            : memref<?xf32> -> memref<f32>, index, index, index
        %p1, %o1, %n1, %s1 = iree_codegen.extract_strided_metadata %rhs
            : memref<?xf32> -> memref<f32>, index, index, index
        %p2, %o2, %n2, %s2 = iree_codegen.extract_strided_metadata %out
            : memref<?xf32> -> memref<f32>, index, index, index
        func.call @mul_tile(%p0, %o0, %p1, %o1, %p2, %o2, %size, %first)
            : (memref<f32>, index, memref<f32>, index, memref<f32>, index, index, index) -> ()
        return
      }
    }
  }
"""
"""Executable whose workgroups each call the C function @mul_tile for 1024 elements. It takes each tensor as a pointer
and an offset, the results %p and %o of extract_strided_metadata. OBJECTS and ATTRIBUTES are replaced."""

KERNEL = """
  hal.executable.source private @kernels OBJECTS {
    hal.executable.export public @mul_kernel ordinal(0) layout(#hal.pipeline.layout<constants = 1, bindings = [
        #hal.pipeline.binding<storage_buffer, ReadOnly>, #hal.pipeline.binding<storage_buffer, ReadOnly>,
        #hal.pipeline.binding<storage_buffer>]>) count(%device: !hal.device, %size: index) -> (index, index, index) {
      %x = affine.apply affine_map<()[s0] -> (s0 ceildiv 1024)>()[%size]
      %one = arith.constant 1 : index
      hal.return %x, %one, %one : index, index, index
    } attributes {pydispatch.alignment = 4 : index}
  }
"""
"""Executable whose kernel is written in C; OBJECTS is replaced by `objects`, or by nothing."""

COMMAND = """
  flow.func private @mul_command(tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
"""
"""Declaration of a function that multiplies on the host, in place of a dispatch; the caller provides it at load."""


def objects(arch: str, path: str) -> str:
    """Return the MLIR attribute that names the object file, or the C source, of an executable."""
    return (
        "attributes { hal.executable.objects = #hal.executable.objects<{ "
        f'#{arch} = [#hal.executable.object<{{path = "{path}"}}>] }}> }}'
    )


def function(arch: str, path: str | None) -> str:
    """Return the MLIR text of a program that calls a C function.

    path: C source or object file that the function is linked from; None to import it when the program is loaded.
    """
    call = DISPATCH.replace("EXPORT", "mul").replace("OPERANDS", "%lhs, %rhs, %size")
    attributes = "llvm.bareptr = true" if path is None else "hal.import.static, llvm.bareptr = true"
    body = FUNCTION.replace("OBJECTS", "" if path is None else objects(arch, path)).replace("ATTRIBUTES", attributes)
    return HEAD.format(arch=arch) + body + MAIN.replace("CALL", call) + "}"


def kernel(arch: str, path: str | None) -> str:
    """Return the MLIR text of a program that runs a C kernel.

    path: C source or object file with the kernel; None for an executable that the device gets before the load.
    """
    call = (
        "%r = flow.dispatch @kernels::@mul_kernel[%size](%size_i32, %lhs, %rhs)\n"
        "        : (i32, tensor<?xf32>{%size}, tensor<?xf32>{%size}) -> tensor<?xf32>{%size}"
    )
    body = KERNEL.replace("OBJECTS", "" if path is None else objects(arch, path))
    return HEAD.format(arch=arch) + body + MAIN.replace("CALL", call) + "}"


def command() -> str:
    """Return a program that runs a host command instead of a dispatch."""
    call = (
        "%r = flow.call @mul_command(%lhs, %rhs) : (tensor<?xf32>{%size}, tensor<?xf32>{%size}) -> tensor<?xf32>{%size}"
    )
    return COMMAND + MAIN.replace("CALL", call)
