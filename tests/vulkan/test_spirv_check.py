# ruff: noqa: E501  (lines of SPIR-V and of tables)
"""Broken SPIR-V is refused by us, with the word where it is, before a driver sees it: drivers crash on it."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from vulkan_programs import MUL, PUSH, buffers

import pydispatch as pd
from pydispatch.formats.spirv.check import check

HERE = Path(__file__).parent
VALID = """
OpCapability Shader
OpCapability GroupNonUniformVote
OpCapability GroupNonUniformBallot
%glsl = OpExtInstImport "GLSL.std.450"
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "main" %id
OpExecutionMode %main LocalSize 8 1 1
OpName %main "main"
OpDecorate %id BuiltIn GlobalInvocationId
OpDecorate %floats ArrayStride 4
OpMemberDecorate %block 0 Offset 0
OpDecorate %block Block
OpDecorate %data DescriptorSet 0
OpDecorate %data Binding 0
%void = OpTypeVoid
%fn = OpTypeFunction %void
%bool = OpTypeBool
%uint = OpTypeInt 32 0
%float = OpTypeFloat 32
%uvec3 = OpTypeVector %uint 3
%vec4 = OpTypeVector %float 4
%uvec4 = OpTypeVector %uint 4
%pin = OpTypePointer Input %uvec3
%pinu = OpTypePointer Input %uint
%zero = OpConstant %uint 0
%four = OpConstant %uint 4
%subgroup = OpConstant %uint 3
%half = OpConstant %float 0.5
%halves = OpConstantComposite %vec4 %half %half %half %half
%array = OpTypeArray %float %four
%plocal = OpTypePointer Function %array
%plocalf = OpTypePointer Function %float
%floats = OpTypeRuntimeArray %float
%block = OpTypeStruct %floats
%pblock = OpTypePointer StorageBuffer %block
%pfloat = OpTypePointer StorageBuffer %float
%id = OpVariable %pin Input
%data = OpVariable %pblock StorageBuffer
%pprivate = OpTypePointer Private %uint
%counter = OpVariable %pprivate Private %four
%helper_type = OpTypeFunction %float %float
%main = OpFunction %void None %fn
%begin = OpLabel
%local = OpVariable %plocal Function
%px = OpAccessChain %pinu %id %zero
%x = OpLoad %uint %px
%element = OpAccessChain %plocalf %local %x
OpStore %element %half
%length = OpArrayLength %uint %data 0
%inside = OpULessThan %bool %x %length
%all = OpGroupNonUniformAll %bool %subgroup %inside
%any = OpGroupNonUniformAny %bool %subgroup %inside
%equal = OpGroupNonUniformAllEqual %bool %subgroup %x
%ballot = OpGroupNonUniformBallot %uvec4 %subgroup %inside
%inverse = OpGroupNonUniformInverseBallot %bool %subgroup %ballot
%bit = OpGroupNonUniformBallotBitExtract %bool %subgroup %ballot %x
%count = OpGroupNonUniformBallotBitCount %uint %subgroup Reduce %ballot
%lowest = OpGroupNonUniformBallotFindLSB %uint %subgroup %ballot
OpSelectionMerge %end None
OpBranchConditional %inside %then %end
%then = OpLabel
%place = OpAccessChain %pfloat %data %zero %x
%old = OpLoad %float %place
%sin = OpExtInst %float %glsl Sin %old
%dot = OpDot %float %halves %halves
%sum = OpFAdd %float %sin %dot
%helped = OpFunctionCall %float %helper %sum
OpStore %place %helped
OpBranch %end
%end = OpLabel
%chosen = OpPhi %float %half %begin %sum %then
OpReturn
OpFunctionEnd
%helper = OpFunction %float None %helper_type
%given = OpFunctionParameter %float
%only = OpLabel
OpReturnValue %given
OpFunctionEnd
"""

INVALID = {
    "an id twice": ("%old = OpLoad", "%x = OpLoad", "is defined twice"),
    "a type for a value": ("OpStore %place %helped", "OpStore %place %float", "is no value that was computed before"),
    "used before": ("%sum = OpFAdd %float %sin %dot", "%sum = OpFAdd %float %sin %chosen", "no value that was computed"),
    "no end of a block": ("OpBranch %end", "", "where a block has not ended"),
    "no end of a function": ("OpReturn\n", "", "the last block of a function does not end"),
    "no block": ("OpBranchConditional %inside %then %end", "OpBranchConditional %inside %then %x", "is no block"),
    "back to the beginning": ("OpBranch %end", "OpBranch %begin", "is no block that this function may go to"),
    "a loop without a head": ("OpBranch %end", "OpBranch %then", "goes back to block"),
    "a bool is wanted": ("OpBranchConditional %inside", "OpBranchConditional %x", "a condition that is no bool"),
    "a merge elsewhere": ("OpSelectionMerge %end None\n", "OpSelectionMerge %end None\n%u = OpUndef %uint\n", "after a merge"),
    "kinds": ("%sum = OpFAdd %float %sin %dot", "%sum = OpFAdd %float %sin %x", "opcode 129 has operands or a result"),
    "kinds of a function of GLSL": ("Sin %old", "Sin %x", "opcode 12 has operands or a result"),
    "another result": ("%old = OpLoad %float", "%old = OpLoad %uint", "a result that is not what the pointer points to"),
    "no pointer": ("OpLoad %float %place", "OpLoad %float %x", "is no pointer"),
    "no element": ("%data %zero %x", "%data %four %x", "has no element"),
    "an index that is no number": ("%local %x", "%local %half", "is no integer"),
    "a pointer to something else": ("%place = OpAccessChain %pfloat", "%place = OpAccessChain %plocalf", "a result that is no p"),
    "an argument": ("%helper %sum", "%helper %x", "has the type"),
    "arguments": ("%helper %sum", "%helper %sum %sum", "2 arguments, the function takes 1"),
    "what is returned": ("OpReturnValue %given", "OpReturn", "no value, and the function returns one"),
    "itself": ("OpReturnValue %given", "%again = OpFunctionCall %float %helper %given\nOpReturnValue %given", "calls itself"),
    "a phi of others": ("%half %begin %sum %then", "%half %begin", "a phi whose blocks"),
    "a phi of another type": ("%half %begin %sum", "%four %begin %sum", "is no value of the type"),
    "a vote of numbers": ("All %bool %subgroup %inside", "All %bool %subgroup %x", "opcode 334 has operands or a result"),
    "a vote of some numbers": ("Any %bool %subgroup %inside", "Any %bool %subgroup %x", "opcode 335 has operands or a result"),
    "a vote as a number": ("%bool %subgroup %x", "%uint %subgroup %x", "opcode 336 has operands or a result"),
    "a ballot of three words": ("NonUniformBallot %uvec4", "NonUniformBallot %uvec3", "opcode 339 has operands or a result"),
    "a ballot of numbers": ("%uvec4 %subgroup %inside", "%uvec4 %subgroup %x", "opcode 339 has operands or a result"),
    "no ballot": ("InverseBallot %bool %subgroup %ballot", "InverseBallot %bool %subgroup %inside", "opcode 340 has operands or"),
    "a lane that is no number": ("%subgroup %ballot %x", "%subgroup %ballot %half", "is no integer"),
    "a vector of counts": ("BitCount %uint", "BitCount %uvec4", "opcode 342 has operands or a result"),
    "a vector of lanes": ("FindLSB %uint", "FindLSB %uvec4", "opcode 343 has operands or a result"),
    "a vector of vectors": ("%vec4 = OpTypeVector %float 4", "%vec4 = OpTypeVector %uvec3 4", "a type (opcode 23)"),
    "a vector of seven": ("%uvec3 = OpTypeVector %uint 3", "%uvec3 = OpTypeVector %uint 7", "a type (opcode 23)"),
    "an array of nothing": ("%array = OpTypeArray %float %four", "%array = OpTypeArray %float %zero", "which is no count"),
    "a number of 24 bits": ("%uint = OpTypeInt 32 0", "%uint = OpTypeInt 24 0", "a type (opcode 21) of 24, 0|does not fit its type"),
    "parts of a constant": ("%vec4 %half %half %half %half", "%vec4 %half %half %half", "does not fit its type"),
    "a variable elsewhere": ("%data = OpVariable %pblock StorageBuffer", "%data = OpVariable %pblock Uniform", "whose type"),
    "a variable of another type": ("Private %four", "Private %half", "which has another type"),
    "a variable that begins with itself": ("Private %four", "Private %counter", "no constant or variable before it"),
    "no offset": ("OpMemberDecorate %block 0 Offset 0\n", "", "of a buffer has no Offset"),
    "no stride": ("OpDecorate %floats ArrayStride 4\n", "", "of a buffer has no ArrayStride"),
    "no such member": ("OpMemberDecorate %block 0 Offset", "OpMemberDecorate %block 9 Offset", "decoration of member 9"),
    "an input of others": ("BuiltIn GlobalInvocationId", "BuiltIn FragCoord", "shaders for compute do not have"),
    "a built-in of another type": ("%pin = OpTypePointer Input %uvec3", "%pin = OpTypePointer Input %vec4", "is not its own"),
    "sections": ("OpCapability Shader\n", "OpMemoryModel Logical GLSL450\nOpCapability Shader\n", "code that must follow it"),
    "parameters of an entry point": ("GLCompute %main", "GLCompute %helper", "a function with parameters or a result"),
    "a runtime array in a function": ("OpTypePointer Function %array", "OpTypePointer Function %floats", "which is in no buffer"),
    "an operation of kernels": ("%sum = OpFAdd %float %sin %dot", "%sum = OpSatConvertUToS %float %sin", "opcode 119|opcode 118"),
}  # fmt: skip


def assembled(text: str) -> bytes:
    command = ["spirv-as", "--target-env", "spv1.3", "-o", "-", "-"]
    return subprocess.run(command, input=text.encode(), capture_output=True, check=True).stdout


def words(data: bytes) -> list[int]:
    return list(struct.unpack(f"<{len(data) // 4}I", data))


def test_the_valid_twin() -> None:
    check(assembled(VALID), "x.spv")
    subprocess.run(["spirv-val", "--target-env", "vulkan1.1", "-"], input=assembled(VALID), check=True)


@pytest.mark.parametrize("name", INVALID)
def test_refused_where_it_is_broken(name: str) -> None:
    old, new, message = INVALID[name]
    text = VALID
    if name == "a runtime array in a function":  # declared before it is used
        text = text.replace("%floats = OpTypeRuntimeArray %float\n", "").replace(
            "%plocal =", "%floats = OpTypeRuntimeArray %float\n%plocal ="
        )
    assert text.count(old) >= 1
    data = assembled(text.replace(old, new, 1))
    parts = [re.escape(part) if "(" in part else part for part in message.split("|")]
    with pytest.raises(pd.ArtifactError, match="|".join(parts)) as caught:
        check(data, "x.spv")
    assert str(caught.value).startswith("x.spv: ")


def test_a_broken_operand_of_a_constant_is_named() -> None:
    text = VALID.replace(
        "%array = ", "%true = OpConstantTrue %bool\n%c = OpSpecConstantOp %uint Select %true %four %zero\n%array = "
    )
    check(assembled(text), "x.spv")
    for operands in ("%true %four %half", "%true %half %zero"):
        data = assembled(text.replace("%true %four %zero", operands))
        with pytest.raises(pd.ArtifactError, match=r"x.spv: word \d+: id \d+ has the type \d+, expected") as caught:
            check(data, "x.spv")
        at, id = map(int, re.findall(r"word (\d+): id (\d+)", str(caught.value))[0])
        assert words(data)[at] == id
    with pytest.raises(pd.ArtifactError, match=r"x.spv: word \d+: opcode 169 has operands or a result") as caught:
        check(assembled(text.replace("Select %true", "Select %four")), "x.spv")
    (at,) = map(int, re.findall(r"word (\d+)", str(caught.value)))
    assert words(assembled(text))[at] & 0xFFFF == 52  # OpSpecConstantOp


def test_words_that_no_assembler_writes() -> None:
    good = words(assembled(VALID))

    def refused(at: int, value: int, message: str) -> None:
        changed = good.copy()
        changed[at] = value
        with pytest.raises(pd.ArtifactError, match=message):
            check(struct.pack(f"<{len(changed)}I", *changed), "x.spv")

    at = 5
    while good[at] & 0xFFFF != 129:  # OpFAdd
        at += good[at] >> 16
    refused(at, 5 << 16 | 0x20, "opcode 32")
    refused(at, 5 << 16 | 274, "opcode 274, which shaders for compute do not have")
    refused(at + 3, good[3], r"word \d+: id \d+, the bound is")
    refused(at + 3, 0, r"word \d+: id 0, the bound is")
    refused(at, 4 << 16 | 129, "too few|too many|opcode")
    while good[at] & 0xFFFF != 12:  # OpExtInst
        at -= 1
    refused(at + 4, 163, "instruction 163 of GLSL.std.450")


EXTENDED_TYPES = """%double = OpTypeFloat 64
%dvec4 = OpTypeVector %double 4
%mat4 = OpTypeMatrix %vec4 4
%mat4x3 = OpTypeMatrix %vec4 3
%dmat4 = OpTypeMatrix %dvec4 4
%ushort = OpTypeInt 16 0
%floatpair = OpTypeStruct %float %float
%doublepair = OpTypeStruct %float %double
%exponent = OpTypeStruct %float %uint
%shortexponent = OpTypeStruct %float %ushort
%pdouble = OpTypePointer Function %double
%puint = OpTypePointer Function %uint
%pushort = OpTypePointer Function %ushort
%square = OpConstantNull %mat4
%wide = OpConstantNull %mat4x3
%two = OpConstant %double 2
"""
EXTENDED_VARIABLES = """%wholef = OpVariable %plocalf Function
%wholed = OpVariable %pdouble Function
%power = OpVariable %puint Function
%shortpower = OpVariable %pushort Function
"""


def extended(instruction: str) -> bytes:
    """VALID with `%r = OpExtInst {instruction}`, and with matrices, doubles and variables for it."""
    type_, rest = instruction.split(maxsplit=1)
    text = VALID.replace("OpCapability Shader\n", "OpCapability Shader\nOpCapability Float64\nOpCapability Int16\n", 1)
    text = text.replace("%array = ", f"{EXTENDED_TYPES}%array = ", 1)
    text = text.replace("%px = ", f"{EXTENDED_VARIABLES}%px = ", 1)
    return assembled(text.replace("%dot = ", f"%r = OpExtInst {type_} %glsl {rest}\n%dot = ", 1))


@pytest.mark.parametrize(
    "instruction",
    [
        "%float Determinant %square", "%mat4 MatrixInverse %square", "%float Modf %old %wholef", "%float Frexp %old %power",
        "%floatpair ModfStruct %old", "%exponent FrexpStruct %old", "%vec4 Refract %halves %halves %half",
    ],
)  # fmt: skip
def test_extended_instructions_with_types_of_their_own(instruction: str) -> None:
    check(extended(instruction), "x.spv")
    subprocess.run(["spirv-val", "--target-env", "vulkan1.1", "-"], input=extended(instruction), check=True)


@pytest.mark.parametrize(
    "instruction",
    [
        "%vec4 Determinant %square", "%double Determinant %square", "%float Determinant %wide", "%float MatrixInverse %square",
        "%dmat4 MatrixInverse %square", "%mat4x3 MatrixInverse %wide", "%float Determinant %halves",
        "%float Modf %old %wholed", "%float Modf %old %power", "%float Frexp %old %shortpower", "%float Frexp %old %wholef",
        "%doublepair ModfStruct %old", "%exponent ModfStruct %old", "%shortexponent FrexpStruct %old", "%floatpair FrexpStruct %old",
        "%vec4 Refract %halves %halves %halves", "%float Refract %old %old %halves", "%vec4 Refract %halves %halves %zero",
    ],
)  # fmt: skip
def test_extended_instructions_with_other_types_are_refused(instruction: str) -> None:
    with pytest.raises(pd.ArtifactError, match=r"instruction \d+ of GLSL.std.450, or operands, that do not fit"):
        check(extended(instruction), "x.spv")


def test_the_work_is_linear() -> None:
    """Twice the instructions, twice the calls: a struct of many members with a chain into each, and many variables."""

    def calls(count: int) -> int:
        members = " ".join(["%float"] * count)
        text = VALID.replace(
            "%plocal = ", f"%wide = OpTypeStruct {members}\n%pwide = OpTypePointer Function %wide\n%plocal = "
        )
        text = text.replace("%px = ", "".join(f"%v{i} = OpVariable %pwide Function\n" for i in range(count)) + "%px = ")
        lines = "".join(f"%c{i} = OpAccessChain %plocalf %v{i} %four\n" for i in range(count))
        data = assembled(text.replace("OpSelectionMerge", f"{lines}OpSelectionMerge", 1))
        found = 0

        def seen(frame: object, event: str, argument: object) -> None:
            nonlocal found
            found += 1

        sys.setprofile(seen)
        try:
            check(data)
        finally:
            sys.setprofile(None)
        return found

    base, once, twice = calls(0), calls(200), calls(400)
    assert twice - base < 2.1 * (once - base)


MUTANTS = """
import os, random, struct, sys
import pydispatch as pd
from vulkan_programs import binary, export, source
artifact = pd.compile(source([], export("mul", 0, 1, ("in", "in", "out")), binary("mul")), targets="vulkan")
data, kinds, seed, count = open(sys.argv[1], "rb").read(), {}, int(sys.argv[2]), int(sys.argv[3])
words = struct.unpack(f"<{len(data) // 4}I", data)
interesting = [0, 1, 2, 3, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, words[3], words[3] - 1]
for number in range(count):
    dice = random.Random(seed * 1000003 + number)
    lines, at = [], 5
    while at < len(words):
        lines.append(list(words[at : at + (words[at] >> 16)]))
        at += words[at] >> 16
    i, j = dice.randrange(len(lines)), dice.randrange(len(lines))
    kind = dice.randrange(6)
    if kind == 0:
        del lines[i]
    elif kind == 1:
        lines.insert(i, list(lines[j]))
    elif kind == 2:
        lines[i], lines[j] = lines[j], lines[i]
    elif kind == 3:
        lines[i][0] = lines[i][0] & 0xFFFF0000 | dice.choice([dice.randrange(400), lines[j][0] & 0xFFFF])
    else:
        at = dice.randrange(len(lines[i]))
        ids = [dice.randrange(words[3]), lines[i][at] ^ 1 << dice.randrange(32), dice.choice(lines[j])]
        lines[i][at] = dice.choice([*ids, dice.choice(interesting)])
    flat = [*words[:5], *(word for line in lines for word in line)]
    print("at", number, flush=True)
    try:
        device = pd.device("vulkan:0")
        device.add_executable("executable", struct.pack(f"<{len(flat)}I", *flat))
        device.load(artifact).close()
        found = "loaded"
    except pd.Error as error:
        found = "driver" if "vkCreate" in str(error) else "refused"
    kinds[found] = kinds.get(found, 0) + 1
print("counts", kinds.get("loaded", 0), kinds.get("refused", 0), kinds.get("driver", 0))
"""


def test_mutants_never_crash_the_driver(glsl: Callable[..., Path]) -> None:
    """Before there was a check, the driver saw three of four, and crashed on one of a hundred."""
    body = (
        buffers("-a", "-b", "c")
        + PUSH
        + "shared float t[16]; float g(float x, uint k) { return k > 3 ? sin(x) : x; }\n"
    )
    body += (
        "void main() { uint i = gl_GlobalInvocationID.x; t[i & 15u] = 0; barrier(); float s = 0;\n"
        "for (uint k = 0; k < 8; ++k) s += g(a[i], k) * t[k]; if (i < n) c[i] = s * b[i]; }"
    )
    for name, text in (("loop", body), ("mul", buffers("-a", "-b", "c") + PUSH + MUL)):
        command = [sys.executable, "-W", "ignore", "-c", MUTANTS, str(glsl(name, text)), "1", "400"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=HERE, env=environment())
        assert done.returncode == 0, (done.returncode, done.stdout.splitlines()[-1:], done.stderr[-500:])
        loaded, refused, driver = map(int, done.stdout.split("counts")[1].split())
        assert loaded + refused + driver == 400 and refused > 240 and driver < 40


def environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": str(HERE), "PYDISPATCH_VULKAN_VALIDATION": "0", "LP_NUM_THREADS": "0"}
