# ruff: noqa: E501  (lines of MLIR)
"""Functions of libraries linked into generated shaders: spirv-val, the validation layer, lavapipe against NumPy."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest
from lavapipe import device, validate
from link_cases import BUFFERS, GUARDED, HAND, ONE, OPTIONAL, SCALE, X, assembled, glsl, kernel, scalars, scale_call
from vulkan_kernels import emit

from pydispatch.link.spirv.link import SpirvLibrary, imports_of, link, open_library


def run(code: bytes, *buffers: np.ndarray, grid: int = 16) -> list[np.ndarray]:
    validate(code)
    return device().run(code, "kernel", (grid, 1, 1), buffers)


def linked(code: bytes, *libraries: SpirvLibrary, absent: tuple[str, ...] = ()) -> bytes:
    result = link(code, libraries, absent)
    assert not result.unresolved
    assert not imports_of(result.data)
    return result.data


@pytest.mark.parametrize("flags", [(), ("-g",), ("-Od",), ("-g", "-Od")])
@pytest.mark.parametrize("environment", ["vulkan1.0", "vulkan1.1", "vulkan1.2", "vulkan1.3"])
def test_a_function_in_glsl(flags: tuple[str, ...], environment: str) -> None:
    """Parameters are pointers in what glslang writes; a helper, a loop and a constant table come along."""
    library = glsl(
        """
        const float table[4] = float[](1.0, 0.5, 0.25, 0.125);
        float square(float x) { return x * x; }
        float f(float x) { float s = 0; for (int i = 0; i < 4; ++i) s += table[i] * square(x); return s + exp(x); }
        """,
        *flags, environment=environment,
    )  # fmt: skip
    code = linked(kernel(scalars("f32", "f32"), ONE), library)
    if environment == "vulkan1.3":
        validate(code, "vulkan1.3")
        result = device().run(code, "kernel", (16, 1, 1), [X, np.zeros_like(X)])[1]
    else:
        environment = {"vulkan1.2": "vulkan1.2"}.get(environment, "vulkan1.1")
        validate(code, environment)
        result = device().run(code, "kernel", (16, 1, 1), [X, np.zeros_like(X)])[1]
    np.testing.assert_allclose(result, 1.875 * X * X + np.exp(X), rtol=1e-5)


def test_integers_may_differ_in_their_sign() -> None:
    """Registers of kernels have no sign, GLSL's int has one."""
    library = glsl("int f(int x, uint y, bool z) { return z ? (x >> 1) : int(y / 2u); }")
    body = """
    %x = memref.load %b0[%i] : memref<16xi32>
    %z = arith.index_cast %i : index to i32
    %c = arith.constant 8 : i32
    %p = arith.cmpi slt, %z, %c : i32
    %y = func.call @f(%x, %x, %p) : (i32, i32, i1) -> i32
    memref.store %y, %b1[%i] : memref<16xi32>
    """
    x = np.arange(-8, 8, dtype=np.int32) * 7
    code = linked(kernel(scalars("i32, i32, i1", "i32"), body, ("i32", "i32")), library)
    expected = np.where(np.arange(16) < 8, x >> 1, (x.view(np.uint32) // 2).view(np.int32))
    np.testing.assert_array_equal(run(code, x, np.zeros_like(x))[1], expected)


@pytest.mark.parametrize(
    ("type_", "dtype", "text"),
    [
        ("f64", np.float64, "double f(double x, double y) { return x * y + 1.0lf; }"),
        ("i64", np.int64, "int64_t f(int64_t x, int64_t y) { return x * y + 1l; }"),
    ],
)
def test_64_bits(type_: str, dtype: type, text: str) -> None:
    library = glsl(f"#extension GL_ARB_gpu_shader_int64 : require\n{text}")
    body = f"""
    %x = memref.load %b0[%i] : memref<16x{type_}>
    %y = func.call @f(%x, %x) : ({type_}, {type_}) -> {type_}
    memref.store %y, %b1[%i] : memref<16x{type_}>
    """
    x = (np.arange(16) * 1_000_003 - 5).astype(dtype)
    code = linked(kernel(scalars(f"{type_}, {type_}", type_), body, (type_, type_)), library)
    np.testing.assert_array_equal(run(code, x, np.zeros_like(x))[1], x * x + 1)


def test_capabilities_come_only_with_what_needs_them() -> None:
    library = glsl("double g(double x) { return x; }\nfloat f(float x) { return -x; }")
    assert 10 in library.parts.tables.capabilities
    code = linked(kernel(scalars("f32", "f32"), ONE), library)
    text = subprocess.run(["spirv-dis", "-"], input=code, capture_output=True).stdout.decode()
    assert "Float64" not in text and "Linkage" not in text
    assert "g(d1;" not in text  # nothing that is not reached


@pytest.mark.parametrize("environment", ["vulkan1.0", "vulkan1.1", "vulkan1.2"])
def test_buffers_pass_as_binding_and_offset(environment: str) -> None:
    """One function, two different pairs of buffers, with offsets; SPIR-V 1.0 has buffers of another kind."""
    library = glsl(BUFFERS, environment=environment)
    body = scale_call("b0", "b2", 3, 5, 8, "2.0") + scale_call("b1", "b0", 0, 12, 4, "0.5")
    code = linked(kernel(SCALE, body, ("f32", "f32", "f32")), library)
    a, b = X, X * 10
    validate(code, "vulkan1.2")
    results = device().run(code, "kernel", (1, 1, 1), [a, b, np.zeros_like(a)])
    c, expected = np.zeros_like(a), a.copy()
    c[5:13] = 2 * a[3:11]
    expected[12:16] = 0.5 * b[:4]
    np.testing.assert_array_equal(results[2], c)
    np.testing.assert_array_equal(results[0], expected)
    np.testing.assert_array_equal(results[1], b)


def test_another_view_of_a_buffer() -> None:
    """A library may see vectors, or integers with a sign, where the kernel sees scalars."""
    library = glsl(
        """
        layout(binding = 0) buffer A { vec4 a[]; };
        layout(binding = 1) buffer B { float b[]; };
        void scale(uint ao, uint bo, uint n, float k) {
          for (uint i = 0; i < n / 4; ++i) { vec4 v = k * a[ao / 4 + i]; b[bo + i] = v.x + v.y + v.z + v.w; }
        }
        """
    )
    code = linked(kernel(SCALE, scale_call("b0", "b1", 4, 1, 12, "2.0")), library)
    expected = np.zeros_like(X)
    expected[1:4] = 2 * X[4:].reshape(3, 4).sum(1)
    np.testing.assert_allclose(run(code, X, np.zeros_like(X), grid=1)[1], expected, rtol=1e-6)


BUILTINS = """
layout(local_size_x_id = 0) in;
shared uint total;
void f_all(uint ao) {
  if (gl_LocalInvocationIndex == 0) total = 0;
  barrier();
  atomicAdd(total, gl_LocalInvocationIndex + gl_WorkGroupSize.x);
  barrier();
  if (gl_LocalInvocationIndex == 0) a[ao + gl_WorkGroupID.x] = total;
}
"""


def test_the_invocations_of_a_workgroup_together() -> None:
    """Built-ins, workgroup memory and barriers; gl_WorkGroupSize is the kernel's."""
    library = glsl("layout(binding = 0) buffer A { uint a[]; };" + BUILTINS)
    source = """
    func.func private @f_all(memref<16xi32>)
    func.func @kernel() {
      %b = hal.interface.binding.subspan layout(<constants = 0, bindings = [<storage_buffer>]>) binding(0) : memref<16xi32>
      func.call @f_all(%b) : (memref<16xi32>) -> ()
      return
    }
    """
    code = linked(emit(source, bindings=1, workgroup_size=(32, 1, 1)), library)
    result = run(code, np.zeros(16, np.uint32), grid=3)[0]
    np.testing.assert_array_equal(result, [32 * 31 // 2 + 32 * 32] * 3 + [0] * 13)


def test_the_interface_has_variables_whose_addresses_others_begin_with() -> None:
    """SPIR-V 1.4 and later: entry points list all variables that they use, also through a pointer in another one."""
    library = open_library(
        assembled(
            """
        OpCapability Shader
        OpCapability Linkage
        OpCapability VariablePointers
        OpExtension "SPV_KHR_variable_pointers"
        OpMemoryModel Logical GLSL450
        OpName %shared "shared"
        OpName %pointer "pointer"
        OpDecorate %f LinkageAttributes "f" Export
        %float = OpTypeFloat 32
        %to_shared = OpTypePointer Workgroup %float
        %to_pointer = OpTypePointer Private %to_shared
        %shared = OpVariable %to_shared Workgroup
        %pointer = OpVariable %to_pointer Private %shared
        %type = OpTypeFunction %float %float
        %f = OpFunction %float None %type
        %x = OpFunctionParameter %float
        %l = OpLabel
        %p = OpLoad %to_shared %pointer
        OpStore %p %x
        %y = OpLoad %float %p
        %z = OpFAdd %float %y %x
        OpReturnValue %z
        OpFunctionEnd
        """,
            version="spv1.5",
        ),
        "pointers.spv",
    )
    code = linked(kernel(scalars("f32", "f32"), ONE), library)
    validate(code, "vulkan1.2")
    listing = subprocess.run(["spirv-dis", "-"], input=code, capture_output=True).stdout.decode()
    (entry_point,) = (line for line in listing.splitlines() if "OpEntryPoint" in line)
    assert {"%shared", "%pointer"} <= set(entry_point.split())


def test_exports_by_linkage_take_buffers_as_parameters() -> None:
    """Hand-written SPIR-V: pointers to blocks are parameters, and are passed on; each pair of buffers makes a copy."""
    library = open_library(assembled(HAND), "hand.spv")
    assert library.names() == ["scale"]  # what is not exported is not offered
    code = linked(kernel(SCALE, scale_call("b0", "b1", 2, 7, 9, "3.0")), library)
    a, b = run(code, X, np.zeros_like(X), grid=1)
    assert b[7] == X[2] * np.float32(3)
    assert a[9] == b[7] * np.float32(3)


def test_same_names_in_several_libraries_and_overloads() -> None:
    first, second = (
        glsl("float f(float x) { return x + 1; }", name="1"),
        glsl("float f(float x) { return x + 2; }", name="2"),
    )
    code = kernel(scalars("f32", "f32"), ONE)
    assert link(code, [first, second]).providers == {"f": "1"}
    np.testing.assert_array_equal(run(linked(code, second, first), X, X)[1], X + 2)
    both = glsl(
        "float f(int x) { return 7; }\nfloat f(float x) { return x - 1; }\nfloat f(float x, float y) { return 9; }"
    )
    np.testing.assert_array_equal(run(linked(code, both), X, X)[1], X - 1)


def test_two_libraries_share_types_and_builtins() -> None:
    """The same types, constants and built-ins from two modules are one each."""
    text = "float {0}(float x) {{ return x * float(gl_WorkGroupID.x) + exp(x) + 3.0; }}"
    libraries = glsl(text.format("f")), glsl(text.format("g"))
    body = ONE.replace("memref.store", "%z = func.call @g(%y) : (f32) -> f32\n memref.store").replace(
        "%y, %b1", "%z, %b1"
    )
    code = linked(kernel(scalars("f32", "f32") + "\n" + scalars("f32", "f32", "g"), body), *libraries)
    number = np.arange(16, dtype=np.float32)
    y = X * number + np.exp(X) + 3
    np.testing.assert_allclose(run(code, X, X)[1], y * number + np.exp(y) + 3, rtol=1e-4)
    listing = subprocess.run(["spirv-dis", "-"], input=code, capture_output=True).stdout.decode()
    assert listing.count("OpTypeFloat 32") == 1 and listing.count("BuiltIn WorkgroupId") == 1
    assert listing.count("OpExtInstImport") == 1


def test_an_optional_import() -> None:
    code = kernel(OPTIONAL, GUARDED)
    assert imports_of(code) == ("f",)
    np.testing.assert_array_equal(run(linked(code, absent=("f",)), X, X)[1], X + X)
    given = linked(code, glsl("float f(float x) { return -x; }"), absent=("f",))
    np.testing.assert_array_equal(run(given, X, X)[1], -X)


def test_what_nobody_has_stays_imported() -> None:
    code = kernel(
        scalars("f32", "f32") + "\n" + scalars("f32", "f32", "g"),
        ONE.replace("@f", "@g") + ONE.replace("%", "%o").replace("%ob", "%b").replace("%oi", "%i"),
    )
    half = link(code, [glsl("float g(float x) { return x; }")])
    assert half.unresolved == ("f",) and imports_of(half.data) == ("f",)
    whole = linked(half.data, glsl("float f(float x) { return 2 * x; }"))
    np.testing.assert_array_equal(run(whole, X, X)[1], 2 * X)


def test_names_are_found_with_and_without_parameters() -> None:
    library = glsl("float f(float x, int y) { return x; }")
    assert library.names() == ["f"]
    assert set(library.functions) == {"f", "f(f1;i1;"}


def test_specialization_constants_by_name() -> None:
    """A library's constant with the name of an executable constant is that one; others keep their default."""
    library = glsl(
        "layout(constant_id = 0) const int other = 5;\nlayout(constant_id = 7) const uint factor = 3;\n"
        "float f(float x) { return x * float(factor) + float(other); }"
    )
    source = """
    func.func private @f(f32) -> f32
    func.func @kernel() {
      %i = hal.interface.workgroup.id[0] : index
      %k = hal.executable.constant.load "factor" : i32
      %b = hal.interface.binding.subspan layout(<constants = 0, bindings = [<storage_buffer>]>) binding(0) : memref<16xf32>
      %x = memref.load %b[%i] : memref<16xf32>
      %y = func.call @f(%x) : (f32) -> f32
      %g = arith.sitofp %k : i32 to f32
      %z = arith.addf %y, %g : f32
      memref.store %z, %b[%i] : memref<16xf32>
      return
    }
    """
    code = linked(emit(source, bindings=1, keys=("factor",)), library)
    validate(code)
    result = device().run(code, "kernel", (16, 1, 1), [X], specialization=(10,))[0]
    np.testing.assert_array_equal(result, X * 10 + 5 + 10)
