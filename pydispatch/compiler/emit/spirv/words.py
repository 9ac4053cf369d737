"""Numbers of the SPIR-V specification: opcodes, capabilities, decorations, and instructions of GLSL.std.450."""

from __future__ import annotations

OP = {
    "Name": 5, "Extension": 10, "ExtInstImport": 11, "ExtInst": 12, "MemoryModel": 14, "EntryPoint": 15,
    "ExecutionMode": 16, "Capability": 17, "TypeVoid": 19, "TypeBool": 20, "TypeInt": 21, "TypeFloat": 22,
    "TypeVector": 23, "TypeArray": 28, "TypeRuntimeArray": 29, "TypeStruct": 30, "TypePointer": 32, "TypeFunction": 33,
    "ConstantTrue": 41, "ConstantFalse": 42, "Constant": 43, "ConstantComposite": 44, "SpecConstant": 50,
    "Function": 54, "FunctionParameter": 55, "FunctionEnd": 56, "FunctionCall": 57, "Variable": 59, "Load": 61,
    "Store": 62, "AccessChain": 65, "ArrayLength": 68, "Decorate": 71, "MemberDecorate": 72,
    "CompositeConstruct": 80, "CompositeExtract": 81, "ConvertFToU": 109, "ConvertFToS": 110, "ConvertSToF": 111,
    "ConvertUToF": 112, "UConvert": 113, "SConvert": 114, "FConvert": 115, "Bitcast": 124, "SNegate": 126,
    "FNegate": 127, "IAdd": 128, "FAdd": 129, "ISub": 130, "FSub": 131, "IMul": 132, "FMul": 133, "UDiv": 134,
    "SDiv": 135, "FDiv": 136, "UMod": 137, "SRem": 138, "SMod": 139, "FRem": 140, "IAddCarry": 149,
    "UMulExtended": 151, "SMulExtended": 152, "IsNan": 156, "IsInf": 157, "LogicalEqual": 164, "LogicalNotEqual": 165,
    "LogicalOr": 166, "LogicalAnd": 167, "LogicalNot": 168, "Select": 169, "IEqual": 170, "INotEqual": 171,
    "UGreaterThan": 172, "SGreaterThan": 173, "UGreaterThanEqual": 174, "SGreaterThanEqual": 175, "ULessThan": 176,
    "SLessThan": 177, "ULessThanEqual": 178, "SLessThanEqual": 179, "FOrdEqual": 180, "FUnordEqual": 181,
    "FOrdNotEqual": 182, "FUnordNotEqual": 183, "FOrdLessThan": 184, "FUnordLessThan": 185, "FOrdGreaterThan": 186,
    "FUnordGreaterThan": 187, "FOrdLessThanEqual": 188, "FUnordLessThanEqual": 189, "FOrdGreaterThanEqual": 190,
    "FUnordGreaterThanEqual": 191, "ShiftRightLogical": 194, "ShiftRightArithmetic": 195, "ShiftLeftLogical": 196,
    "BitwiseOr": 197, "BitwiseXor": 198, "BitwiseAnd": 199, "Not": 200, "BitFieldInsert": 201, "BitFieldSExtract": 202,
    "BitFieldUExtract": 203, "BitReverse": 204, "BitCount": 205, "ControlBarrier": 224, "AtomicLoad": 227,
    "AtomicExchange": 229, "AtomicCompareExchange": 230, "AtomicIAdd": 234, "AtomicSMin": 236, "AtomicUMin": 237,
    "AtomicSMax": 238, "AtomicUMax": 239, "AtomicAnd": 240, "AtomicOr": 241, "AtomicXor": 242, "Phi": 245,
    "LoopMerge": 246, "SelectionMerge": 247, "Label": 248, "Branch": 249, "BranchConditional": 250, "Switch": 251,
    "Return": 253, "ReturnValue": 254, "Unreachable": 255,
}  # fmt: skip
"""Opcode by name without `Op`."""

GLSL = {
    "Round": 1, "RoundEven": 2, "Trunc": 3, "FAbs": 4, "SAbs": 5, "FSign": 6, "Floor": 8, "Ceil": 9, "Sin": 13,
    "Cos": 14, "Tan": 15, "Asin": 16, "Acos": 17, "Atan": 18, "Sinh": 19, "Cosh": 20, "Tanh": 21, "Asinh": 22,
    "Acosh": 23, "Atanh": 24, "Atan2": 25, "Pow": 26, "Exp": 27, "Log": 28, "Exp2": 29, "Log2": 30, "Sqrt": 31,
    "InverseSqrt": 32, "FMin": 37, "UMin": 38, "SMin": 39, "FMax": 40, "UMax": 41, "SMax": 42, "Fma": 50,
    "Ldexp": 53, "FindILsb": 73, "FindSMsb": 74, "FindUMsb": 75, "NMin": 79, "NMax": 80,
}  # fmt: skip
"""Instructions of GLSL.std.450."""

CAPABILITY = {
    "Shader": 1, "Linkage": 5, "Float16": 9, "Float64": 10, "Int64": 11, "Int64Atomics": 12, "Int16": 22, "Int8": 39,
    "StorageBuffer16BitAccess": 4433, "StorageBuffer8BitAccess": 4448,
}  # fmt: skip

EXTENSION_OF = {"StorageBuffer8BitAccess": "SPV_KHR_8bit_storage"}
"""Extensions that a capability needs in SPIR-V 1.3."""

DECORATION = {
    "SpecId": 1, "Block": 2, "ArrayStride": 6, "BuiltIn": 11, "Aliased": 20, "Coherent": 23, "NonWritable": 24,
    "Binding": 33, "DescriptorSet": 34, "Offset": 35, "NoContraction": 42,
}  # fmt: skip

BUILTIN = {"NumWorkgroups": 24, "WorkgroupId": 26, "LocalInvocationId": 27, "LocalInvocationIndex": 29}

STORAGE = {"Input": 1, "Workgroup": 4, "Private": 6, "Function": 7, "PushConstant": 9, "StorageBuffer": 12}

SCOPE_WORKGROUP, SCOPE_DEVICE = 2, 1
ALL_MEMORY = 0x8 | 0x40 | 0x100
"""Acquire and release, of buffers and workgroup memory."""
