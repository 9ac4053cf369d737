"""Numbers of SPIR-V and what they are called: the part of the Khronos specification (1.6) that compute shaders use."""

from __future__ import annotations

from enum import IntEnum


class Op(IntEnum):
    """Opcodes that this package handles by name."""

    NOP = 0
    UNDEF = 1
    SOURCE_CONTINUED = 2
    SOURCE = 3
    SOURCE_EXTENSION = 4
    NAME = 5
    MEMBER_NAME = 6
    STRING = 7
    LINE = 8
    EXTENSION = 10
    EXT_INST_IMPORT = 11
    EXT_INST = 12
    MEMORY_MODEL = 14
    ENTRY_POINT = 15
    EXECUTION_MODE = 16
    CAPABILITY = 17
    TYPE_VOID = 19
    TYPE_BOOL = 20
    TYPE_INT = 21
    TYPE_FLOAT = 22
    TYPE_VECTOR = 23
    TYPE_MATRIX = 24
    TYPE_ARRAY = 28
    TYPE_RUNTIME_ARRAY = 29
    TYPE_STRUCT = 30
    TYPE_POINTER = 32
    TYPE_FUNCTION = 33
    TYPE_FORWARD_POINTER = 39
    CONSTANT_TRUE = 41
    CONSTANT_FALSE = 42
    CONSTANT = 43
    CONSTANT_COMPOSITE = 44
    CONSTANT_NULL = 46
    SPEC_CONSTANT_TRUE = 48
    SPEC_CONSTANT_FALSE = 49
    SPEC_CONSTANT = 50
    SPEC_CONSTANT_COMPOSITE = 51
    SPEC_CONSTANT_OP = 52
    FUNCTION = 54
    FUNCTION_PARAMETER = 55
    FUNCTION_END = 56
    FUNCTION_CALL = 57
    VARIABLE = 59
    IMAGE_TEXEL_POINTER = 60
    LOAD = 61
    STORE = 62
    COPY_MEMORY = 63
    COPY_MEMORY_SIZED = 64
    ACCESS_CHAIN = 65
    IN_BOUNDS_ACCESS_CHAIN = 66
    PTR_ACCESS_CHAIN = 67
    ARRAY_LENGTH = 68
    IN_BOUNDS_PTR_ACCESS_CHAIN = 70
    DECORATE = 71
    MEMBER_DECORATE = 72
    DECORATION_GROUP = 73
    GROUP_DECORATE = 74
    GROUP_MEMBER_DECORATE = 75
    VECTOR_EXTRACT_DYNAMIC = 77
    VECTOR_INSERT_DYNAMIC = 78
    VECTOR_SHUFFLE = 79
    COMPOSITE_CONSTRUCT = 80
    COMPOSITE_EXTRACT = 81
    COMPOSITE_INSERT = 82
    COPY_OBJECT = 83
    TRANSPOSE = 84
    BITCAST = 124
    VECTOR_TIMES_SCALAR = 142
    MATRIX_TIMES_SCALAR = 143
    VECTOR_TIMES_MATRIX = 144
    MATRIX_TIMES_VECTOR = 145
    MATRIX_TIMES_MATRIX = 146
    OUTER_PRODUCT = 147
    DOT = 148
    I_ADD_CARRY = 149
    I_SUB_BORROW = 150
    U_MUL_EXTENDED = 151
    S_MUL_EXTENDED = 152
    ANY = 154
    ALL = 155
    SELECT = 169
    CONTROL_BARRIER = 224
    MEMORY_BARRIER = 225
    ATOMIC_LOAD = 227
    ATOMIC_STORE = 228
    ATOMIC_EXCHANGE = 229
    ATOMIC_COMPARE_EXCHANGE = 230
    ATOMIC_COMPARE_EXCHANGE_WEAK = 231
    ATOMIC_XOR = 242
    ATOMIC_LAST = ATOMIC_XOR
    PHI = 245
    LOOP_MERGE = 246
    SELECTION_MERGE = 247
    LABEL = 248
    BRANCH = 249
    BRANCH_CONDITIONAL = 250
    SWITCH = 251
    KILL = 252
    RETURN = 253
    RETURN_VALUE = 254
    UNREACHABLE = 255
    NO_LINE = 317
    ATOMIC_FLAG_TEST_AND_SET = 318
    ATOMIC_FLAG_CLEAR = 319
    MODULE_PROCESSED = 330
    EXECUTION_MODE_ID = 331
    DECORATE_ID = 332
    GROUP_NON_UNIFORM_FIRST = 333
    GROUP_NON_UNIFORM_LAST = 366
    TERMINATE_INVOCATION = 4416
    DEMOTE_TO_HELPER_INVOCATION = 5380
    ATOMIC_F_MIN = 5614
    ATOMIC_F_MAX = 5615
    DECORATE_STRING = 5632
    MEMBER_DECORATE_STRING = 5633
    ATOMIC_F_ADD = 6035


class Decoration(IntEnum):
    """Decorations that this package handles."""

    SPEC_ID = 1
    BLOCK = 2
    BUFFER_BLOCK = 3
    ROW_MAJOR = 4
    ARRAY_STRIDE = 6
    MATRIX_STRIDE = 7
    BUILT_IN = 11
    ALIASED = 20
    COHERENT = 23
    NON_WRITABLE = 24
    BINDING = 33
    DESCRIPTOR_SET = 34
    OFFSET = 35
    LINKAGE = 41
    NO_CONTRACTION = 42


class Storage(IntEnum):
    """Storage classes that this package handles."""

    UNIFORM_CONSTANT = 0
    INPUT = 1
    UNIFORM = 2
    OUTPUT = 3
    WORKGROUP = 4
    PRIVATE = 6
    FUNCTION = 7
    PUSH_CONSTANT = 9
    STORAGE_BUFFER = 12


class BuiltIn(IntEnum):
    """Built-in variables that this package handles."""

    NUM_WORKGROUPS = 24
    WORKGROUP_SIZE = 25
    WORKGROUP_ID = 26
    LOCAL_INVOCATION_ID = 27
    LOCAL_INVOCATION_INDEX = 29
    SUBGROUP_SIZE = 36
    NUM_SUBGROUPS = 38
    SUBGROUP_ID = 40


GL_COMPUTE = 5
"""Execution model of compute shaders."""
LOCAL_SIZE = 17
"""Execution mode: the workgroup size as three numbers."""
LOCAL_SIZE_ID = 38
"""Execution mode: the workgroup size as the ids of three constants."""

DEBUG_SETS = ("NonSemantic.", "OpenCL.DebugInfo", "DebugInfo")
"""How the names of extended instruction sets begin that do not change what code computes."""

MODELS = {
    0: "Vertex", 1: "TessellationControl", 2: "TessellationEvaluation", 3: "Geometry", 4: "Fragment", 5: "GLCompute",
    6: "Kernel", 5267: "TaskNV", 5268: "MeshNV", 5313: "RayGenerationKHR", 5364: "TaskEXT", 5365: "MeshEXT",
}  # fmt: skip
"""Execution model of an entry point → its name, for messages."""

CAPABILITIES = {
    0: "Matrix", 1: "Shader", 4: "Addresses", 5: "Linkage", 6: "Kernel", 7: "Vector16", 8: "Float16Buffer",
    9: "Float16", 10: "Float64", 11: "Int64", 12: "Int64Atomics", 13: "ImageBasic", 18: "Groups", 21: "AtomicStorage",
    22: "Int16", 25: "ImageGatherExtended", 27: "StorageImageMultisample", 28: "UniformBufferArrayDynamicIndexing",
    29: "SampledImageArrayDynamicIndexing", 30: "StorageBufferArrayDynamicIndexing",
    31: "StorageImageArrayDynamicIndexing", 38: "GenericPointer", 39: "Int8", 43: "Sampled1D", 44: "Image1D",
    46: "SampledBuffer", 47: "ImageBuffer", 49: "StorageImageExtendedFormats", 50: "ImageQuery",
    55: "StorageImageReadWithoutFormat", 56: "StorageImageWriteWithoutFormat", 61: "GroupNonUniform",
    62: "GroupNonUniformVote", 63: "GroupNonUniformArithmetic", 64: "GroupNonUniformBallot",
    65: "GroupNonUniformShuffle", 66: "GroupNonUniformShuffleRelative", 67: "GroupNonUniformClustered",
    68: "GroupNonUniformQuad", 4423: "SubgroupBallotKHR", 4431: "SubgroupVoteKHR", 4433: "StorageBuffer16BitAccess",
    4434: "UniformAndStorageBuffer16BitAccess", 4435: "StoragePushConstant16", 4436: "StorageInputOutput16",
    4437: "DeviceGroup", 4441: "VariablePointersStorageBuffer", 4442: "VariablePointers",
    4448: "StorageBuffer8BitAccess", 4449: "UniformAndStorageBuffer8BitAccess", 4450: "StoragePushConstant8",
    4464: "DenormPreserve", 4465: "DenormFlushToZero", 4466: "SignedZeroInfNanPreserve", 4467: "RoundingModeRTE",
    4468: "RoundingModeRTZ", 5055: "ShaderClockKHR", 5301: "ShaderNonUniform", 5302: "RuntimeDescriptorArray",
    5345: "VulkanMemoryModel", 5346: "VulkanMemoryModelDeviceScope", 5347: "PhysicalStorageBufferAddresses",
    5357: "CooperativeMatrixNV", 5612: "AtomicFloat32MinMaxEXT", 5613: "AtomicFloat64MinMaxEXT",
    5616: "AtomicFloat16MinMaxEXT", 6016: "DotProductInputAll", 6017: "DotProductInput4x8Bit",
    6018: "DotProductInput4x8BitPacked", 6019: "DotProduct", 6022: "CooperativeMatrixKHR",
    6033: "AtomicFloat32AddEXT", 6034: "AtomicFloat64AddEXT", 6095: "AtomicFloat16AddEXT", 6026: "BitInstructions",
    6029: "FloatControls2",
}  # fmt: skip
"""Capability → its name in the specification, without the prefix Capability."""


def capability_name(value: int) -> str:
    """Return the name of a capability in the specification; "capability 4711" if this table does not have it."""
    return CAPABILITIES.get(value, f"capability {value}")


def specification_names(numbers: type[IntEnum]) -> dict[str, int]:
    """Return the numbers of an enumeration by their names in the specification: `TYPE_INT` is `TypeInt` there."""
    return {"".join(word.capitalize() for word in member.name.split("_")): member.value for member in numbers}
