# ruff: noqa: E501  (lines of MLIR)
"""Functions that do not fit their calls, and modules that are no libraries: what the messages say."""

from __future__ import annotations

import pytest
from link_cases import BUFFERS, GUARDED, ONE, OPTIONAL, SCALE, assembled, compiled, glsl, kernel, scalars, scale_call

from pydispatch.errors import ArtifactError, CompileError, InvalidArgumentError
from pydispatch.link.spirv.link import SpirvLibrary, link, open_library


def refused(code: bytes, library: SpirvLibrary, match: str) -> None:
    with pytest.raises(InvalidArgumentError, match=match):
        link(code, [library])


def test_signatures() -> None:
    code = kernel(scalars("f32", "f32"), ONE)
    refused(code, glsl("float f(float x, int n) { return x; }"),
            r"the program calls float f\(float\), the function is float f\(float, int\)")  # fmt: skip
    refused(code, glsl("int f(float x) { return 1; }"), r"the function is int f\(float\)")
    refused(code, glsl("float f(vec2 x) { return x.x; }"), r"the function is float f\(vec2\)")
    refused(code, glsl("float f(int x) { return x; }\nfloat f(uint x) { return x; }"), r"float f\(uint\)")


def test_buffers_that_do_not_fit() -> None:
    code = kernel(SCALE, scale_call("b0", "b1", 0, 0, 4, "2.0"))
    refused(code, glsl(BUFFERS.replace("binding = 1", "binding = 2")),
            "uses the buffer '' at binding 2; bindings denote the buffers of the call, which passes 2")  # fmt: skip
    text = BUFFERS.replace("float b[]", "int b[]").replace("k * a[ao + i]", "int(k * a[ao + i])")
    refused(code, glsl(text), r"takes buffer 1 for \{int\[\]\}, the program passes \{float\[\]\}")


def test_a_write_into_a_buffer_that_is_only_read() -> None:
    code = kernel(SCALE, scale_call("b1", "b0", 0, 0, 4, "2.0"), flags="flags(ReadOnly)")
    refused(code, glsl(BUFFERS), "writes the buffer at binding 0, which the kernel declares as only read")


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("layout(push_constant) uniform P { float k; };\nfloat f(float x) { return x * k; }", "uses the push constants"),
        ("layout(binding = 0) uniform U { float k; };\nfloat f(float x) { return x * k; }", "uses the uniform block"),
        ("layout(binding = 0) uniform sampler2D s;\nfloat f(float x) { return textureLod(s, vec2(x), 0.0).x; }",
         "uses the image or sampler 's'"),
    ],
)  # fmt: skip
def test_what_functions_cannot_use(text: str, match: str) -> None:
    refused(kernel(scalars("f32", "f32"), ONE), glsl(text), match)


def test_what_is_no_library() -> None:
    with pytest.raises(InvalidArgumentError, match=r"x offers no function: .*--keep-uncalled"):
        open_library(compiled("void main() {}"), "x")
    with pytest.raises(InvalidArgumentError, match="x is not made for Vulkan"):
        open_library(assembled("OpCapability Kernel\nOpCapability Addresses\nOpMemoryModel Physical32 OpenCL"), "x")
    with pytest.raises(InvalidArgumentError, match="x has the Vulkan memory model"):
        open_library(
            assembled("OpCapability Shader\nOpCapability VulkanMemoryModel\nOpMemoryModel Logical Vulkan"), "x"
        )


def test_recursion_is_refused() -> None:
    text = """
               OpCapability Shader
               OpCapability Linkage
               OpMemoryModel Logical GLSL450
               OpDecorate %f LinkageAttributes "f" Export
      %float = OpTypeFloat 32
       %type = OpTypeFunction %float %float
          %f = OpFunction %float None %type
          %x = OpFunctionParameter %float
          %l = OpLabel
          %y = OpFunctionCall %float %f %x
               OpReturnValue %y
               OpFunctionEnd
    """
    with pytest.raises(ArtifactError, match=r"x: word \d+: function 'id \d+' calls itself"):
        link(kernel(scalars("f32", "f32"), ONE), [open_library(assembled(text), "x")])


@pytest.mark.parametrize(
    ("declaration", "call", "match"),
    [
        ("func.func private @f(f32) -> (f32, f32)", "%y:2 = func.call @f(%x) : (f32) -> (f32, f32)",
         "returns at most one scalar"),
        ('func.func private @f(f32) attributes {hal.import.fields = ["processor_id"]}', "func.call @f(%x) : (f32) -> ()",
         "which only CPUs have"),
        ("func.func private @f(memref<4xf32>)",
         "%m = memref.alloca() : memref<4xf32>\n func.call @f(%m) : (memref<4xf32>) -> ()",
         "lies in function memory"),
    ],
)  # fmt: skip
def test_calls_that_shaders_cannot_make(declaration: str, call: str, match: str) -> None:
    with pytest.raises(CompileError, match=match):
        kernel(declaration, f"%x = arith.constant 1.0 : f32\n {call}")


def test_an_optional_import_that_nothing_guards_is_refused() -> None:
    with pytest.raises(CompileError, match="a call of the optional import 'f' that nothing guards"):
        kernel(OPTIONAL, ONE)
    call, other = "func.call @f(%x) : (f32) -> f32", "arith.addf %x, %x : f32"
    in_else = GUARDED.replace(call, "CALL").replace(other, call).replace("CALL", other)
    with pytest.raises(CompileError, match="a call of the optional import 'f' that nothing guards"):
        kernel(OPTIONAL, in_else)
