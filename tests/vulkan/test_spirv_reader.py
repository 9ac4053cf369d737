"""The reader of SPIR-V: against spirv-dis on what glslang writes, and on bytes that nobody wrote."""

from __future__ import annotations

import random
import re
import struct
import subprocess
from typing import Any

import pytest
from vulkan_programs import MUL, PUSH, buffers

import pydispatch as pd
from pydispatch.formats.spirv import module as spirv
from pydispatch.formats.spirv.interface import mismatch, requirements
from pydispatch.formats.spirv.reflect import reflect

SHADERS = {
    "plain": ("", buffers("-a", "-b", "c") + PUSH + MUL, "local_size_x = 64"),
    "structures": (
        "",
        "struct S { vec3 v; mat3 m; float f[5]; }; layout(set=0, binding=0, std430) buffer B { S s[]; };\n"
        "layout(push_constant, std430) uniform P { vec4 a; float b[6]; uint c; };\n"
        "shared vec4 t[33]; shared uint u;\n"
        "void main() { t[gl_LocalInvocationID.x] = a; u = c; barrier(); s[c].m[1][2] = t[u].y * b[c % 6]; }",
        "local_size_x = 4, local_size_y = 8, local_size_z = 2",
    ),
    "specialized": (
        "layout(constant_id = 4) const uint n = 77; layout(constant_id = 5) const bool on = true;",
        buffers("a") + "layout(local_size_x_id = 9) in; void f(uint i) { a[i] = float(n); }\n"
        "void main() { if (on) f(gl_GlobalInvocationID.x + gl_NumWorkGroups.x); }",
        "local_size_y = 2",
    ),
    "atomics": (
        "#extension GL_KHR_shader_subgroup_arithmetic : require\n"
        "#extension GL_EXT_shader_explicit_arithmetic_types : require\n"
        "#extension GL_EXT_shader_atomic_float : require",
        buffers("-a", "b", type="uint") + "layout(set=0, binding=2) buffer F { float f[]; };\n"
        "void main() { atomicAdd(f[0], 1.0); atomicAdd(b[0], subgroupAdd(a[1])); int64_t x = int64_t(a[2]);"
        " b[1] = uint(x >> 3) + uint(float16_t(a[3])); }",
        "local_size_x = 8",
    ),
}


@pytest.fixture(params=SHADERS)
def module(request: pytest.FixtureRequest, glsl: Any) -> bytes:
    head, text, size = SHADERS[request.param]
    return bytes(glsl(request.param, text, size, head).read_bytes())


def disassembled(data: bytes) -> str:
    return subprocess.run(["spirv-dis", "--raw-id", "-"], input=data, capture_output=True, check=True).stdout.decode()


def test_facts_agree_with_the_disassembler(module: bytes) -> None:
    text, found = disassembled(module), reflect(module)
    assert set(found.capabilities) == set(re.findall(r"OpCapability (\w+)", text))
    assert set(found.extensions) == set(re.findall(r'OpExtension "(\w+)"', text))
    assert [e.name for e in found.entry_points] == re.findall(r'OpEntryPoint GLCompute %\d+ "(\w+)"', text)
    bindings = {int(b) for b in re.findall(r"OpDecorate %\d+ Binding (\d+)", text)}
    assert {r.binding for r in found.entry_points[0].resources} == bindings
    assert {c.id for c in found.spec_constants} >= {int(i) for i in re.findall(r"SpecId (\d+)", text)} - {9}
    count = sum(1 for _ in spirv.instructions(spirv.words_of(module)))
    assert count == len(re.findall(r"^\s*(?:%\d+ = )?Op\w+", text, re.MULTILINE))


def entry(glsl: Any, name: str) -> Any:
    head, text, size = SHADERS[name]
    return reflect(glsl(name, text, size, head).read_bytes()).entry_points[0]


def test_facts_of_each(glsl: Any) -> None:
    plain = entry(glsl, "plain")
    assert plain.workgroup_size == (64, 1, 1) and plain.push_constant_bytes == 4 and plain.shared_bytes == 0
    assert [(r.binding, r.kind, r.read_only, r.written) for r in plain.resources] == [
        (0, "storage_buffer", True, False), (1, "storage_buffer", True, False), (2, "storage_buffer", False, True),
    ]  # fmt: skip
    structures = entry(glsl, "structures")
    assert structures.workgroup_size == (4, 8, 2)
    assert structures.push_constant_bytes == 16 + 6 * 4 + 4  # std430
    assert structures.shared_bytes == 33 * 16 + 4
    assert mismatch(structures, 11, 1) is None and "reach 44 bytes" in (mismatch(structures, 10, 1) or "")
    specialized = entry(glsl, "specialized")
    assert specialized.workgroup_size == (1, 2, 1) and specialized.size_spec == (9, None, None)
    assert specialized.uses_grid_size and not specialized.one_subgroup
    atomics = entry(glsl, "atomics")
    assert atomics.one_subgroup and [r.written for r in atomics.resources] == [False, True, True]
    head, text, size = SHADERS["atomics"]
    needs = requirements(reflect(glsl("atomics", text, size, head).read_bytes()), atomics)
    assert {"Int64", "Float16", "GroupNonUniformArithmetic"} <= set(needs)


def survives(data: bytes) -> None:
    try:
        found = reflect(data, "x.spv")
    except pd.ArtifactError as error:
        assert str(error).startswith("x.spv: ")
        return
    for each in found.entry_points:
        mismatch(each, 4, 4, [False] * 4)
        requirements(found, each)


def test_bytes_that_nobody_wrote(module: bytes) -> None:
    """Every prefix, and thousands of modules with words, bits and instructions changed."""
    dice = random.Random(len(module))
    for size in range(0, len(module), 4):
        survives(module[:size])
    words = list(struct.unpack(f"<{len(module) // 4}I", module))
    interesting = [0, 1, 2, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, words[3], words[3] - 1]
    for _ in range(1500):
        changed = words.copy()
        for _ in range(dice.choice((1, 1, 1, 2, 5))):
            at = dice.randrange(1, len(changed))
            kind = dice.randrange(4)
            if kind == 0:
                changed[at] = dice.choice(interesting)
            elif kind == 1:
                changed[at] ^= 1 << dice.randrange(32)
            elif kind == 2:
                changed[at] = changed[dice.randrange(5, len(changed))]
            else:
                del changed[at : at + dice.randrange(1, 4)]
        survives(struct.pack(f"<{len(changed)}I", *changed))
    for _ in range(200):
        survives(dice.randbytes(dice.randrange(200)))
        survives(module[:20] + dice.randbytes(4 * dice.randrange(100)))


def build(*instructions: tuple[int, ...], bound: int = 100, version: int = 0x10300) -> bytes:
    words = [spirv.MAGIC, version, 0, bound, 0]
    for opcode, *operands in instructions:
        words += [(len(operands) + 1) << 16 | opcode, *operands]
    return struct.pack(f"<{len(words)}I", *words)


MEMORY = (14, 0, 1)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "0 bytes are no SPIR-V module"),
        (bytes(20), "it begins with 0x00000000, expected 0x07230203"),
        (build(MEMORY, version=0x20000), "version word 0x00020000 is none of SPIR-V 1.x"),
        (build(MEMORY, bound=0), "the bound of its ids is 0"),
        (build((17, 1)), "it has no memory model"),
        (build(MEMORY) + b"\0\0\0\0", "an instruction (opcode 0) of 0 words, 1 are left"),
        (build(MEMORY) + struct.pack("<I", 9 << 16 | 17), "of 9 words, 1 are left"),
        (build(MEMORY, (21, 5)), "opcode 21 has 2 words, expected at least 4"),
        (build(MEMORY, (21, 100, 32, 0)), "id 100, the bound is 100"),
        (build(MEMORY, (15, 5, 7, 0x6E69616D)), "a string without an end"),
        (build(MEMORY, (15, 5, 7, 0x6E69616D, 0)), "entry point 'main' names no function (id 7)"),
        (build(MEMORY, (54, 1, 7, 0, 2)), "its last function does not end"),
        (build(MEMORY, (54, 1, 7, 0, 2), (54, 1, 8, 0, 2)), "a function inside a function"),
        (build(MEMORY, (56,)), "the end of a function that does not begin"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(data: bytes, message: str) -> None:
    with pytest.raises(pd.ArtifactError, match=re.escape(message)):
        reflect(data, "x.spv")


def test_types_inside_themselves_end() -> None:
    """A structure of itself, and arrays of arrays whose sizes multiply beyond all bounds."""
    main = ((15, 5, 7, 0x6E69616D, 0), (54, 1, 7, 0, 2), (61, 10, 60, 41), (56,))
    loop = build(MEMORY, main[0], (30, 10, 10, 10), (32, 40, 4, 10), (59, 40, 41, 4), *main[1:])
    with pytest.raises(pd.ArtifactError, match="nested more than 32 deep"):
        reflect(loop)
    arrays = [(28, 10 + i, 9 + i, 8) for i in range(1, 12)]
    huge = build(
        MEMORY, main[0], (21, 10, 32, 0), (43, 10, 8, 0xFFFFFFFF), *arrays, (32, 40, 4, 21), (59, 40, 41, 4), *main[1:]
    )
    with pytest.raises(pd.ArtifactError, match=r"more than 2\^63 bytes"):
        reflect(huge)


def test_the_other_byte_order_is_read(module: bytes) -> None:
    swapped = struct.pack(f">{len(module) // 4}I", *struct.unpack(f"<{len(module) // 4}I", module))
    assert reflect(swapped) == reflect(module)


TWO_SIZES = """
OpCapability Shader
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %f "one"
OpEntryPoint GLCompute %g "two"
OpExecutionMode %f LocalSize 8 1 1
OpExecutionMode %g LocalSize 16 1 1
OpDecorate %s BuiltIn WorkgroupSize
OpDecorate %t BuiltIn WorkgroupSize
%v = OpTypeVoid
%ft = OpTypeFunction %v
%u = OpTypeInt 32 0
%v3 = OpTypeVector %u 3
%c1 = OpConstant %u 1
%c8 = OpConstant %u 8
%c16 = OpConstant %u 16
%s = OpConstantComposite %v3 %c8 %c1 %c1
%t = OpConstantComposite %v3 %SECOND %c1 %c1
%f = OpFunction %v None %ft
%l = OpLabel
OpReturn
OpFunctionEnd
%g = OpFunction %v None %ft
%m = OpLabel
OpReturn
OpFunctionEnd
"""


def assembled(text: str) -> bytes:
    command = ["spirv-as", "--target-env", "spv1.3", "-o", "-", "-"]
    return subprocess.run(command, input=text.encode(), capture_output=True, check=True).stdout


def test_a_built_in_size_is_that_of_every_entry_point() -> None:
    found = reflect(assembled(TWO_SIZES.replace("SECOND", "c8")))
    assert [e.workgroup_size for e in found.entry_points] == [(8, 1, 1), (8, 1, 1)]


def test_two_built_in_sizes_are_ambiguous() -> None:
    with pytest.raises(pd.ArtifactError, match=r"two.spv: constants of different sizes.*\[16, 1, 1\] and \[8, 1, 1\]"):
        reflect(assembled(TWO_SIZES.replace("SECOND", "c16")), "two.spv")


CHOSEN = """
OpCapability Shader
OpCapability VariablePointersStorageBuffer
OpExtension "SPV_KHR_variable_pointers"
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %f "main"
OpExecutionMode %f LocalSize 1 1 1
OpDecorate %array ArrayStride 4
OpDecorate %block Block
OpMemberDecorate %block 0 Offset 0
OpDecorate %a DescriptorSet 0
OpDecorate %a Binding 0
OpDecorate %b DescriptorSet 0
OpDecorate %b Binding 1
OpDecorate %c DescriptorSet 0
OpDecorate %c Binding 2
%void = OpTypeVoid
%ft = OpTypeFunction %void
%bool = OpTypeBool
%true = OpConstantTrue %bool
%uint = OpTypeInt 32 0
%zero = OpConstant %uint 0
%array = OpTypeRuntimeArray %uint
%block = OpTypeStruct %array
%pb = OpTypePointer StorageBuffer %block
%pu = OpTypePointer StorageBuffer %uint
%a = OpVariable %pb StorageBuffer
%b = OpVariable %pb StorageBuffer
%c = OpVariable %pb StorageBuffer
%f = OpFunction %void None %ft
%m = OpLabel
%pa = OpAccessChain %pu %a %zero %zero
%q = OpAccessChain %pu %b %zero %zero
%pc = OpAccessChain %pu %c %zero %zero
%read = OpLoad %uint %pc
CHOICE
OpStore %chosen %read
OpReturn
OpFunctionEnd
"""
PHI = """OpSelectionMerge %join None
OpBranchConditional %true %left %right
%left = OpLabel
OpBranch %join
%right = OpLabel
OpBranch %join
%join = OpLabel
%chosen = OpPhi %pu %pa %left %q %right"""


@pytest.mark.parametrize("choice", ["%chosen = OpSelect %pu %true %pa %q", PHI], ids=["select", "phi"])
def test_what_a_chosen_pointer_may_point_to_counts_as_written(choice: str) -> None:
    (entry_point,) = reflect(assembled(CHOSEN.replace("CHOICE", choice))).entry_points
    assert [(r.binding, r.written) for r in entry_point.resources] == [(0, True), (1, True), (2, False)]
    assert "binding 1" in (mismatch(entry_point, 0, 3, [False, True, False]) or "")


Q = "%q = OpAccessChain %pu %b %zero %zero\n"
HELD = """%ppu = OpTypePointer Function %pu
%ppb = OpTypePointer Function %pb
%gt = OpTypeFunction %pu
%a = OpVariable"""
GIVEN = """%g = OpFunction %pu None %gt
%gm = OpLabel
%gp = OpAccessChain %pu %b %zero %zero
OpReturnValue %gp
OpFunctionEnd
%f = OpFunction"""
BEGIN = "%m = OpLabel\n"


@pytest.mark.parametrize(
    ("changes", "choice"),
    [
        ({BEGIN: f"{BEGIN}%v = OpVariable %ppu Function\n"}, "OpStore %v %q\n%chosen = OpLoad %pu %v"),
        (
            {BEGIN: f"{BEGIN}%v = OpVariable %ppb Function %b\n"},
            "%vb = OpLoad %pb %v\n%chosen = OpAccessChain %pu %vb %zero %zero",
        ),
        (
            {"%f = OpFunction": "%gppb = OpTypePointer Private %pb\n%v = OpVariable %gppb Private %b\n%f = OpFunction"},
            "%vb = OpLoad %pb %v\n%chosen = OpAccessChain %pu %vb %zero %zero",
        ),
        ({"%f = OpFunction": GIVEN}, "%chosen = OpFunctionCall %pu %g"),
    ],
    ids=["stored", "begins", "a global begins", "returned"],
)
def test_pointers_that_leave_the_function_count_as_written(changes: dict[str, str], choice: str) -> None:
    # Nothing but the pointer uses %b.
    text = CHOSEN.replace("%a = OpVariable", HELD).replace(Q, Q if "%q" in choice else "")
    for old, new in changes.items():
        text = text.replace(old, new)
    data = assembled(text.replace("CHOICE", choice))
    subprocess.run(["spirv-val", "--target-env", "spv1.3", "-"], input=data, check=True)
    (entry_point,) = reflect(data).entry_points
    assert [(r.binding, r.written) for r in entry_point.resources] == [(0, False), (1, True), (2, False)]
    assert "binding 1" in (mismatch(entry_point, 0, 3, [False, True, False]) or "")


def test_a_store_without_a_choice_writes_one_variable() -> None:
    (entry_point,) = reflect(assembled(CHOSEN.replace("CHOICE", "").replace("%chosen", "%pa"))).entry_points
    assert [(r.binding, r.written) for r in entry_point.resources] == [(0, True), (1, False), (2, False)]
